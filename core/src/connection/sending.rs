//! What a flow's sender sent: new data, data sent again, data in gaps, and copies of the capture.

use super::flow::Flow;
use super::outstanding::SentSegment;
use super::packet::TcpPacket;
use super::sequence::unwrap;
use crate::recovery::LEAST_RTO_NS;
use crate::threshold::threshold;

// Copies of one packet come microseconds apart, those of a router's two sides less than this; a timer is slower.
threshold!(COPY_NS: i64 = 1_000_000, Nanoseconds);

/// What the other side has last said.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its offered window, scaled.
    pub window: Option<u64>,
    pub last_ns: i64,
    /// How long after its SYN passed the tap this side's answer did.
    pub asks_ns: Option<i64>,
}

impl Flow {
    /// The short way for new data in order.
    #[inline]
    pub fn extend(&mut self, packet: &TcpPacket<'_>) {
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
        if let Some(detail) = &mut self.detail {
            detail.on_new(packet, start, (self.snd_una, self.seen.end()), false);
        }
    }

    /// A segment of this side that takes sequence space; `peer` is what the other side has last said.
    #[inline]
    pub fn on_segment(&mut self, packet: &TcpPacket<'_>, peer: Peer) {
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
            self.on_new(packet, start, len, peer);
        } else {
            self.on_elsewhere(packet, start, data, len, peer);
        }
    }

    /// New data in order.
    #[inline]
    fn on_new(&mut self, packet: &TcpPacket<'_>, start: i64, len: u32, peer: Peer) {
        self.counts.unique_bytes += u64::from(packet.len);
        if packet.len == 1 && peer.window == Some(0) {
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
            let is_probe = packet.len == 1 && peer.window == Some(0);
            detail.on_new(packet, start, (self.snd_una, self.seen.end()), is_probe);
        }
    }

    fn sent(packet: &TcpPacket<'_>, start: i64, len: u32) -> SentSegment {
        SentSegment {
            start,
            time: packet.time,
            len,
            ts_val: packet.ts_val,
            ip_id: packet.ip_id,
            transmissions: 1,
            marks: stamped(packet),
        }
    }

    /// First data, data beyond a gap, data in a gap, or data sent before.
    #[cold]
    fn on_elsewhere(
        &mut self,
        packet: &TcpPacket<'_>,
        start: i64,
        data: i64,
        len: u32,
        peer: Peer,
    ) {
        let end = start + i64::from(len);
        if self.seen.is_empty() || start > self.seen.end() {
            if let Some(detail) = self.detail.as_mut().filter(|_| !self.seen.is_empty()) {
                detail.on_gap(packet);
            }
            self.seen.insert(start, end);
            if !self.has_una && start < self.snd_una {
                self.snd_una = start;
            }
            return self.on_new(packet, start, len, peer);
        }
        let data_end = data + i64::from(packet.len);
        let again = self.seen.overlap(data, data_end);
        self.counts.repeated_bytes += again as u64;
        self.counts.unique_bytes += u64::from(packet.len) - again as u64;
        // RFC 9293 section 3.8.4: one byte below SND.NXT, or none, when nothing is outstanding.
        let is_keep_alive =
            packet.len == 1 && end == self.snd_max() && !packet.is_fin() && self.is_quiet();
        let is_copy = self.is_second_capture(packet, start, len, peer);
        if !is_copy && again > 0 && self.is_probe(packet, start, peer) {
            self.counts.window_probes += 1;
            if let Some(detail) = &mut self.detail {
                detail.on_probe(packet, data, self.snd_una, self.seen.end());
            }
            return;
        }
        self.seen.insert(start, end);
        if is_copy || is_keep_alive {
            self.counts.duplicate_packets += u64::from(is_copy);
            self.counts.keep_alives += u64::from(!is_copy);
            if let Some(detail) = &mut self.detail {
                detail.on_copy(packet, data, self.snd_una, self.seen.end(), is_copy);
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
        if let Some(detail) = &mut self.detail {
            detail.on_again(packet, data, is_again, self.snd_una, self.seen.end());
        }
        self.send_again(packet, start, len);
        self.last_again = Some((start, Self::sent(packet, start, len)));
    }

    /// RFC 9293 section 3.8.6.1: the first unacknowledged byte, or all of its segment, into a closed window again. A timer
    /// sends it: what an ACK asks for is sent at once, however small the window is by then.
    fn is_probe(&self, packet: &TcpPacket<'_>, start: i64, peer: Peer) -> bool {
        peer.window == Some(0)
            && start <= self.snd_una
            && self.snd_una < start + i64::from(packet.len)
            && packet.time - peer.last_ns >= LEAST_RTO_NS.get()
    }

    /// The same packet captured twice: the copy of a segment in flight with its IP identification, or, where
    /// that is always 0, one sooner than any answer could have asked for; so too where offload cut the one elsewhere
    /// than the other.
    fn is_second_capture(&self, packet: &TcpPacket<'_>, start: i64, len: u32, peer: Peer) -> bool {
        let end = start + i64::from(len);
        let range = self.outstanding.range(start, end);
        let again = self
            .last_again
            .filter(|(at, sent)| *at == start && sent.len == len);
        let sent = match again {
            // A part of a super-segment sent again is no entry of its own among what is outstanding.
            Some((_, sent)) => sent,
            None if range.len() == 1 => *self.outstanding.get(range.start),
            // At a receiver the answer may pass before the copy does.
            None => match self.outstanding.answered(start) {
                Some(sent) => *sent,
                None => return self.is_cut_elsewhere(packet, (start, end), peer),
            },
        };
        let is_same = sent.start == start
            && sent.len == len
            && (!packet.has_ts || sent.ts_val == packet.ts_val);
        if !is_same {
            return self.is_cut_elsewhere(packet, (start, end), peer);
        }
        let waited = packet.time - sent.time;
        // A counter passes 0 now and then: the others in flight have numbers then.
        let is_counted = [self.outstanding.front(), self.outstanding.last()]
            .iter()
            .flatten()
            .any(|other| other.ip_id != 0);
        if packet.ip_id != 0 || sent.ip_id != 0 || is_counted {
            return packet.ip_id == sent.ip_id && waited < 1_000_000_000;
        }
        waited < self.soonest_answer(peer)
    }

    /// Whether every byte of a range left so short a time ago that nothing can have asked for it again.
    fn is_cut_elsewhere(
        &self,
        packet: &TcpPacket<'_>,
        (start, end): (i64, i64),
        peer: Peer,
    ) -> bool {
        let mut reached = start;
        for index in self.outstanding.range(start, end) {
            let sent = self.outstanding.get(index);
            // Of one that was sent again in part it is not known which part.
            if sent.start > reached
                || sent.transmissions > 1
                || packet.time - sent.time >= self.soonest_answer(peer)
            {
                return false;
            }
            reached = sent.end();
        }
        reached >= end && start < end
    }

    /// Nothing that was sent again for an answer comes sooner: from the tap to the receiver and back, and to the sender.
    fn soonest_answer(&self, peer: Peer) -> i64 {
        // With nothing behind it that can have asked for it a timer would have.
        if self.outstanding.is_empty() || self.counts.rtt.is_empty() {
            COPY_NS.get()
        } else {
            let there_ns = self
                .counts
                .rtt
                .min()
                .saturating_add(peer.asks_ns.unwrap_or(0));
            (there_ns / 2).min(COPY_NS.get())
        }
    }

    /// Notes the new transmission in what is outstanding; adds what was never seen.
    fn send_again(&mut self, packet: &TcpPacket<'_>, start: i64, len: u32) {
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
                // A stamp that was cut off, or taken away, is none: the copy before had another.
                sent.marks &= !(SentSegment::WITHOUT_FIRST | SentSegment::HAS_TS);
                sent.marks |= stamped(packet);
                if start > sent.start {
                    sent.marks |= SentSegment::WITHOUT_FIRST;
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
}

/// The mark of a packet that shows a stamp.
fn stamped(packet: &TcpPacket<'_>) -> u8 {
    if packet.has_ts {
        SentSegment::HAS_TS
    } else {
        0
    }
}
