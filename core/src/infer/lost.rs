//! Which segments were lost, told from those that a restarted sender merely sent again.
//!
//! With SACK, and in NewReno's recovery, a sender retransmits holes only. After a restart it goes back over everything:
//! there a segment counts as lost when the cumulative ACK stopped in front of it, for an ACK jumps over what had
//! arrived. Errs low where a receiver delays ACKs while holes are being filled (RFC 5681 section 4.2 asks for an ACK at
//! once).

use super::scoreboard::Scoreboard;
use super::sequence::Sequence;
use super::trace::{LossEvent, Trace};
use crate::threshold::threshold;

// What is answered later than this part of the least round trip answers itself: stamps and small ACKs leave a little.
threshold!(OWN_ANSWER: f64 = 0.95, Share);

// Two queues of a card hand over packets of one burst in either order.
threshold!(SWAPPED_NS: i64 = 500_000, Nanoseconds);

/// One lost segment, or one sent again needlessly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// When it was sent before.
    pub time_ns: i64,
    pub offset: i64,
    pub length: i64,
    /// The number of its loss event.
    pub event: usize,
    /// The answer shows that the segment, or an earlier copy, had arrived.
    pub is_spurious: bool,
}

/// Lost segments in order of their retransmissions.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    pub rows: Vec<Lost>,
    /// Segments sent again by a restarted sender without SACK whose answer may be that of either copy: a hole that is
    /// filled before an ACK stands in front of it cannot be told from none. So many more may have been lost.
    pub possible: usize,
}

pub fn lost(
    trace: &Trace,
    seen: &Sequence,
    repeats: &[Option<u32>],
    events: &[LossEvent],
    board: &Scoreboard,
    base_rtt_ns: i64,
) -> Losses {
    let mut found = Losses::default();
    if events.is_empty() {
        return found;
    }
    let twice = Covered::new(trace.dsacks.to_vec());
    let again = Covered::new(
        seen.again
            .iter()
            .map(|&send| {
                (
                    trace.send_offset[send as usize],
                    trace.send_end[send as usize],
                )
            })
            .collect(),
    );
    let last_una = seen.snd_una.last().copied().unwrap_or(0);
    for (number, event) in events.iter().enumerate() {
        let bound = events
            .get(number + 1)
            .map_or(trace.send_ns.len(), |event| event.first_send);
        let heard = |send: usize| {
            seen.acks_before_send
                .get(send)
                .map_or(trace.ack_ns.len(), |&acks| acks as usize)
        };
        let first = heard(event.first_send).saturating_sub(1);
        let stood = &seen.snd_una[first..heard(bound).max(first + 1)];
        for rank in seen.again_within(event.first_send, bound) {
            let send = seen.again[rank] as usize;
            let (offset, end) = (trace.send_offset[send], trace.send_end[send]);
            let answer = seen.acked_at(first, end);
            if event.restarts && offset != event.una && stood.binary_search(&offset).is_err() {
                let heard_ns = trace.ack_ns.get(answer);
                let may_answer = heard_ns
                    .is_none_or(|heard_ns| heard_ns - trace.send_ns[send] >= base_rtt_ns / 2);
                found.possible += usize::from(may_answer && !trace.has_sack);
                continue;
            }
            let copy = repeats[rank].map_or(send, |copy| copy as usize);
            // RFC 3522 by time alone: an answer sooner than any round trip is the first copy's. That of the first byte
            // tells where a short segment and new data behind it went together.
            let took = |ack: usize| Some(trace.ack_ns.get(ack)? - trace.send_ns[send]);
            let is_early = |ack: usize| took(ack).is_some_and(|ns| ns < base_rtt_ns / 2);
            // Sooner than any round trip that was measured, not than any that there may be: either copy's.
            let is_sooner = |ack: usize| {
                took(ack).is_some_and(|ns| (ns as f64) < OWN_ANSWER.get() * base_rtt_ns as f64)
            };
            let is_open = event.restarts && !trace.has_sack && offset != event.una;
            if is_open && !is_early(answer) && is_sooner(answer) {
                found.possible += 1;
                continue;
            }
            let begun = seen.acked_at(first, offset + 1);
            let is_one = end - offset <= trace.smss;
            let is_told_early = board.since(offset, end).is_some_and(is_early);
            let is_spurious = is_told_early
                || (is_one && is_early(begun))
                || trace.ack_ns.get(answer).is_some_and(|_| {
                    is_early(answer)
                        || answered_before(
                            trace,
                            seen,
                            &again,
                            send,
                            seen.snd_una[answer],
                            last_una,
                        )
                });
            found.rows.push(Lost {
                time_ns: trace.send_ns[copy],
                offset,
                length: end - offset,
                event: number,
                // RFC 3708: what a D-SACK reports had arrived before it was sent again (or both copies did).
                is_spurious: is_spurious || twice.by_one(offset, end),
            });
        }
    }
    found
}

/// Whether an earlier copy filled the hole: the answer lacks a segment that was sent before this copy and arrived.
///
/// Segments stay in order on the path, and an ACK tells of all that arrived in order (RFC 9293 section 3.10.7.4). Errs to
/// "not lost" where the path reorders.
fn answered_before(
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
    let holder = seen.snd_max.partition_point(|&top| top <= missing);
    // A tap with several queues may write what left together in another order.
    holder < send
        && trace.send_offset[holder] <= missing
        && trace.send_ns[send] - trace.send_ns[holder] > SWAPPED_NS.get()
}

/// Ranges in order of their left edges, with the farthest right edge up to each.
struct Covered {
    left: Vec<i64>,
    right: Vec<i64>,
}

impl Covered {
    fn new(mut ranges: Vec<(i64, i64)>) -> Self {
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

    fn reaches_beyond(&self, offset: i64) -> bool {
        self.farthest(offset).is_some_and(|right| right > offset)
    }

    /// Whether one range holds the whole of another.
    fn by_one(&self, offset: i64, end: i64) -> bool {
        self.farthest(offset).is_some_and(|right| right >= end)
    }
}
