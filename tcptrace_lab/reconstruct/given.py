"""Numbers and names that several rules share, each once: what a word or a document gives, not a choice of theirs."""

from tcptrace_lab import _core

# The two ends of a connection, by the direction that each sends in.
SIDES = ("client", "server")
# The bits of the flags in a header (RFC 9293 section 3.1).
SYN = 0x2
# RFC 3168 section 6.1.3: a receiver echoes a mark in every ACK until the sender says that it has reduced its window.
ECE = 0x40
CWR = 0x80
# RFC 7323 appendix A: the timestamps option takes 12 bytes of every segment.
TIMESTAMP_BYTES = 12
# Most, the better part: more than half.
MAJORITY = 0.5
# A few: one in ten. What so few of many do (a stall, a late ACK, a neighbour's packets) is not what the run does; with
# more, it is.
MINORITY = 0.1
# Odd ones: one in a hundred packets of any capture may be a probe, another file's, or stamped at another time.
ODD_SHARE = 0.01
# Two alike may be one disturbance and its echo; three are a rule.
FEWEST_ALIKE = 3
# What is counted in segments (a window, a threshold, a queue) is known to within one: it is on its way, or in service.
WITHIN_SEGMENTS = 1.0
# Near a host, a tap's part of a round trip: beside the host's own time it is the rest that is the path.
NEAR_SHARE = 0.1
# With this much of what the pipe holds in the network, or of its rate used, the bottleneck is busy: what a host's own
# delay and a sawtooth's low ends leave.
FULL_SHARE = 0.9
# The core's (core/src/infer/given.rs, limits.rs): how soon a host goes on with what it began; fewer samples show no
# habit; what one ACK may tell of; a pause as part of a round trip.
BURST_NS: int = _core.BURST_NS
FEWEST_SAMPLES: int = _core.FEWEST_SAMPLES
DELAYED_ACK_SEGMENTS: int = _core.DELAYED_ACK_SEGMENTS
PAUSE_SHARE = 1 / _core.PAUSE_PARTS
# Of two ACKs that are taken for each other one releases a delayed ACK's segments more.
BLUR_SEGMENTS = DELAYED_ACK_SEGMENTS + WITHIN_SEGMENTS
