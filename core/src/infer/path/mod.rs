//! What a path shows of itself in the ACKs: the pace of runs, the round trip of each ACK, a faster line before the
//! bottleneck, a policer's token bucket.

pub mod bucket;
pub mod covered;
pub mod line;
pub mod runs;
