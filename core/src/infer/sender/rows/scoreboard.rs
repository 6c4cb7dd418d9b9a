//! Since which ACK each byte is known to have arrived out of order: a sender's scoreboard (RFC 2018, RFC 6675).
//!
//! What was SACKed once stays so (RFC 2018 section 8 apart): an ACK has room for the latest blocks only.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::trace::Trace;
use crate::infer::given::DELAYED_ACK_SEGMENTS;
use crate::infer::ordered::from;
use crate::recovery::DUP_THRESH;

/// Blocks that an ACK has room for at the least: beside timestamps (RFC 2018 section 3).
pub const LEAST_ROOM: usize = 3;
/// At the most.
const MOST_ROOM: usize = 4;

/// Disjoint ranges in order of offset, and the ACK that first reported each.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    /// (left, right, ACK)
    rows: Vec<(i64, i64, u32)>,
    /// Gaps in front of each row, from the first on.
    gaps: Vec<u32>,
    /// A tree over the rows: each node has the last ACK of those below it.
    last: Vec<u32>,
}

impl Scoreboard {
    pub fn new(trace: &Trace) -> Self {
        let rows = reported(trace);
        let (mut gaps, mut reached) = (0, i64::MIN);
        let before = rows.iter().map(|&(left, right, _)| {
            gaps += u32::from(left > reached);
            reached = right;
            gaps
        });
        let gaps = before.collect();
        let mut last = vec![0; rows.len()];
        last.extend(rows.iter().map(|row| row.2));
        for node in (1..rows.len()).rev() {
            last[node] = last[2 * node].max(last[2 * node + 1]);
        }
        Self { rows, gaps, last }
    }

    /// Ranges of which the ACKs may not have told, though they had arrived: a receiver that lets several segments pass
    /// before it sends an ACK (Linux compresses them) has more news than the option has room for, and lists the latest
    /// blocks first (RFC 2018 section 4). An ACK with a block that was there before has told all; one without, and with
    /// room for it, of more segments than share an ACK, is of a receiver that leaves out what is not among the latest.
    pub fn untold(&self, trace: &Trace) -> Vec<(i64, i64)> {
        let mut found = Vec::new();
        if self.rows.is_empty() {
            return found;
        }
        let (mut high, shared) = (i64::MIN, DELAYED_ACK_SEGMENTS.get() * trace.smss);
        for (ack, &una) in trace.ack_offset.iter().enumerate() {
            let blocks = || trace.blocks(ack).filter(|&(left, _)| left >= una);
            let count = blocks().count();
            let length = |(left, right): (i64, i64)| right - left;
            let leaves_out =
                || count > 0 && high > una && blocks().map(length).sum::<i64>() > shared;
            if (count >= LEAST_ROOM || leaves_out())
                && blocks().all(|(_, right)| self.told_by(right) == Some(ack))
            {
                let lowest = blocks().map(|(left, _)| left).min().unwrap_or(high);
                // What a block begins behind is missing for sure.
                let (from, to) = (high.max(una), lowest - trace.smss);
                if from < to {
                    found.push((from, to));
                }
            }
            high = blocks().map(|(_, right)| right).fold(high, i64::max);
        }
        found
    }

    /// The bytes SACKed above `snd_una` after each of these ACKs, which rise: their own blocks and those before.
    pub fn sacked_after(&self, acks: &[usize], snd_una: &[i64]) -> Vec<i64> {
        let mut told: Vec<usize> = (0..self.rows.len()).collect();
        told.sort_unstable_by_key(|&row| self.rows[row].2);
        let mut told = told.into_iter().peekable();
        let (mut passed, mut sacked) = (0, 0);
        let length = |row: usize| self.rows[row].1 - self.rows[row].0;
        let after = |&ack: &usize| {
            let is_told = |row: usize| self.rows[row].2 as usize <= ack;
            while let Some(row) = told.next_if(|&row| is_told(row)) {
                sacked += if row < passed { 0 } else { length(row) };
            }
            while self
                .rows
                .get(passed)
                .is_some_and(|row| row.0 < snd_una[ack])
            {
                sacked -= if is_told(passed) { length(passed) } else { 0 };
                passed += 1;
            }
            sacked
        };
        acks.iter().map(after).collect()
    }

    /// The ACK that first told of the byte before an offset.
    fn told_by(&self, right: i64) -> Option<usize> {
        let at = self.rows.partition_point(|row| row.0 < right);
        let row = self.rows[..at].last().filter(|row| row.1 >= right)?;
        Some(row.2 as usize)
    }

    /// The ACK by which a whole segment was reported, in pieces or at once; None where a part of it never was.
    ///
    /// `near`: where the one asked for before was found, for most are asked for in order.
    pub fn since(&self, offset: i64, end: i64, near: &mut usize) -> Option<usize> {
        *near = from(&self.rows, *near, |row| row.0 <= offset);
        let at = near.checked_sub(1)?;
        let (_, right, ack) = self.rows[at];
        // Most are in one block, or in none.
        if right <= offset || right >= end {
            return (right > offset).then_some(ack as usize);
        }
        let behind = at + self.rows[at..].partition_point(|row| row.0 < end);
        let is_whole = self.gaps[at] == self.gaps[behind - 1] && self.rows[behind - 1].1 >= end;
        is_whole.then(|| self.last_of(at, behind) as usize)
    }

    /// The last ACK that reported one of these rows.
    fn last_of(&self, first: usize, behind: usize) -> u32 {
        let (mut first, mut behind) = (first + self.rows.len(), behind + self.rows.len());
        let mut last = 0;
        while first < behind {
            if first % 2 == 1 {
                last = self.last[first].max(last);
                first += 1;
            }
            if behind % 2 == 1 {
                behind -= 1;
                last = self.last[behind].max(last);
            }
            (first, behind) = (first / 2, behind / 2);
        }
        last
    }
}

/// Disjoint ranges in order of offset, and the ACK that first reported each: (left, right, ACK).
///
/// From each ACK's blocks; what lies below its ACK number is a D-SACK (RFC 2883) and no news.
pub fn reported(trace: &Trace) -> Vec<(i64, i64, u32)> {
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
    rows
}

/// What is known as joined ranges: a block that grows by a segment per ACK meets one, however long it is.
#[derive(Default)]
struct Known {
    ranges: BTreeMap<i64, i64>,
    /// The range of the last block that was news, and where the one behind it begins: the next one mostly extends it.
    last: (i64, i64),
    behind: i64,
    /// An ACK repeats the blocks of those before it: the last that were looked for.
    recent: [(i64, i64); MOST_ROOM],
    looked_for: usize,
}

impl Known {
    /// Tells the parts of a block that are not yet known; then they are.
    fn add(&mut self, left: i64, right: i64, mut news: impl FnMut(i64, i64)) {
        let is_in_last = self.last.0 <= left && left <= self.last.1;
        if left >= right || (is_in_last && right <= self.last.1) {
            return;
        }
        if is_in_last && right < self.behind {
            news(self.last.1, right);
            self.last.1 = right;
            self.ranges.insert(self.last.0, right);
            return;
        }
        if self.recent.contains(&(left, right)) {
            return;
        }
        self.recent[self.looked_for % MOST_ROOM] = (left, right);
        self.looked_for += 1;
        let (mut from, mut to, mut at) = (left, right, left);
        let before = self.ranges.range(..=left).next_back();
        if before.is_some_and(|(_, &end)| end >= right) {
            return;
        }
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
        let behind = self.ranges.range(to..).next();
        self.behind = behind.map_or(i64::MAX, |(&start, _)| start);
    }
}

/// So much SACKed above tells that what is not was lost (RFC 6675 `IsLost`).
pub(in crate::infer::sender) fn enough(trace: &Trace) -> i64 {
    i64::from(DUP_THRESH) * trace.smss
}

/// Up to where a sender takes for lost what was not SACKed, after each ACK: DupThresh segments were, above (RFC 6675
/// `IsLost`).
pub(in crate::infer::sender) fn lost_up_to(trace: &Trace) -> Vec<i64> {
    let enough = enough(trace);
    let (mut top, mut lost, mut sacked) = (i64::MIN, i64::MIN, 0);
    // What was SACKed at the top, `enough` of it at the least, in order.
    let mut highest: VecDeque<Range<i64>> = VecDeque::new();
    let told = trace.sack_high.iter().enumerate().map(|(ack, &high)| {
        if high > top {
            let left = trace
                .blocks(ack)
                .find(|block| block.1 == high)
                .map(|block| block.0);
            let news = left.unwrap_or(high - trace.smss).max(top)..high;
            sacked += news.end - news.start;
            highest.push_back(news);
            top = high;
            while let Some(lowest) = highest
                .front()
                .filter(|lowest| sacked - (lowest.end - lowest.start) >= enough)
            {
                sacked -= lowest.end - lowest.start;
                highest.pop_front();
            }
            if let Some(lowest) = highest.front().filter(|_| sacked >= enough) {
                lost = lost.max(lowest.end - (enough - (sacked - (lowest.end - lowest.start))));
            }
        }
        lost
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One ACK for each block.
    fn of_blocks<T>(blocks: &[(i64, i64)], ask: impl Fn(&Trace) -> T) -> T {
        let edges: Vec<i64> = blocks.iter().flat_map(|&(l, r)| [l, r]).collect();
        let first: Vec<i64> = (0..=blocks.len() as i64).map(|ack| 2 * ack).collect();
        ask(&Trace {
            ack_offset: &vec![0; blocks.len()],
            sack_first: &first,
            sack_edges: &edges,
            smss: 10,
            ..Trace::default()
        })
    }

    #[test]
    fn a_segment_is_reported_when_its_last_byte_is() {
        let scattered: Vec<_> = (0..90)
            .map(|at| (at * 37) % 120)
            .map(|left| (left, left + 1 + left % 4))
            .collect();
        // Blocks that grow, meet the next and are repeated, as a receiver tells of three holes at once.
        let grown: Vec<_> = (1..22)
            .flat_map(|by| {
                [
                    (10, 10 + by),
                    (70, 71 + by / 5),
                    (30, 30 + 2 * by),
                    (70, 71),
                ]
            })
            .collect();
        for blocks in [scattered, grown] {
            reports_each_byte_once(&blocks);
        }
    }

    #[test]
    fn what_an_ack_of_several_segments_leaves_out_may_have_arrived() {
        let untold =
            |blocks: &[(i64, i64)]| of_blocks(blocks, |trace| Scoreboard::new(trace).untold(trace));
        // The second tells of three segments, and not of what was told before.
        assert_eq!(untold(&[(100, 110), (150, 180)]), [(110, 140)]);
        // Two, for which one ACK is enough.
        assert_eq!(untold(&[(100, 110), (150, 170)]), []);
        // What was told goes on.
        assert_eq!(untold(&[(100, 110), (100, 150)]), []);
    }

    fn reports_each_byte_once(blocks: &[(i64, i64)]) {
        let board = of_blocks(blocks, Scoreboard::new);
        let since = |byte: i64| {
            blocks
                .iter()
                .position(|&(left, right)| left <= byte && byte < right)
        };
        let (mut reported, mut near) = (0, 0);
        for offset in 0..120 {
            for end in offset + 1..=120 {
                let each: Option<Vec<usize>> = (offset..end).map(since).collect();
                let last = each.and_then(|each| each.into_iter().max());
                assert_eq!(board.since(offset, end, &mut near), last, "{offset}..{end}");
                reported += usize::from(last.is_some());
            }
        }
        assert!(reported > 200 && reported < 7000);
    }
}
