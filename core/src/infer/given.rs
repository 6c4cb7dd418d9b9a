//! Numbers that several rules share, each once.

use crate::threshold::threshold;

// What a host may take to answer (a busy one, a virtual one, one that sleeps between interrupts, one that captures under
// load): what leaves later was not released by the ACK before it.
threshold!(pub HOST_NS: i64 = 2_000_000, Nanoseconds);
// RFC 9293 section 3.8.6.3: every second full segment is acknowledged at once, so that one ACK may tell of two. What is
// read off ACKs, a flight in segments or a queue in packets, is not known closer.
threshold!(pub DELAYED_ACK_SEGMENTS: i64 = 2, Segments);
