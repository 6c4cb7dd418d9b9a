# SACK senders over one bottleneck (benchmarks/simulate.py) in ns-2.35, nothing traced: ns FILE SECONDS FLOWS
set seconds [lindex $argv 0]
set flows [lindex $argv 1]
set ns [new Simulator]
Agent/TCP set useHeaders_ false
Agent/TCP set syn_ false
Agent/TCP set delay_growth_ false
Agent/TCP set tcpTick_ 0.01
Agent/TCP set windowInit_ 1
Agent/TCP set window_ 100000
Agent/TCP set maxcwnd_ 0
Agent/TCP set singledup_ 0
Agent/TCP set packetSize_ 1500
set r [$ns node]
set d [$ns node]
$ns simplex-link $r $d [expr {1e5 * $flows}]b 50ms DropTail
$ns simplex-link $d $r 100Gb 50ms DropTail
$ns queue-limit $d $r 1000000000
$ns queue-limit $r $d [expr {20 * $flows + 1}]
set agents {}
for {set n 0} {$n < $flows} {incr n} {
    set tcp [new Agent/TCP/Sack1]
    set sink [new Agent/TCPSink/Sack1]
    $ns attach-agent $r $tcp
    $ns attach-agent $d $sink
    $ns connect $tcp $sink
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    $ns at 0.0 "$ftp start"
    lappend agents $tcp
}
$ns at $seconds report
proc report {} {
    global agents
    set sent 0
    foreach tcp $agents { incr sent [$tcp set ndatapack_] }
    puts "$sent 0"
    exit 0
}
$ns run
