//! Since which ACK each byte is known to have arrived out of order: a sender's scoreboard (RFC 2018, RFC 6675).
//!
//! What was SACKed once stays so (RFC 2018 section 8 apart): an ACK has room for the latest blocks only.

use std::collections::BTreeMap;

use super::trace::Trace;

/// Disjoint ranges in order of offset, and the ACK that first reported each.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    /// (left, right, ACK)
    rows: Vec<(i64, i64, u32)>,
}

impl Scoreboard {
    /// From each ACK's blocks; what lies below its ACK number is a D-SACK (RFC 2883) and no news.
    pub fn new(trace: &Trace) -> Self {
        let mut known = Known::default();
        let mut rows = Vec::new();
        if !trace.sack_first.is_empty() {
            for (ack, &una) in trace.ack_offset.iter().enumerate() {
                for (left, right) in trace.blocks(ack) {
                    if left >= una {
                        known.add(left, right, |from, to| rows.push((from, to, ack as u32)));
                    }
                }
            }
        }
        rows.sort_unstable();
        Self { rows }
    }

    /// (left, right, ACK) in order of offset.
    pub fn rows(&self) -> &[(i64, i64, u32)] {
        &self.rows
    }

    /// The ACK by which a whole segment was reported, in pieces or at once; None where a part of it never was.
    pub fn since(&self, offset: i64, end: i64) -> Option<usize> {
        let at = self
            .rows
            .partition_point(|row| row.0 <= offset)
            .checked_sub(1)?;
        let (mut reached, mut last) = (offset, 0);
        for &(left, right, ack) in &self.rows[at..] {
            if left > reached {
                return None;
            }
            reached = reached.max(right);
            last = last.max(ack);
            if reached >= end {
                return Some(last as usize);
            }
        }
        None
    }
}

/// What is known as joined ranges: a block that grows by a segment per ACK meets one, however long it is.
#[derive(Default)]
struct Known {
    ranges: BTreeMap<i64, i64>,
    /// The range of the last block: the next one mostly extends it.
    last: (i64, i64),
}

impl Known {
    /// Tells the parts of a block that are not yet known; then they are.
    fn add(&mut self, left: i64, right: i64, mut news: impl FnMut(i64, i64)) {
        if left >= right || (self.last.0 <= left && right <= self.last.1) {
            return;
        }
        let (mut from, mut to, mut at) = (left, right, left);
        let before = self.ranges.range(..=left).next_back();
        let first = before
            .filter(|(_, &end)| end >= left)
            .map_or(left, |(&start, _)| start);
        let mut met = Vec::new();
        for (&start, &end) in self.ranges.range(first..=right) {
            if at < start {
                news(at, start);
            }
            at = at.max(end);
            from = from.min(start);
            to = to.max(end);
            met.push(start);
        }
        if at < right {
            news(at, right);
        }
        for start in met {
            self.ranges.remove(&start);
        }
        self.ranges.insert(from, to);
        self.last = (from, to);
    }
}
