//! What happens next: a tournament over a fixed set of sources, each with at most one pending time.
//!
//! A link delivers in order and a timer has one deadline, so a run needs one entry per link end and timer, however
//! many packets are in flight: the cost of an event does not grow with the window.

use super::{Instant, Stamp};

#[derive(Clone, Copy, Debug)]
struct Entry<I> {
    at: Stamp<I>,
    order: u64,
}

impl<I: Instant> Entry<I> {
    fn none() -> Self {
        Self {
            at: Stamp {
                time: I::NEVER,
                scheduled: I::NEVER,
            },
            order: u64::MAX,
        }
    }

    fn pending(&self) -> Option<Stamp<I>> {
        (self.at.time < I::NEVER).then_some(self.at)
    }
}

/// The earliest of the sources' times; of equal ones the one decided first, then the one set first.
#[derive(Debug)]
pub struct Schedule<I> {
    /// Leaves per source, padded to a power of two.
    entries: Vec<Entry<I>>,
    /// winners[1] is the earliest source of all, winners[n]'s children are 2n and 2n + 1.
    winners: Vec<u32>,
    order: u64,
}

impl<I: Instant> Schedule<I> {
    pub fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two().max(2);
        let mut schedule = Self {
            entries: vec![Entry::none(); leaves],
            winners: vec![0; leaves],
            order: 0,
        };
        for inner in (1..leaves).rev() {
            schedule.winners[inner] = schedule.child(2 * inner);
        }
        schedule
    }

    fn child(&self, node: usize) -> u32 {
        let leaves = self.entries.len();
        if node >= leaves {
            (node - leaves) as u32
        } else {
            self.winners[node]
        }
    }

    fn is_before(&self, left: u32, right: u32) -> bool {
        let (a, b) = (&self.entries[left as usize], &self.entries[right as usize]);
        // Nearly always told by the first.
        if a.at.time != b.at.time {
            return a.at.time < b.at.time;
        }
        a.at < b.at || (a.at == b.at && a.order < b.order)
    }

    /// Sets or clears a source's time.
    pub fn set(&mut self, source: usize, at: Option<Stamp<I>>) {
        self.order += 1;
        self.entries[source] = at.map_or(Entry::none(), |at| Entry {
            at,
            order: self.order,
        });
        let mut node = (source + self.entries.len()) / 2;
        while node >= 1 {
            let (left, right) = (self.child(2 * node), self.child(2 * node + 1));
            let winner = if self.is_before(right, left) {
                right
            } else {
                left
            };
            let before = std::mem::replace(&mut self.winners[node], winner);
            if before != source as u32 && winner == before {
                // Another source wins here as before: nothing changes above.
                return;
            }
            node /= 2;
        }
    }

    pub fn get(&self, source: usize) -> Option<Stamp<I>> {
        self.entries[source].pending()
    }

    /// The next source and its time.
    pub fn next(&self) -> Option<(usize, Stamp<I>)> {
        let source = self.winners[1] as usize;
        self.entries[source].pending().map(|at| (source, at))
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
        fn the_next_source_is_the_least_of_all(steps in prop::collection::vec((0usize..7, prop::option::of((0i64..9, 0i64..9))), 1..99)) {
            let mut schedule = Schedule::new(7);
            let mut plain: Vec<Option<(i64, i64, usize)>> = vec![None; 7];
            for (order, (source, at)) in steps.into_iter().enumerate() {
                schedule.set(source, at.map(|(time, scheduled)| stamp(time, scheduled)));
                plain[source] = at.map(|(time, scheduled)| (time, scheduled, order));
                let least = (0..7).filter(|&s| plain[s].is_some()).min_by_key(|&s| plain[s]);
                prop_assert_eq!(schedule.next().map(|(source, _)| source), least);
            }
        }
    }
}
