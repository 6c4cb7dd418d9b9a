//! A path of nodes in one direction, worked out packet by packet.
//!
//! Everything enters at the first node and nothing overtakes, so behind drop-tail queues a packet's whole journey (where
//! it waits, when each node serves it, whether one is full) hangs only on packets that entered before it. It is therefore
//! computed when the packet enters: one event per packet and direction is left for the event loop, its arrival at the far
//! end. At a managed queue it hangs on later ones too: there the journey goes on when its turn comes (`settle`).

use std::collections::VecDeque;

use super::managed::Standing;
use super::{DropReason, Instant, Node, Observer, Random, Stamp, Traveller};

/// Nodes in a row, then the packets on their way to the far end.
#[derive(Debug)]
pub struct Path<I, P> {
    nodes: Vec<Node<I>>,
    /// Propagation behind the last node, or the whole way where there is no node.
    delay: I,
    has_delay: bool,
    ack_loss: f64,
    /// At each managed queue, in order.
    standing: Vec<Standing<I, P>>,
    on_the_way: VecDeque<(Stamp<I>, P)>,
}

impl<I: Instant, P: Traveller> Path<I, P> {
    pub fn new(nodes: Vec<Node<I>>, delay_ns: f64) -> Self {
        let managed = (0..nodes.len()).filter(|&number| nodes[number].is_managed());
        Self {
            standing: managed.map(Standing::new).collect(),
            nodes,
            delay: I::from_ns(delay_ns),
            has_delay: delay_ns > 0.0,
            ack_loss: 0.0,
            on_the_way: VecDeque::new(),
        }
    }

    /// Probability that a packet without data is lost at the far end.
    pub fn with_ack_loss(mut self, ack_loss: f64) -> Self {
        self.ack_loss = ack_loss;
        self
    }

    /// Whether a queue on the way is managed: then journeys are not known when they begin.
    pub fn is_managed(&self) -> bool {
        !self.standing.is_empty()
    }

    /// A packet enters at `now`. Returns whether `next` may have changed.
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
        self.enter_at(at, &packet, random, observer)
    }

    /// The same for a packet sent in answer to an event: the event's stamp says what it finds at the first node.
    pub fn enter_at(
        &mut self,
        at: Stamp<I>,
        packet: &P,
        random: &mut Random,
        observer: &mut impl Observer<I, P>,
    ) -> bool {
        if self.is_managed() {
            self.go_on(0, at, packet, random, observer);
            self.settle(at, random, observer);
            return true;
        }
        let arrival = self.travel(at, packet, random, observer);
        arrival.is_some_and(|arrival| self.put(arrival, *packet))
    }

    /// Works out the journey of one that enters: when it comes out. `None`: it is lost, as the observer was told.
    /// No queue is managed.
    #[inline]
    pub fn travel<T: Traveller>(
        &mut self,
        mut at: Stamp<I>,
        traveller: &T,
        random: &mut Random,
        observer: &mut impl Observer<I, T>,
    ) -> Option<Stamp<I>> {
        debug_assert!(!self.is_managed());
        for (number, node) in self.nodes.iter_mut().enumerate() {
            at = node.arrive(number, at, traveller, random, observer)?;
        }
        self.pass_back(at, traveller, random, observer)
    }

    /// A packet reaches node `from` at `at`: as far as its journey is known now.
    fn go_on(
        &mut self,
        from: usize,
        mut at: Stamp<I>,
        packet: &P,
        random: &mut Random,
        observer: &mut impl Observer<I, P>,
    ) {
        for number in from..self.nodes.len() {
            let standing = self.standing.iter_mut().find(|row| row.node == number);
            if let Some(standing) = standing {
                standing.coming.push_back((at, *packet));
                return;
            }
            match self.nodes[number].arrive(number, at, packet, random, observer) {
                Some(arrival) => at = arrival,
                None => return,
            }
        }
        if let Some(arrival) = self.pass_back(at, packet, random, observer) {
            self.put(arrival, *packet);
        }
    }

    /// Decides at the managed queues whose turn comes until `until`; nothing enters before that any more.
    pub fn settle(
        &mut self,
        until: Stamp<I>,
        random: &mut Random,
        observer: &mut impl Observer<I, P>,
    ) {
        for place in 0..self.standing.len() {
            let number = self.standing[place].node;
            while let Some(step) =
                self.standing[place].step(&mut self.nodes[number], until, random, observer)
            {
                if let Some((arrival, packet)) = step {
                    self.go_on(number + 1, arrival, &packet, random, observer);
                }
            }
        }
    }

    /// Behind the last node.
    #[inline]
    fn pass_back<T: Traveller>(
        &self,
        mut at: Stamp<I>,
        traveller: &T,
        random: &mut Random,
        observer: &mut impl Observer<I, T>,
    ) -> Option<Stamp<I>> {
        if self.has_delay {
            at = Stamp {
                time: at.time.plus(self.delay),
                scheduled: at.time,
            };
        }
        if self.ack_loss > 0.0 && !traveller.is_data() && random.chance(self.ack_loss) {
            observer.dropped(self.nodes.len(), at, traveller, DropReason::AckLoss, 0);
            return None;
        }
        Some(at)
    }

    /// Puts a packet whose journey is known on its way. Returns whether it is the next to come out.
    #[inline]
    pub fn put(&mut self, arrival: Stamp<I>, packet: P) -> bool {
        self.on_the_way.push_back((arrival, packet));
        self.on_the_way.len() == 1
    }

    /// When the next packet comes out, or something is decided at a managed queue.
    pub fn next(&self) -> Option<Stamp<I>> {
        let out = self.on_the_way.front().map(|(at, _)| *at);
        let decided = self.standing.iter();
        let decided = decided.filter_map(|standing| standing.next(&self.nodes[standing.node]));
        decided.chain(out).reduce(|a, b| if b < a { b } else { a })
    }

    /// When the next packet comes out of those whose journey is known; `NEVER` for none.
    #[inline]
    pub fn next_out(&self) -> Stamp<I> {
        match self.on_the_way.front() {
            Some((at, _)) => *at,
            None => Stamp::NEVER,
        }
    }

    /// Takes the next packet out; `None`: none is on its way.
    #[inline]
    pub fn leave(&mut self) -> Option<P> {
        let packet = *self.first()?;
        self.drop_first();
        Some(packet)
    }

    /// The next packet to come out. Copied from here it is copied once: an answer by value goes through two more places.
    #[inline(always)]
    pub fn first(&self) -> Option<&P> {
        self.on_the_way.front().map(|(_, packet)| packet)
    }

    #[inline(always)]
    pub fn drop_first(&mut self) {
        self.on_the_way.pop_front();
    }

    /// Takes out the packet that is due at `at`, the time of `next`; `None`: it was a turn at a managed queue.
    #[inline]
    pub fn leave_at(
        &mut self,
        at: Stamp<I>,
        random: &mut Random,
        observer: &mut impl Observer<I, P>,
    ) -> Option<P> {
        if self.is_managed() {
            self.settle(at, random, observer);
            self.on_the_way.front().filter(|(due, _)| *due <= at)?;
        }
        self.leave()
    }

    /// Packets on their way that are not lost so far.
    pub fn inside(&self) -> usize {
        let standing = self.standing.iter().map(Standing::inside);
        self.on_the_way.len() + standing.sum::<usize>()
    }

    /// Takes out the next packet that has passed every node, and when it comes out.
    pub fn take(&mut self) -> Option<(Stamp<I>, P)> {
        self.on_the_way.pop_front()
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

    pub fn nodes_mut(&mut self) -> &mut [Node<I>] {
        &mut self.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Capacity, Link, Nanos, Seconds};
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
            Capacity::Packets(places),
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
        assert_eq!(std::iter::from_fn(|| path.leave()).count(), 2);
    }

    #[test]
    fn a_node_that_nobody_watches_keeps_the_same_times_and_counts() {
        let unlimited = |until| {
            let link = Link {
                rate_bps: Some(8e6),
                delay_ns: 5e6,
            };
            Node::new(link, Capacity::Unlimited, false).unwatched_until(until)
        };
        let end = Nanos(20_000_000);
        let ends = [Nanos::ZERO, end].map(|until| {
            let mut path = Path::new(vec![unlimited(until)], 0.0);
            // Bursts and gaps; the last packets are still there at the end.
            for (number, at) in [0, 0, 0, 7, 8, 8, 17, 17, 17, 17, 17, 19]
                .iter()
                .enumerate()
            {
                let packet = Plain(number as u32);
                path.enter(
                    Nanos(at * 1_000_000),
                    packet,
                    &mut Random::new(0),
                    &mut Drops::default(),
                );
            }
            let mut out = Vec::new();
            while let Some(at) = path.next() {
                out.push((path.leave().unwrap().0, at.time.0, at.scheduled.0));
            }
            path.finish(end);
            let node = &path.nodes()[0];
            assert!(node.is_conserved());
            (out, node.counters(), node.waiting(), node.waited_ns())
        });
        assert_eq!(ends[0], ends[1]);
        assert_eq!(ends[0].2, 2);
    }
}
