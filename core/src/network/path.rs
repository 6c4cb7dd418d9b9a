//! A path of drop-tail nodes in one direction, worked out packet by packet.
//!
//! Everything enters at the first node and nothing overtakes, so a packet's whole journey (where it waits, when each
//! node serves it, whether one is full) hangs only on packets that entered before it. It is therefore computed when
//! the packet enters: one event per packet and direction is left for the event loop, its arrival at the far end.

use std::collections::VecDeque;

use super::{Arrival, Counters, DropTail, Instant, Limit, Link, Random, Stamp};

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The buffer was full.
    Overflow,
    /// Random loss behind the node.
    Random,
    /// On the node's list of packets to lose.
    Scheduled,
    /// Random loss of an ACK on the way back.
    AckLoss,
}

impl DropReason {
    pub fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Random => "random",
            Self::Scheduled => "scheduled",
            Self::AckLoss => "ackloss",
        }
    }
}

/// What a node needs to know of a packet.
pub trait Traveller: Copy {
    fn bytes(&self) -> u32;
    fn is_data(&self) -> bool;
}

/// What can be seen on the way, with times that may lie ahead of the event loop's.
pub trait Observer<I: Instant, P> {
    fn arrived(&mut self, _node: usize, _at: Stamp<I>, _packet: &P, _waiting: usize) {}
    fn started(&mut self, _node: usize, _at: Stamp<I>, _packet: &P) {}
    /// The last bit has left the node; it is at the far end of its link later by the propagation delay.
    fn left(&mut self, _node: usize, _at: I, _packet: &P) {}
    fn dropped(
        &mut self,
        _node: usize,
        _at: Stamp<I>,
        _packet: &P,
        _reason: DropReason,
        _waiting: usize,
    ) {
    }
}

/// Sees nothing.
pub struct Blind;

impl<I: Instant, P> Observer<I, P> for Blind {}

/// One bin of a node's queue record, as emulators and kernels log it: bins without an arrival are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueBin {
    pub bin: i64,
    pub arrivals: u32,
    pub drops: u32,
    /// Packets waiting, the one in service not counted: the most that an arrival left or found, and the last.
    pub waiting_max: u32,
    pub waiting_last: u32,
    /// Sum over the bin's arrivals of the time each waits: over the bin's length, the mean queue (Little).
    pub wait_ns: i64,
}

/// When a packet is in service.
#[derive(Clone, Copy, Debug)]
struct Service<I> {
    start: I,
    end: I,
}

/// A drop-tail queue, its link, and the losses behind it.
#[derive(Debug)]
pub struct Node<I> {
    link: Link,
    propagation: I,
    queue: DropTail<Service<I>>,
    serving: Option<Service<I>>,
    last: Service<I>,
    loss: f64,
    /// Data packets to lose, ascending; `served` counts data packets from 1.
    drop_packets: VecDeque<u64>,
    served: u64,
    bin_ns: i64,
    bins: Vec<QueueBin>,
    /// Sum of all packets' waiting times: over a length of time, the mean queue (Little).
    waited_ns: i64,
    /// The last packet's size and serialisation time: nearly always those of the next.
    sized: (u32, I),
}

enum Fate<I> {
    Through(Stamp<I>),
    Lost,
}

impl<I: Instant> Node<I> {
    pub fn new(link: Link, limit: Limit, counts_in_service: bool) -> Self {
        Self {
            link,
            propagation: I::propagation(&link),
            queue: DropTail::new(limit, counts_in_service),
            serving: None,
            last: Service {
                start: I::ZERO,
                end: I::ZERO,
            },
            loss: 0.0,
            drop_packets: VecDeque::new(),
            served: 0,
            bin_ns: 0,
            bins: Vec::new(),
            waited_ns: 0,
            sized: (0, I::service(&link, 0)),
        }
    }

    fn service_length(&mut self, bytes: u32) -> I {
        if self.sized.0 != bytes {
            self.sized = (bytes, I::service(&self.link, bytes));
        }
        self.sized.1
    }

    /// Independent loss behind the node, and data packets lost by number of service from 1.
    pub fn with_loss(mut self, loss: f64, drop_packets: &[u64]) -> Self {
        let mut numbers = drop_packets.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        self.loss = loss;
        self.drop_packets = numbers.into();
        self
    }

    /// Records the queue in bins of this length; 0: not at all.
    pub fn with_bins(mut self, bin_ns: i64) -> Self {
        self.bin_ns = bin_ns;
        self
    }

    /// Ends and starts every service that lies before `at`: at equal times the one decided first comes first.
    fn advance(&mut self, at: Stamp<I>) {
        while let Some(service) = self.serving {
            let is_later =
                service.end > at.time || (service.end == at.time && service.start > at.scheduled);
            if is_later {
                return;
            }
            self.queue.end_service();
            self.serving = self.queue.start_service().map(|(next, _)| next);
        }
    }

    fn arrive<P: Traveller>(
        &mut self,
        number: usize,
        at: Stamp<I>,
        packet: &P,
        random: &mut Random,
        observer: &mut impl Observer<I, P>,
    ) -> Fate<I> {
        self.advance(at);
        let waiting = self.queue.waiting();
        observer.arrived(number, at, packet, waiting);
        let starts = match self.serving {
            None => at,
            Some(_) => Stamp {
                time: self.last.end,
                scheduled: self.last.start,
            },
        };
        let length = self.service_length(packet.bytes());
        let service = Service {
            start: starts.time,
            end: starts.time.plus(length),
        };
        if self.queue.pass(packet.bytes()) {
            self.serving = Some(service);
        } else {
            if let Arrival::Dropped(_) = self.queue.arrive(service, packet.bytes()) {
                self.count(at, true, 0);
                observer.dropped(number, at, packet, DropReason::Overflow, waiting);
                return Fate::Lost;
            }
            if self.serving.is_none() {
                self.serving = self.queue.start_service().map(|(service, _)| service);
            }
        }
        self.last = service;
        let wait_ns = if starts.time > at.time {
            starts.time.to_ns() - at.time.to_ns()
        } else {
            0
        };
        self.waited_ns += wait_ns;
        self.count(at, false, wait_ns);
        observer.started(number, starts, packet);
        observer.left(number, service.end, packet);
        if let Some(reason) = self.loss_behind(packet, random) {
            let end = Stamp {
                time: service.end,
                scheduled: service.start,
            };
            observer.dropped(number, end, packet, reason, waiting);
            return Fate::Lost;
        }
        // ns-2 adds the delay to the transmission time before it adds both to the clock.
        let arrival = service.start.plus(length.plus(self.propagation));
        Fate::Through(Stamp {
            time: arrival,
            scheduled: service.start,
        })
    }

    fn loss_behind<P: Traveller>(&mut self, packet: &P, random: &mut Random) -> Option<DropReason> {
        if !packet.is_data() {
            return None;
        }
        self.served += 1;
        if self.drop_packets.front() == Some(&self.served) {
            self.drop_packets.pop_front();
            return Some(DropReason::Scheduled);
        }
        random.chance(self.loss).then_some(DropReason::Random)
    }

    #[inline]
    fn count(&mut self, at: Stamp<I>, is_drop: bool, wait_ns: i64) {
        if self.bin_ns != 0 {
            self.count_in_bin(at, is_drop, wait_ns);
        }
    }

    fn count_in_bin(&mut self, at: Stamp<I>, is_drop: bool, wait_ns: i64) {
        let bin = at.time.to_ns().div_euclid(self.bin_ns);
        if self.bins.last().is_none_or(|last| last.bin != bin) {
            self.bins.push(QueueBin {
                bin,
                ..QueueBin::default()
            });
        }
        let waiting = self.queue.waiting() as u32;
        let last = self.bins.last_mut().expect("just pushed");
        last.arrivals += 1;
        last.drops += u32::from(is_drop);
        last.waiting_max = last.waiting_max.max(waiting);
        last.waiting_last = waiting;
        last.wait_ns += wait_ns;
    }

    pub fn counters(&self) -> Counters {
        self.queue.counters()
    }

    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    pub fn is_conserved(&self) -> bool {
        self.queue.is_conserved()
    }

    pub fn waited_ns(&self) -> i64 {
        self.waited_ns
    }

    pub fn bins(&self) -> &[QueueBin] {
        &self.bins
    }
}

/// Nodes in a row, then the packets on their way to the far end.
#[derive(Debug)]
pub struct Path<I, P> {
    nodes: Vec<Node<I>>,
    /// Propagation behind the last node, or the whole way where there is no node.
    delay: I,
    ack_loss: f64,
    on_the_way: VecDeque<(Stamp<I>, P)>,
}

impl<I: Instant, P: Traveller> Path<I, P> {
    pub fn new(nodes: Vec<Node<I>>, delay_ns: f64) -> Self {
        Self {
            nodes,
            delay: I::from_ns(delay_ns),
            ack_loss: 0.0,
            on_the_way: VecDeque::new(),
        }
    }

    /// Probability that a packet without data is lost at the far end.
    pub fn with_ack_loss(mut self, ack_loss: f64) -> Self {
        self.ack_loss = ack_loss;
        self
    }

    /// A packet enters at `now`. Returns whether it is the next to come out.
    pub fn enter(
        &mut self,
        now: I,
        packet: P,
        random: &mut Random,
        observer: &mut impl Observer<I, P>,
    ) -> bool {
        let at = Stamp {
            time: now,
            scheduled: now,
        };
        self.enter_at(at, packet, random, observer)
    }

    /// The same for a packet sent in answer to an event: the event's stamp says what it finds at the first node.
    pub fn enter_at(
        &mut self,
        mut at: Stamp<I>,
        packet: P,
        random: &mut Random,
        observer: &mut impl Observer<I, P>,
    ) -> bool {
        for (number, node) in self.nodes.iter_mut().enumerate() {
            match node.arrive(number, at, &packet, random, observer) {
                Fate::Through(next) => at = next,
                Fate::Lost => return false,
            }
        }
        if self.delay > I::ZERO {
            at = Stamp {
                time: at.time.plus(self.delay),
                scheduled: at.time,
            };
        }
        if !packet.is_data() && random.chance(self.ack_loss) {
            observer.dropped(self.nodes.len(), at, &packet, DropReason::AckLoss, 0);
            return false;
        }
        self.on_the_way.push_back((at, packet));
        self.on_the_way.len() == 1
    }

    /// When the next packet comes out.
    pub fn next(&self) -> Option<Stamp<I>> {
        self.on_the_way.front().map(|(at, _)| *at)
    }

    /// Takes the next packet out.
    pub fn leave(&mut self) -> Option<P> {
        self.on_the_way.pop_front().map(|(_, packet)| packet)
    }

    /// Packets that have been accepted by every node and are not out yet.
    pub fn on_the_way(&self) -> usize {
        self.on_the_way.len()
    }

    /// Brings every node to the end of the run: what is served until then has left.
    pub fn finish(&mut self, now: I) {
        for node in &mut self.nodes {
            node.advance(Stamp {
                time: now,
                scheduled: now,
            });
        }
    }

    pub fn nodes(&self) -> &[Node<I>] {
        &self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Nanos, Seconds};
    use super::*;

    #[derive(Clone, Copy)]
    struct Plain(u32);

    impl Traveller for Plain {
        fn bytes(&self) -> u32 {
            1000
        }

        fn is_data(&self) -> bool {
            true
        }
    }

    #[derive(Default)]
    struct Drops(Vec<(u32, i64)>);

    impl<I: Instant> Observer<I, Plain> for Drops {
        fn dropped(
            &mut self,
            _node: usize,
            at: Stamp<I>,
            packet: &Plain,
            _reason: DropReason,
            _waiting: usize,
        ) {
            self.0.push((packet.0, at.time.to_ns()));
        }
    }

    fn node<I: Instant>(places: u64) -> Node<I> {
        // 1000 B at 8 Mbit/s: 1 ms each.
        Node::new(
            Link {
                rate_bps: Some(8e6),
                delay_ns: 5e6,
            },
            Limit::Packets(places),
            false,
        )
    }

    #[test]
    fn a_burst_waits_its_turn_and_overflows_the_rest() {
        let mut path = Path::new(vec![node::<Nanos>(2)], 0.0);
        let mut drops = Drops::default();
        for number in 0..5 {
            path.enter(Nanos(0), Plain(number), &mut Random::new(0), &mut drops);
        }
        let mut out = Vec::new();
        while let Some(at) = path.next() {
            out.push((path.leave().unwrap().0, at.time.0));
        }
        // One in service, two waiting; service 1 ms, propagation 5 ms.
        assert_eq!(out, [(0, 6_000_000), (1, 7_000_000), (2, 8_000_000)]);
        assert_eq!(drops.0, [(3, 0), (4, 0)]);
        path.finish(Nanos(10_000_000));
        assert!(path.nodes()[0].is_conserved());
        assert_eq!(path.nodes()[0].counters().packets_out, 3);
    }

    #[test]
    fn a_departure_decided_earlier_frees_its_place_for_an_arrival_at_the_same_time() {
        let mut path = Path::new(vec![node::<Seconds>(1)], 0.0);
        let mut drops = Drops::default();
        let mut enter =
            |at, number| path.enter(Seconds(at), Plain(number), &mut Random::new(0), &mut drops);
        enter(0.0, 0);
        enter(0.0, 1);
        // The service of 0 ends at exactly 1 ms: 1 leaves the queue, 2 takes its place, 3 finds it full.
        enter(0.001, 2);
        enter(0.001, 3);
        assert_eq!(drops.0, [(3, 1_000_000)]);
    }

    #[test]
    fn scheduled_losses_count_services_from_one_and_appear_at_the_end_of_service() {
        let mut path = Path::new(vec![node::<Nanos>(9).with_loss(0.0, &[2])], 0.0);
        let mut drops = Drops::default();
        for number in 0..3 {
            path.enter(Nanos(0), Plain(number), &mut Random::new(0), &mut drops);
        }
        assert_eq!(drops.0, [(1, 2_000_000)]);
        assert_eq!(path.on_the_way(), 2);
    }
}
