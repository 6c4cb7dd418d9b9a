//! What was sent again, packet by packet, and what a receiver reports of it.

use std::collections::HashMap;
use std::ops::Range;

use crate::infer::ordered::from;
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::Trace;
use crate::threshold::threshold;

// Two queues of a card hand over packets of one burst in either order.
threshold!(QUEUES_NS: i64 = 500_000, Nanoseconds);

/// The most that a host cuts one send into (Linux's BIG TCP: 512 KiB), whatever a segment's size claims to be.
const MOST_PACKETS: i64 = 512;

/// The packets of a send: a super-segment (offload) is as many as it was cut into, each with its own fate.
pub(super) fn packets_of(trace: &Trace, send: usize) -> impl Iterator<Item = Range<i64>> {
    let (offset, end) = (trace.send_offset[send], trace.send_end[send]);
    let smss = trace.smss.max((end - offset) / MOST_PACKETS).max(1);
    (offset..end.max(offset + 1))
        .step_by(smss as usize)
        .map(move |start| start..end.min(start + smss))
}

/// What D-SACKs report as received twice, beside how often it was sent again.
pub(super) struct Twice {
    covered: Covered,
    reports: HashMap<(i64, i64), usize>,
    /// The sends again of what begins at an offset, in order.
    again: HashMap<i64, Vec<usize>>,
}

impl Twice {
    pub(super) fn new(trace: &Trace, seen: &Sequence) -> Self {
        let mut reports = HashMap::new();
        for &range in trace.dsacks {
            *reports.entry(range).or_insert(0) += 1;
        }
        let mut again: HashMap<i64, Vec<usize>> = HashMap::new();
        if !reports.is_empty() {
            for &send in &seen.again {
                for packet in packets_of(trace, send as usize) {
                    again.entry(packet.start).or_default().push(send as usize);
                }
            }
        }
        Self {
            covered: Covered::new(trace.dsacks.to_vec()),
            reports,
            again,
        }
    }

    /// Whether one of them speaks of this send: of a packet that was sent again more often than it was received again
    /// copies were lost, and those before the last were sent for them.
    pub(super) fn reports(&self, send: usize, offset: i64, end: i64) -> bool {
        let later = || {
            let sends = self.again.get(&offset);
            sends.map_or(0, |sends| sends.iter().filter(|&&each| each > send).count())
        };
        self.covered.by_one(offset, end)
            // One report may be of several packets in a row.
            && self.reports.get(&(offset, end)).is_none_or(|&count| count > later())
    }
}

/// Ranges in order of their left edges, with the farthest right edge up to each.
pub(super) struct Covered {
    left: Vec<i64>,
    right: Vec<i64>,
}

impl Covered {
    pub(super) fn new(mut ranges: Vec<(i64, i64)>) -> Self {
        ranges.sort_unstable();
        let mut top = i64::MIN;
        let right = ranges.iter().map(|range| {
            top = top.max(range.1);
            top
        });
        Self {
            right: right.collect(),
            left: ranges.iter().map(|range| range.0).collect(),
        }
    }

    /// The farthest right edge of those that begin at or below an offset.
    fn farthest(&self, offset: i64) -> Option<i64> {
        let behind = self.left.partition_point(|&left| left <= offset);
        behind.checked_sub(1).map(|last| self.right[last])
    }

    pub(super) fn reaches_beyond(&self, offset: i64) -> bool {
        self.farthest(offset).is_some_and(|right| right > offset)
    }

    /// Whether one range holds the whole of another.
    pub(super) fn by_one(&self, offset: i64, end: i64) -> bool {
        self.farthest(offset).is_some_and(|right| right >= end)
    }
}

/// Whether an earlier copy filled the hole: the answer lacks a segment that was sent before this copy and arrived.
///
/// Segments stay in order on the path, and an ACK tells of all that arrived in order (RFC 9293 section 3.10.7.4). Errs to
/// "not lost" where the path reorders.
pub(super) fn answered_before(
    trace: &Trace,
    seen: &Sequence,
    again: &Covered,
    send: usize,
    missing: i64,
    last_una: i64,
) -> bool {
    // Sent once: what was sent again may have been lost.
    if missing >= last_una || again.reaches_beyond(missing) {
        return false;
    }
    // `snd_max` passes it at its first transmission.
    let holder = from(&seen.snd_max, send, |top| top <= missing);
    // A tap with several queues may write what left together in another order.
    holder < send
        && trace.send_offset[holder] <= missing
        && trace.send_ns[send] - trace.send_ns[holder] > QUEUES_NS.get()
}
