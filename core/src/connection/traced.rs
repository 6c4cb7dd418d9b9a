//! A flow's rows as its sender's trace, and what the whole of it tells of each row.

use super::columns::{AckColumns, Keep, SegmentColumns};
use super::connection::{Connection, Vantage};
use crate::infer::{Heard, Known, Rolling, SendRow, Trace, observe};

/// RFC 7323 appendix A: the timestamps option takes 12 bytes of every segment.
const TIMESTAMP_BYTES: i64 = 12;

impl Connection {
    /// The rows kept of what `ends[from]` sent and was told.
    pub fn take_tables(&mut self, from: usize) -> Option<(SegmentColumns, AckColumns)> {
        let detail = self.flows[from].detail.take()?;
        let (mut segments, acks) = (detail.segments, detail.acks);
        if detail.keep == Keep::Rows {
            return Some((segments, acks));
        }
        let sent: Vec<usize> = segments.sent().collect();
        let of_sent = |value: &dyn Fn(usize) -> i64| -> Vec<i64> {
            sent.iter().map(|&row| value(row)).collect()
        };
        let mut trace = Trace {
            send_ns: &of_sent(&|row| segments.time_ns[row]),
            send_offset: &of_sent(&|row| segments.offset[row]),
            send_end: &of_sent(&|row| segments.offset[row] + segments.length[row]),
            fate: &[],
            slack: &[],
            ack_ns: &acks.time_ns,
            ack_offset: &acks.ack_offset,
            rwnd: &acks.rwnd,
            is_bare: &Vec::from_iter((0..acks.time_ns.len()).map(|row| is_bare(&acks, row))),
            sack_high: &acks.sack_high,
            sacked: &acks.sacked,
            sack_first: &acks.sack_first,
            sack_edges: &acks.sack_edges,
            dsacks: &[],
            echoes_older: &acks.echoes_older,
            set_ns: &[],
            smss: self.smss(segments.length.iter().copied().max().unwrap_or(1)),
            has_start: self.is_from_start(),
            has_sack: self.may_sack() || acks.sacked.iter().any(|&bytes| bytes > 0),
            before: None,
            hides_blocks: false,
        };
        let dsacks = trace.received_twice();
        trace.dsacks = &dsacks;
        segments.explain(&trace, &observe(&trace));
        Some((segments, acks))
    }

    /// The sender's segment: the largest seen, or what both MSS options allow where offload made larger ones.
    fn smss(&self, largest: i64) -> i64 {
        let largest = largest.max(1);
        let has_stamps = self.flows.iter().all(|flow| flow.counts.timestamps);
        let stamp = if has_stamps { TIMESTAMP_BYTES } else { 0 };
        let options = self.flows.iter().filter_map(|flow| flow.counts.mss);
        let most = options.min().map(|mss| (i64::from(mss) - stamp).max(1));
        most.map_or(largest, |most| most.min(largest))
    }

    /// RFC 2018 section 2: both SYNs permit it.
    fn may_sack(&self) -> bool {
        self.flows.iter().all(|flow| flow.counts.sack_permitted)
    }

    /// What is known of the sender `ends[from]` besides its rows.
    pub fn known(&self, from: usize) -> Known {
        Known {
            smss: self.smss(self.flows[from].counts.max_segment.into()),
            has_sack: self.may_sack() || self.flows[1 - from].counts.sack_blocks > 0,
            has_start: self.is_from_start(),
        }
    }

    /// Whether `ends[from]` sent from the tap's own place, as the handshake shows it; None: it was not captured.
    pub fn is_near(&self, from: usize) -> Option<bool> {
        let near = if self.client() == from {
            Vantage::Client
        } else {
            Vantage::Server
        };
        match self.vantage() {
            Vantage::Unknown => None,
            place => Some(place == near),
        }
    }

    /// Shows the rows that came since, of what `ends[from]` sent and was told, in the order in which they came; `read`
    /// counts them. With `drops` they are kept no longer.
    pub fn show(&mut self, from: usize, rolling: &mut Rolling, read: &mut ShownRows, drops: bool) {
        // A shift that is not known leaves the window open.
        let knows_scale = self.knows_scale(1 - from);
        let Some(detail) = &mut self.flows[from].detail else {
            return;
        };
        let (segments, acks) = (&detail.segments, &detail.acks);
        for row in read.acks..acks.time_ns.len() {
            // Of one packet there is at most one row.
            while read.segments < segments.packet.len()
                && segments.packet[read.segments] < acks.packet[row]
            {
                send(rolling, segments, read.segments);
                read.segments += 1;
            }
            let edges = acks.sack_first[row] as usize..acks.sack_first[row + 1] as usize;
            let heard = Heard {
                time_ns: acks.time_ns[row],
                offset: acks.ack_offset[row],
                rwnd: if knows_scale { acks.rwnd[row] } else { OPEN },
                is_bare: is_bare(acks, row),
                sack_high: acks.sack_high[row],
                sacked: acks.sacked[row],
            };
            rolling.ack(heard, &acks.sack_edges[edges]);
        }
        for row in read.segments..segments.time_ns.len() {
            send(rolling, segments, row);
        }
        if drops {
            detail.forget_rows();
            *read = ShownRows::default();
        } else {
            *read = ShownRows {
                segments: segments.time_ns.len(),
                acks: acks.time_ns.len(),
            };
        }
    }

    /// The rows of what `ends[from]` sent and was told are not needed any more.
    pub fn forget_rows(&mut self, from: usize) {
        if let Some(detail) = &mut self.flows[from].detail {
            detail.forget_rows();
        }
    }
}

fn send(rolling: &mut Rolling, segments: &SegmentColumns, row: usize) {
    if segments.is_sent(row) && segments.length[row] > 0 {
        let offset = segments.offset[row];
        rolling.send(SendRow {
            time_ns: segments.time_ns[row],
            offset,
            end: offset + segments.length[row],
        });
    }
}

/// Rows of a flow that were shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShownRows {
    segments: usize,
    acks: usize,
}

/// A window that bounds nothing.
const OPEN: i64 = 1 << 40;

/// SYN, FIN and RST bits: not an answer to data alone.
fn is_bare(acks: &AckColumns, row: usize) -> bool {
    acks.length[row] == 0 && acks.flags[row] & 0b111 == 0
}
