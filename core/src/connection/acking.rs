//! What came back to a flow's sender: ACKs, the round trips they measure, duplicates and SACK blocks.

use super::columns::AckRow;
use super::flow::Flow;
use super::outstanding::SentSegment;
use super::packet::TcpPacket;
use super::sequence::unwrap;
use crate::infer::{AckContent, above, received_twice};
use crate::recovery::LEAST_RTO_NS;

/// What an ACK did, for the side that sent it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckOutcome {
    pub is_dup: bool,
    pub is_dsack: bool,
}

/// What the segments that an ACK takes out tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acknowledged {
    pub rtt: Option<i64>,
    pub ts_rtt: Option<i64>,
    /// The first of them was sent again, with a later stamp than is echoed.
    pub echoes_older: bool,
}

/// RFC 7323 section 2.3.
const LARGEST_WINDOW: i64 = 1 << 30;

/// An ACK's SACK blocks as offsets.
#[derive(Default)]
struct Blocks {
    edges: [(i64, i64); 4],
    count: usize,
}

impl Blocks {
    fn as_slice(&self) -> &[(i64, i64)] {
        &self.edges[..self.count]
    }
}

fn is_dsack(offset: i64, blocks: &[(i64, i64)]) -> bool {
    blocks
        .first()
        .is_some_and(|&first| received_twice(offset, first, blocks.get(1).copied()).is_some())
}

impl Flow {
    /// Whether an ACK is for data in flight.
    #[inline]
    pub fn advances_to(&self, ack: u32) -> bool {
        let newly = ack.wrapping_sub(self.una_ack) as i32;
        newly > 0 && self.extends && self.snd_una + i64::from(newly) <= self.snd_max()
    }

    /// The short way for such an ACK; `window`, as in `on_ack`.
    #[inline]
    pub fn advance(&mut self, packet: &TcpPacket<'_>, window: Option<u64>) {
        let offset = self.snd_una + i64::from(packet.ack.wrapping_sub(self.una_ack));
        let told = self.acknowledge(packet, offset);
        let before = std::mem::replace(&mut self.snd_una, offset);
        self.una_ack = packet.ack;
        self.dup_count = 0;
        self.hear(packet, window, told, before);
    }

    /// Notes an ACK without SACK blocks as the one before the next; `before`: what had been acknowledged.
    #[inline]
    pub fn hear(
        &mut self,
        packet: &TcpPacket<'_>,
        window: Option<u64>,
        told: Acknowledged,
        before: i64,
    ) {
        let offset = self.snd_una;
        self.answer = AckContent {
            offset,
            window: packet.window.into(),
            ..AckContent::default()
        };
        if self.detail.is_some() {
            let row = AckRow {
                offset,
                window: window.unwrap_or(u64::from(packet.window)),
                dup_count: 0,
                newly_acked: self.payload_below(offset) - self.payload_below(before),
                rtt: told.rtt,
                ts_rtt: told.ts_rtt,
                echoes_older: told.echoes_older,
            };
            if let Some(detail) = &mut self.detail {
                detail.on_ack(packet, &row, &[]);
            }
        }
    }

    /// Whether an ACK reports data received twice (RFC 2883); takes nothing from it.
    #[cold]
    pub fn tells_copy(&self, packet: &TcpPacket<'_>) -> bool {
        let Some(base) = self.base.filter(|_| packet.is_ack()) else {
            return false;
        };
        let blocks = self.blocks(packet, base);
        is_dsack(unwrap(packet.ack, base, self.snd_max()), blocks.as_slice())
    }

    /// An ACK from the peer for this side's data. `window` is scaled.
    #[inline]
    pub fn on_ack(&mut self, packet: &TcpPacket<'_>, window: u64, is_copy: bool) -> AckOutcome {
        let base = *self.base.get_or_insert(packet.ack);
        let offset = unwrap(packet.ack, base, self.snd_max());
        let mut outcome = AckOutcome::default();
        let mut told = Acknowledged::default();
        let mut newly_acked = 0;
        if !self.has_una {
            self.has_una = true;
            self.counts.first_acked = packet.time;
            self.snd_una = if self.seen.is_empty() {
                offset
            } else {
                self.snd_una.min(offset)
            };
        }
        let is_news = offset > self.snd_una;
        if is_news {
            newly_acked = self.payload_below(offset) - self.payload_below(self.snd_una);
            told = self.acknowledge(packet, offset);
            self.snd_una = offset;
            self.dup_count = 0;
            if offset > 0 {
                self.is_data_acked = true;
            }
        }
        let blocks = self.blocks(packet, base);
        let blocks = blocks.as_slice();
        let (sack_high, sacked) = above(offset, blocks);
        let answer = AckContent {
            offset,
            window: packet.window.into(),
            sack_high,
            sacked,
        };
        let is_bare = packet.is_pure_ack() && !is_copy;
        let before = std::mem::replace(&mut self.answer, answer);
        if !is_news && answer.is_duplicate(&before, is_bare, self.snd_una, self.snd_max()) {
            self.dup_count += 1;
            outcome.is_dup = true;
        }
        outcome.is_dsack = is_dsack(offset, blocks);
        // A second capture of an ACK is no second ACK.
        if let Some(detail) = self.detail.as_mut().filter(|_| !is_copy) {
            let row = AckRow {
                offset,
                window,
                dup_count: if outcome.is_dup { self.dup_count } else { 0 },
                newly_acked,
                rtt: told.rtt,
                ts_rtt: told.ts_rtt,
                echoes_older: told.echoes_older,
            };
            detail.on_ack(packet, &row, blocks);
        }
        outcome
    }

    fn blocks(&self, packet: &TcpPacket<'_>, base: u32) -> Blocks {
        let mut found = Blocks::default();
        let Some(sack) = packet.sack else {
            return found;
        };
        let end = self.seen.end();
        for &(left, right) in sack.as_slice() {
            let edges = (unwrap(left, base, end), unwrap(right, base, end));
            // RFC 2018 section 3: a block is within the window, its right edge behind the left one. Others are damaged.
            if (1..=LARGEST_WINDOW).contains(&(edges.1 - edges.0))
                && found.count < found.edges.len()
            {
                found.edges[found.count] = edges;
                found.count += 1;
            }
        }
        found
    }

    /// Payload bytes below an offset: neither the SYN nor the FIN.
    fn payload_below(&self, offset: i64) -> i64 {
        let first = if self.isn.is_some() { 0 } else { i64::MIN };
        offset.min(self.fin_at.unwrap_or(i64::MAX)).max(first)
    }

    /// Takes acknowledged segments out; `snd_una` has not been moved yet.
    #[inline]
    fn acknowledge(&mut self, packet: &TcpPacket<'_>, offset: i64) -> Acknowledged {
        let mut rtt = None;
        let mut ts_rtt = None;
        let first = self.outstanding.front();
        let echoes_older = first.is_some_and(|first| {
            first.transmissions > 1 && first.start == self.snd_una && first.is_later_than(packet)
        });
        while let Some(&front) = self.outstanding.front() {
            if front.start >= offset {
                break;
            }
            // RFC 7323 section 4.1: the echoed TSval tells which transmission arrived, retransmitted or not.
            if ts_rtt.is_none()
                && packet.has_ts
                && front.is(SentSegment::HAS_TS)
                && front.ts_val == packet.ts_ecr
            {
                ts_rtt = Some(packet.time.saturating_sub(front.time));
            }
            if front.end() > offset {
                self.outstanding.mark_partly_acked();
                self.acked_sent_at = self.acked_sent_at.max(front.time);
                break;
            }
            // Karn's rule, and no sample either where bytes below were sent later: the ACK waited for those.
            if front.end() == offset
                && front.transmissions == 1
                && !front.is(SentSegment::PARTLY_ACKED)
                && self.acked_sent_at <= front.time
            {
                rtt = Some(packet.time.saturating_sub(front.time));
            }
            self.acked_sent_at = self.acked_sent_at.max(front.time);
            self.outstanding.pop();
        }
        if let Some(sample) = rtt {
            if self.counts.rtt.is_empty() && offset == 0 && self.isn.is_some() {
                // None where the clock was set back; what stamps err by is less than any timer waits.
                let is_known = sample > -LEAST_RTO_NS.get();
                self.counts.handshake_rtt = is_known.then_some(sample.max(0));
            }
        }
        // Nothing takes less than no time.
        rtt = rtt.filter(|&sample| sample >= 0);
        ts_rtt = ts_rtt.filter(|&sample| sample >= 0);
        if let Some(sample) = rtt {
            self.counts.rtt.add(sample);
        }
        if let Some(sample) = ts_rtt {
            self.counts.ts_rtt.add(sample);
        }
        Acknowledged {
            rtt,
            ts_rtt,
            echoes_older,
        }
    }
}
