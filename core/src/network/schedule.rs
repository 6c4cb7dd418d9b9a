//! What happens next: a tournament over a fixed set of sources, each with at most one pending time.
//!
//! A link delivers in order and a timer has one deadline, so a run needs one entry per link end and timer, however
//! many packets are in flight: the cost of an event does not grow with the window.

use super::{Instant, Stamp};

/// Time, when it was decided, and the order of setting: compared as plain integers.
type Key = (u64, u64, u64);

const NEVER: Key = (u64::MAX, u64::MAX, u64::MAX);

/// Up to so many sources the least is looked for when it is asked for: a run of one connection sets two per event.
const SCANNED: usize = 8;

/// The earliest of the sources' times; of equal ones the one decided first, then the one set first.
#[derive(Debug)]
pub struct Schedule<I> {
    /// Leaves per source, padded to a power of two.
    keys: Vec<Key>,
    times: Vec<Option<Stamp<I>>>,
    /// winners[1] is the earliest source of all, winners[n]'s children are 2n and 2n + 1; leaves follow.
    winners: Vec<u32>,
    order: u64,
}

impl<I: Instant> Schedule<I> {
    pub fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two().max(2);
        let mut winners: Vec<u32> = vec![0; 2 * leaves];
        for leaf in 0..leaves {
            winners[leaves + leaf] = leaf as u32;
        }
        for inner in (1..leaves).rev() {
            winners[inner] = winners[2 * inner];
        }
        Self {
            keys: vec![NEVER; leaves],
            times: vec![None; leaves],
            winners,
            order: 0,
        }
    }

    /// Sets or clears a source's time.
    pub fn set(&mut self, source: usize, at: Option<Stamp<I>>) {
        self.order += 1;
        self.times[source] = at;
        self.keys[source] = at.map_or(NEVER, |at| (at.time.key(), at.scheduled.key(), self.order));
        if self.is_scanned() {
            return;
        }
        let mut node = (source + self.keys.len()) / 2;
        while node >= 1 {
            let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
            let is_right = self.keys[right as usize] < self.keys[left as usize];
            let winner = if is_right { right } else { left };
            if self.winners[node] == winner && winner as usize != source {
                // Neither was nor is the winner here: nothing changes further up.
                return;
            }
            self.winners[node] = winner;
            node /= 2;
        }
    }

    fn is_scanned(&self) -> bool {
        self.keys.len() <= SCANNED
    }

    pub fn get(&self, source: usize) -> Option<Stamp<I>> {
        self.times[source]
    }

    /// The next source and its time.
    pub fn next(&self) -> Option<(usize, Stamp<I>)> {
        let source = if self.is_scanned() {
            let mut least = 0;
            for (source, key) in self.keys.iter().enumerate().skip(1) {
                if *key < self.keys[least] {
                    least = source;
                }
            }
            least
        } else {
            self.winners[1] as usize
        };
        self.times[source].map(|at| (source, at))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Nanos;
    use super::*;
    use proptest::prelude::*;

    fn stamp(time: i64, scheduled: i64) -> Stamp<Nanos> {
        Stamp {
            time: Nanos(time),
            scheduled: Nanos(scheduled),
        }
    }

    #[test]
    fn equal_times_run_in_the_order_in_which_they_were_decided() {
        let mut schedule = Schedule::new(3);
        schedule.set(0, Some(stamp(5, 4)));
        schedule.set(1, Some(stamp(5, 2)));
        schedule.set(2, Some(stamp(5, 4)));
        assert_eq!(schedule.next().unwrap().0, 1);
        schedule.set(1, None);
        assert_eq!(schedule.next().unwrap().0, 0);
    }

    proptest! {
        #[test]
        fn the_next_source_is_the_least_of_all(sources in 2usize..20, steps in prop::collection::vec((0usize..20, prop::option::of((0i64..9, 0i64..9))), 1..99)) {
            let mut schedule = Schedule::new(sources);
            let mut plain: Vec<Option<(i64, i64, usize)>> = vec![None; sources];
            for (order, (source, at)) in steps.into_iter().enumerate() {
                let source = source % sources;
                schedule.set(source, at.map(|(time, scheduled)| stamp(time, scheduled)));
                plain[source] = at.map(|(time, scheduled)| (time, scheduled, order));
                let least = (0..sources).filter(|&s| plain[s].is_some()).min_by_key(|&s| plain[s]);
                prop_assert_eq!(schedule.next().map(|(source, _)| source), least);
            }
        }
    }
}
