//! Numbers that several rules share, each once.

use crate::threshold::threshold;

// What a host may take to answer (a busy one, a virtual one, one that sleeps between interrupts, one that captures under
// load): what leaves later was not released by the ACK before it.
threshold!(pub HOST_NS: i64 = 2_000_000, Nanoseconds);
// At once: within this part of the time to the next ACK.
threshold!(pub PROMPT_PARTS: i64 = 8, Count);
// RFC 9293 section 3.8.6.3: every second full segment is acknowledged at once, so that one ACK may tell of two. What is
// read off ACKs, a flight in segments or a queue in packets, is not known closer.
threshold!(pub DELAYED_ACK_SEGMENTS: i64 = 2, Segments);
// Fewer samples show no habit: by chance eight fall on one side once in 128 times.
threshold!(pub FEWEST_SAMPLES: usize = 8, Count);
// Nothing answers, and no timer expires, sooner than in the least round trip; a tenth less is what stamps, small ACKs and
// a host's clock leave open.
threshold!(pub AT_LEAST: f64 = 0.9, Share);
