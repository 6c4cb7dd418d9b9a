//! Received ranges: what a receiver holds out of order, and what SACK has told a sender.

use std::collections::BTreeMap;

/// Disjoint half-open ranges that do not touch.
#[derive(Clone, Debug, Default)]
pub struct Intervals {
    /// Start to end.
    ranges: BTreeMap<u64, u64>,
    covered: u64,
}

impl Intervals {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// How much all ranges cover together.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    pub fn clear(&mut self) {
        self.ranges.clear();
        self.covered = 0;
    }

    /// Adds a range, joined with all it overlaps or touches; returns how much was new.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let (mut from, mut to, before) = (start, end, self.covered);
        let below = self.ranges.range(..=start).next_back();
        if let Some((&left, &right)) = below.filter(|&(_, &right)| right >= start) {
            if right >= end {
                return 0;
            }
            from = left;
        }
        while let Some((&left, &right)) = self.ranges.range(from..=to).next() {
            to = to.max(right);
            self.ranges.remove(&left);
            self.covered -= right - left;
        }
        self.ranges.insert(from, to);
        self.covered += to - from;
        self.covered - before
    }

    /// Forgets everything below `start`; returns how much that was.
    pub fn remove_below(&mut self, start: u64) -> u64 {
        let before = self.covered;
        while let Some((&left, &right)) = self.ranges.first_key_value() {
            if left >= start {
                break;
            }
            self.ranges.remove(&left);
            self.covered -= right - left;
            if right > start {
                self.ranges.insert(start, right);
                self.covered += right - start;
            }
        }
        before - self.covered
    }

    /// Takes a range out; returns how much of it was in.
    pub fn remove(&mut self, start: u64, end: u64) -> u64 {
        let before = self.covered;
        if start >= end {
            return 0;
        }
        if let Some((left, right)) = self.around(start).filter(|&(left, _)| left < start) {
            self.ranges.insert(left, start);
            self.covered -= right - start;
            if right > end {
                self.ranges.insert(end, right);
                self.covered += right - end;
                return before - self.covered;
            }
        }
        while let Some((&left, &right)) = self.ranges.range(start..end).next() {
            self.ranges.remove(&left);
            self.covered -= right - left;
            if right > end {
                self.ranges.insert(end, right);
                self.covered += right - end;
            }
        }
        before - self.covered
    }

    /// The range that holds `at`.
    pub fn around(&self, at: u64) -> Option<(u64, u64)> {
        self.ranges
            .range(..=at)
            .next_back()
            .filter(|&(_, &end)| end > at)
            .map(|(&start, &end)| (start, end))
    }

    pub fn contains(&self, at: u64) -> bool {
        self.around(at).is_some()
    }

    pub fn first(&self) -> Option<(u64, u64)> {
        self.ranges
            .first_key_value()
            .map(|(&start, &end)| (start, end))
    }

    pub fn last(&self) -> Option<(u64, u64)> {
        self.ranges
            .last_key_value()
            .map(|(&start, &end)| (start, end))
    }

    /// The first range that starts above `at`.
    pub fn after(&self, at: u64) -> Option<(u64, u64)> {
        self.ranges
            .range(at + 1..)
            .next()
            .map(|(&start, &end)| (start, end))
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(&start, &end)| (start, end))
    }

    /// The first gap from `at` on; without an end where no range comes behind it.
    pub fn gap(&self, at: u64) -> (u64, u64) {
        let start = self.next_hole(at);
        (start, self.after(start).map_or(u64::MAX, |(next, _)| next))
    }

    /// The first number from `at` on that is in no range.
    pub fn next_hole(&self, at: u64) -> u64 {
        self.around(at).map_or(at, |(_, end)| end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn touching_ranges_become_one() {
        let mut held = Intervals::default();
        assert_eq!(held.insert(10, 20), 10);
        assert_eq!(held.insert(30, 40), 10);
        assert_eq!(held.insert(20, 30), 10);
        assert_eq!(held.iter().collect::<Vec<_>>(), [(10, 40)]);
        assert_eq!(held.insert(5, 50), 15);
        assert_eq!(held.remove_below(45), 40);
        assert_eq!(held.first(), Some((45, 50)));
    }

    proptest! {
        #[test]
        fn ranges_hold_exactly_what_was_inserted(inserts in prop::collection::vec((0u64..60, 1u64..9), 0..40), below in 0u64..60) {
            let mut held = Intervals::default();
            let mut plain = [false; 80];
            for (start, length) in inserts {
                let new = (start..start + length).filter(|&n| !plain[n as usize]).count() as u64;
                plain[start as usize..(start + length) as usize].fill(true);
                prop_assert_eq!(held.insert(start, start + length), new);
            }
            held.remove_below(below);
            plain[..below as usize].fill(false);
            let cut = below as usize + 3..below as usize + 9;
            let was_in = plain[cut.clone()].iter().filter(|&&is_in| is_in).count() as u64;
            prop_assert_eq!(held.remove(cut.start as u64, cut.end as u64), was_in);
            plain[cut].fill(false);
            for (number, &is_in) in plain.iter().enumerate() {
                prop_assert_eq!(held.contains(number as u64), is_in);
            }
            prop_assert_eq!(held.covered(), plain.iter().filter(|&&is_in| is_in).count() as u64);
            prop_assert!(held.iter().collect::<Vec<_>>().windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
