//! Per-segment columns of one flow: kept only for the connections asked for.

use super::cause::Cause;

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
    /// The partial ACKs' segments since the last fast retransmission had another cause.
    pub fn goes_back_n(&mut self) {
        let (new, partial) = (Cause::None as u8, Cause::PartialAck as u8);
        let rows = self.cause.iter_mut().zip(&mut self.confidence).rev();
        for (cause, confidence) in rows.take_while(|row| [new, partial].contains(row.0)) {
            if *cause == partial {
                (*cause, *confidence) = (Cause::GoBackN as u8, 0.8);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a row")]
    pub fn push(
        &mut self,
        time_ns: i64,
        offset: i64,
        length: u32,
        flags: u16,
        (cause, confidence): (Cause, f32),
        flight_size: i64,
        pipe: i64,
        timestamps: Option<(u32, u32)>,
        ip_id: u16,
        packet: u64,
    ) {
        self.time_ns.push(time_ns);
        self.offset.push(offset);
        self.length.push(i64::from(length));
        self.flags.push(flags);
        self.is_retransmission.push(cause.is_retransmission());
        self.cause.push(cause as u8);
        self.confidence.push(confidence);
        self.flight_size.push(flight_size);
        self.pipe.push(pipe);
        let (ts_val, ts_ecr) = timestamps.unzip();
        self.ts_val.push(ts_val.map_or(-1, i64::from));
        self.ts_ecr.push(ts_ecr.map_or(-1, i64::from));
        self.ip_id.push(ip_id.into());
        self.packet.push(packet as i64);
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
}
