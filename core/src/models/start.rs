//! A start of k packets into b buffers, packet by packet (RFC 2416): the recurrence of `models/initial_window`.
//!
//! Links before the last queue space the packets, the queue drops what finds no place, the receiver answers, and an ACK of
//! new data lets the sender send. Packets, packets a second, seconds; NaN: it does not happen.

use crate::recovery::DUP_THRESH;

/// A departure at the very time of an arrival frees its place first: a billionth of a service time is rounding.
const ROUNDING: f64 = 1e-9;

/// What a start depends on (the parameters of the model, by their names).
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub initial_window: f64,
    pub places: f64,
    pub last_rate: f64,
    pub feed_rate: f64,
    pub feed_time: f64,
    pub return_time: f64,
    /// 0: every packet is acknowledged at once.
    pub ack_timer: f64,
    /// What each SACK block adds to an ACK's return, and how many at most.
    pub block_time: f64,
    pub most_blocks: f64,
    /// FACK (Mathis & Mahdavi 1996): three packets from the hole to the highest SACK, however many arrived.
    pub is_forward: bool,
}

/// What happens to each packet that is followed; of one length, and as before: nothing has happened yet.
#[derive(Debug)]
pub struct Packets<'a> {
    pub sent: &'a mut [f64],
    pub delivered: &'a mut [f64],
    /// Of the ACK that its arrival caused: when it is back at the sender, and what it covers.
    pub ack_at: &'a mut [f64],
    pub ack_number: &'a mut [f64],
    pub is_lost: &'a mut [bool],
    pub is_duplicate: &'a mut [bool],
}

/// What the sender has counted in the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    pub duplicates: f64,
    pub retransmitted: f64,
}

/// Everything between the sender and its ACKs; packets are numbered from 1.
struct Following<'a> {
    start: Start,
    packets: Packets<'a>,
    cwnd: f64,
    highest_ack: f64,
    /// The last packet that the sender has been allowed to send, and has sent.
    allowed: f64,
    ended: Ended,
    /// When the slowest link before the last queue, and the last one, are free again.
    fed: f64,
    idle_at: f64,
    /// All up to this packet has arrived.
    in_order: usize,
    /// The packet whose ACK waits, and until when.
    pending: Option<(usize, f64)>,
    /// What has arrived above the first hole, in blocks without a hole; the last packet that has arrived.
    blocks: f64,
    last_arrived: usize,
}

/// Follows as many packets as there is room for, or as are sent.
pub fn follow(start: Start, packets: Packets<'_>) -> Ended {
    let mut following = Following {
        start,
        packets,
        cwnd: start.initial_window,
        highest_ack: 0.0,
        allowed: 0.0,
        ended: Ended {
            duplicates: 0.0,
            retransmitted: f64::NAN,
        },
        fed: f64::NEG_INFINITY,
        idle_at: f64::NEG_INFINITY,
        in_order: 0,
        pending: None,
        blocks: 0.0,
        last_arrived: 0,
    };
    following.allow(start.initial_window, 0.0);
    for number in 1..=following.packets.sent.len() {
        if !following.step(number) {
            break;
        }
    }
    following.ended
}

impl Following<'_> {
    /// The packet of this number, and all that it causes; false: nobody sends it.
    fn step(&mut self, number: usize) -> bool {
        if self.packets.sent[number - 1].is_nan() {
            // A packet not yet allowed: the ACK held back must come by its timer, and may allow it.
            self.acknowledge_held();
        }
        let sent = self.packets.sent[number - 1];
        if sent.is_nan() {
            return false;
        }
        let Some(at) = self.queue(number, sent) else {
            return true;
        };
        if self.pending.is_some_and(|(_, deadline)| deadline < at) {
            self.acknowledge_held();
        }
        let is_expected = self.in_order + 1 == number;
        if is_expected {
            self.in_order = number;
        } else if self.blocks == 0.0 || self.last_arrived + 1 < number {
            self.blocks += 1.0;
        }
        self.last_arrived = number;
        // RFC 1122: an ACK for every second packet, at once for one out of order, else when the timer runs out.
        if is_expected && self.start.ack_timer > 0.0 && self.pending.is_none() {
            self.pending = Some((number, at + self.start.ack_timer));
        } else {
            self.pending = None;
            self.acknowledge(number, at);
        }
        true
    }

    /// When the packet leaves the last queue; None: it finds no place there.
    fn queue(&mut self, number: usize, sent: f64) -> Option<f64> {
        let start = &self.start;
        // The slowest link before the last queue spaces the packets; the rest of the way is a constant.
        self.fed = sent.max(self.fed + 1.0 / start.feed_rate);
        let arrival = self.fed + start.feed_time;
        // The link is busy until `idle_at`: so many departures are still to come, and one place is left by the last.
        let to_come = (self.idle_at - arrival) * start.last_rate;
        if to_come - ROUNDING > start.places - 1.0 {
            self.packets.is_lost[number - 1] = true;
            return None;
        }
        self.idle_at = arrival.max(self.idle_at) + 1.0 / start.last_rate;
        self.packets.delivered[number - 1] = self.idle_at;
        Some(self.idle_at)
    }

    fn acknowledge_held(&mut self) {
        if let Some((number, deadline)) = self.pending.take() {
            self.acknowledge(number, deadline);
        }
    }

    /// The receiver's ACK, caused by the packet of this number, and what the sender does with it.
    fn acknowledge(&mut self, number: usize, at: f64) {
        let start = &self.start;
        let mut now = at + start.return_time;
        now += self.blocks.min(start.most_blocks) * start.block_time;
        let covers = self.in_order as f64;
        self.packets.ack_at[number - 1] = now;
        self.packets.ack_number[number - 1] = covers;
        if covers > self.highest_ack {
            self.highest_ack = covers;
            // Slow start: one packet more per new ACK, however many packets it covers.
            self.cwnd += 1.0;
            self.allow(self.highest_ack + self.cwnd, now);
            return;
        }
        self.packets.is_duplicate[number - 1] = true;
        self.ended.duplicates += 1.0;
        let passed = if start.is_forward {
            number as f64 - self.highest_ack - 1.0
        } else {
            self.ended.duplicates
        };
        if passed >= f64::from(DUP_THRESH) && self.ended.retransmitted.is_nan() {
            self.ended.retransmitted = now;
        }
    }

    /// All up to this packet leaves.
    fn allow(&mut self, upto: f64, now: f64) {
        let most = self.packets.sent.len();
        let [first, end] = [self.allowed, upto].map(|number| (number as usize).min(most));
        self.packets.sent[first..end].fill(now);
        self.allowed = upto;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2416's path: 9600 b/s behind 3 buffers, 1.2 packets a second.
    const MODEM: Start = Start {
        initial_window: 4.0,
        places: 3.0,
        last_rate: 1.2,
        feed_rate: 187.5,
        feed_time: 0.030_413_33,
        return_time: 0.358_549_87,
        ack_timer: 0.0,
        block_time: 0.0,
        most_blocks: 3.0,
        is_forward: false,
    };

    #[test]
    fn four_packets_into_three_buffers_lose_the_fourth() {
        let (mut times, mut told) = ([[f64::NAN; 20]; 4], [[false; 20]; 2]);
        let [sent, delivered, ack_at, ack_number] = &mut times;
        let [is_lost, is_duplicate] = &mut told;
        let ended = follow(
            MODEM,
            Packets {
                sent,
                delivered,
                ack_at,
                ack_number,
                is_lost,
                is_duplicate,
            },
        );
        assert_eq!(is_lost.iter().position(|&lost| lost), Some(3));
        // Packets 1 to 3 let six more go, three of which find a place: each is answered by a duplicate.
        assert!((ended.retransmitted - 5.389).abs() < 7e-4, "{ended:?}");
        assert_eq!(
            ended.duplicates,
            is_duplicate.iter().filter(|&&each| each).count() as f64
        );
    }
}
