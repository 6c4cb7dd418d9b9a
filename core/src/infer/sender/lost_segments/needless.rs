//! Copies that were sent needlessly, and may have been lost themselves.
//!
//! Who receives again what it has answers at once (RFC 9293 section 3.10.7.4), by an ACK that tells of nothing new. Errs
//! high where several are answered together, and low where other ACKs tell of nothing new either.

use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::{LOST_ON_WAY, Trace};

/// When ACKs came that told of nothing new.
#[derive(Default)]
pub(super) struct Empty {
    heard_ns: Vec<i64>,
}

impl Empty {
    pub(super) fn new(trace: &Trace, seen: &Sequence) -> Self {
        let is_empty =
            |&ack: &usize| seen.newly_acked(ack) <= 0 && trace.sacked[ack] <= trace.sacked[ack - 1];
        let acks = (1..trace.ack_ns.len()).filter(is_empty);
        Self {
            heard_ns: acks.map(|ack| trace.ack_ns[ack]).collect(),
        }
    }

    pub(super) fn between(&self, from_ns: i64, until_ns: i64) -> usize {
        let before = |time_ns| self.heard_ns.partition_point(|&heard| heard < time_ns);
        before(until_ns + 1).saturating_sub(before(from_ns))
    }
}

/// Copies of what had arrived: how many, and when the first and the last left.
#[derive(Clone, Copy, Default)]
pub(super) struct Copies {
    pub(super) count: usize,
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
}

impl Copies {
    pub(super) fn add(&mut self, sent_ns: i64) {
        if self.count == 0 {
            self.first_ns = sent_ns;
        }
        (self.count, self.last_ns) = (self.count + 1, sent_ns);
    }
}

/// Sends that were lost before the tap and never sent again: copies of what had arrived.
pub(super) fn lost_needlessly(trace: &Trace, repeats: &[Option<u32>], last_una: i64) -> Vec<usize> {
    let mut is_needless: Vec<bool> = trace
        .fate
        .iter()
        .zip(trace.send_end)
        .map(|(&fate, &end)| fate == LOST_ON_WAY && end <= last_una)
        .collect();
    for copy in repeats.iter().flatten() {
        if let Some(flag) = is_needless.get_mut(*copy as usize) {
            *flag = false;
        }
    }
    (0..is_needless.len())
        .filter(|&send| is_needless[send])
        .collect()
}
