//! ns-2's receivers: TCPSink, DelAck, Sack1 and both together.

use super::packet::{Blocks, Ns2Packet};
use crate::recovery::Intervals;

/// What the receiver does with a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    AckNow,
    /// Wait for the second packet or the timer.
    Delay,
}

#[derive(Debug)]
pub struct Sink {
    has_sack: bool,
    delays: bool,
    /// RFC 1323's rule for the timestamp to echo, as the Linux agent needs it.
    rfc1323_echo: bool,
    ack_bytes: u32,
    next: u64,
    max_seen: i64,
    /// Held beyond `next`.
    held: Intervals,
    ts_to_echo: f64,
    last_ack_sent: i64,
    /// Blocks reported before, most recent first.
    reported: Vec<(u64, u64)>,
    is_waiting: bool,
    last_received: i64,
    pub delivered: u64,
}

/// ns-2's default `maxSackBlocks_`.
const MAX_BLOCKS: usize = 3;

impl Sink {
    pub fn new(has_sack: bool, delays: bool, rfc1323_echo: bool, ack_bytes: u32) -> Self {
        Self {
            has_sack,
            delays,
            rfc1323_echo,
            ack_bytes,
            next: 0,
            max_seen: 0,
            held: Intervals::default(),
            ts_to_echo: 0.0,
            last_ack_sent: 0,
            reported: Vec::new(),
            is_waiting: false,
            last_received: -1,
            delivered: 0,
        }
    }

    /// Takes a data packet in. `is_waiting`: an ACK is already being delayed.
    #[inline(always)]
    pub fn receive(&mut self, packet: &Ns2Packet) -> Answer {
        let number = packet.number() as u64;
        self.last_received = packet.number();
        let in_order_next = self.last_ack_sent + 1;
        if (self.rfc1323_echo && packet.number() == in_order_next)
            || (packet.ts >= self.ts_to_echo && packet.number() <= in_order_next)
        {
            self.ts_to_echo = packet.ts;
        }
        self.max_seen = self.max_seen.max(packet.number());
        if number == self.next {
            self.next += 1;
            if !self.held.is_empty() {
                self.next = self.held.next_hole(self.next);
                self.held.remove_below(self.next);
            }
        } else if number > self.next {
            self.held.insert(number, number + 1);
        }
        self.delivered = self.next;
        // RFC 5681 section 4.2: no delay while a gap is being filled; nor for ns-2's SYN, packet 0.
        let is_in_order = packet.number() == self.in_order();
        if self.delays
            && !self.is_waiting
            && is_in_order
            && packet.number() >= self.max_seen
            && number != 0
        {
            self.is_waiting = true;
            return Answer::Delay;
        }
        self.is_waiting = false;
        Answer::AckNow
    }

    /// The delayed ACK goes out by the timer.
    pub fn expire(&mut self) -> bool {
        std::mem::take(&mut self.is_waiting)
    }

    /// The last number received in order; -1 for none.
    fn in_order(&self) -> i64 {
        self.next as i64 - 1
    }

    /// The ACK that the last packet received calls for. Inlined: one that is handed over in memory is read before all of
    /// it is written, for which a processor waits.
    #[inline(always)]
    pub fn ack(&mut self, connection: u32) -> Ns2Packet {
        let (number, received) = (self.in_order(), self.last_received);
        self.last_ack_sent = number;
        let mut ack = Ns2Packet::ack(connection, number, self.ack_bytes, self.ts_to_echo);
        if self.has_sack {
            if number >= self.max_seen {
                self.reported.clear();
            } else {
                ack.blocks = self.sack_blocks(received, number);
                ack.bytes += 8 * ack.blocks.count() as u32;
            }
        }
        ack
    }

    /// RFC 2018 section 4: the block that holds the packet just received, then the most recently reported others.
    #[cold]
    fn sack_blocks(&mut self, received: i64, in_order: i64) -> Blocks {
        let mut blocks = Blocks::default();
        // A packet that fills the gap reports no block of its own and covers what lies below the ACK.
        let recent = if received > in_order {
            let (start, end) = self
                .held
                .around(received as u64)
                .expect("what was just received is held");
            blocks.push(start, end);
            (start, end)
        } else {
            (0, self.next)
        };
        let mut old = 0;
        while blocks.count() < MAX_BLOCKS && old < self.reported.len() {
            let (start, end) = self.reported[old];
            if end as i64 > self.max_seen + 1 {
                break;
            }
            if recent.0 <= start && end <= recent.1 {
                self.reported.remove(old);
                continue;
            }
            blocks.push(start, end);
            old += 1;
        }
        if received > in_order {
            self.reported.truncate(MAX_BLOCKS - 1);
            self.reported.insert(0, recent);
        }
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(number: i64) -> Ns2Packet {
        Ns2Packet::data(0, number, 1000, 0.0)
    }

    #[test]
    fn the_first_block_holds_the_packet_just_received_and_older_ones_follow() {
        let mut sink = Sink::new(true, false, false, 40);
        let mut last = Vec::new();
        for number in [0, 2, 4, 6, 8, 3] {
            sink.receive(&data(number));
            let ack = sink.ack(0);
            last = ack.blocks.iter().collect();
            assert_eq!(ack.number(), 0);
        }
        assert_eq!(last, [(2, 5), (8, 9), (6, 7)]);
    }

    #[test]
    fn filling_the_gap_acknowledges_all_that_was_held() {
        let mut sink = Sink::new(false, false, false, 40);
        for (number, acked) in [(0, 0), (2, 0), (3, 0), (1, 3), (4, 4)] {
            sink.receive(&data(number));
            assert_eq!(sink.ack(0).number(), acked);
        }
    }

    #[test]
    fn every_second_packet_is_acknowledged_and_gaps_at_once() {
        let mut sink = Sink::new(false, true, false, 40);
        let answers: Vec<_> = [0, 1, 2, 4, 3, 5]
            .map(|number| sink.receive(&data(number)))
            .to_vec();
        use Answer::{AckNow, Delay};
        assert_eq!(answers, [AckNow, Delay, AckNow, AckNow, AckNow, Delay]);
    }
}
