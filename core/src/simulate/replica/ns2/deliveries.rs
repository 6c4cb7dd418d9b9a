//! What each ACK delivers, for a control that wants to know: ns-2's agents keep no such books, so they are kept beside.
//!
//! Nothing here is ns-2's, and nothing changes what an agent does. Packets, not bytes. A packet counts as lost when it is
//! sent again: which of those that Tahoe and the older agents send again were lost, they do not know.

use std::collections::VecDeque;

use super::packet::Ns2Packet;
use crate::congestion::Delivery;
use crate::recovery::{DeliveryRate, DeliveryStamp};
use crate::simulate::record::SenderState;

#[derive(Clone, Copy)]
struct Sent {
    at_ns: i64,
    stamp: DeliveryStamp,
    is_retransmitted: bool,
    has_arrived: bool,
}

pub struct Deliveries {
    rate: DeliveryRate,
    /// Packets not acknowledged, from number `first` on.
    sent: VecDeque<Sent>,
    first: i64,
    has_sack: bool,
    /// Without SACK: what duplicate ACKs have told of, until the hole is filled.
    by_duplicates: u64,
    arrived: u64,
    lost: u64,
    told_lost: u64,
    min_rtt_ns: i64,
}

impl Deliveries {
    pub fn new(has_sack: bool) -> Self {
        Self {
            rate: DeliveryRate::default(),
            sent: VecDeque::new(),
            first: 0,
            has_sack,
            by_duplicates: 0,
            arrived: 0,
            lost: 0,
            told_lost: 0,
            min_rtt_ns: i64::MAX,
        }
    }

    /// Sent and not known to have arrived.
    fn in_flight(&self) -> u64 {
        (self.sent.len() as u64).saturating_sub(self.arrived + self.by_duplicates)
    }

    pub fn on_sent(&mut self, now_ns: i64, number: i64) {
        let stamp = self.rate.on_sent(now_ns, self.sent.is_empty());
        let sent = Sent {
            at_ns: now_ns,
            stamp,
            is_retransmitted: false,
            has_arrived: false,
        };
        let place = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        if let Some(before) = self.sent.get_mut(place) {
            self.lost += 1;
            *before = Sent {
                is_retransmitted: true,
                has_arrived: before.has_arrived,
                ..sent
            };
        } else if place == self.sent.len() {
            // An agent sends new numbers in order, and none that is acknowledged.
            self.sent.push_back(sent);
        }
    }

    /// The agent has done with an ACK.
    pub fn on_ack(
        &mut self,
        now_ns: i64,
        packet: &Ns2Packet,
        state: SenderState,
        srtt_ns: Option<i64>,
    ) -> Delivery {
        let prior_in_flight = self.in_flight();
        let mut newest_rtt = None;
        let is_duplicate = packet.number() < self.first && !self.sent.is_empty();
        for (start, end) in packet.blocks.iter() {
            let place = |number: u64| (number as i64 - self.first).clamp(0, self.sent.len() as i64);
            for place in place(start)..place(end) {
                self.arrive(now_ns, place as usize, &mut newest_rtt);
            }
        }
        if is_duplicate && !self.has_sack {
            self.by_duplicates += 1;
            self.rate.on_duplicate(1);
        }
        while self.first <= packet.number() && !self.sent.is_empty() {
            self.arrive(now_ns, 0, &mut newest_rtt);
            self.sent.pop_front();
            self.first += 1;
            self.arrived -= 1;
        }
        self.by_duplicates = self.by_duplicates.min(self.sent.len() as u64);
        let (newly_delivered, sample) = self.rate.take(now_ns, self.min_rtt_ns);
        let newly_lost = self.lost - self.told_lost;
        self.told_lost = self.lost;
        Delivery {
            now_ns,
            delivered: self.rate.delivered(),
            newly_delivered,
            lost: self.lost,
            newly_lost,
            sample,
            rtt_ns: newest_rtt.map(|(_, rtt_ns)| rtt_ns),
            srtt_ns,
            is_maybe_delayed: false,
            prior_in_flight,
            in_flight: self.in_flight(),
            is_in_recovery: state == SenderState::Recovery,
            is_in_loss: state == SenderState::Loss,
            departure_ns: now_ns,
        }
    }

    fn arrive(&mut self, now_ns: i64, place: usize, newest_rtt: &mut Option<(i64, i64)>) {
        let number = self.first + place as i64;
        let Some(sent) = self.sent.get_mut(place).filter(|sent| !sent.has_arrived) else {
            return;
        };
        sent.has_arrived = true;
        self.arrived += 1;
        let counted = self.by_duplicates.min(1);
        self.by_duplicates -= counted;
        self.rate
            .on_delivered(1 - counted, sent.at_ns, number as u64, sent.stamp);
        if !sent.is_retransmitted {
            let rtt_ns = now_ns - sent.at_ns;
            self.min_rtt_ns = self.min_rtt_ns.min(rtt_ns);
            *newest_rtt = (*newest_rtt).max(Some((sent.at_ns, rtt_ns)));
        }
    }
}
