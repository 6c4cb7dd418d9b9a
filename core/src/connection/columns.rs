//! Per-segment columns of one flow: kept only for the connections asked for.

use super::packet::TcpPacket;
use crate::infer::{Cause, Observed, Trace, above, causes};

/// How much is kept of each row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    #[default]
    Nothing,
    /// What makes a sender's trace, and tells of the tap: less than half of the tables.
    Rows,
    Tables,
}

/// One row per data segment of the flow, in captured order.
#[derive(Clone, Debug, Default)]
pub struct SegmentColumns {
    pub time_ns: Vec<i64>,
    /// 0 is the first byte of data, or the first byte seen.
    pub offset: Vec<i64>,
    pub length: Vec<i64>,
    pub flags: Vec<u16>,
    pub is_retransmission: Vec<bool>,
    pub cause: Vec<u8>,
    pub confidence: Vec<f32>,
    /// Bytes sent and not cumulatively acknowledged, this segment included (RFC 5681 section 2).
    pub flight_size: Vec<i64>,
    /// RFC 6675 section 4 `SetPipe`, this segment included.
    pub pipe: Vec<i64>,
    /// -1: no timestamps option.
    pub ts_val: Vec<i64>,
    /// -1: no timestamps option. What the sender had last heard of the receiver's clock (RFC 7323 section 4.3).
    pub ts_ecr: Vec<i64>,
    /// IPv4 identification; 0: none.
    pub ip_id: Vec<i64>,
    /// The record's number in the capture.
    pub packet: Vec<i64>,
}

impl SegmentColumns {
    pub fn push(
        &mut self,
        packet: &TcpPacket<'_>,
        offset: i64,
        (cause, confidence): (Cause, f32),
        flight_size: i64,
        keep: Keep,
    ) {
        let timestamps = packet.has_ts.then_some((packet.ts_val, packet.ts_ecr));
        let (ts_val, ts_ecr) = timestamps.unzip();
        self.time_ns.push(packet.time);
        self.offset.push(offset);
        self.length.push(i64::from(packet.len));
        self.cause.push(cause as u8);
        self.is_retransmission.push(cause.is_retransmission());
        self.ts_val.push(ts_val.map_or(-1, i64::from));
        self.ts_ecr.push(ts_ecr.map_or(-1, i64::from));
        self.packet.push(packet.index as i64);
        if keep == Keep::Rows {
            return;
        }
        self.flags.push(packet.flags.0);
        self.confidence.push(confidence);
        self.flight_size.push(flight_size);
        self.ip_id.push(packet.ip_id.into());
    }

    pub fn clear(&mut self) {
        let Self {
            time_ns,
            offset,
            length,
            flags,
            is_retransmission,
            cause,
            confidence,
            flight_size,
            pipe,
            ts_val,
            ts_ecr,
            ip_id,
            packet,
        } = self;
        for column in [
            time_ns,
            offset,
            length,
            flight_size,
            pipe,
            ts_val,
            ts_ecr,
            ip_id,
            packet,
        ] {
            column.clear();
        }
        flags.clear();
        is_retransmission.clear();
        cause.clear();
        confidence.clear();
    }

    /// The rows that are sends of the sender's window: no copies, no probes, nothing that the tap put out of order.
    pub fn sent(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.cause.len()).filter(|&row| self.is_sent(row))
    }

    pub fn is_sent(&self, row: usize) -> bool {
        Cause::ALL[usize::from(self.cause[row])].0.is_sent()
    }

    /// Fills in what only the whole flow tells: why each segment was sent again, and the pipe. `trace` is that of these
    /// rows, `observed` what it shows.
    pub fn explain(&mut self, trace: &Trace, observed: &Observed) {
        let seen = &observed.sequence;
        let mut told = causes(trace, seen, &observed.events).into_iter();
        let mut again = seen.again.iter().peekable();
        let pipes = observed.pipe_at_sends(trace);
        let rows: Vec<usize> = self.sent().collect();
        let mut pipe_at = vec![None; self.cause.len()];
        for (send, row) in rows.into_iter().enumerate() {
            pipe_at[row] = Some(pipes[send]);
            let Some(found) = again
                .next_if(|&&next| next as usize == send)
                .and_then(|_| told.next())
            else {
                continue;
            };
            if self.cause[row] == Cause::Unknown as u8 {
                (self.cause[row], self.confidence[row]) = (found.0 as u8, found.1);
            }
        }
        let mut last = 0;
        self.pipe = pipe_at
            .into_iter()
            .map(|pipe| {
                last = pipe.unwrap_or(last);
                last
            })
            .collect();
    }
}

/// One row per ACK to the flow's sender, in captured order.
#[derive(Clone, Debug, Default)]
pub struct AckColumns {
    pub time_ns: Vec<i64>,
    pub ack_offset: Vec<i64>,
    /// Scaled where the shift is known.
    pub rwnd: Vec<i64>,
    /// Duplicate ACKs in a row, this one included; 0: it isn't one.
    pub dup_count: Vec<i64>,
    /// Where this row's SACK blocks begin in `sack_edges`; one more entry than rows.
    pub sack_first: Vec<i64>,
    /// Left and right edges as offsets, in turn.
    pub sack_edges: Vec<i64>,
    /// From sequence numbers, with Karn's rule; -1: no sample.
    pub rtt_ns: Vec<i64>,
    /// From timestamps (RFC 7323 section 4); -1: no sample.
    pub ts_rtt_ns: Vec<i64>,
    pub newly_acked: Vec<i64>,
    /// -1: no timestamps option.
    pub ts_val: Vec<i64>,
    pub ts_ecr: Vec<i64>,
    /// Data bytes that the ACK's own segment carries.
    pub length: Vec<i64>,
    pub flags: Vec<u16>,
    pub packet: Vec<i64>,
    /// The highest byte SACKed above the ACK number (0: none), and how many bytes are.
    pub sack_high: Vec<i64>,
    pub sacked: Vec<i64>,
}

/// One ACK's row, the packet's own fields apart.
pub struct AckRow {
    pub offset: i64,
    pub window: u64,
    pub dup_count: u32,
    pub newly_acked: i64,
    pub rtt: Option<i64>,
    pub ts_rtt: Option<i64>,
}

impl AckColumns {
    pub fn clear(&mut self) {
        let Self {
            time_ns,
            ack_offset,
            rwnd,
            dup_count,
            sack_first,
            sack_edges,
            rtt_ns,
            ts_rtt_ns,
            newly_acked,
            ts_val,
            ts_ecr,
            length,
            flags,
            packet,
            sack_high,
            sacked,
        } = self;
        for column in [
            time_ns,
            ack_offset,
            rwnd,
            dup_count,
            sack_edges,
            rtt_ns,
            ts_rtt_ns,
            newly_acked,
            ts_val,
            ts_ecr,
            length,
            packet,
            sack_high,
            sacked,
        ] {
            column.clear();
        }
        flags.clear();
        // The first row's blocks begin at the beginning.
        sack_first.truncate(1);
    }

    pub fn push(
        &mut self,
        packet: &TcpPacket<'_>,
        row: &AckRow,
        blocks: &[(i64, i64)],
        keep: Keep,
    ) {
        let timestamps = packet.has_ts.then_some((packet.ts_val, packet.ts_ecr));
        let (ts_val, ts_ecr) = timestamps.unzip();
        self.time_ns.push(packet.time);
        self.ack_offset.push(row.offset);
        self.rwnd
            .push(i64::try_from(row.window).unwrap_or(i64::MAX));
        self.dup_count.push(i64::from(row.dup_count));
        self.sack_edges
            .extend(blocks.iter().flat_map(|&(left, right)| [left, right]));
        self.sack_first.push(self.sack_edges.len() as i64);
        self.ts_val.push(ts_val.map_or(-1, i64::from));
        self.length.push(i64::from(packet.len));
        self.flags.push(packet.flags.0);
        self.packet.push(packet.index as i64);
        let (sack_high, sacked) = above(row.offset, blocks);
        self.sack_high.push(sack_high);
        self.sacked.push(sacked);
        if keep == Keep::Rows {
            return;
        }
        self.rtt_ns.push(row.rtt.unwrap_or(-1));
        self.ts_rtt_ns.push(row.ts_rtt.unwrap_or(-1));
        self.newly_acked.push(row.newly_acked);
        self.ts_ecr.push(ts_ecr.map_or(-1, i64::from));
    }
}
