//! One direction of a path in virtual time: drop-tail nodes in a row, then a pure delay.
//!
//! Departures follow from arrival times alone (start of service = the later of arrival and the end of the service
//! before), so a late wake-up of whoever drives this moves no packet.

use std::collections::{BTreeSet, VecDeque};

use crate::network::{Arrival, DropTail, Limit, Link};
use crate::simulate::{BufferUnit, NodeSpec};

/// What travels.
pub trait Item {
    /// Bytes that take time to send: the IP packet, no link header.
    fn bytes(&self) -> u32;
    /// Carries TCP payload: may be lost behind a node.
    fn is_data(&self) -> bool;
    /// An ACK and nothing else: may be lost on the way back.
    fn is_pure_ack(&self) -> bool;
}

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The buffer was full.
    Overflow,
    /// Independent loss after service.
    Random,
    /// The n-th data packet, as the scenario asked for.
    Scheduled,
    /// Independent loss of ACKs at the end of the way back.
    AckLoss,
}

/// A lost packet.
#[derive(Debug)]
pub struct Loss<T> {
    pub time_ns: i64,
    /// From 1, in the direction of travel; 0: on the pure delay.
    pub node: usize,
    pub reason: Reason,
    /// Packets waiting at the node, the one in service not counted.
    pub queue_len: usize,
    pub packet: T,
}

#[derive(Debug)]
struct Stage<T> {
    queue: DropTail<T>,
    link: Link,
    loss: f64,
    drop_packets: BTreeSet<u64>,
    data_served: u64,
    in_service: Option<(i64, T)>,
    /// On the wire: (arrival at the far end, packet), in order because the delay is the same for all.
    flying: VecDeque<(i64, T)>,
}

/// Nodes in a row, then a pure delay.
#[derive(Debug)]
pub struct Chain<T> {
    stages: Vec<Stage<T>>,
    delay_ns: i64,
    ack_loss: f64,
    delayed: VecDeque<(i64, T)>,
    random: Random,
    now_ns: i64,
    packets_in: u64,
    packets_out: u64,
    packets_lost: u64,
}

impl<T: Item> Chain<T> {
    pub fn new(nodes: &[NodeSpec], delay_ns: i64, ack_loss: f64, seed: u64) -> Self {
        Self {
            stages: nodes.iter().map(Stage::new).collect(),
            delay_ns,
            ack_loss,
            delayed: VecDeque::new(),
            random: Random(seed),
            now_ns: i64::MIN,
            packets_in: 0,
            packets_out: 0,
            packets_lost: 0,
        }
    }

    /// A packet enters at `now`. Everything due up to `now` has been taken out with `advance` before.
    pub fn enter(&mut self, now: i64, packet: T, losses: &mut Vec<Loss<T>>) {
        debug_assert!(now >= self.now_ns && self.next_event().is_none_or(|due| due > now));
        self.now_ns = now;
        self.packets_in += 1;
        self.arrive(0, now, packet, losses);
    }

    /// When something happens next if nothing enters.
    pub fn next_event(&self) -> Option<i64> {
        let stages = self.stages.iter().filter_map(Stage::next_event);
        stages
            .chain(self.delayed.front().map(|&(due, _)| due))
            .min()
    }

    /// Lets time pass up to and including `until`: who reaches the far end goes to `arrived` with the time at which
    /// he does, who is lost to `losses`.
    pub fn advance(&mut self, until: i64, arrived: &mut Vec<(i64, T)>, losses: &mut Vec<Loss<T>>) {
        while let Some(due) = self.next_event().filter(|&due| due <= until) {
            debug_assert!(due >= self.now_ns, "time runs forward");
            self.now_ns = due;
            self.step(due, arrived, losses);
        }
        self.now_ns = self.now_ns.max(until);
    }

    /// Everything that happens at `due`, from the far end backwards: a packet that leaves a node makes room for one
    /// that arrives at the same instant.
    fn step(&mut self, due: i64, arrived: &mut Vec<(i64, T)>, losses: &mut Vec<Loss<T>>) {
        while let Some((_, packet)) = pop_due(&mut self.delayed, due) {
            if self.ack_loss > 0.0 && packet.is_pure_ack() && self.random.next() < self.ack_loss {
                self.packets_lost += 1;
                losses.push(Loss {
                    time_ns: due,
                    node: 0,
                    reason: Reason::AckLoss,
                    queue_len: 0,
                    packet,
                });
            } else {
                self.packets_out += 1;
                arrived.push((due, packet));
            }
        }
        for number in (0..self.stages.len()).rev() {
            if let Some(loss) = self.stages[number].finish_service(due, number, &mut self.random) {
                self.packets_lost += 1;
                losses.push(loss);
            }
            while let Some((_, packet)) = pop_due(&mut self.stages[number].flying, due) {
                self.arrive(number + 1, due, packet, losses);
            }
        }
    }

    fn arrive(&mut self, number: usize, now: i64, packet: T, losses: &mut Vec<Loss<T>>) {
        let Some(stage) = self.stages.get_mut(number) else {
            self.delayed.push_back((now + self.delay_ns, packet));
            return;
        };
        let bytes = packet.bytes();
        match stage.queue.arrive(packet, bytes) {
            Arrival::Queued => stage.start_service(now),
            Arrival::Dropped(packet) => {
                self.packets_lost += 1;
                losses.push(Loss {
                    time_ns: now,
                    node: number + 1,
                    reason: Reason::Overflow,
                    queue_len: stage.queue.waiting(),
                    packet,
                });
            }
        }
    }

    /// Packets waiting at each node, the one in service not counted.
    pub fn waiting(&self, node: usize) -> usize {
        self.stages[node].queue.waiting()
    }

    /// Packets that arrived at each node so far, lost or not.
    pub fn arrivals(&self, node: usize) -> u64 {
        self.stages[node].queue.counters().packets_in
    }

    pub fn nodes(&self) -> usize {
        self.stages.len()
    }

    /// Packets still on their way.
    pub fn inside(&self) -> u64 {
        let stages = self.stages.iter().map(|stage| {
            stage.queue.waiting() + usize::from(stage.in_service.is_some()) + stage.flying.len()
        });
        (stages.sum::<usize>() + self.delayed.len()) as u64
    }

    /// In = out + lost + inside, here and in every queue.
    pub fn is_conserved(&self) -> bool {
        self.packets_in == self.packets_out + self.packets_lost + self.inside()
            && self.stages.iter().all(|stage| stage.queue.is_conserved())
    }

    /// (in, out, lost)
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.packets_in, self.packets_out, self.packets_lost)
    }
}

impl<T: Item> Stage<T> {
    fn new(node: &NodeSpec) -> Self {
        let limit = match (node.buffer, node.buffer_unit) {
            (None, _) => Limit::Unlimited,
            (Some(places), BufferUnit::Packets) => Limit::Packets(places),
            (Some(places), BufferUnit::Bytes) => Limit::Bytes(places),
        };
        Self {
            queue: DropTail::new(limit, node.counts_in_service),
            link: Link {
                rate_bps: node.rate_bps,
                delay_ns: node.delay_ns,
            },
            loss: node.loss,
            drop_packets: node.drop_packets.iter().copied().collect(),
            data_served: 0,
            in_service: None,
            flying: VecDeque::new(),
        }
    }

    fn next_event(&self) -> Option<i64> {
        let served = self.in_service.as_ref().map(|&(due, _)| due);
        let landed = self.flying.front().map(|&(due, _)| due);
        served.into_iter().chain(landed).min()
    }

    fn start_service(&mut self, now: i64) {
        if let Some((packet, bytes)) = self.queue.start_service() {
            self.in_service = Some((now + self.link.service_ns(bytes), packet));
        }
    }

    /// The packet in service, if its time is up, leaves for the wire or is lost behind the node; the next one starts.
    fn finish_service(&mut self, now: i64, number: usize, random: &mut Random) -> Option<Loss<T>> {
        let (_, packet) = self.in_service.take_if(|(due, _)| *due <= now)?;
        self.queue.end_service();
        self.start_service(now);
        let reason = self.fate(&packet, random);
        let Some(reason) = reason else {
            let landing = now + self.link.propagation_ns();
            self.flying.push_back((landing, packet));
            return None;
        };
        Some(Loss {
            time_ns: now,
            node: number + 1,
            reason,
            queue_len: self.queue.waiting(),
            packet,
        })
    }

    fn fate(&mut self, packet: &T, random: &mut Random) -> Option<Reason> {
        if !packet.is_data() {
            return None;
        }
        self.data_served += 1;
        if self.drop_packets.contains(&self.data_served) {
            return Some(Reason::Scheduled);
        }
        (self.loss > 0.0 && random.next() < self.loss).then_some(Reason::Random)
    }
}

fn pop_due<T>(row: &mut VecDeque<(i64, T)>, now: i64) -> Option<(i64, T)> {
    if row.front()?.0 <= now {
        row.pop_front()
    } else {
        None
    }
}

/// `SplitMix64` (Steele, Lea, Flood 2014): the seed decides every loss.
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// Uniform in 0..1, 53 bits.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
