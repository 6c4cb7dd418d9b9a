# Compound, case 4 (captures/scenarios/compound_case4.toml) in ns-2.35, nothing traced: ns FILE SECONDS QUEUE
set seconds [lindex $argv 0]
set queue [lindex $argv 1]
set ns [new Simulator]
Agent/TCP set useHeaders_ false
Agent/TCP set syn_ false
Agent/TCP set delay_growth_ false
Agent/TCP set tcpTick_ 0.01
Agent/TCP set windowInit_ 2
Agent/TCP set window_ 100000
Agent/TCP set timestamps_ true
Agent/TCPSink set ts_echo_rfc1323_ true
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
set tcp [new Agent/TCP/Linux]
set sink [new Agent/TCPSink/Sack1]
$ns attach-agent $s $tcp
$ns attach-agent $d $sink
$ns connect $tcp $sink
$ns at 0 "$tcp select_ca compound"
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at 0.0 "$ftp start"
$ns at $seconds report
proc report {} {
    global tcp
    puts "[$tcp set ndatapack_] [$tcp set maxseq_]"
    exit 0
}
$ns run
