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
        let trace = self.trace(&segments, &acks);
        segments.explain(&trace, &observe(&trace));
        Some((segments, acks))
    }

    fn trace(&self, segments: &SegmentColumns, acks: &AckColumns) -> Trace {
        let mut trace = Trace {
            ack_ns: acks.time_ns.clone(),
            ack_offset: acks.ack_offset.clone(),
            rwnd: acks.rwnd.clone(),
            // SYN, FIN and RST bits: not an answer to data alone.
            is_bare: acks
                .length
                .iter()
                .zip(&acks.flags)
                .map(|(&length, flags)| length == 0 && flags & 0b111 == 0)
                .collect(),
            sack_high: acks.sack_high.clone(),
            sacked: acks.sacked.clone(),
            sack_first: acks.sack_first.clone(),
            sack_edges: acks.sack_edges.clone(),
            has_start: self.is_from_start(),
            ..Trace::default()
        };
        for row in segments.sent() {
            trace.send_ns.push(segments.time_ns[row]);
            trace.send_offset.push(segments.offset[row]);
            trace
                .send_end
                .push(segments.offset[row] + segments.length[row]);
        }
        trace.dsacks = trace.received_twice();
        let may_sack = self.flows.iter().all(|flow| flow.counts.sack_permitted);
        trace.has_sack = may_sack || trace.sacked.iter().any(|&bytes| bytes > 0);
        trace.smss = self.smss(segments);
        trace
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
