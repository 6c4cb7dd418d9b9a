# One connection over a chain of links in ns-2.35, as the papers' versions of ns had it: no headers, no SYN.
#   ns chain.tcl EVENTS CWND SECONDS {RATE DELAY LIMIT BACK_LIMIT ...} {AGENT SINK CONTROL} {NAME VALUE ...}
# EVENTS: ns's trace of every link; CWND: cwnd_ and ssthresh_ at each change; "-": not wanted. Links from sender to
# receiver, LIMIT there, BACK_LIMIT on the way back; NAME VALUE: the agent's variables before it is made.
# Prints: packets sent, sent again, timeouts, the highest packet acknowledged.
foreach {events cwnd seconds links kind settings} $argv break
foreach {name value} {useHeaders_ false syn_ false maxcwnd_ 0 delay_growth_ false singledup_ 0 windowInit_ 1
                      window_ 100000 tcpTick_ 0.01} {
    Agent/TCP set $name $value
}
set sink_settings {}
foreach {name value} $settings {
    if {$name == "delack"} { set delack $value } else { Agent/TCP set $name $value }
}
foreach {agent sink control} $kind break
set ns [new Simulator]
set trace ""
if {$events != "-"} { set trace [open $events w]; $ns trace-all $trace }
set node(0) [$ns node]
set count 0
foreach {rate delay limit back_limit} $links {
    set next [expr $count + 1]
    set node($next) [$ns node]
    $ns duplex-link $node($count) $node($next) $rate $delay DropTail
    $ns queue-limit $node($count) $node($next) $limit
    $ns queue-limit $node($next) $node($count) $back_limit
    set count $next
}
if {$control != ""} {
    Agent/TCP set timestamps_ true
    Agent/TCPSink set ts_echo_rfc1323_ true
}
set tcp [new Agent/TCP$agent]
set receiver [new Agent/TCPSink$sink]
if {[info exists delack]} { $receiver set interval_ $delack }
$ns attach-agent $node(0) $tcp
$ns attach-agent $node($count) $receiver
$ns connect $tcp $receiver
if {$control != ""} { $ns at 0 "$tcp select_ca $control" }
set windows ""
if {$cwnd != "-"} {
    set windows [open $cwnd w]
    $tcp attach $windows
    $tcp trace cwnd_
    $tcp trace ssthresh_
    $tcp trace nrexmit_
    $tcp trace ack_
}
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at 0 "$ftp start"
$ns at $seconds report
proc report {} {
    global tcp trace windows
    foreach file [list $trace $windows] { if {$file != ""} { close $file } }
    puts "TOTAL [$tcp set ndatapack_] [$tcp set nrexmitpack_] [$tcp set nrexmit_] [$tcp set ack_]"
    exit 0
}
$ns run
