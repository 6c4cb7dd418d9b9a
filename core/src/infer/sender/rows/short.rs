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
        let full = |(end, offset): (&i64, &i64)| (end - offset) % trace.smss == 0;
        if trace.send_end.iter().zip(trace.send_offset).all(full) {
            return Self::default();
        }
        let (mut sent, mut answered) = (Sum::default(), Sum::default());
        let each = seen.snd_una.iter().zip(&seen.sends_before_next_ack);
        let (under_way, acked) = each
            .map(|(&una, &left)| {
                let before = answered.lacks;
                while trace
                    .send_end
                    .get(answered.sends)
                    .is_some_and(|&end| end <= una)
                {
                    answered.add(trace, seen);
                }
                while sent.sends < left as usize {
                    sent.add(trace, seen);
                }
                (
                    (sent.lacks - answered.lacks).max(0),
                    answered.lacks - before,
                )
            })
            .unzip();
        Self { under_way, acked }
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

/// What the first so many sends lack; what was sent again is counted once.
#[derive(Default)]
struct Sum {
    sends: usize,
    again: usize,
    lacks: i64,
}

impl Sum {
    fn add(&mut self, trace: &Trace, seen: &Sequence) {
        if seen.again.get(self.again) == Some(&(self.sends as u32)) {
            self.again += 1;
        } else {
            let length = trace.send_end[self.sends] - trace.send_offset[self.sends];
            self.lacks += (-length).rem_euclid(trace.smss);
        }
        self.sends += 1;
    }
}
