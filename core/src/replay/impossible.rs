//! ACKs of the recording that could not have been sent behind this path: what shows that open loop is open.

use std::collections::VecDeque;

use super::entrance::Passing;
use crate::wire::TcpFlags;

/// Data of one direction that the recording has not acknowledged yet, by its end; out of the path at `arrival`.
#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u32,
    /// `i64::MAX`: every copy so far was dropped.
    arrival: i64,
}

/// A capture without ACKs is not to fill the memory: older data than this is forgotten.
const REMEMBERED: usize = 1 << 16;

/// One direction of one pair.
#[derive(Clone, Debug, Default)]
pub struct Unacknowledged {
    sent: VecDeque<Sent>,
}

/// Why an ACK could not have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// The path dropped what it acknowledges.
    Dropped,
    /// What it acknowledges comes out of the path only later.
    Early,
}

/// Whether `a` lies behind `b` (RFC 9293 section 3.4).
#[inline]
fn is_behind(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Unacknowledged {
    /// A data segment went through the path; `arrival`: when it came out, `None` if it was dropped.
    #[inline]
    pub fn on_data(&mut self, packet: &Passing, arrival: Option<i64>) {
        let end = packet.tcp.end();
        let arrival = arrival.unwrap_or(i64::MAX);
        if self.sent.back().is_none_or(|last| is_behind(end, last.end)) {
            if self.sent.len() == REMEMBERED {
                self.sent.pop_front();
            }
            self.sent.push_back(Sent { end, arrival });
            return;
        }
        // Sent again: the first copy to come out counts.
        let first = self
            .sent
            .partition_point(|sent| !is_behind(sent.end, packet.tcp.seq));
        for sent in self.sent.range_mut(first..) {
            if is_behind(sent.end, end) {
                break;
            }
            sent.arrival = sent.arrival.min(arrival);
        }
    }

    /// An ACK was recorded at `now`: it was sent then or before.
    #[inline]
    pub fn on_ack(&mut self, now: i64, ack: u32) -> Option<Impossible> {
        let mut latest = None;
        while let Some(sent) = self.sent.front() {
            if is_behind(sent.end, ack) {
                break;
            }
            latest = latest.max(Some(sent.arrival));
            self.sent.pop_front();
        }
        match latest? {
            i64::MAX => Some(Impossible::Dropped),
            arrival if arrival > now => Some(Impossible::Early),
            _ => None,
        }
    }
}

/// The books of all pairs, both directions of each.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged {
    pairs: Vec<[Unacknowledged; 2]>,
    pub acks: u64,
    pub of_dropped: u64,
    pub early: u64,
}

impl Acknowledged {
    /// A segment of a pair went through the path.
    #[inline]
    pub fn on_segment(&mut self, packet: &Passing, arrival: Option<i64>) {
        let pair = packet.pair as usize;
        if pair >= self.pairs.len() {
            self.pairs.resize_with(pair + 1, Default::default);
        }
        let direction = usize::from(packet.is_reverse);
        let flows = &mut self.pairs[pair];
        if packet.tcp.payload_len > 0 {
            flows[direction].on_data(packet, arrival);
        }
        if packet.tcp.flags.has(TcpFlags::ACK) {
            let found = flows[1 - direction].on_ack(packet.time_ns, packet.tcp.ack);
            self.acks += u64::from(packet.tcp.payload_len == 0);
            match found {
                Some(Impossible::Dropped) => self.of_dropped += 1,
                Some(Impossible::Early) => self.early += 1,
                None => (),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::entrance::Tcp;
    use super::*;

    fn data(seq: u32, payload_len: u32) -> Passing {
        Passing {
            time_ns: 0,
            record: 0,
            pair: 0,
            is_reverse: false,
            ip_len: payload_len + 40,
            tcp: Tcp {
                seq,
                payload_len,
                flags: TcpFlags::ACK,
                ..Tcp::default()
            },
        }
    }

    #[test]
    fn an_ack_is_impossible_before_the_data_is_out_and_after_all_its_copies_were_dropped() {
        let mut sent = Unacknowledged::default();
        sent.on_data(&data(1, 100), Some(50));
        sent.on_data(&data(101, 100), None);
        sent.on_data(&data(201, 100), Some(90));
        assert_eq!(sent.on_ack(60, 101), None);
        sent.on_data(&data(101, 100), Some(80));
        assert_eq!(sent.on_ack(70, 201), Some(Impossible::Early));
        sent.on_data(&data(301, 100), None);
        assert_eq!(sent.on_ack(100, 401), Some(Impossible::Dropped));
        // Told once.
        assert_eq!(sent.on_ack(101, 401), None);
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut sent = Unacknowledged::default();
        sent.on_data(&data(u32::MAX - 49, 100), Some(5));
        assert_eq!(sent.on_ack(9, u32::MAX - 49), None);
        assert_eq!(sent.on_ack(4, 50), Some(Impossible::Early));
    }
}
