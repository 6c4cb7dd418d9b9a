//! What happens next: the least over a fixed set of sources, each with at most one pending time.
//!
//! A link delivers in order and a timer has one deadline, so a run needs one entry per link end and timer, however
//! many packets are in flight: the cost of an event does not grow with the window.

use super::{Instant, Stamp};

/// The first sources, the two directions of the path, change with nearly every event and are looked at each time; the
/// others play a tournament, whose winner stands until one of them is set.
const PATHS: usize = 2;

/// One source's pending time; `NEVER` for none.
#[derive(Clone, Copy, Debug)]
struct Entry<I> {
    at: Stamp<I>,
    /// Of the setting.
    order: u64,
}

impl<I: Instant> Entry<I> {
    const NEVER: Self = Self {
        at: Stamp::NEVER,
        order: 0,
    };

    #[inline]
    fn is_before(&self, other: &Self) -> bool {
        self.at.time < other.at.time
            || (self.at.time == other.at.time
                && (self.at.scheduled, self.order) < (other.at.scheduled, other.order))
    }
}

/// The earliest of the sources' times; of equal ones the one decided first, then the one set first.
#[derive(Debug)]
pub struct Schedule<I> {
    paths: [Entry<I>; PATHS],
    /// By source behind the paths, padded to a power of two.
    others: Vec<Entry<I>>,
    /// winners[1] is the earliest of the others, winners[n]'s children are 2n and 2n + 1; leaves follow.
    winners: Vec<u32>,
    /// That earliest one and its number.
    first: (usize, Entry<I>),
    order: u64,
}

impl<I: Instant> Schedule<I> {
    pub fn new(sources: usize) -> Self {
        let leaves = sources.saturating_sub(PATHS).next_power_of_two();
        let mut winners = vec![0; leaves];
        winners.extend((0..leaves).map(|other| other as u32));
        for node in (1..leaves).rev() {
            winners[node] = winners[2 * node];
        }
        Self {
            paths: [Entry::NEVER; PATHS],
            others: vec![Entry::NEVER; leaves],
            winners,
            first: (0, Entry::NEVER),
            order: 0,
        }
    }

    /// Sets or clears a source's time.
    pub fn set(&mut self, source: usize, at: Option<Stamp<I>>) {
        if source < PATHS {
            return self.set_path(source, at.unwrap_or(Stamp::NEVER));
        }
        if at.is_none() && self.others[source - PATHS].at.time == I::NEVER {
            // Most of what is cleared was never set: no match is decided otherwise.
            return;
        }
        let entry = self.entry(at.unwrap_or(Stamp::NEVER));
        self.others[source - PATHS] = entry;
        self.play(source - PATHS);
        let first = self.winners[1] as usize;
        self.first = (first, self.others[first]);
    }

    /// When the next packet comes out of one of the two directions.
    #[inline]
    pub fn set_path(&mut self, direction: usize, at: Stamp<I>) {
        self.paths[direction] = self.entry(at);
    }

    #[inline]
    fn entry(&mut self, at: Stamp<I>) -> Entry<I> {
        // Not checked: a count from 0 in steps of one, on every event's way.
        self.order = self.order.wrapping_add(1);
        Entry {
            at,
            order: self.order,
        }
    }

    /// The matches that another source's new time may decide otherwise.
    fn play(&mut self, other: usize) {
        let mut node = (other + self.others.len()) / 2;
        while node >= 1 {
            let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
            let is_right = self.others[right as usize].is_before(&self.others[left as usize]);
            let winner = if is_right { right } else { left };
            if self.winners[node] == winner && winner as usize != other {
                // Neither was nor is the winner here: nothing changes further up.
                return;
            }
            self.winners[node] = winner;
            node /= 2;
        }
    }

    /// The next source and its time.
    #[inline]
    pub fn next(&self) -> Option<(usize, Stamp<I>)> {
        let (other, mut next) = (self.first.0, &self.first.1);
        let mut source = PATHS + other;
        for (path, entry) in self.paths.iter().enumerate() {
            if entry.is_before(next) {
                (source, next) = (path, entry);
            }
        }
        (next.at.time < I::NEVER).then_some((source, next.at))
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
