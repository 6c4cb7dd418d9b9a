//! A bounded set of half-open intervals of offsets: which bytes have been seen.

use crate::threshold::threshold;

// Intervals below the top one. Past this many the two lowest are joined: memory stays constant, and
// bytes of the oldest gap count as seen from then on. A slow start that overshoots leaves hundreds at its receiver.
threshold!(MAX_OLDER: usize = 1024, Count);

/// Sorted, disjoint, non-touching intervals; the highest one, where new data lands, is kept apart.
#[derive(Clone, Debug, Default)]
pub struct IntervalSet {
    top: (i64, i64),
    older: Vec<(i64, i64)>,
    joined: bool,
}

impl IntervalSet {
    pub fn is_empty(&self) -> bool {
        self.top.0 == self.top.1
    }

    /// The end of the highest interval.
    pub fn end(&self) -> i64 {
        self.top.1
    }

    /// Whether gaps have been given up to keep within bounds.
    pub fn has_joined(&self) -> bool {
        self.joined
    }

    /// Number of intervals.
    pub fn count(&self) -> usize {
        self.older.len() + usize::from(!self.is_empty())
    }

    /// Adds `[start, end)`; returns how many of its bytes were already there.
    #[inline]
    pub fn insert(&mut self, start: i64, end: i64) -> i64 {
        if start == self.top.1 && end >= start && !self.is_empty() {
            self.top.1 = end;
            return 0;
        }
        self.insert_anywhere(start, end)
    }

    #[cold]
    fn insert_anywhere(&mut self, start: i64, end: i64) -> i64 {
        if end <= start {
            return 0;
        }
        if self.is_empty() {
            self.top = (start, end);
            return 0;
        }
        if start > self.top.1 {
            self.older.push(self.top);
            self.top = (start, end);
            self.bound();
            return 0;
        }
        self.older.push(self.top);
        // The run of intervals that the new one touches or overlaps.
        let first = self.older.partition_point(|kept| kept.1 < start);
        let last = self.older.partition_point(|kept| kept.0 <= end);
        let mut seen = 0;
        let mut merged = (start, end);
        for kept in &self.older[first..last] {
            seen += (kept.1.min(end) - kept.0.max(start)).max(0);
            merged = (merged.0.min(kept.0), merged.1.max(kept.1));
        }
        self.older.splice(first..last, [merged]);
        self.top = self.older.pop().expect("the merged interval is there");
        self.bound();
        seen
    }

    fn bound(&mut self) {
        if self.older.len() > MAX_OLDER.get() {
            self.older[1].0 = self.older[0].0;
            self.older.remove(0);
            self.joined = true;
        }
    }

    /// How many bytes of `[start, end)` are there.
    pub fn overlap(&self, start: i64, end: i64) -> i64 {
        let first = self.older.partition_point(|kept| kept.1 <= start);
        self.older[first..]
            .iter()
            .take_while(|kept| kept.0 < end)
            .chain([&self.top])
            .map(|kept| (kept.1.min(end) - kept.0.max(start)).max(0))
            .sum()
    }

    /// Bytes between the lowest and the highest offset that were never seen.
    pub fn missing(&self) -> i64 {
        let starts = self.older.iter().chain([&self.top]).skip(1);
        starts
            .zip(&self.older)
            .map(|(next, kept)| next.0 - kept.1)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_bytes(ranges in prop::collection::vec((-50_i64..400, 0_i64..40), 0..60)) {
            let mut set = IntervalSet::default();
            let mut bytes = BTreeSet::new();
            for (start, len) in ranges {
                let end = start + len;
                let there = (start..end).filter(|byte| bytes.contains(byte)).count();
                prop_assert_eq!(set.overlap(start, end), i64::try_from(there).unwrap());
                prop_assert_eq!(set.insert(start, end), i64::try_from(there).unwrap());
                bytes.extend(start..end);
                if let (Some(low), Some(high)) = (bytes.first(), bytes.last()) {
                    let span = high - low + 1 - i64::try_from(bytes.len()).unwrap();
                    prop_assert_eq!(set.missing(), span);
                    prop_assert_eq!(set.end(), high + 1);
                }
            }
        }
    }

    #[test]
    fn a_million_gaps_stay_within_bounds() {
        let mut set = IntervalSet::default();
        for index in 0..1_000_000 {
            set.insert(index * 10, index * 10 + 5);
        }
        assert!(set.count() <= MAX_OLDER.get() + 1);
        assert!(set.has_joined());
    }
}
