# Connections over two bottlenecks in ns-2.35, without headers and SYN as in the papers' versions:
#   ns ns2_chain.tcl DROPS ACCESS MU1 DELAY1 LIMIT1 MU2 DELAY2 LIMIT2 PACKET_BYTES SECONDS {AGENT START WINDOW TICK DELACK ...}
# AGENT is "/Reno" and the like, or "/Linux MODULE". Writes ns's trace of both queues to DROPS, every change of a window to DROPS.cwnd; prints per connection: packets sent, sent again.
foreach {name value} {useHeaders_ false syn_ false maxcwnd_ 0 delay_growth_ false singledup_ 0 windowInit_ 2} {
    Agent/TCP set $name $value
}
foreach {file access mu1 delay1 limit1 mu2 delay2 limit2 bytes seconds senders} $argv break
Agent/TCP set packetSize_ $bytes
set ns [new Simulator]
foreach name {s r m d} { set $name [$ns node] }
foreach {a b rate delay limit} [list $s $r $access 0 1000000 $r $m $mu1 $delay1 $limit1 $m $d $mu2 $delay2 $limit2] {
    $ns duplex-link $a $b $rate $delay DropTail
    $ns queue-limit $a $b $limit
    $ns queue-limit $b $a 1000000
}
set trace [open $file w]
$ns trace-queue $r $m $trace
$ns trace-queue $m $d $trace
# Each agent's window at every change.
set windows [open $file.cwnd w]
set count 0
foreach {agent start window tick delack} $senders {
    # "/Linux NAME": ns-2's Linux agent with that module.
    foreach {agent module} [concat $agent {{}}] break
    set is_linux [string equal $agent "/Linux"]
    Agent/TCP set tcpTick_ $tick
    Agent/TCP set window_ $window
    set tcp($count) [new Agent/TCP$agent]
    set kind ""
    if {$is_linux || $agent == "/Sack1" || $agent == "/Fack"} { set kind "/Sack1" }
    if {$delack > 0} { set kind "$kind/DelAck" }
    set sink [new Agent/TCPSink$kind]
    if {$delack > 0} { $sink set interval_ $delack }
    $tcp($count) set fid_ $count
    $ns attach-agent $s $tcp($count)
    $ns attach-agent $d $sink
    $ns connect $tcp($count) $sink
    if {$is_linux} {
        $tcp($count) set timestamps_ true
        $sink set ts_echo_rfc1323_ true
        $ns at 0 "$tcp($count) select_ca $module"
    }
    $tcp($count) attach $windows
    $tcp($count) trace cwnd_
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp($count)
    $ns at $start "$ftp start"
    incr count
}
$ns at $seconds report
proc report {} {
    global tcp count trace windows
    close $trace
    close $windows
    for {set n 0} {$n < $count} {incr n} {
        puts "SENT [$tcp($n) set ndatapack_] [$tcp($n) set nrexmitpack_]"
    }
    exit 0
}
$ns run
