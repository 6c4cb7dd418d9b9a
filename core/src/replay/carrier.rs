//! One scenario's two directions, and the books of what the recorded packets met there.

use std::collections::VecDeque;

use super::entrance::{NO_PAIR, Passing};
use super::impossible::Acknowledged;
use crate::network::{DropReason, Nanos, Observer, Path, Random, Stamp, Traveller};
use crate::scenario::Scenario;
use crate::simulate::{Logs, NodeTotals, paths};

/// A packet that the path lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedPacket {
    pub time_ns: i64,
    pub node: u32,
    pub reason: DropReason,
    pub waiting: u32,
    pub packet: Passing,
}

/// When a packet entered and left; `None`: it was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    pub record: u64,
    pub is_reverse: bool,
    pub ip_len: u32,
    pub entered_ns: i64,
    pub left_ns: Option<i64>,
}

/// How long packets were on the way: counts in buckets of equal ratio, whatever their number.
#[derive(Clone, Debug)]
pub struct Delays {
    buckets: Vec<u64>,
    count: u64,
    sum_ns: f64,
    pub max_ns: i64,
}

/// Buckets per doubling, a power of two: a percentile is right to 0.2 %.
const OCTAVE_BITS: u32 = 8;
const PER_OCTAVE: u32 = 1 << OCTAVE_BITS;

impl Default for Delays {
    fn default() -> Self {
        Self {
            buckets: vec![0; (64 * PER_OCTAVE) as usize],
            count: 0,
            sum_ns: 0.0,
            max_ns: 0,
        }
    }
}

impl Delays {
    #[inline]
    fn push(&mut self, ns: i64) {
        let value = ns.max(0) as u64;
        let octave = u64::BITS - value.leading_zeros();
        // The bits behind the leading one.
        let within = if octave > OCTAVE_BITS {
            (value >> (octave - OCTAVE_BITS - 1)) as u32 & (PER_OCTAVE - 1)
        } else {
            value as u32
        };
        let bucket = octave.saturating_sub(OCTAVE_BITS) * PER_OCTAVE + within;
        self.buckets[bucket as usize] += 1;
        self.count += 1;
        self.sum_ns += ns as f64;
        self.max_ns = self.max_ns.max(ns);
    }

    pub fn mean_ns(&self) -> f64 {
        self.sum_ns / self.count as f64
    }

    /// The least delay that so large a share of the packets did not exceed; `None`: there were none.
    pub fn percentile_ns(&self, share: f64) -> Option<i64> {
        if self.count == 0 {
            return None;
        }
        let wanted = ((share * self.count as f64).ceil() as u64).max(1);
        let mut passed = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            passed += count;
            if passed >= wanted {
                let (octave, within) = (bucket as u32 / PER_OCTAVE, bucket as u32 % PER_OCTAVE);
                // The middle of the bucket.
                let value = if octave == 0 {
                    u64::from(within)
                } else {
                    (u64::from(PER_OCTAVE + within) << (octave - 1)) + ((1 << (octave - 1)) >> 1)
                };
                return Some((value as i64).min(self.max_ns));
            }
        }
        Some(self.max_ns)
    }
}

/// Totals of one direction.
#[derive(Clone, Debug, Default)]
pub struct WayTotals {
    pub packets: u64,
    pub bytes: u64,
    pub out: u64,
    pub bytes_out: u64,
    /// By `DropReason`.
    pub dropped: [u64; DropReason::ALL.len()],
    pub data_dropped: u64,
    pub delays: Delays,
    pub first_ns: Option<i64>,
    pub last_ns: i64,
    pub last_out_ns: i64,
}

/// A packet in a path with a managed queue: its fate is known only later.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    /// Of all that entered, from 0.
    number: u64,
    packet: Passing,
}

impl Traveller for Numbered {
    fn bytes(&self) -> u32 {
        self.packet.bytes()
    }

    fn is_data(&self) -> bool {
        self.packet.is_data()
    }
}

/// Carries packets through one scenario's path.
pub struct Carrier {
    paths: [Path<Nanos, Numbered>; 2],
    /// Packets whose fate, or that of one before them, is not known; and when they left (`Some(None)`: lost).
    undecided: VecDeque<(Passing, Option<Option<i64>>)>,
    /// Packets whose fate is known.
    decided: u64,
    random: Random,
    pub ways: [WayTotals; 2],
    pub acknowledged: Acknowledged,
    pub drops: Vec<DroppedPacket>,
    pub delays: Vec<Passage>,
    keeps_rows: bool,
    is_managed: bool,
}

/// Where a direction's drops are written down.
struct Watch<'a> {
    way: &'a mut WayTotals,
    drops: Option<&'a mut Vec<DroppedPacket>>,
    /// Numbers of the lost.
    lost: Vec<u64>,
}

impl Observer<Nanos, Numbered> for Watch<'_> {
    fn dropped(
        &mut self,
        node: usize,
        at: Stamp<Nanos>,
        packet: &Numbered,
        reason: DropReason,
        waiting: usize,
    ) {
        self.lost.push(packet.number);
        self.dropped(node, at, &packet.packet, reason, waiting);
    }
}

impl Observer<Nanos, Passing> for Watch<'_> {
    fn dropped(
        &mut self,
        node: usize,
        at: Stamp<Nanos>,
        packet: &Passing,
        reason: DropReason,
        waiting: usize,
    ) {
        self.way.dropped[reason as usize] += 1;
        self.way.data_dropped += u64::from(packet.tcp.payload_len > 0);
        if let Some(drops) = &mut self.drops {
            drops.push(DroppedPacket {
                time_ns: at.time.0,
                node: node as u32,
                reason,
                waiting: waiting as u32,
                packet: *packet,
            });
        }
    }
}

impl Carrier {
    /// With `keeps_rows` every drop and every delay is kept, not only counted.
    pub fn new(scenario: &Scenario, keeps_rows: bool) -> Self {
        Self {
            paths: paths(
                scenario,
                Logs {
                    events: false,
                    truth: keeps_rows,
                },
            ),
            undecided: VecDeque::new(),
            decided: 0,
            random: Random::new(scenario.seed),
            ways: Default::default(),
            acknowledged: Acknowledged::default(),
            drops: Vec::new(),
            delays: Vec::new(),
            keeps_rows,
            is_managed: scenario.is_managed(),
        }
    }

    /// The next packet, in order of time. `told` hears of each packet whose fate is known now, in the order in which they
    /// entered: when it comes out; `None`: it is lost. Where no queue is managed that is this packet.
    #[inline]
    pub fn carry(&mut self, packet: &Passing, mut told: impl FnMut(&Passing, Option<i64>)) {
        let direction = usize::from(packet.is_reverse);
        let way = &mut self.ways[direction];
        way.packets += 1;
        way.bytes += u64::from(packet.ip_len);
        way.first_ns.get_or_insert(packet.time_ns);
        way.last_ns = packet.time_ns;
        let now = Nanos(packet.time_ns);
        let at = Stamp {
            time: now,
            scheduled: now,
        };
        if self.is_managed {
            self.carry_slowly(at, packet);
            return self.tell(&mut told);
        }
        let mut watch = Watch {
            way,
            drops: self.keeps_rows.then_some(&mut self.drops),
            lost: Vec::new(),
        };
        let left = self.paths[direction].travel(at, packet, &mut self.random, &mut watch);
        let left_ns = left.map(|left| left.time.0);
        self.count(packet, left_ns);
        told(packet, left_ns);
    }

    /// A packet enters a path in which fates are decided later.
    fn carry_slowly(&mut self, at: Stamp<Nanos>, packet: &Passing) {
        let number = self.decided + self.undecided.len() as u64;
        self.undecided.push_back((*packet, None));
        let entering = Numbered {
            number,
            packet: *packet,
        };
        let entered = usize::from(packet.is_reverse);
        for direction in [1 - entered, entered] {
            self.follow(direction, |path, random, watch| {
                if direction == entered {
                    path.enter_at(at, &entering, random, watch);
                } else {
                    path.settle(at, random, watch);
                }
            });
        }
    }

    /// Lets something happen in one direction, and notes whose fate is known then.
    fn follow(
        &mut self,
        direction: usize,
        happen: impl FnOnce(&mut Path<Nanos, Numbered>, &mut Random, &mut Watch<'_>),
    ) {
        let mut watch = Watch {
            way: &mut self.ways[direction],
            drops: self.keeps_rows.then_some(&mut self.drops),
            lost: Vec::new(),
        };
        let path = &mut self.paths[direction];
        happen(path, &mut self.random, &mut watch);
        let lost = watch.lost;
        let out = std::iter::from_fn(|| path.take());
        let out = out.map(|(at, packet)| (packet.number, Some(at.time.0)));
        for (number, left_ns) in lost.into_iter().map(|number| (number, None)).chain(out) {
            self.undecided[(number - self.decided) as usize].1 = Some(left_ns);
        }
    }

    /// Tells of everybody whose fate is known, and of those before him.
    fn tell(&mut self, told: &mut impl FnMut(&Passing, Option<i64>)) {
        while let Some(&(packet, Some(left_ns))) = self.undecided.front() {
            self.undecided.pop_front();
            self.decided += 1;
            self.count(&packet, left_ns);
            told(&packet, left_ns);
        }
    }

    /// After the last packet: everybody's turn comes.
    pub fn settle(&mut self, mut told: impl FnMut(&Passing, Option<i64>)) {
        let never = Stamp {
            time: Nanos(i64::MAX - 1),
            scheduled: Nanos(i64::MAX - 1),
        };
        for direction in 0..2 {
            self.follow(direction, |path, random, watch| {
                path.settle(never, random, watch);
            });
        }
        self.tell(&mut told);
    }

    /// What became of a packet, in the books.
    #[inline]
    fn count(&mut self, packet: &Passing, left_ns: Option<i64>) {
        let way = &mut self.ways[usize::from(packet.is_reverse)];
        if let Some(left_ns) = left_ns {
            way.out += 1;
            way.bytes_out += u64::from(packet.ip_len);
            way.delays.push(left_ns - packet.time_ns);
            way.last_out_ns = way.last_out_ns.max(left_ns);
        }
        if packet.pair != NO_PAIR {
            self.acknowledged.on_segment(packet, left_ns);
        }
        if self.keeps_rows {
            self.delays.push(Passage {
                record: packet.record,
                is_reverse: packet.is_reverse,
                ip_len: packet.ip_len,
                entered_ns: packet.time_ns,
                left_ns,
            });
        }
    }

    /// Every node's totals after the last packet has left.
    pub fn finish(&mut self) -> Vec<NodeTotals> {
        let end = self.ways.iter().map(|way| way.last_out_ns.max(way.last_ns));
        let end = Nanos(end.max().unwrap_or(0));
        let mut totals = Vec::new();
        for (path, is_reverse) in self.paths.iter_mut().zip([false, true]) {
            path.finish(end);
            for (number, node) in path.nodes().iter().enumerate() {
                totals.push(NodeTotals {
                    is_reverse,
                    number: number as u32,
                    counters: node.counters(),
                    waiting: node.waiting() as u64,
                    is_conserved: node.is_conserved(),
                    bins: node.bins().to_vec(),
                    waited_ns: node.waited_ns(),
                });
            }
        }
        self.drops.sort_by_key(|drop| drop.time_ns);
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_percentile_is_right_to_a_quarter_percent(mut values in prop::collection::vec(0_i64..10_000_000_000, 1..200), share in 0.0_f64..1.0) {
            let mut delays = Delays::default();
            for value in &values {
                delays.push(*value);
            }
            values.sort_unstable();
            let wanted = ((share * values.len() as f64).ceil() as usize).max(1);
            let exact = values[wanted - 1];
            let found = delays.percentile_ns(share).unwrap();
            prop_assert!((found - exact).abs() as f64 <= 0.0025 * exact as f64 + 1.0, "{found} for {exact}");
            prop_assert_eq!(delays.max_ns, *values.last().unwrap());
        }
    }
}
