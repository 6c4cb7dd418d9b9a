# One sender over 100 Mbit/s and 50 ms (captures/scenarios/compound_case4.toml) in ns-2.35, nothing traced:
#   ns FILE SECONDS QUEUE AGENT
# AGENT is "" (Tahoe), "/Reno" and the like, or "/Linux MODULE".
foreach {seconds queue agent} $argv break
foreach {agent module} [concat $agent {{} {}}] break
set ns [new Simulator]
Agent/TCP set useHeaders_ false
Agent/TCP set syn_ false
Agent/TCP set delay_growth_ false
Agent/TCP set tcpTick_ 0.01
Agent/TCP set windowInit_ 2
Agent/TCP set window_ 100000
Agent/TCP set maxcwnd_ 0
Agent/TCP set singledup_ 0
Agent/TCP set packetSize_ 1500
set s [$ns node]
set r [$ns node]
set d [$ns node]
$ns duplex-link $s $r 10Gb 0ms DropTail
$ns duplex-link $r $d 100Mb 25ms DropTail
$ns queue-limit $s $r 1000000
$ns queue-limit $r $s 1000000
$ns queue-limit $d $r 1000000
$ns queue-limit $r $d $queue
set tcp [new Agent/TCP$agent]
set kind ""
if {[lsearch {/Linux /Sack1 /Fack} $agent] >= 0} { set kind "/Sack1" }
set sink [new Agent/TCPSink$kind]
$ns attach-agent $s $tcp
$ns attach-agent $d $sink
$ns connect $tcp $sink
if {$agent == "/Linux"} {
    $tcp set timestamps_ true
    $sink set ts_echo_rfc1323_ true
    $ns at 0 "$tcp select_ca $module"
}
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at 0.0 "$ftp start"
$ns at $seconds report
proc report {} {
    global tcp
    # Not at the end of a line that a module has begun.
    puts "\n[$tcp set ndatapack_] [$tcp set maxseq_]"
    exit 0
}
$ns run
