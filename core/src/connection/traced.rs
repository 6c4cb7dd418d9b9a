//! A flow's rows as its sender's trace, and what the whole of it tells of each row.

use super::columns::{AckColumns, SegmentColumns};
use super::connection::Connection;
use super::detail::Keep;
use crate::infer::{Trace, observe};

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
        // SYN, FIN and RST bits: not an answer to data alone.
        let is_bare = |(&length, flags): (&i64, &u16)| length == 0 && flags & 0b111 == 0;
        let may_sack = self.flows.iter().all(|flow| flow.counts.sack_permitted);
        let mut trace = Trace {
            send_ns: &of_sent(&|row| segments.time_ns[row]),
            send_offset: &of_sent(&|row| segments.offset[row]),
            send_end: &of_sent(&|row| segments.offset[row] + segments.length[row]),
            ack_ns: &acks.time_ns,
            ack_offset: &acks.ack_offset,
            rwnd: &acks.rwnd,
            is_bare: &Vec::from_iter(acks.length.iter().zip(&acks.flags).map(is_bare)),
            sack_high: &acks.sack_high,
            sacked: &acks.sacked,
            sack_first: &acks.sack_first,
            sack_edges: &acks.sack_edges,
            dsacks: &[],
            smss: self.smss(&segments),
            has_start: self.is_from_start(),
            has_sack: may_sack || acks.sacked.iter().any(|&bytes| bytes > 0),
        };
        let dsacks = trace.received_twice();
        trace.dsacks = &dsacks;
        segments.explain(&trace, &observe(&trace));
        Some((segments, acks))
    }

    /// The sender's segment: the largest seen, or what both MSS options allow where offload made larger ones.
    fn smss(&self, segments: &SegmentColumns) -> i64 {
        let largest = segments.length.iter().copied().max().unwrap_or(1).max(1);
        let has_stamps = self.flows.iter().all(|flow| flow.counts.timestamps);
        let stamp = if has_stamps { TIMESTAMP_BYTES } else { 0 };
        let options = self.flows.iter().filter_map(|flow| flow.counts.mss);
        let most = options.min().map(|mss| (i64::from(mss) - stamp).max(1));
        most.map_or(largest, |most| most.min(largest))
    }
}
