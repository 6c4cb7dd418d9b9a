//! What short segments lack to full ones: a sender that counts its window in packets (Linux does) has that much more of
//! it in use than its bytes tell.

use super::sequence::Sequence;
use super::trace::Trace;

/// Per ACK, in bytes; both empty where every segment is full.
#[derive(Default)]
pub struct Lacking {
    under_way: Vec<i64>,
    acked: Vec<i64>,
}

impl Lacking {
    pub fn new(trace: &Trace, seen: &Sequence) -> Self {
        let mut again = seen.again.iter().copied().peekable();
        let (mut sum, mut so_far) = (0, vec![0]);
        for (index, (end, offset)) in trace.send_end.iter().zip(trace.send_offset).enumerate() {
            let is_fresh = again.next_if_eq(&(index as u32)).is_none();
            if is_fresh {
                sum += (offset - end).rem_euclid(trace.smss);
            }
            so_far.push(sum);
        }
        if sum == 0 {
            return Self::default();
        }
        let mut found = Self::default();
        let (mut first, mut before) = (0, 0);
        for (&una, &sent) in seen.snd_una.iter().zip(&seen.sends_before_next_ack) {
            while trace.send_end.get(first).is_some_and(|&end| end <= una) {
                first += 1;
            }
            found
                .under_way
                .push((so_far[sent as usize] - so_far[first]).max(0));
            found.acked.push(so_far[first] - before);
            before = so_far[first];
        }
        found
    }

    /// Of all that was outstanding after this ACK, and what it released.
    pub fn under_way(&self, ack: usize) -> i64 {
        self.under_way.get(ack).copied().unwrap_or(0)
    }

    /// Of what this ACK acknowledged.
    pub fn acked(&self, ack: usize) -> i64 {
        self.acked.get(ack).copied().unwrap_or(0)
    }
}
