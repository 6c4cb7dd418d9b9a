//! For each retransmission, which earlier send it repeats.

use std::collections::BTreeMap;

use crate::infer::ordered::from;
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::Trace;

/// By retransmission, in order: the latest send before it that carried its first byte, if the capture has one.
pub fn repeats(trace: &Trace, seen: &Sequence) -> Vec<Option<u32>> {
    let mut painted = Painted::default();
    let mut found = Vec::with_capacity(seen.again.len());
    for (rank, &send) in seen.again.iter().enumerate() {
        let index = send as usize;
        let (offset, end) = (trace.send_offset[index], trace.send_end[index]);
        let copy = painted
            .at(offset)
            .or_else(|| first_sent(trace, seen, rank, index, offset));
        found.push(copy);
        painted.paint(offset, end, send);
    }
    found
}

/// The first transmission of a byte, among the sends before `index` (number `rank` of those sent again).
///
/// `snd_max` passes the byte at the send that carried it first, unless the capture lacks that one.
fn first_sent(
    trace: &Trace,
    seen: &Sequence,
    rank: usize,
    index: usize,
    offset: i64,
) -> Option<u32> {
    debug_assert!(rank < seen.again.len());
    let at = from(&seen.snd_max[..index], index, |top| top <= offset);
    (at < index && trace.send_offset[at] <= offset).then_some(at as u32)
}

/// Disjoint ranges, each with the send that carried it last.
#[derive(Default)]
struct Painted {
    ranges: BTreeMap<i64, (i64, u32)>,
}

impl Painted {
    fn at(&self, offset: i64) -> Option<u32> {
        let (_, &(end, send)) = self.ranges.range(..=offset).next_back()?;
        (offset < end).then_some(send)
    }

    fn paint(&mut self, start: i64, end: i64, send: u32) {
        if start >= end {
            return;
        }
        // The range that reaches into the new one from below keeps what lies outside it.
        if let Some((&from, &(to, earlier))) = self.ranges.range(..start).next_back() {
            if to > start {
                self.ranges.insert(from, (start, earlier));
                if to > end {
                    self.ranges.insert(end, (to, earlier));
                }
            }
        }
        while let Some((&from, &(to, earlier))) = self.ranges.range(start..end).next() {
            self.ranges.remove(&from);
            if to > end {
                self.ranges.insert(end, (to, earlier));
            }
        }
        self.ranges.insert(start, (end, send));
    }
}
