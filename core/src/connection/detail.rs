//! Rows of one flow, packet by packet.

use super::columns::{AckColumns, AckRow, Keep, SegmentColumns};
use super::packet::TcpPacket;
use crate::infer::Cause;
use crate::threshold::threshold;

// Paths swap packets within milliseconds; no answer to a hole comes sooner than in this part of a round trip, which may
// be known too long.
threshold!(SWAPPED_NS: i64 = 3_000_000, Nanoseconds);
threshold!(SWAPPED_PARTS: i64 = 4, Count);

/// What comes so soon behind what left after it was overtaken, where nothing numbers the packets.
pub fn swapped_ns(turn_ns: i64) -> i64 {
    SWAPPED_NS.get().max(turn_ns / SWAPPED_PARTS.get())
}

#[derive(Clone, Debug)]
pub struct Detail {
    pub keep: Keep,
    pub segments: SegmentColumns,
    pub acks: AckColumns,
    /// RFC 6298 section 2.
    srtt: i64,
    /// The handshake's whole round trip: below it no sender's RTT lies, wherever the tap is.
    pub handshake_rtt: i64,
    /// When a gap was left below the highest byte, and the IP identification of the packet above it.
    gap_at: i64,
    gap_ip_id: u16,
}

impl Detail {
    pub fn new(keep: Keep) -> Option<Box<Self>> {
        (keep != Keep::Nothing).then(|| {
            let mut acks = AckColumns::default();
            acks.begin();
            Box::new(Self {
                keep,
                segments: SegmentColumns::default(),
                acks,
                srtt: 0,
                handshake_rtt: 0,
                gap_at: 0,
                gap_ip_id: 0,
            })
        })
    }

    /// The rows so far are not needed any more; their places are for the next.
    pub fn forget_rows(&mut self) {
        self.segments.clear();
        self.acks.begin();
    }

    /// New data that leaves a gap behind it.
    pub fn on_gap(&mut self, packet: &TcpPacket<'_>) {
        self.gap_at = packet.time;
        self.gap_ip_id = packet.ip_id;
    }

    pub fn on_new(
        &mut self,
        packet: &TcpPacket<'_>,
        start: i64,
        (snd_una, snd_max): (i64, i64),
        is_probe: bool,
    ) {
        let cause = if is_probe {
            (Cause::WindowProbe, 0.9)
        } else {
            (Cause::None, 1.0)
        };
        let data = start + i64::from(packet.is_syn());
        self.row(packet, data, cause, snd_una, snd_max);
    }

    /// A second capture, or a keep-alive.
    pub fn on_copy(
        &mut self,
        packet: &TcpPacket<'_>,
        data: i64,
        snd_una: i64,
        snd_max: i64,
        is_second_capture: bool,
    ) {
        let cause = match (is_second_capture, packet.ip_id) {
            (true, 0) => (Cause::DuplicateCapture, 0.7),
            (true, _) => (Cause::DuplicateCapture, 0.95),
            (false, _) => (Cause::KeepAlive, 0.9),
        };
        self.row(packet, data, cause, snd_una, snd_max);
    }

    /// A byte or segment into a closed window once more.
    pub fn on_probe(&mut self, packet: &TcpPacket<'_>, data: i64, snd_una: i64, snd_max: i64) {
        self.row(packet, data, (Cause::WindowProbe, 0.9), snd_una, snd_max);
    }

    /// A range that was sent before (why, the loss events tell) or lies in a gap.
    pub fn on_again(
        &mut self,
        packet: &TcpPacket<'_>,
        data: i64,
        is_again: bool,
        snd_una: i64,
        snd_max: i64,
    ) {
        let cause = if is_again {
            (Cause::Unknown, 0.3)
        } else {
            self.judge_unseen(packet, data, snd_una)
        };
        self.row(packet, data, cause, snd_una, snd_max);
    }

    /// Bytes that fill a gap: swapped on the way to the tap, or a retransmission of a packet lost before it.
    fn judge_unseen(&self, packet: &TcpPacket<'_>, start: i64, snd_una: i64) -> (Cause, f32) {
        let waited = packet.time - self.gap_at;
        // A sender that counts its packets gives a swapped one the lower number.
        let counts_back = packet.ip_id != 0
            && self.gap_ip_id != 0
            && (packet.ip_id.wrapping_sub(self.gap_ip_id) as i16) < 0;
        let turn = self.srtt.max(self.handshake_rtt);
        let soon = swapped_ns(turn);
        if start < snd_una {
            // Acknowledged although the tap had not seen it: it took another way, or the tap dropped the first copy.
            return (Cause::OutOfOrder, 0.6);
        }
        match (counts_back, waited < soon) {
            (true, true) => (Cause::OutOfOrder, 0.95),
            (true, false) => (Cause::OutOfOrder, 0.6),
            (false, true) => (Cause::OutOfOrder, 0.7),
            (false, false) => (
                Cause::LostBeforeTap,
                if packet.ip_id == 0 { 0.7 } else { 0.85 },
            ),
        }
    }

    /// An ACK without data, by the flow's sender.
    pub fn on_bare(&mut self, packet: &TcpPacket<'_>) {
        if self.keep == Keep::Rows {
            self.segments.bare_ns.push(packet.time);
        }
    }

    pub fn on_ack(&mut self, packet: &TcpPacket<'_>, row: &AckRow, blocks: &[(i64, i64)]) {
        if let Some(sample) = row.rtt.or(row.ts_rtt) {
            self.srtt = match self.srtt {
                0 => sample,
                srtt => srtt + (sample - srtt) / 8,
            }
            .max(1);
        }
        self.acks.push(packet, row, blocks, self.keep);
    }

    fn row(
        &mut self,
        packet: &TcpPacket<'_>,
        data: i64,
        cause: (Cause, f32),
        snd_una: i64,
        snd_max: i64,
    ) {
        if packet.len == 0 {
            return;
        }
        let flight_size = (snd_max - snd_una).max(0);
        self.segments
            .push(packet, data, cause, flight_size, self.keep);
    }
}
