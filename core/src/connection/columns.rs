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

/// `columns! { Table { column: type, ... } }`: the table, and `clear`, which no column of it escapes.
macro_rules! columns {
    ($(#[$doc:meta])* $table:ident { $($(#[$column_doc:meta])* $column:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $table {
            $($(#[$column_doc])* pub $column: Vec<$type>,)*
        }

        impl $table {
            pub fn clear(&mut self) {
                $(self.$column.clear();)*
            }
        }
    };
}

columns! {
    /// One row per data segment of the flow, in captured order.
    SegmentColumns {
        time_ns: i64,
        /// 0 is the first byte of data, or the first byte seen.
        offset: i64,
        length: i64,
        flags: u16,
        is_retransmission: bool,
        cause: u8,
        confidence: f32,
        /// Bytes sent and not cumulatively acknowledged, this segment included (RFC 5681 section 2).
        flight_size: i64,
        /// RFC 6675 section 4 `SetPipe`, this segment included.
        pipe: i64,
        /// -1: no timestamps option.
        ts_val: i64,
        /// -1: no timestamps option. What the sender had last heard of the receiver's clock (RFC 7323 section 4.3).
        ts_ecr: i64,
        /// IPv4 identification; 0: none.
        ip_id: i32,
        /// The record's number in the capture.
        packet: i64,
        /// No row's, and of `Keep::Rows` only: when the ACKs without data passed, which are numbered like the segments.
        bare_ns: i64,
    }
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
        self.ip_id.push(packet.ip_id.into());
        if keep == Keep::Rows {
            return;
        }
        self.flags.push(packet.flags.0);
        self.confidence.push(confidence);
        self.flight_size.push(flight_size);
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

columns! {
    /// One row per ACK to the flow's sender, in captured order.
    AckColumns {
        time_ns: i64,
        ack_offset: i64,
        /// Scaled where the shift is known.
        rwnd: i64,
        /// Duplicate ACKs in a row, this one included; 0: it isn't one.
        dup_count: i64,
        /// Where this row's SACK blocks begin in `sack_edges`; one more entry than rows.
        sack_first: i64,
        /// Left and right edges as offsets, in turn.
        sack_edges: i64,
        /// From sequence numbers, with Karn's rule; -1: no sample.
        rtt_ns: i64,
        /// From timestamps (RFC 7323 section 4); -1: no sample.
        ts_rtt_ns: i64,
        newly_acked: i64,
        /// -1: no timestamps option.
        ts_val: i64,
        ts_ecr: i64,
        /// Whether what it acknowledges was sent again with a later stamp than it echoes (RFC 3522).
        echoes_older: bool,
        /// Data bytes that the ACK's own segment carries.
        length: i64,
        flags: u16,
        packet: i64,
        /// The highest byte SACKed above the ACK number (0: none), and how many bytes are.
        sack_high: i64,
        sacked: i64,
    }
}

/// One ACK's row, the packet's own fields apart.
pub struct AckRow {
    pub offset: i64,
    pub window: u64,
    pub dup_count: u32,
    pub newly_acked: i64,
    pub rtt: Option<i64>,
    pub ts_rtt: Option<i64>,
    pub echoes_older: bool,
}

impl AckColumns {
    /// No rows; the first one's blocks will begin at the beginning.
    pub fn begin(&mut self) {
        self.clear();
        self.sack_first.push(0);
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
        self.echoes_older.push(row.echoes_older);
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
