//! One direction of a connection: the data that one side sent and the ACKs that came back.
//!
//! Offset 0 is the first byte of data (the SYN stands at -1), or the first byte seen where the capture starts in
//! the middle.

use super::columns::{AckColumns, SegmentColumns};
use super::counts::Counts;
use super::detail::Detail;
use super::intervals::IntervalSet;
use super::outstanding::{Outstanding, Sent};
use super::packet::Packet;
use super::sequence::{unwrap, wrap};
use crate::wire::TcpOptions;

#[derive(Clone, Debug, Default)]
pub struct Flow {
    pub counts: Counts,
    base: Option<u32>,
    pub isn: Option<u32>,
    snd_una: i64,
    has_una: bool,
    /// One past the last payload byte, once a FIN was seen.
    fin_at: Option<i64>,
    seen: IntervalSet,
    outstanding: Outstanding,
    /// When the latest transmission among all acknowledged bytes was.
    acked_sent_at: i64,
    /// The peer has acknowledged data: the initial window is over.
    is_data_acked: bool,
    dup_count: u32,
    /// The end of a byte sent into a closed window.
    probe_end: i64,
    /// As sender of ACKs: what the window was last (scaled) and the last pure ACKs.
    pub window: Option<u64>,
    pub shift: u8,
    prints: [u64; 2],
    /// Of the peer's ACKs: the window of the last one, raw.
    pub peer_window: u16,
    /// The wire numbers of `snd_max` and `snd_una`.
    pub next_seq: u32,
    pub una_ack: u32,
    /// Packets went before, and no detail is kept: the short ways are open.
    pub is_begun: bool,
    /// Data has been sent and acknowledged.
    pub extends: bool,
    pub detail: Option<Box<Detail>>,
}

/// What an ACK did, for the side that sent it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckOutcome {
    pub is_dup: bool,
    pub is_dsack: bool,
}

impl Flow {
    /// One past the highest byte sent, SYN and FIN included (RFC 9293 `SND.NXT` as the tap sees it).
    #[inline]
    fn snd_max(&self) -> i64 {
        self.seen.end()
    }

    /// Everything sent has been acknowledged.
    pub fn is_quiet(&self) -> bool {
        self.has_una && self.snd_una >= self.snd_max()
    }

    pub fn has_fin(&self) -> bool {
        self.fin_at.is_some()
    }

    pub fn has_sent_data(&self) -> bool {
        self.counts.data_packets > 0
    }

    /// The options of a SYN, and where its sequence space begins.
    pub fn on_syn(&mut self, packet: &Packet<'_>, options: Option<&TcpOptions>) {
        if self.isn != Some(packet.seq) && self.counts.data_packets == 0 {
            // The first SYN, or one with a new number before anything else was said.
            if self.isn.is_some() {
                self.base = None;
                self.seen = IntervalSet::default();
                self.outstanding = Outstanding::default();
            }
            self.isn = Some(packet.seq);
        }
        self.isn.get_or_insert(packet.seq);
        let Some(options) = options else { return };
        self.counts.mss = options.mss.or(self.counts.mss);
        self.counts.sack_permitted |= options.sack_permitted;
    }

    /// Whether `ack` is what the peer of a SYN just sent would acknowledge.
    pub fn expects_ack(&self, ack: u32) -> bool {
        self.isn.is_some_and(|isn| isn.wrapping_add(1) == ack)
    }

    /// Whether the first byte of data has this wire number.
    pub fn starts_at(&self, seq: u32) -> bool {
        self.base == Some(seq)
    }

    /// RFC 9293 section 3.8.4: nothing sent, one below `SND.NXT`, to make the peer answer.
    pub fn is_keep_alive(&self, packet: &Packet<'_>) -> bool {
        packet.is_pure_ack()
            && self.snd_max() > 0
            && self
                .base
                .is_some_and(|base| unwrap(packet.seq, base, self.snd_max()) == self.snd_max() - 1)
    }

    /// Payload bytes in the sequence space seen that the capture does not hold.
    pub fn missing_bytes(&self) -> i64 {
        self.seen.missing()
    }

    /// Whether old gaps were given up to stay within memory.
    pub fn is_approximate(&self) -> bool {
        self.seen.has_joined()
    }

    /// The number of 2^32 wraps that the sequence space made.
    pub fn wraps(&self) -> i64 {
        self.base
            .map_or(0, |base| (i64::from(base) + self.snd_max().max(0)) >> 32)
    }

    pub fn heap_bytes(&self) -> usize {
        self.outstanding.heap_bytes()
            + self.counts.rtt.heap_bytes()
            + self.counts.ts_rtt.heap_bytes()
            + self.seen.count() * size_of::<(i64, i64)>()
    }

    /// Numbers of a packet that this side sent, whatever it carries. Returns whether it is a second capture of a
    /// pure ACK.
    pub fn on_packet(&mut self, packet: &Packet<'_>) -> bool {
        if self.counts.packets() == 0 {
            self.counts.first_time = packet.time;
            self.counts.last_time = packet.time;
        }
        self.pass_time(packet.time);
        let counts = &mut self.counts;
        // A reset's payload is a message to people, not part of the stream (RFC 9293 section 3.5.3).
        if packet.len > 0 && !packet.is_rst() {
            counts.data_packets += 1;
            counts.max_segment = counts.max_segment.max(packet.len);
        } else if packet.is_pure_ack() {
            counts.pure_acks += 1;
        } else {
            counts.other_packets += 1;
        }
        counts.timestamps |= packet.has_ts;
        counts.without_ack += u64::from(!packet.is_ack());
        if packet.is_rst() || !(packet.is_ack() || packet.is_syn()) {
            counts.without_window += 1;
            return false;
        }
        let shift = if packet.is_syn() { 0 } else { self.shift };
        let window = u64::from(packet.window) << shift;
        self.window = Some(window);
        // A SYN's window counts as an offer, unscaled (RFC 7323 section 2.2), but not towards the mean.
        counts.max_window = counts.max_window.max(window);
        if packet.is_syn() {
            counts.without_window += 1;
        } else {
            counts.window_sum += window;
            counts.zero_windows += u64::from(window == 0);
        }
        if let Some(sack) = packet.sack {
            counts.sack_packets += 1;
            counts.sack_blocks += u64::from(sack.count);
        }
        if packet.is_pure_ack() && self.is_noted(packet) {
            self.counts.duplicate_packets += 1;
            return true;
        }
        false
    }

    #[inline]
    fn pass_time(&mut self, now: i64) {
        let counts = &mut self.counts;
        counts.idle_max = counts.idle_max.max(now - counts.last_time);
        counts.last_time = now;
    }

    /// Whether a pure ACK is the second capture of one just seen; if not, it is remembered. A second capture has the
    /// same IP identification; senders that leave it at 0 can't be told apart.
    #[inline]
    fn is_noted(&mut self, packet: &Packet<'_>) -> bool {
        let print = print(packet);
        if packet.ip_id != 0 && self.prints.contains(&print) {
            return true;
        }
        self.prints = [print, self.prints[0]];
        false
    }

    /// Makes the short ways ready after a packet that took the long one.
    pub fn settle(&mut self) {
        self.is_begun = self.detail.is_none() && self.counts.packets() > 0;
        self.extends = self.is_data_acked && self.has_una && !self.seen.is_empty();
        if let Some(base) = self.base {
            self.next_seq = wrap(self.snd_max(), base);
            self.una_ack = wrap(self.snd_una, base);
        }
    }

    /// The short way for new data in order.
    #[inline]
    pub fn extend(&mut self, packet: &Packet<'_>) {
        self.pass_time(packet.time);
        self.offer(packet.window);
        let counts = &mut self.counts;
        counts.data_packets += 1;
        counts.unique_bytes += u64::from(packet.len);
        counts.max_segment = counts.max_segment.max(packet.len);
        let start = self.snd_max();
        self.seen.insert(start, start + i64::from(packet.len));
        self.next_seq = packet.seq.wrapping_add(packet.len);
        self.outstanding
            .push(Self::sent(packet, start, packet.len), true);
    }

    /// The short way for the numbers of a pure ACK that this side sent; false: it may be a second capture.
    #[inline]
    pub fn notes_ack(&mut self, packet: &Packet<'_>) -> bool {
        let print = print(packet);
        if self.prints.contains(&print) {
            return false;
        }
        self.prints = [print, self.prints[0]];
        self.pass_time(packet.time);
        self.offer(packet.window);
        self.counts.pure_acks += 1;
        true
    }

    #[inline]
    fn offer(&mut self, window: u16) {
        let window = u64::from(window) << self.shift;
        self.window = Some(window);
        self.counts.max_window = self.counts.max_window.max(window);
        self.counts.window_sum += window;
    }

    /// Whether an ACK is for data in flight.
    #[inline]
    pub fn advances_to(&self, ack: u32) -> bool {
        let newly = ack.wrapping_sub(self.una_ack) as i32;
        newly > 0 && self.extends && self.snd_una + i64::from(newly) <= self.snd_max()
    }

    /// The short way for such an ACK.
    #[inline]
    pub fn advance(&mut self, packet: &Packet<'_>) {
        let offset = self.snd_una + i64::from(packet.ack.wrapping_sub(self.una_ack));
        self.acknowledge(packet, offset);
        self.snd_una = offset;
        self.una_ack = packet.ack;
        self.dup_count = 0;
        self.peer_window = packet.window;
    }

    /// A segment of this side that takes sequence space; `peer_window` is what the other side last offered.
    #[inline]
    pub fn on_segment(&mut self, packet: &Packet<'_>, peer_window: Option<u64>) {
        let syn = u32::from(packet.is_syn());
        let fin = u32::from(packet.is_fin());
        let base = *self.base.get_or_insert(packet.seq.wrapping_add(syn));
        let start = unwrap(packet.seq, base, self.snd_max());
        let len = packet.len.saturating_add(syn + fin);
        let end = start + i64::from(len);
        let data = start + i64::from(syn);
        if fin == 1 {
            self.fin_at = Some(end - 1);
        }
        if start == self.seen.end() && !self.seen.is_empty() {
            self.seen.insert(start, end);
            self.on_new(packet, start, len, peer_window);
        } else {
            self.on_elsewhere(packet, start, data, len, peer_window);
        }
    }

    /// New data in order.
    #[inline]
    fn on_new(&mut self, packet: &Packet<'_>, start: i64, len: u32, peer_window: Option<u64>) {
        self.counts.unique_bytes += u64::from(packet.len);
        if packet.len == 1 && peer_window == Some(0) {
            self.counts.window_probes += 1;
            self.probe_end = start + 1;
        }
        if packet.len > 0 && !self.is_data_acked {
            self.counts.initial_window_bytes += u64::from(packet.len);
            self.counts.initial_window_segments += 1;
        }
        self.outstanding
            .push(Self::sent(packet, start, len), self.has_una);
        if let Some(detail) = &mut self.detail {
            let is_probe = packet.len == 1 && peer_window == Some(0);
            detail.on_new(
                packet,
                start,
                self.snd_una,
                self.seen.end(),
                &self.outstanding,
                is_probe,
            );
        }
    }

    fn sent(packet: &Packet<'_>, start: i64, len: u32) -> Sent {
        Sent {
            start,
            time: packet.time,
            len,
            ts_val: packet.ts_val,
            ip_id: packet.ip_id,
            transmissions: 1,
            marks: if packet.has_ts { Sent::HAS_TS } else { 0 },
        }
    }

    /// First data, data beyond a gap, data in a gap, or data sent before.
    #[cold]
    fn on_elsewhere(
        &mut self,
        packet: &Packet<'_>,
        start: i64,
        data: i64,
        len: u32,
        peer_window: Option<u64>,
    ) {
        let end = start + i64::from(len);
        if self.seen.is_empty() || start > self.seen.end() {
            self.seen.insert(start, end);
            if !self.has_una && start < self.snd_una {
                self.snd_una = start;
            }
            return self.on_new(packet, start, len, peer_window);
        }
        let data_end = data + i64::from(packet.len);
        let again = self.seen.overlap(data, data_end);
        self.counts.repeated_bytes += again as u64;
        self.counts.unique_bytes += u64::from(packet.len) - again as u64;
        // RFC 9293 section 3.8.4: one byte below SND.NXT, or none, when nothing is outstanding.
        let is_keep_alive =
            packet.len == 1 && end == self.snd_max() && !packet.is_fin() && self.is_quiet();
        let is_copy = self.is_second_capture(packet, start, len);
        self.seen.insert(start, end);
        if is_copy || is_keep_alive {
            self.counts.duplicate_packets += u64::from(is_copy);
            self.counts.keep_alives += u64::from(!is_copy);
            if let Some(detail) = &mut self.detail {
                detail.on_copy(
                    packet,
                    data,
                    self.snd_una,
                    self.seen.end(),
                    &self.outstanding,
                    is_copy,
                );
            }
            return;
        }
        // The byte of a window probe may come again inside the segment that follows it.
        let probed = i64::from(
            again > 0 && data < self.probe_end && self.probe_end <= data_end && packet.len > 1,
        );
        let again_bytes = (again - probed).max(0) as u64;
        let is_again = again_bytes > 0;
        self.counts.retransmissions += u64::from(is_again);
        self.counts.retransmitted_bytes += again_bytes;
        let fills = packet.len > 0 && again == 0 && end < self.snd_max();
        self.counts.out_of_order += u64::from(fills);
        if packet.len > 0 && !is_again && !self.is_data_acked {
            self.counts.initial_window_bytes += u64::from(packet.len);
            self.counts.initial_window_segments += 1;
        }
        let verdict = self.detail.as_mut().map(|detail| {
            detail.judge(
                packet,
                start,
                end,
                is_again,
                (self.snd_una, self.seen.end()),
                self.dup_count,
                &self.outstanding,
            )
        });
        self.send_again(packet, start, len);
        if let (Some(detail), Some(verdict)) = (&mut self.detail, verdict) {
            detail.on_again(
                packet,
                data,
                verdict,
                self.snd_una,
                self.seen.end(),
                &mut self.outstanding,
            );
        }
    }

    /// The same packet captured twice: the copy of a segment in flight with its IP identification, or, where
    /// that is always 0, one sooner than any answer could have asked for.
    fn is_second_capture(&self, packet: &Packet<'_>, start: i64, len: u32) -> bool {
        let range = self.outstanding.range(start, start + i64::from(len));
        if range.len() != 1 {
            return false;
        }
        let sent = self.outstanding.get(range.start);
        let is_same = sent.start == start
            && sent.len == len
            && (!packet.has_ts || sent.ts_val == packet.ts_val);
        if !is_same {
            return false;
        }
        let waited = packet.time - sent.time;
        if packet.ip_id != 0 || sent.ip_id != 0 {
            return packet.ip_id == sent.ip_id && waited < 1_000_000_000;
        }
        let soonest = if self.counts.rtt.count() > 0 {
            self.counts.rtt.min() / 2
        } else {
            1_000_000
        };
        waited < soonest.min(1_000_000)
    }

    /// Notes the new transmission in what is outstanding; adds what was never seen.
    fn send_again(&mut self, packet: &Packet<'_>, start: i64, len: u32) {
        let end = start + i64::from(len);
        if start < self.snd_una
            || self
                .outstanding
                .front()
                .is_none_or(|front| start < front.start)
        {
            // Among acknowledged bytes (or forgotten ones): an ACK from now on may be for this copy.
            self.acked_sent_at = self.acked_sent_at.max(packet.time);
        }
        let mut next = start.max(self.snd_una);
        let mut new = [None; 2];
        for index in self.outstanding.range(start, end) {
            self.outstanding.change(index, |sent| {
                if sent.start > next {
                    // The hole before it. Holes between two more are rare: they keep no RTT sample.
                    new[0].get_or_insert((next, sent.start));
                }
                next = sent.end();
                sent.transmissions = sent.transmissions.saturating_add(1);
                sent.time = packet.time;
                sent.ts_val = packet.ts_val;
                sent.ip_id = packet.ip_id;
                if sent.is(Sent::LOST) {
                    sent.marks |= Sent::RESENT;
                }
            });
        }
        if next < end {
            new[1] = Some((next, end));
        }
        for (from, to) in new.into_iter().flatten() {
            let len = u32::try_from(to - from).expect("a part of one segment");
            self.outstanding.insert(Self::sent(packet, from, len));
        }
    }

    /// An ACK from the peer for this side's data. `window` is scaled.
    #[inline]
    pub fn on_ack(&mut self, packet: &Packet<'_>, window: u64, is_copy: bool) -> AckOutcome {
        let base = *self.base.get_or_insert(packet.ack);
        let offset = unwrap(packet.ack, base, self.snd_max());
        let mut outcome = AckOutcome::default();
        let mut rtt = None;
        let mut ts_rtt = None;
        let mut newly_acked = 0;
        if !self.has_una {
            self.has_una = true;
            self.snd_una = if self.seen.is_empty() {
                offset
            } else {
                self.snd_una.min(offset)
            };
        }
        if offset > self.snd_una {
            newly_acked = self.payload_below(offset) - self.payload_below(self.snd_una);
            (rtt, ts_rtt) = self.acknowledge(packet, offset);
            self.snd_una = offset;
            self.dup_count = 0;
            if offset > 0 {
                self.is_data_acked = true;
            }
        } else if offset == self.snd_una
            && !is_copy
            && packet.is_pure_ack()
            && self.snd_max() > offset
        {
            // RFC 5681 section 2: data outstanding, nothing new in it, the same window; RFC 6675: or new SACK blocks.
            if packet.window == self.peer_window || packet.sack.is_some() {
                self.dup_count += 1;
                outcome.is_dup = true;
            }
        }
        self.peer_window = packet.window;
        if let Some(sack) = packet.sack {
            let edges = sack.as_slice();
            outcome.is_dsack = is_dsack(edges, packet.ack);
            if let Some(detail) = &mut self.detail {
                let offsets = edges.iter().map(|&(left, right)| {
                    (
                        unwrap(left, base, self.seen.end()),
                        unwrap(right, base, self.seen.end()),
                    )
                });
                detail.on_sack(offsets, &mut self.outstanding);
            }
        }
        if let Some(detail) = &mut self.detail {
            let dup_count = if outcome.is_dup { self.dup_count } else { 0 };
            detail.on_ack(
                packet,
                offset,
                window,
                dup_count,
                newly_acked,
                (rtt, ts_rtt),
                self.snd_una,
            );
        }
        outcome
    }

    /// Payload bytes below an offset: neither the SYN nor the FIN.
    fn payload_below(&self, offset: i64) -> i64 {
        let first = if self.isn.is_some() { 0 } else { i64::MIN };
        offset.min(self.fin_at.unwrap_or(i64::MAX)).max(first)
    }

    /// Takes acknowledged segments out; returns the RTT samples.
    #[inline]
    fn acknowledge(&mut self, packet: &Packet<'_>, offset: i64) -> (Option<i64>, Option<i64>) {
        let mut rtt = None;
        let mut ts_rtt = None;
        while let Some(&front) = self.outstanding.front() {
            if front.start >= offset {
                break;
            }
            // RFC 7323 section 4.1: the echoed TSval tells which transmission arrived, retransmitted or not.
            if ts_rtt.is_none()
                && packet.has_ts
                && front.is(Sent::HAS_TS)
                && front.ts_val == packet.ts_ecr
            {
                ts_rtt = Some(packet.time - front.time);
            }
            if front.end() > offset {
                self.outstanding.mark_partly_acked();
                self.acked_sent_at = self.acked_sent_at.max(front.time);
                break;
            }
            // Karn's rule, and no sample either where bytes below were sent later: the ACK waited for those.
            if front.end() == offset
                && front.transmissions == 1
                && !front.is(Sent::PARTLY_ACKED)
                && self.acked_sent_at <= front.time
            {
                rtt = Some(packet.time - front.time);
            }
            self.acked_sent_at = self.acked_sent_at.max(front.time);
            self.outstanding.pop();
        }
        if let Some(sample) = rtt {
            if self.counts.rtt.count() == 0 && offset == 0 && self.isn.is_some() {
                self.counts.handshake_rtt = Some(sample);
            }
            self.counts.rtt.add(sample);
        }
        if let Some(sample) = ts_rtt {
            self.counts.ts_rtt.add(sample);
        }
        (rtt, ts_rtt)
    }

    pub fn columns(&self) -> Option<(&SegmentColumns, &AckColumns)> {
        self.detail
            .as_ref()
            .map(|detail| (&detail.segments, &detail.acks))
    }
}

/// What a second capture of a pure ACK shares with the first.
#[inline]
fn print(packet: &Packet<'_>) -> u64 {
    u64::from(packet.ip_id) << 48 | u64::from(packet.window) << 32 | u64::from(packet.ack)
}

/// RFC 2883 section 4: the first block is below the cumulative ACK, or inside the second.
fn is_dsack(edges: &[(u32, u32)], ack: u32) -> bool {
    let Some(&(left, right)) = edges.first() else {
        return false;
    };
    let below = (ack.wrapping_sub(right) as i32) >= 0;
    let inside = edges.get(1).is_some_and(|second| {
        (left.wrapping_sub(second.0) as i32) >= 0 && (second.1.wrapping_sub(right) as i32) >= 0
    });
    below || inside
}
