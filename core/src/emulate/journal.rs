//! What happened on the path: every drop, queue lengths in bins, how late packets were delivered.
//!
//! Times are virtual while the path runs; a packet's journey is known when it enters, so some lie ahead. They are
//! turned into the captures' clock at the end, when all freezes are known.

use super::packet::{Label, Way};
use crate::network::{DropReason, Nanos, Observer, Stamp};

/// Width of a queue bin.
pub const BIN_NS: i64 = 10_000_000;

/// One lost packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    pub time_ns: i64,
    /// From 1, in the direction of travel; 0: on the pure delay of the way back.
    pub node: usize,
    pub reason: DropReason,
    /// Packets waiting, the one in service not counted.
    pub waiting: usize,
    pub label: Label,
}

/// A packet arrived at a node of the forward direction.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    time_ns: i64,
    node: usize,
    /// Packets waiting afterwards.
    waiting: usize,
    is_dropped: bool,
}

/// One node of the forward direction during 10 ms; bins in which nothing arrived are absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    pub time_ns: i64,
    pub node: usize,
    pub arrivals: u64,
    pub drops: u64,
    /// Packets waiting after an arrival, the one in service not counted: most, and last.
    pub max: usize,
    pub last: usize,
}

/// All of it, growing while the path runs.
#[derive(Debug, Default)]
pub struct Journal {
    pub drops: Vec<Dropped>,
    arrivals: Vec<Arrival>,
    /// Delivery after the packet was due, in nanoseconds of real time.
    lateness_ns: Vec<i64>,
}

impl Journal {
    /// What looks at one direction for us.
    pub fn observer(&mut self, way: Way) -> JournalWriter<'_> {
        JournalWriter { journal: self, way }
    }

    pub fn delivered(&mut self, late_ns: i64) {
        self.lateness_ns.push(late_ns);
    }

    /// Packets lost in one direction.
    pub fn lost(&self, is_reverse: bool) -> u64 {
        let lost = self
            .drops
            .iter()
            .filter(|drop| drop.label.is_reverse == is_reverse);
        lost.count() as u64
    }

    /// Drops by time, on the clock that `wall` leads to.
    pub fn drops_on(&self, wall: impl Fn(i64) -> i64) -> Vec<Dropped> {
        let mut drops: Vec<_> = self
            .drops
            .iter()
            .map(|drop| Dropped {
                time_ns: wall(drop.time_ns),
                ..*drop
            })
            .collect();
        drops.sort_by_key(|drop| drop.time_ns);
        drops
    }

    /// Bins by time and node, on the clock that `wall` leads to.
    pub fn bins_on(&self, wall: impl Fn(i64) -> i64) -> Vec<Bin> {
        let mut arrivals: Vec<_> = self
            .arrivals
            .iter()
            .map(|arrival| {
                let time_ns = wall(arrival.time_ns);
                (time_ns - time_ns.rem_euclid(BIN_NS), *arrival)
            })
            .collect();
        // Stable: within a bin and node, arrivals stay in order.
        arrivals.sort_by_key(|&(start, arrival)| (start, arrival.node));
        let mut bins: Vec<Bin> = Vec::new();
        for (start, arrival) in arrivals {
            let is_open = bins
                .last()
                .is_some_and(|bin| (bin.time_ns, bin.node) == (start, arrival.node));
            if !is_open {
                bins.push(Bin {
                    time_ns: start,
                    node: arrival.node,
                    arrivals: 0,
                    drops: 0,
                    max: 0,
                    last: 0,
                });
            }
            let bin = bins.last_mut().expect("just pushed");
            bin.arrivals += 1;
            bin.drops += u64::from(arrival.is_dropped);
            bin.max = bin.max.max(arrival.waiting);
            bin.last = arrival.waiting;
        }
        bins
    }

    /// Lateness at the given shares (0.5 the median), in nanoseconds; nothing was delivered: empty.
    pub fn lateness_percentiles(&self, shares: &[f64]) -> Vec<i64> {
        let mut sorted = self.lateness_ns.clone();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else {
            return Vec::new();
        };
        shares
            .iter()
            .map(|share| sorted[(share * last as f64).round() as usize])
            .collect()
    }
}

/// Writes into the journal while a packet's journey is worked out.
pub struct JournalWriter<'a> {
    journal: &'a mut Journal,
    way: Way,
}

impl JournalWriter<'_> {
    /// The arrival that is being looked at; arrivals are kept of the forward direction.
    fn arrival(&mut self) -> Option<&mut Arrival> {
        match self.way {
            Way::Forward => self.journal.arrivals.last_mut(),
            Way::Reverse => None,
        }
    }
}

impl Observer<Nanos, Label> for JournalWriter<'_> {
    fn arrived(&mut self, node: usize, at: Stamp<Nanos>, _packet: &Label, waiting: usize) {
        if self.way == Way::Forward {
            self.journal.arrivals.push(Arrival {
                time_ns: at.time.0,
                node: node + 1,
                waiting,
                is_dropped: false,
            });
        }
    }

    fn admitted(&mut self, _node: usize, waiting: usize) {
        if let Some(arrival) = self.arrival() {
            arrival.waiting = waiting;
        }
    }

    fn dropped(
        &mut self,
        node: usize,
        at: Stamp<Nanos>,
        packet: &Label,
        reason: DropReason,
        waiting: usize,
    ) {
        if matches!(reason, DropReason::Overflow | DropReason::Policed) {
            if let Some(arrival) = self.arrival() {
                arrival.is_dropped = true;
            }
        }
        self.journal.drops.push(Dropped {
            time_ns: at.time.0,
            node: if reason == DropReason::AckLoss {
                0
            } else {
                node + 1
            },
            reason,
            waiting,
            label: *packet,
        });
    }
}
