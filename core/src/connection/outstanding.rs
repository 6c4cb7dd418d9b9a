//! Segments sent and not yet acknowledged: a bounded ring, sorted by offset and without overlaps.

use std::collections::VecDeque;

use super::packet::TcpPacket;

/// A flow whose ACKs are seen may have this many segments in flight; older ones lose their RTT sample.
const LIMIT: usize = 1 << 16;
/// A flow whose ACKs are never seen (half a capture) keeps only so many.
const LIMIT_UNACKED: usize = 1 << 9;

/// Of those acknowledged so many are remembered, those sent last: at a receiver the ACK of some passes before their second
/// captures do, and the ACK of what filled a hole is that of all that had waited above it.
const ANSWERED: usize = 8;

/// One segment in flight, as first sent or last retransmitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct SentSegment {
    pub start: i64,
    /// When it was sent last.
    pub time: i64,
    pub len: u32,
    pub ts_val: u32,
    pub ip_id: u16,
    /// 0: nothing was sent.
    pub transmissions: u8,
    pub marks: u8,
}

impl SentSegment {
    pub const HAS_TS: u8 = 1;
    /// Part of it has been acknowledged: its RTT can't be told any more.
    pub const PARTLY_ACKED: u8 = 2;
    /// Sent last was a part of it, without its first byte.
    pub const WITHOUT_FIRST: u8 = 4;

    pub fn end(&self) -> i64 {
        self.start + i64::from(self.len)
    }

    /// Whether its stamp, as sent last, is later than the one that an ACK echoes (RFC 7323: 32 bits that go round).
    pub fn is_later_than(&self, ack: &TcpPacket<'_>) -> bool {
        let has_both = ack.has_ts && self.is(Self::HAS_TS);
        has_both && !self.is(Self::WITHOUT_FIRST) && self.ts_val.wrapping_sub(ack.ts_ecr) as i32 > 0
    }

    pub fn is(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }
}

/// In this order in memory: the ring's end and beginning stand in a line of the cache with little else.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Outstanding {
    ring: VecDeque<SentSegment>,
    /// Of those that left it the last sent, in the order of time from `left` on.
    gone: [SentSegment; ANSWERED],
    left: usize,
}

impl Outstanding {
    /// New data above all that is there.
    #[inline]
    pub fn push(&mut self, sent: SentSegment, is_acked_ever: bool) {
        debug_assert!(self.ring.back().is_none_or(|last| last.end() <= sent.start));
        if self.ring.len() >= LIMIT_UNACKED && (!is_acked_ever || self.ring.len() >= LIMIT) {
            self.pop();
        }
        self.ring.push_back(sent);
    }

    #[inline]
    pub fn front(&self) -> Option<&SentSegment> {
        self.ring.front()
    }

    /// The first segment has been acknowledged in part.
    pub fn mark_partly_acked(&mut self) {
        if let Some(front) = self.ring.front_mut() {
            front.marks |= SentSegment::PARTLY_ACKED;
        }
    }

    #[inline]
    pub fn pop(&mut self) -> Option<SentSegment> {
        let front = self.ring.pop_front()?;
        if front.time >= self.remembered(ANSWERED - 1).time {
            self.gone[self.left % ANSWERED] = front;
            self.left = self.left.wrapping_add(1);
        } else {
            self.remember(front);
        }
        Some(front)
    }

    /// Number `age` of those remembered, from the first sent on.
    fn remembered(&mut self, age: usize) -> &mut SentSegment {
        &mut self.gone[self.left.wrapping_add(age) % ANSWERED]
    }

    /// In its place, for the one that was sent first.
    #[cold]
    fn remember(&mut self, sent: SentSegment) {
        let later = (0..ANSWERED).filter(|&age| self.remembered(age).time <= sent.time);
        let Some(place) = later.count().checked_sub(1) else {
            return;
        };
        for age in 0..place {
            *self.remembered(age) = *self.remembered(age + 1);
        }
        *self.remembered(place) = sent;
    }

    /// The segment that begins here, if it is one of the last that have been acknowledged already.
    pub fn answered(&self, start: i64) -> Option<&SentSegment> {
        self.gone
            .iter()
            .find(|sent| sent.start == start && sent.transmissions > 0)
    }

    pub fn last(&self) -> Option<&SentSegment> {
        self.ring.back()
    }

    pub fn len(&self) -> usize {
        self.ring.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// The segments that overlap `[start, end)`, as indices.
    pub fn range(&self, start: i64, end: i64) -> std::ops::Range<usize> {
        let first = self.ring.partition_point(|sent| sent.end() <= start);
        let last = self.ring.partition_point(|sent| sent.start < end);
        first..last.max(first)
    }

    pub fn get(&self, index: usize) -> &SentSegment {
        &self.ring[index]
    }

    /// Changes one segment; not its place or length.
    pub fn change(&mut self, index: usize, change: impl FnOnce(&mut SentSegment)) {
        change(&mut self.ring[index]);
    }

    /// Puts a segment into a hole; rare.
    pub fn insert(&mut self, sent: SentSegment) {
        let index = self.ring.partition_point(|other| other.start < sent.start);
        self.ring.insert(index, sent);
        if self.ring.len() > LIMIT {
            self.pop();
        }
    }

    /// Gives back memory that a burst took.
    pub fn heap_bytes(&self) -> usize {
        self.ring.capacity() * size_of::<SentSegment>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_those_acknowledged_the_last_sent_are_remembered() {
        let mut outstanding = Outstanding::default();
        for start in 0..40 {
            let sent = SentSegment {
                start,
                len: 1,
                // The first was sent again, and fills the hole below all that waited.
                time: if start == 0 { 100 } else { start },
                transmissions: 1,
                ..SentSegment::default()
            };
            outstanding.push(sent, true);
        }
        while outstanding.pop().is_some() {}
        let found: Vec<i64> = (0..40)
            .filter(|&start| outstanding.answered(start).is_some())
            .collect();
        assert_eq!(found, [0, 33, 34, 35, 36, 37, 38, 39]);
    }
}
