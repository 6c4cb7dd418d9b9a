//! Per-segment detail of one flow: columns, scoreboard and the cause of each retransmission.

use super::cause::{Cause, Evidence, Recovery, Smoothed};
use super::columns::{AckColumns, SegmentColumns};
use super::outstanding::{Outstanding, Sent};
use super::packet::Packet;

/// RFC 6675 section 3.
const DUP_THRESH: i64 = 3;

#[derive(Clone, Debug)]
pub struct Detail {
    pub segments: SegmentColumns,
    pub acks: AckColumns,
    recovery: Recovery,
    smoothed: Smoothed,
    smallest_rtt: i64,
    /// The handshake's whole round trip: below it no sender's RTT lies, wherever the tap is.
    pub handshake_rtt: i64,
    pipe: i64,
    uses_sack: bool,
    smss: i64,
    /// When a gap was left below the highest byte, and the IP identification of the packet above it.
    gap_at: i64,
    gap_ip_id: u16,
    ack_at: Option<i64>,
    dup_count: u32,
    /// Every segment that ends at or below this has been marked lost or SACKed.
    lost_below: i64,
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            segments: SegmentColumns::default(),
            acks: AckColumns {
                sack_first: vec![0],
                ..AckColumns::default()
            },
            recovery: Recovery::default(),
            smoothed: Smoothed::default(),
            smallest_rtt: 0,
            handshake_rtt: 0,
            pipe: 0,
            uses_sack: false,
            smss: 0,
            gap_at: 0,
            gap_ip_id: 0,
            ack_at: None,
            dup_count: 0,
            lost_below: i64::MIN,
        }
    }
}

impl Detail {
    pub fn into_columns(self) -> (SegmentColumns, AckColumns) {
        (self.segments, self.acks)
    }

    /// The smoothed RTT as the sender must at least see it.
    fn rtt(&self) -> Smoothed {
        let (to_receiver, srtt) = (self.smallest_rtt, self.smoothed.srtt);
        Smoothed {
            srtt: srtt.max(self.handshake_rtt),
            // Without a handshake it is anyone's guess: a quarter of what is seen on the other side.
            to_sender: match self.handshake_rtt {
                0 => srtt / 4,
                whole => (whole - to_receiver).max(0),
            },
            ..self.smoothed
        }
    }

    pub fn on_new(
        &mut self,
        packet: &Packet<'_>,
        start: i64,
        snd_una: i64,
        snd_max: i64,
        outstanding: &Outstanding,
        is_probe: bool,
    ) {
        if outstanding.len() > 1 {
            let before = outstanding.get(outstanding.len() - 2);
            if before.end() < start {
                self.gap_at = packet.time;
                self.gap_ip_id = packet.ip_id;
            }
        }
        self.smss = self.smss.max(i64::from(packet.len));
        let cause = if is_probe {
            (Cause::WindowProbe, 0.9)
        } else {
            (Cause::None, 1.0)
        };
        self.row(
            packet,
            start + i64::from(packet.is_syn()),
            cause,
            snd_una,
            snd_max,
            outstanding,
        );
    }

    /// A second capture, or a keep-alive.
    pub fn on_copy(
        &mut self,
        packet: &Packet<'_>,
        data: i64,
        snd_una: i64,
        snd_max: i64,
        outstanding: &Outstanding,
        is_second_capture: bool,
    ) {
        let cause = match (is_second_capture, packet.ip_id) {
            (true, 0) => (Cause::DuplicateCapture, 0.7),
            (true, _) => (Cause::DuplicateCapture, 0.95),
            (false, _) => (Cause::KeepAlive, 0.9),
        };
        self.row(packet, data, cause, snd_una, snd_max, outstanding);
    }

    /// The cause of a range that was sent before or lies in a gap, from what was known before it came.
    #[expect(clippy::too_many_arguments, reason = "the evidence")]
    pub fn judge(
        &mut self,
        packet: &Packet<'_>,
        start: i64,
        end: i64,
        is_again: bool,
        (snd_una, snd_max): (i64, i64),
        dup_count: u32,
        outstanding: &Outstanding,
    ) -> (Cause, f32) {
        if packet.is_syn() {
            return (Cause::Rto, 0.9);
        }
        let rtt = self.rtt();
        if !is_again {
            return self.judge_unseen(packet, start, snd_una, rtt);
        }
        let range = outstanding.range(start, end);
        let sent_at = if range.is_empty() {
            i64::MIN / 2
        } else {
            outstanding.get(range.start).time
        };
        let sacked_above = outstanding
            .iter()
            .rev()
            .take_while(|sent| sent.start >= end)
            .filter(|sent| sent.is(Sent::SACKED))
            .map(|sent| i64::from(sent.len))
            .sum();
        let evidence = Evidence {
            now: packet.time,
            start,
            end,
            snd_una,
            snd_max,
            sent_at,
            ack_at: self.ack_at,
            dup_count,
            sacked_above,
            uses_sack: self.uses_sack,
            smss: self.smss.max(1),
        };
        let was_fast = self.recovery.is_fast();
        let verdict = self.recovery.classify(&evidence, rtt);
        if was_fast && verdict.0 == Cause::GoBackN {
            // What looked like NewReno's answer to a partial ACK was the first segment of Tahoe's slow start.
            self.segments.goes_back_n();
        }
        verdict
    }

    /// Bytes that fill a gap: swapped on the way to the tap, or a retransmission of a packet lost before it.
    fn judge_unseen(
        &mut self,
        packet: &Packet<'_>,
        start: i64,
        snd_una: i64,
        rtt: Smoothed,
    ) -> (Cause, f32) {
        let waited = packet.time - self.gap_at;
        // A sender that counts its packets gives a swapped one the lower number.
        let counts_back = packet.ip_id != 0
            && self.gap_ip_id != 0
            && (packet.ip_id.wrapping_sub(self.gap_ip_id) as i16) < 0;
        let soon = 3_000_000.max(rtt.srtt / 4);
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

    /// After the ring knows the new transmission.
    pub fn on_again(
        &mut self,
        packet: &Packet<'_>,
        data: i64,
        (cause, confidence): (Cause, f32),
        snd_una: i64,
        snd_max: i64,
        outstanding: &mut Outstanding,
    ) {
        if cause == Cause::Rto {
            // RFC 6298 (5.4) to (5.7) with RFC 5681: everything in flight counts as lost.
            for index in 0..outstanding.len() {
                outstanding.change(index, |sent| {
                    if sent.time < packet.time {
                        sent.marks = (sent.marks | Sent::LOST) & !Sent::RESENT;
                    }
                });
            }
        }
        for index in outstanding.range(data, data + i64::from(packet.len)) {
            outstanding.change(index, |sent| {
                if sent.transmissions > 1 {
                    sent.marks |= Sent::LOST | Sent::RESENT;
                }
            });
        }
        self.row(
            packet,
            data,
            (cause, confidence),
            snd_una,
            snd_max,
            outstanding,
        );
    }

    /// Marks what SACK blocks report, and what RFC 6675 `IsLost` follows from it.
    pub fn on_sack(
        &mut self,
        blocks: impl Iterator<Item = (i64, i64)>,
        outstanding: &mut Outstanding,
    ) {
        self.uses_sack = true;
        let edges = &mut self.acks.sack_edges;
        for (left, right) in blocks {
            edges.extend([left, right]);
            for index in outstanding.range(left, right) {
                outstanding.change(index, |sent| {
                    if left <= sent.start && sent.end() <= right {
                        sent.marks |= Sent::SACKED;
                    }
                });
            }
        }
        // RFC 6675 section 4 `IsLost`: DupThresh segments, or more than (DupThresh - 1) * SMSS bytes, SACKed above.
        // What lies below the highest one found before was marked then.
        let (mut segments, mut bytes) = (0, 0);
        let mut lost_below = self.lost_below;
        for index in (0..outstanding.len()).rev() {
            let sent = *outstanding.get(index);
            if sent.end() <= self.lost_below {
                break;
            }
            if sent.is(Sent::SACKED) {
                segments += 1;
                bytes += i64::from(sent.len);
            } else if segments >= DUP_THRESH || bytes > (DUP_THRESH - 1) * self.smss {
                outstanding.change(index, |sent| sent.marks |= Sent::LOST);
                lost_below = lost_below.max(sent.end());
            }
        }
        self.lost_below = lost_below;
    }

    #[expect(clippy::too_many_arguments, reason = "a row")]
    pub fn on_ack(
        &mut self,
        packet: &Packet<'_>,
        offset: i64,
        window: u64,
        dup_count: u32,
        newly_acked: i64,
        (rtt, ts_rtt): (Option<i64>, Option<i64>),
        snd_una: i64,
    ) {
        if let Some(sample) = rtt.or(ts_rtt) {
            self.smallest_rtt = if self.smoothed.srtt == 0 {
                sample
            } else {
                self.smallest_rtt.min(sample)
            };
            self.smoothed.add(sample);
        }
        if newly_acked > 0 {
            self.recovery.on_ack(packet.time, snd_una);
        }
        self.ack_at = Some(packet.time);
        self.dup_count = dup_count;
        let acks = &mut self.acks;
        acks.time_ns.push(packet.time);
        acks.ack_offset.push(offset);
        acks.rwnd.push(i64::try_from(window).unwrap_or(i64::MAX));
        acks.dup_count.push(i64::from(dup_count));
        acks.sack_first
            .push(i64::try_from(acks.sack_edges.len()).expect("fits memory"));
        acks.rtt_ns.push(rtt.unwrap_or(-1));
        acks.ts_rtt_ns.push(ts_rtt.unwrap_or(-1));
        acks.newly_acked.push(newly_acked);
        let (ts_val, ts_ecr) = packet
            .has_ts
            .then_some((packet.ts_val, packet.ts_ecr))
            .unzip();
        acks.ts_val.push(ts_val.map_or(-1, i64::from));
        acks.ts_ecr.push(ts_ecr.map_or(-1, i64::from));
        acks.length.push(i64::from(packet.len));
        acks.flags.push(packet.flags.0);
        acks.packet.push(packet.index as i64);
    }

    fn row(
        &mut self,
        packet: &Packet<'_>,
        data: i64,
        cause: (Cause, f32),
        snd_una: i64,
        snd_max: i64,
        outstanding: &Outstanding,
    ) {
        if packet.len == 0 {
            return;
        }
        let flight_size = (snd_max - snd_una).max(0);
        self.pipe = self.pipe_now(flight_size, outstanding);
        let timestamps = packet.has_ts.then_some((packet.ts_val, packet.ts_ecr));
        self.segments.push(
            packet.time,
            data,
            packet.len,
            packet.flags.0,
            cause,
            flight_size,
            self.pipe,
            timestamps,
            packet.ip_id,
            packet.index,
        );
    }

    fn pipe_now(&self, flight_size: i64, outstanding: &Outstanding) -> i64 {
        if self.uses_sack || self.recovery.is_after_timeout() {
            return outstanding.pipe();
        }
        // Without SACK each duplicate ACK stands for one segment that has left (RFC 5681 section 3.2 step 4).
        (flight_size - i64::from(self.dup_count) * self.smss).max(0)
    }
}
