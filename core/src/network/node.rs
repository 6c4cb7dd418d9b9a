//! A node of a path: a policer, a queue, its link, the losses behind it, and who may watch.

use std::collections::VecDeque;

use super::{Capacity, Counters, Discipline, DropTail, Instant, Link, Policer, Random, Stamp};

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
    /// The queue's management, when its turn came.
    Managed,
    /// The policer's bucket was empty.
    Policed,
}

impl DropReason {
    /// In the order of their codes.
    pub const ALL: [Self; 6] = [
        Self::Overflow,
        Self::Random,
        Self::Scheduled,
        Self::AckLoss,
        Self::Managed,
        Self::Policed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Random => "random",
            Self::Scheduled => "scheduled",
            Self::AckLoss => "ackloss",
            Self::Managed => "codel",
            Self::Policed => "policed",
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
    /// The one that arrived has a place; `waiting` now, the one in service not counted.
    fn admitted(&mut self, _node: usize, _waiting: usize) {}
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

/// When a packet is in service; one that waits in a managed queue since `start` is not served yet (`end` is never).
#[derive(Clone, Copy, Debug)]
pub(super) struct Service<I> {
    pub start: I,
    pub end: I,
}

impl<I: Instant> Service<I> {
    /// At equal times the one decided first comes first.
    #[inline]
    pub fn is_over(&self, at: Stamp<I>) -> bool {
        self.end < at.time || (self.end == at.time && self.start <= at.scheduled)
    }
}

/// A queue, its link, and the losses behind it.
#[derive(Debug)]
pub struct Node<I> {
    link: Link,
    pub(super) propagation: I,
    policer: Option<Policer>,
    pub(super) queue: DropTail<Service<I>>,
    pub(super) discipline: Option<Box<dyn Discipline>>,
    /// Services that end before are not put into the queue.
    unwatched_until: I,
    last: Service<I>,
    pub(super) has_losses: bool,
    loss: f64,
    /// Data packets to lose, ascending; `served` counts data packets from 1.
    drop_packets: VecDeque<u64>,
    served: u64,
    pub(super) bin_ns: i64,
    pub(super) bins: Vec<QueueBin>,
    /// Sum of all packets' waiting times: over a length of time, the mean queue (Little).
    pub(super) waited: I,
    /// The last packet's size and serialisation time: nearly always those of the next.
    sized: (u32, I),
}

impl<I: Instant> Node<I> {
    pub fn new(link: Link, limit: Capacity, counts_in_service: bool) -> Self {
        Self {
            link,
            propagation: I::propagation(&link),
            policer: None,
            queue: DropTail::new(limit, counts_in_service),
            discipline: None,
            unwatched_until: I::ZERO,
            last: Service {
                start: I::ZERO,
                end: I::ZERO,
            },
            has_losses: false,
            loss: 0.0,
            drop_packets: VecDeque::new(),
            served: 0,
            bin_ns: 0,
            bins: Vec::new(),
            waited: I::ZERO,
            sized: (0, I::service(&link, 0)),
        }
    }

    #[inline]
    pub(super) fn service_length(&mut self, bytes: u32) -> I {
        if self.sized.0 != bytes {
            self.size(bytes);
        }
        self.sized.1
    }

    #[cold]
    fn size(&mut self, bytes: u32) {
        self.sized = (bytes, I::service(&self.link, bytes));
    }

    /// Independent loss behind the node, and data packets lost by number of service from 1.
    pub fn with_loss(mut self, loss: f64, drop_packets: &[u64]) -> Self {
        let mut numbers = drop_packets.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        self.has_losses = loss > 0.0 || !numbers.is_empty();
        self.loss = loss;
        self.drop_packets = numbers.into();
        self
    }

    /// What has no token does not reach the queue.
    pub fn with_policer(mut self, policer: Option<Policer>) -> Self {
        self.policer = policer;
        self
    }

    /// Who waits is served as this says, not as he came.
    pub fn with_discipline(mut self, discipline: Option<Box<dyn Discipline>>) -> Self {
        self.discipline = discipline;
        self
    }

    pub fn is_managed(&self) -> bool {
        self.discipline.is_some()
    }

    /// Nobody will ask for the queue before `end`. An unlimited node without losses then needs none: its times follow
    /// from the last service.
    pub fn unwatched_until(mut self, end: I) -> Self {
        let is_plain = self.queue.is_unlimited() && self.policer.is_none() && !self.is_managed();
        if is_plain && !self.has_losses && self.bin_ns == 0 {
            self.unwatched_until = end;
        }
        self
    }

    /// Logs the queue in bins of this length; 0: not at all.
    pub fn with_bins(mut self, bin_ns: i64) -> Self {
        self.bin_ns = bin_ns;
        self
    }

    /// Ends every service that lies before `at`.
    #[inline]
    pub(super) fn advance(&mut self, at: Stamp<I>) {
        while self
            .queue
            .in_service()
            .is_some_and(|service| service.is_over(at))
        {
            self.queue.leave();
        }
    }

    /// When it is at the far end of the link; `None`: it is lost.
    #[inline]
    pub(super) fn arrive<P: Traveller>(
        &mut self,
        number: usize,
        at: Stamp<I>,
        packet: &P,
        random: &mut Random,
        observer: &mut impl Observer<I, P>,
    ) -> Option<Stamp<I>> {
        let starts = if self.last.is_over(at) {
            at
        } else {
            Stamp {
                time: self.last.end,
                scheduled: self.last.start,
            }
        };
        let length = self.service_length(packet.bytes());
        let service = Service {
            start: starts.time,
            end: starts.time.plus(length),
        };
        // ns-2 adds the delay to the transmission time before it adds both to the clock.
        let arrival = Stamp {
            time: service.start.plus(length.plus(self.propagation)),
            scheduled: service.start,
        };
        let waited = self.waited.plus(service.start.since(at.time));
        if service.end < self.unwatched_until {
            self.queue.pass(packet.bytes());
            self.last = service;
            self.waited = waited;
            return Some(arrival);
        }
        self.advance(at);
        let waiting = self.queue.waiting();
        if !self.is_admitted(number, at, service, packet, observer) {
            return None;
        }
        self.last = service;
        self.waited = waited;
        observer.started(number, starts, packet);
        observer.left(number, service.end, packet);
        let loss = if self.has_losses {
            self.loss_behind(packet, random)
        } else {
            None
        };
        if let Some(reason) = loss {
            let end = Stamp {
                time: service.end,
                scheduled: service.start,
            };
            observer.dropped(number, end, packet, reason, waiting);
            return None;
        }
        Some(arrival)
    }

    /// Whether the policer lets it pass, and the queue, brought up to date, has a place.
    #[inline]
    pub(super) fn is_admitted<P: Traveller>(
        &mut self,
        number: usize,
        at: Stamp<I>,
        service: Service<I>,
        packet: &P,
        observer: &mut impl Observer<I, P>,
    ) -> bool {
        let waiting = self.queue.waiting();
        observer.arrived(number, at, packet, waiting);
        let refused = self.refused(at, service, packet.bytes());
        match refused {
            None => observer.admitted(number, self.queue.waiting()),
            Some(reason) => observer.dropped(number, at, packet, reason, waiting),
        }
        if self.bin_ns != 0 {
            self.count_in_bin(at, refused.is_none().then_some(service.start));
        }
        refused.is_none()
    }

    /// Why one that arrives is lost; `None`: it is in the queue.
    #[inline]
    fn refused(&mut self, at: Stamp<I>, service: Service<I>, bytes: u32) -> Option<DropReason> {
        if let Some(policer) = &mut self.policer {
            if !policer.lets_pass(at.time.to_ns(), bytes) {
                self.queue.turn_away(bytes);
                return Some(DropReason::Policed);
            }
        }
        (!self.queue.arrive(service, bytes)).then_some(DropReason::Overflow)
    }

    #[inline(never)]
    pub(super) fn loss_behind<P: Traveller>(
        &mut self,
        packet: &P,
        random: &mut Random,
    ) -> Option<DropReason> {
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

    /// `starts`: of an admitted packet, when its service does.
    fn count_in_bin(&mut self, at: Stamp<I>, starts: Option<I>) {
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
        last.drops += u32::from(starts.is_none());
        last.waiting_max = last.waiting_max.max(waiting);
        last.waiting_last = waiting;
        let waited = starts.map_or(0, |starts| (starts.to_ns() - at.time.to_ns()).max(0));
        // A service may begin at the end of time.
        last.wait_ns = last.wait_ns.saturating_add(waited);
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
        self.waited.to_ns()
    }

    pub fn bins(&self) -> &[QueueBin] {
        &self.bins
    }

    /// Takes out the bins that will not change any more: all but the last.
    pub fn take_bins(&mut self) -> Vec<QueueBin> {
        let mut complete = self.bins.len().saturating_sub(1);
        if let (true, Some(oldest)) = (self.is_managed(), self.queue.first_waiting()) {
            // How long it waits is not known yet.
            let open = oldest.start.to_ns().div_euclid(self.bin_ns.max(1));
            complete = complete.min(self.bins.partition_point(|bin| bin.bin < open));
        }
        self.bins.drain(..complete).collect()
    }
}
