//! What follows from a trace row by row: the sender's variables at each send and each ACK (RFC 9293 section 3.3.1).

use super::trace::Trace;
use crate::infer::ordered::from;

/// The place before the first ACK that moved `snd_una`.
const NONE: u32 = u32::MAX;

/// Variables of the sender along a trace. Indices and counts are `u32`: a trace of more rows does not fit memory.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// The first byte of data.
    pub first_offset: i64,
    /// Highest byte sent, after each send.
    pub snd_max: Vec<i64>,
    /// Highest byte acknowledged, after each ACK. An ACK of data never seen (a hole in the capture) counts.
    pub snd_una: Vec<i64>,
    /// The sends that begin below the highest byte sent before them, in order.
    pub again: Vec<u32>,
    /// Ranges below a segment sent for the first time that were never sent, as far as the capture shows.
    pub holes: Vec<(i64, i64)>,
    /// How many ACKs were known at each send. An ACK of the same instant counts: it released the segment.
    pub acks_before_send: Vec<u32>,
    /// How many segments had left just before the ACK after each ACK: what that ACK released is among them.
    pub sends_before_next_ack: Vec<u32>,
    /// How many of them had left before the first ACK; 0 where the trace begins with them.
    sent_at_first: u32,
    /// How many duplicate ACKs there were before each ACK; one more entry than ACKs.
    dupacks: Vec<u32>,
    /// The last ACK up to each that moved `snd_una`.
    moved: Vec<u32>,
}

impl Sequence {
    pub fn new(trace: &Trace) -> Self {
        let (sends, acks) = (trace.send_ns.len(), trace.ack_ns.len());
        let mut seen = Self {
            first_offset: match trace.before {
                Some(before) => before.una,
                None => trace.send_offset.iter().copied().min().unwrap_or(0),
            },
            snd_max: Vec::with_capacity(sends),
            snd_una: Vec::with_capacity(acks),
            acks_before_send: Vec::with_capacity(sends),
            sends_before_next_ack: Vec::with_capacity(acks),
            dupacks: Vec::with_capacity(acks + 1),
            moved: Vec::with_capacity(acks),
            ..Self::default()
        };
        seen.read_sends(trace);
        seen.read_acks(trace);
        seen
    }

    fn read_sends(&mut self, trace: &Trace) {
        let mut top = trace.before.map_or(i64::MIN, |before| before.top);
        let mut acks = 0;
        for (index, &time) in trace.send_ns.iter().enumerate() {
            if trace.send_offset[index] < top {
                self.again.push(index as u32);
            } else if index > 0 && trace.send_offset[index] > top {
                self.holes.push((top, trace.send_offset[index]));
            }
            top = top.max(trace.send_end[index]);
            self.snd_max.push(top);
            while trace.ack_ns.get(acks).is_some_and(|&heard| heard <= time) {
                acks += 1;
            }
            self.acks_before_send.push(acks as u32);
        }
    }

    fn read_acks(&mut self, trace: &Trace) {
        let mut una = trace.before.map_or(i64::MIN, |before| before.una);
        let (mut before, mut sent) = (0, 0);
        let (mut dupacks, mut moved) = (0, NONE);
        self.dupacks.push(0);
        for (index, &time) in trace.ack_ns.iter().enumerate() {
            while trace.send_ns.get(before).is_some_and(|&left| left < time) {
                before += 1;
            }
            if index == 0 && trace.before.is_some() {
                self.sent_at_first = before as u32;
            }
            let next_ns = trace.ack_ns.get(index + 1).copied().unwrap_or(i64::MAX);
            while trace.send_ns.get(sent).is_some_and(|&left| left < next_ns) {
                sent += 1;
            }
            self.sends_before_next_ack.push(sent as u32);
            let ack = trace.ack_offset[index];
            let newly_acked = if index == 0 && trace.before.is_none() {
                ack - self.first_offset.min(ack)
            } else {
                (ack - una).max(0)
            };
            una = una.max(ack);
            self.snd_una.push(una);
            if newly_acked > 0 {
                moved = index as u32;
            } else {
                dupacks += u32::from(self.is_dupack(trace, index, before));
            }
            self.moved.push(moved);
            self.dupacks.push(dupacks);
        }
    }

    fn is_dupack(&self, trace: &Trace, ack: usize, sent_before: usize) -> bool {
        let before = match ack.checked_sub(1) {
            Some(before) => Some(trace.answer(before)),
            None => trace.before.map(|before| before.answer),
        };
        let Some(before) = before else {
            return false;
        };
        let top = match sent_before.checked_sub(1) {
            Some(last) => self.snd_max[last],
            None => trace.before.map_or(0, |before| before.top),
        };
        let is_bare = trace.is_bare[ack];
        trace
            .answer(ack)
            .is_duplicate(&before, is_bare, self.snd_una[ack], top)
    }

    /// The last ACK up to each that moved `snd_una`, and all the rest.
    pub fn into_moved(mut self) -> (Vec<u32>, Self) {
        (std::mem::take(&mut self.moved), self)
    }

    /// How many segments had left when an ACK came.
    pub fn sent_before(&self, ack: usize) -> usize {
        let last = ack.checked_sub(1);
        last.map_or(self.sent_at_first, |last| self.sends_before_next_ack[last]) as usize
    }

    /// The segments that left between an ACK and the next one: what it released is among them.
    pub fn released(&self, ack: usize) -> std::ops::Range<usize> {
        self.sent_before(ack)..self.sends_before_next_ack[ack] as usize
    }

    /// The first send from one on that is new data; as many as there are where none is.
    pub fn next_new(&self, send: usize) -> usize {
        let again = self.again[self.again_before(send)..].iter().zip(send..);
        send + again
            .take_while(|&(&again, place)| again as usize == place)
            .count()
    }

    /// Bytes by which an ACK moves `snd_una`.
    pub fn newly_acked(&self, ack: usize) -> i64 {
        let una = self.snd_una[ack];
        match ack.checked_sub(1) {
            Some(before) => una - self.snd_una[before],
            None => una - self.first_offset.min(una),
        }
    }

    /// New bytes in the segments from `from` to before `to`.
    pub fn newly_sent(&self, from: usize, to: usize) -> i64 {
        let reached = |send: usize| match send.checked_sub(1) {
            Some(last) => self.snd_max[last],
            None => self.first_offset,
        };
        if from < to {
            reached(to) - reached(from)
        } else {
            0
        }
    }

    /// `snd_una` when a segment was sent.
    pub fn una_at(&self, send: usize) -> i64 {
        match (self.acks_before_send[send] as usize).checked_sub(1) {
            Some(last) => self.snd_una[last],
            None => self.first_offset,
        }
    }

    /// The last ACK before number `known` that moved `snd_una`.
    pub fn last_moved(&self, known: usize) -> Option<usize> {
        let moved = *self.moved.get(known.checked_sub(1)?)?;
        (moved != NONE).then_some(moved as usize)
    }

    /// Duplicate ACKs among those from `from` to before `to`.
    pub fn dupacks(&self, from: usize, to: usize) -> usize {
        self.dupacks[to].saturating_sub(self.dupacks[from]) as usize
    }

    /// The ACK that was the duplicate number `count` from ACK `from` on.
    pub fn dupack(&self, from: usize, count: usize) -> Option<usize> {
        let wanted = self.dupacks[from] as usize + count;
        let is_before = |&dups: &u32| (dups as usize) < wanted;
        let behind = from + near(&self.dupacks[from..], is_before);
        (behind < self.dupacks.len()).then(|| behind.saturating_sub(1))
    }

    pub fn is_dup(&self, ack: usize) -> bool {
        self.dupacks[ack + 1] > self.dupacks[ack]
    }

    /// Whether a part of a range is missing in the capture.
    pub fn has_hole(&self, from: i64, to: i64) -> bool {
        let at = self.holes.partition_point(|hole| hole.1 <= from);
        self.holes.get(at).is_some_and(|hole| hole.0 < to)
    }

    /// How many retransmissions left before a send: of a retransmission its place in `again`.
    pub fn again_before(&self, send: usize) -> usize {
        self.again.partition_point(|&again| (again as usize) < send)
    }

    /// Retransmissions from send `from` to before send `to`: their places in `again`.
    pub fn again_within(&self, from: usize, to: usize) -> std::ops::Range<usize> {
        let first = self.again_before(from);
        first..self.again_before(to).max(first)
    }

    /// The first ACK, not before `from`, at which `snd_una` is at least (past: more than) `offset`.
    pub fn acked_at(&self, from: usize, offset: i64) -> usize {
        let behind = &self.snd_una[from.min(self.snd_una.len())..];
        from + near(behind, |&una| una < offset)
    }

    /// The first ACK of all at which `snd_una` is at least `offset`: it is expected near ACK `near`, before it or after.
    pub fn first_acked(&self, near: usize, offset: i64) -> usize {
        from(&self.snd_una, near.min(self.snd_una.len()), |una| {
            una < offset
        })
    }
}

/// `partition_point`, for what mostly lies near the beginning: a search through a whole capture reads all over it.
fn near<T>(column: &[T], is_before: impl Fn(&T) -> bool) -> usize {
    let mut reach = 1;
    while column.get(reach - 1).is_some_and(&is_before) {
        reach *= 2;
    }
    let from = reach / 2;
    from + column[from..reach.min(column.len())].partition_point(is_before)
}

#[cfg(test)]
mod tests {
    use super::{Sequence, near};

    #[test]
    fn the_first_ack_of_a_byte_is_found_from_wherever_it_is_looked_for() {
        let seen = Sequence {
            snd_una: (0..40).map(|at| at / 3).collect(),
            ..Sequence::default()
        };
        for wanted in 0..16 {
            let first = seen.acked_at(0, wanted);
            assert!((0..45).all(|near| seen.first_acked(near, wanted) == first));
        }
    }

    #[test]
    fn what_lies_near_is_where_a_search_through_all_finds_it() {
        for count in 0..40 {
            let column: Vec<i64> = (0..count).map(|at| at / 3).collect();
            for wanted in 0..15 {
                let is_before = |&value: &i64| value < wanted;
                assert_eq!(near(&column, is_before), column.partition_point(is_before));
            }
        }
    }
}
