//! What came back to a flow's sender: ACKs, the round trips they measure, duplicates and SACK blocks.

use super::flow::Flow;
use super::outstanding::Sent;
use super::packet::Packet;
use super::sequence::unwrap;

/// What an ACK did, for the side that sent it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckOutcome {
    pub is_dup: bool,
    pub is_dsack: bool,
}

impl Flow {
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
        // A second capture of an ACK is no second ACK.
        if let Some(detail) = self.detail.as_mut().filter(|_| !is_copy) {
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
