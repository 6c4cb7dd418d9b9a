//! What a sender did and what it was told, as columns in the order of time: the input of every reconstruction.
//!
//! Assumes a capture point at the sender: an ACK is in the trace when the sender has (almost) read it, a segment when
//! it left. At another point every conclusion drawn from "which ACK released which segment" errs by the delay between.

use super::duplicate::{Answer, received_twice};
use crate::recovery::DetectedBy;

/// One direction of a connection, seen from its sender. Bytes, unwrapped offsets, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace<'a> {
    /// Segments with payload (or FIN): when each left, its first byte, and one past its last.
    pub send_ns: &'a [i64],
    pub send_offset: &'a [i64],
    pub send_end: &'a [i64],
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
    /// Ranges reported as received twice (RFC 2883).
    pub dsacks: &'a [(i64, i64)],
    /// The sender's full segment.
    pub smss: i64,
    /// Nothing was outstanding when the trace begins.
    pub has_start: bool,
    pub has_sack: bool,
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
    #[error("sack_first must not fall")]
    Order,
}

impl Trace<'_> {
    /// The columns belong together: every later step indexes one by another.
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
        let rises = self.sack_first.windows(2).all(|pair| pair[0] <= pair[1]);
        if !rises || self.sack_first.first().is_some_and(|&first| first < 0) {
            return Err(TraceError::Order);
        }
        Ok(self)
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
    pub fn answer(&self, ack: usize) -> Answer {
        Answer {
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
}
