"""Numbers that several rules share, each once: what a word or a document gives, not a choice of theirs."""

# Most: more than half.
MAJORITY = 0.5
# RFC 9293 section 3.8.6.3: every second full segment is acknowledged at once, so that one ACK may tell of two. What is
# read off ACKs, a flight in segments or a queue in packets, is not known closer.
DELAYED_ACK_SEGMENTS = 2
