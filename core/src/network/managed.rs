//! A node whose queue is managed: a packet's fate hangs on those behind it, so it is decided when its turn comes.

use std::collections::VecDeque;

use super::discipline::{HeadOfLine, Waiting};
use super::node::Service;
use super::{DropReason, DropTail, Instant, Node, Observer, Random, Stamp, Traveller};

/// The packets at such a node, in step with its queue.
#[derive(Debug)]
pub(super) struct Standing<I, P> {
    pub node: usize,
    /// Reach the queue at these times: a node before it has worked out when.
    pub coming: VecDeque<(Stamp<I>, P)>,
    /// In the queue, the one in service not among them.
    waiting: VecDeque<P>,
}

/// What happened: somebody went on and is at the far end of the link then, or nobody.
pub(super) type Step<I, P> = Option<(Stamp<I>, P)>;

/// The queue between two services.
struct Turn<'a, I> {
    queue: &'a mut DropTail<Service<I>>,
    now: I,
    /// Since when each of those that are lost waited.
    lost: Vec<I>,
}

impl<I: Instant> Waiting for Turn<'_, I> {
    fn head(&self) -> Option<HeadOfLine> {
        let arrived = self.queue.in_service()?.start;
        Some(HeadOfLine {
            waited_ns: self.now.to_ns() - arrived.to_ns(),
            bytes_behind: self.queue.waiting_bytes(),
        })
    }

    fn lose(&mut self) {
        self.lost
            .extend(self.queue.lose().map(|service| service.start));
    }
}

impl<I: Instant> Node<I> {
    /// When the present service is over.
    fn over(&self) -> Option<Stamp<I>> {
        self.queue.in_service().map(|service| Stamp {
            time: service.end,
            scheduled: service.start,
        })
    }

    /// Somebody who arrived then has waited until now.
    fn count_wait(&mut self, arrived: I, now: I) {
        self.waited = self.waited.plus(now.since(arrived));
        if self.bin_ns == 0 {
            return;
        }
        let bin = arrived.to_ns().div_euclid(self.bin_ns);
        if let Ok(place) = self.bins.binary_search_by_key(&bin, |bin| bin.bin) {
            self.bins[place].wait_ns += now.to_ns() - arrived.to_ns();
        }
    }

    /// The server is free: how many are lost; and when the one that it takes, if there is one, is served.
    fn take_turn(&mut self, now: I) -> (usize, Option<Service<I>>) {
        let mut turn = Turn {
            queue: &mut self.queue,
            now,
            lost: Vec::new(),
        };
        if let Some(discipline) = &mut self.discipline {
            discipline.dequeue(now.to_ns(), &mut turn);
        }
        let lost = turn.lost;
        for &arrived in &lost {
            self.count_wait(arrived, now);
        }
        let Some((service, bytes)) = self.queue.head_mut() else {
            return (lost.len(), None);
        };
        let arrived = service.start;
        let end = now.plus(self.service_length(bytes));
        let begun = Service { start: now, end };
        if let Some((service, _)) = self.queue.head_mut() {
            *service = begun;
        }
        self.count_wait(arrived, now);
        (lost.len(), Some(begun))
    }
}

impl<I: Instant, P: Traveller> Standing<I, P> {
    pub fn new(node: usize) -> Self {
        Self {
            node,
            coming: VecDeque::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Packets whose turn has not come.
    pub fn inside(&self) -> usize {
        self.coming.len() + self.waiting.len()
    }

    /// When something happens here next. At equal times the one decided first comes first.
    pub fn next(&self, node: &Node<I>) -> Option<Stamp<I>> {
        let arrival = self.coming.front().map(|(at, _)| *at);
        match (node.over(), arrival) {
            (Some(over), Some(arrival)) => Some(if over <= arrival { over } else { arrival }),
            (over, arrival) => over.or(arrival),
        }
    }

    /// Lets the next thing happen if it is due; `None`: it is not.
    pub fn step(
        &mut self,
        node: &mut Node<I>,
        until: Stamp<I>,
        random: &mut Random,
        observer: &mut impl Observer<I, P>,
    ) -> Option<Step<I, P>> {
        let at = self.next(node).filter(|at| *at <= until)?;
        if node.over().is_some_and(|over| over <= at) {
            node.queue.leave();
            return Some(self.turn(node, at, random, observer));
        }
        let (at, packet) = self.coming.pop_front()?;
        let is_idle = node.queue.is_idle();
        // What it waits is counted when it has.
        let since = Service {
            start: at.time,
            end: I::NEVER,
        };
        if !node.is_admitted(self.node, at, since, &packet, observer) {
            return Some(None);
        }
        self.waiting.push_back(packet);
        Some(if is_idle {
            self.turn(node, at, random, observer)
        } else {
            None
        })
    }

    /// The server is free.
    fn turn(
        &mut self,
        node: &mut Node<I>,
        at: Stamp<I>,
        random: &mut Random,
        observer: &mut impl Observer<I, P>,
    ) -> Step<I, P> {
        let (lost, begun) = node.take_turn(at.time);
        for packet in self.waiting.drain(..lost) {
            let waiting = node.queue.waiting();
            observer.dropped(self.node, at, &packet, DropReason::Managed, waiting);
        }
        let service = begun?;
        let packet = self.waiting.pop_front()?;
        observer.started(self.node, at, &packet);
        observer.left(self.node, service.end, &packet);
        let over = Stamp {
            time: service.end,
            scheduled: service.start,
        };
        if node.has_losses {
            if let Some(reason) = node.loss_behind(&packet, random) {
                observer.dropped(self.node, over, &packet, reason, node.queue.waiting());
                return None;
            }
        }
        let arrival = Stamp {
            time: service.end.plus(node.propagation),
            scheduled: service.start,
        };
        Some((arrival, packet))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Capacity, CoDel, Discipline, Link, Nanos, Path};
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Numbered(usize, u32);

    impl Traveller for Numbered {
        fn bytes(&self) -> u32 {
            self.1
        }

        fn is_data(&self) -> bool {
            true
        }
    }

    #[derive(Default)]
    struct Drops(Vec<(usize, i64, usize, DropReason)>);

    impl Observer<Nanos, Numbered> for Drops {
        fn dropped(
            &mut self,
            node: usize,
            at: Stamp<Nanos>,
            packet: &Numbered,
            reason: DropReason,
            _waiting: usize,
        ) {
            self.0.push((packet.0, at.time.0, node, reason));
        }
    }

    /// A packet of 1000 bytes takes a millisecond; `target_ns`: with CoDel and this target.
    fn node(places: u64, rate_bps: f64, target_ns: Option<i64>) -> Node<Nanos> {
        let link = Link {
            rate_bps: Some(rate_bps),
            delay_ns: 2e6,
        };
        let codel = target_ns.map(|target_ns| {
            Box::new(CoDel::new(target_ns, 20_000_000, 1000)) as Box<dyn Discipline>
        });
        Node::new(link, Capacity::Packets(places), false)
            .with_discipline(codel)
            .with_bins(1_000_000)
    }

    type Seen = (Vec<(i64, usize)>, Vec<(usize, i64, usize, DropReason)>);

    /// As an event loop does it: what is due first, then who enters. Who comes out and when, and the drops.
    fn carry(path: &mut Path<Nanos, Numbered>, entering: &[(i64, u32)]) -> Seen {
        let (mut random, mut drops, mut out) = (Random::new(1), Drops::default(), Vec::new());
        let mut run = |path: &mut Path<Nanos, Numbered>, until: i64, drops: &mut Drops| {
            while let Some(at) = path.next().filter(|at| at.time.0 <= until) {
                if let Some(packet) = path.leave_at(at, &mut Random::new(1), drops) {
                    out.push((at.time.0, packet.0));
                }
            }
        };
        for (number, &(at, bytes)) in entering.iter().enumerate() {
            run(path, at, &mut drops);
            path.enter(Nanos(at), Numbered(number, bytes), &mut random, &mut drops);
        }
        run(path, i64::MAX - 1, &mut drops);
        path.finish(Nanos(i64::MAX - 1));
        assert!(path.nodes().iter().all(Node::is_conserved));
        assert_eq!(path.inside(), 0);
        drops.0.sort_by_key(|drop| (drop.1, drop.0));
        (out, drops.0)
    }

    fn times(gaps: &[(i64, u32)]) -> Vec<(i64, u32)> {
        let mut now = 0;
        gaps.iter()
            .map(|&(gap, bytes)| {
                now += gap;
                (now, bytes)
            })
            .collect()
    }

    #[test]
    fn a_packet_that_waited_too_long_is_lost_when_its_turn_comes() {
        // A packet each 0.5 ms, one served each: packet n arrives at n/2 ms. Waits pass 5 ms when packet 10's turn comes
        // at 10 ms (it arrived at 5): above the target from then on; an interval of 20 ms later, at 30 ms, packet 30
        // (arrived at 15 ms) is lost, and packet 31 is served in its place.
        let mut path = Path::new(vec![node(1000, 8e6, Some(5_000_000))], 0.0);
        let entering: Vec<_> = (0..100).map(|n| (n * 500_000, 1000)).collect();
        let (out, drops) = carry(&mut path, &entering);
        assert_eq!(drops[0], (30, 30_000_000, 0, DropReason::Managed));
        // 31 is out at 30 + 1 + 2 ms, when 30 would have been.
        assert_eq!(out[30], (33_000_000, 31));
    }

    proptest! {
        #[test]
        fn with_a_target_that_is_never_met_it_is_drop_tail(
            gaps in prop::collection::vec((0i64..1_500_000, 40u32..1500), 1..150), places in 1u64..12,
        ) {
            let entering = times(&gaps);
            let [managed, plain] = [Some(i64::MAX), None].map(|target| {
                let nodes = vec![node(places, 8e6, target), node(places, 6e6, None), node(places, 5e6, target)];
                let mut path = Path::new(nodes, 1e6);
                let seen = carry(&mut path, &entering);
                let books: Vec<_> = path.nodes().iter().map(|node| {
                    (node.counters(), node.waited_ns(), node.bins().to_vec())
                }).collect();
                (seen, books)
            });
            prop_assert_eq!(managed, plain);
        }

        #[test]
        fn nothing_overtakes_and_all_is_accounted_for(
            gaps in prop::collection::vec((0i64..1_500_000, 40u32..1500), 1..300), places in 5u64..60,
        ) {
            let nodes = vec![node(places, 8e6, Some(2_000_000)), node(places, 7e6, Some(3_000_000))];
            let (out, drops) = carry(&mut Path::new(nodes, 0.0), &times(&gaps));
            prop_assert!(out.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1));
            prop_assert_eq!(out.len() + drops.len(), gaps.len());
        }
    }
}
