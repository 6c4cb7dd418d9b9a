//! What a sender did and what it was told, as columns in the order of time: the input of every reconstruction.
//!
//! Assumes a capture point at the sender: an ACK is in the trace when the sender has (almost) read it, a segment when
//! it left. At another point every conclusion drawn from "which ACK released which segment" errs by the delay between.

use std::ops::RangeInclusive;

use super::before::Before;
use crate::infer::duplicate::{AckContent, received_twice};
use crate::recovery::DetectedBy;

// What no capture has, and what every sum and product behind the door fits `i64` for. Two times differ by less than
// 2^61 + 2^62, so a difference, and the whole of a run as a sum of its parts, fit.
const EARLIEST_NS: i64 = -(1 << 61);
const LATEST_NS: i64 = 1 << 62;
// Two offsets differ by less than 2^59: eight times a flight, or a flight and eight full segments, fit.
const MOST_BYTES: i64 = 1 << 58;
// A full segment times any number of rows (2^31) is below 2^55.
const LARGEST_SEGMENT: i64 = 1 << 24;
// A place is also counted backwards, in 32 bits.
const MOST_ROWS: usize = i32::MAX as usize;

/// What a tap away from its sender knows of a send, as places in `Trace::fate`: that it did not come so far, or that it
/// arrived (at the receiver's tap nothing is lost behind).
pub const FATES: [&str; 3] = ["unknown", "lost_on_way", "arrived"];
pub const LOST_ON_WAY: u8 = 1;
pub const ARRIVED: u8 = 2;

/// One direction of a connection, seen from its sender. Bytes, unwrapped offsets, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trace<'a> {
    /// Segments with payload (or FIN): when each left, its first byte, and one past its last.
    pub send_ns: &'a [i64],
    pub send_offset: &'a [i64],
    pub send_end: &'a [i64],
    /// What became of each (empty: not known).
    pub fate: &'a [u8],
    /// Segments of the other side that carry an ACK number.
    pub ack_ns: &'a [i64],
    pub ack_offset: &'a [i64],
    pub rwnd: &'a [i64],
    /// An answer to data alone: no payload, no SYN, FIN or RST.
    pub is_bare: &'a [bool],
    /// The highest byte SACKed above the ACK number (0: none), and how many bytes are SACKed there.
    pub sack_high: &'a [i64],
    pub sacked: &'a [i64],
    /// Where each ACK's SACK blocks begin in `sack_edges`, one more entry than ACKs (empty: no ACK has any).
    pub sack_first: &'a [i64],
    /// Left and right edges as offsets, in turn.
    pub sack_edges: &'a [i64],
    /// By how many bytes what is outstanding after each ACK may differ (empty: by none), where it is inferred.
    pub slack: &'a [i64],
    /// Ranges reported as received twice (RFC 2883).
    pub dsacks: &'a [(i64, i64)],
    /// Whether an ACK that answers what was sent again echoes an older stamp than that had (empty: none does).
    pub echoes_older: &'a [bool],
    /// When the tap's clock was set, in order: what passed across that is not known.
    pub set_ns: &'a [i64],
    /// The sender's full segment.
    pub smss: i64,
    /// Nothing was outstanding when the trace begins.
    pub has_start: bool,
    pub has_sack: bool,
    /// What rows that are kept no more left behind; None: there are none.
    pub before: Option<&'a Before>,
    /// What arrived out of order is not told, though the sender may know: options cut or overwritten.
    pub hides_blocks: bool,
}

/// Columns of one trace that do not fit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    #[error("{name} has {found} rows where {wanted} belong")]
    Length {
        name: &'static str,
        found: usize,
        wanted: usize,
    },
    #[error("{name} must not fall")]
    Order { name: &'static str },
    #[error("{name}: {found} is beyond what a trace has ({least} to {most})")]
    Range {
        name: &'static str,
        found: i64,
        least: i64,
        most: i64,
    },
    #[error("segments that end before they begin, or of more bytes than a sender has")]
    Sizes,
}

/// The first value out of range. All are looked at, without a jump for each: a search stops at one that is hardly ever
/// there. Of distances from the least all bits together are no less than the largest.
pub(in crate::infer) fn beyond(column: &[i64], within: &RangeInclusive<i64>) -> Option<i64> {
    let distance = |value: i64| value.wrapping_sub(*within.start()) as u64;
    let bits = column.iter().fold(0, |bits, &value| bits | distance(value));
    if bits <= distance(*within.end()) {
        return None;
    }
    column.iter().copied().find(|value| !within.contains(value))
}

impl Trace<'_> {
    /// The columns belong together, and are in the order of time: every later step indexes one by another. Their values
    /// are such that no step wraps.
    pub fn checked(self) -> Result<Self, TraceError> {
        let (sends, acks) = (self.send_ns.len(), self.ack_ns.len());
        let blocks = if self.sack_first.is_empty() {
            0
        } else {
            acks + 1
        };
        let edges = self.sack_first.last().copied().unwrap_or(0);
        for (name, found, wanted) in [
            ("send_offset", self.send_offset.len(), sends),
            ("send_end", self.send_end.len(), sends),
            (
                "fate",
                self.fate.len(),
                if self.fate.is_empty() { 0 } else { sends },
            ),
            (
                "slack",
                self.slack.len(),
                if self.slack.is_empty() { 0 } else { acks },
            ),
            (
                "echoes_older",
                self.echoes_older.len(),
                if self.echoes_older.is_empty() {
                    0
                } else {
                    acks
                },
            ),
            ("ack_offset", self.ack_offset.len(), acks),
            ("rwnd", self.rwnd.len(), acks),
            ("is_bare", self.is_bare.len(), acks),
            ("sack_high", self.sack_high.len(), acks),
            ("sacked", self.sacked.len(), acks),
            ("sack_first", self.sack_first.len(), blocks),
            (
                "sack_edges",
                self.sack_edges.len(),
                usize::try_from(edges).unwrap_or(usize::MAX),
            ),
        ] {
            if found != wanted {
                return Err(TraceError::Length {
                    name,
                    found,
                    wanted,
                });
            }
        }
        for (name, column) in [
            ("send_ns", self.send_ns),
            ("ack_ns", self.ack_ns),
            ("sack_first", self.sack_first),
        ] {
            let pairs = column.iter().zip(column.iter().skip(1));
            if pairs.fold(false, |falls, (one, next)| falls | (one > next)) {
                return Err(TraceError::Order { name });
            }
        }
        self.in_range()
    }

    /// Nothing is beyond what the steps behind the door count with.
    fn in_range(self) -> Result<Self, TraceError> {
        let (times, offsets) = ((EARLIEST_NS, LATEST_NS), (-MOST_BYTES, MOST_BYTES));
        let (sizes, rows) = ((0, MOST_BYTES), (0, MOST_ROWS as i64));
        let dsacks: Vec<i64> = self.dsacks.iter().flat_map(|&(l, r)| [l, r]).collect();
        for (name, column, (least, most)) in [
            ("send_ns", self.send_ns, times),
            ("ack_ns", self.ack_ns, times),
            ("send_offset", self.send_offset, offsets),
            ("send_end", self.send_end, offsets),
            ("ack_offset", self.ack_offset, offsets),
            ("rwnd", self.rwnd, sizes),
            ("sack_high", self.sack_high, offsets),
            ("sacked", self.sacked, sizes),
            ("sack_first", self.sack_first, rows),
            ("sack_edges", self.sack_edges, offsets),
            ("slack", self.slack, sizes),
            ("dsacks", &dsacks, offsets),
            ("set_ns", self.set_ns, times),
            ("smss", &[self.smss], (1, LARGEST_SEGMENT)),
            (
                "rows",
                &[self.send_ns.len() as i64, self.ack_ns.len() as i64],
                rows,
            ),
        ] {
            if let Some(found) = beyond(column, &(least..=most)) {
                return Err(TraceError::Range {
                    name,
                    found,
                    least,
                    most,
                });
            }
        }
        let mut total = 0_i64;
        for (&offset, &end) in self.send_offset.iter().zip(self.send_end) {
            // Both are in range: their difference is.
            total = total.saturating_add(end - offset);
            if end < offset || total > MOST_BYTES {
                return Err(TraceError::Sizes);
            }
        }
        Ok(self)
    }

    /// Whether the clock was set between two times, or at one of them.
    pub fn is_across(&self, from: i64, to: i64) -> bool {
        // What has the very stamp of the step may have left before it.
        let next = self.set_ns.partition_point(|&at| at < from);
        self.set_ns.get(next).is_some_and(|&at| at <= to)
    }

    /// Time of the first row, and of the last.
    pub fn start_ns(&self) -> i64 {
        let firsts = self.send_ns.first().into_iter().chain(self.ack_ns.first());
        firsts.copied().min().unwrap_or(0)
    }

    pub fn end_ns(&self) -> i64 {
        let lasts = self.send_ns.last().into_iter().chain(self.ack_ns.last());
        lasts.copied().max().unwrap_or(0)
    }

    /// What one ACK is compared by with its neighbours.
    pub fn answer(&self, ack: usize) -> AckContent {
        AckContent {
            offset: self.ack_offset[ack],
            window: self.rwnd[ack],
            sack_high: self.sack_high[ack],
            sacked: self.sacked[ack],
        }
    }

    /// The ranges that the blocks report as received twice.
    pub fn received_twice(&self) -> Vec<(i64, i64)> {
        let mut found = Vec::new();
        for (ack, &una) in self.ack_offset.iter().enumerate() {
            let mut blocks = self.blocks(ack);
            if let Some(first) = blocks.next() {
                found.extend(received_twice(una, first, blocks.next()));
            }
        }
        found
    }

    /// The SACK blocks of one ACK as (left, right), in the order in which they stand in it.
    pub fn blocks(&self, ack: usize) -> impl Iterator<Item = (i64, i64)> + '_ {
        let bounds = self.sack_first.get(ack).zip(self.sack_first.get(ack + 1));
        let range = bounds.map_or(0..0, |(&from, &to)| from as usize..to as usize);
        let edges = self.sack_edges.get(range).unwrap_or_default();
        edges.chunks_exact(2).map(|edges| (edges[0], edges[1]))
    }
}

/// One loss event: from the first retransmission until all that was outstanding then is acknowledged, or a timer
/// expires within. Times in ns, windows in bytes, `first_send` an index into the trace's sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossEvent {
    pub first_send: usize,
    pub time_ns: i64,
    pub end_ns: i64,
    /// `snd_una` at the first retransmission, and the highest byte sent before it (RFC 6582 `recover`).
    pub una: i64,
    pub recover: i64,
    pub flight: i64,
    pub detected_by: DetectedBy,
    /// Duplicate ACKs before the first retransmission.
    pub dupacks: usize,
    /// The sender went back to a window of about one segment (Tahoe, or any sender after a timeout).
    pub restarts: bool,
    /// Nothing speaks for the other answer.
    pub sure: bool,
    /// When the first lost segment had last been sent before.
    pub lost_sent_ns: i64,
    /// Segments sent again within the event, and segments sent until the first was answered.
    pub retransmitted: usize,
    pub round_trip_sends: usize,
    /// It begins with the ACK that ends the event before: what is lost was sent again by that one.
    pub follows: bool,
}
