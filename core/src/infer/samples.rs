//! Statistics of RTT samples in constant memory: exact up to 64 samples, then a histogram, filled 64 at a time.
//!
//! The histogram has 64 buckets per power of two (as HDR histograms do), so a quantile is off by at
//! most half a bucket: 0.8 %. Minimum, maximum, mean and count stay exact.

use crate::threshold::threshold;

// Samples kept as they are before the histogram takes over.
threshold!(EXACT: usize = 64, Count);
const SUB_BITS: u32 = 6;
const SUB_BUCKETS: usize = 1 << SUB_BITS;
/// Values below 2^SUB_BITS nanoseconds share the first row exactly; then one row per power of two.
const ROWS: usize = 64 - SUB_BITS as usize + 1;

type Row = Option<Box<[u32; SUB_BUCKETS]>>;

#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// The latest ones; none only before the first.
    exact: Vec<i64>,
    /// All before them, apart: most of what is added does not touch it.
    older: Option<Box<Older>>,
}

#[derive(Clone, Debug)]
struct Older {
    counted: Counted,
    rows: [Row; ROWS],
}

/// What is exact however many samples there are.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    count: u64,
    sum: i64,
    min: i64,
    max: i64,
}

impl Counted {
    fn add(&mut self, value: i64) {
        if self.count == 0 {
            self.min = value;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
}

impl Samples {
    #[inline]
    pub fn add(&mut self, value: i64) {
        if self.exact.len() >= EXACT.get() {
            self.spill();
        }
        self.exact.push(value.max(0));
    }

    #[cold]
    fn spill(&mut self) {
        let older = self.older.get_or_insert_with(|| {
            Box::new(Older {
                counted: Counted::default(),
                rows: [const { None }; ROWS],
            })
        });
        for value in self.exact.drain(..) {
            Self::count_in(&mut older.rows, value);
            older.counted.add(value);
        }
    }

    fn counted(&self) -> Counted {
        let mut counted = self
            .older
            .as_ref()
            .map_or_else(Counted::default, |older| older.counted);
        for &value in &self.exact {
            counted.add(value);
        }
        counted
    }

    /// The latest one, unless it is in the histogram.
    pub fn last(&self) -> Option<i64> {
        self.exact.last().copied()
    }

    pub fn count(&self) -> u64 {
        let older = self.older.as_ref().map_or(0, |older| older.counted.count);
        older + self.exact.len() as u64
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty()
    }

    pub fn min(&self) -> i64 {
        self.counted().min
    }

    pub fn max(&self) -> i64 {
        self.counted().max
    }

    #[inline]
    fn count_in(rows: &mut [Row; ROWS], value: i64) {
        let (row, column) = Self::bucket(value as u64);
        let row = rows[row].get_or_insert_with(|| Box::new([0; SUB_BUCKETS]));
        row[column] = row[column].saturating_add(1);
    }

    #[inline]
    fn bucket(value: u64) -> (usize, usize) {
        let octave = (u64::BITS - value.leading_zeros()).saturating_sub(SUB_BITS + 1);
        let row = octave as usize + usize::from(value >= SUB_BUCKETS as u64);
        let column = usize::try_from(value >> octave).expect("seven bits") & (SUB_BUCKETS - 1);
        (row, column)
    }

    /// The middle of a bucket.
    fn middle(row: usize, column: usize) -> f64 {
        if row == 0 {
            return column as f64;
        }
        let width = f64::from(2_u32).powi(i32::try_from(row).expect("few rows") - 1);
        (SUB_BUCKETS as f64 + column as f64) * width + (width - 1.0) / 2.0
    }

    pub fn mean(&self) -> Option<f64> {
        let counted = self.counted();
        (counted.count > 0).then(|| counted.sum as f64 / counted.count as f64)
    }

    /// The value below which a share of the samples lies (linear between neighbours where exact).
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let counted = self.counted();
        if counted.count == 0 {
            return None;
        }
        let rank = share * (counted.count - 1) as f64;
        let mut sorted = self.exact.clone();
        sorted.sort_unstable();
        let Some(older) = &self.older else {
            let low = rank.floor();
            let below = sorted[low as usize] as f64;
            let above = sorted[(low as usize + 1).min(sorted.len() - 1)] as f64;
            return Some(below + (above - below) * (rank - low));
        };
        let mut rows = older.rows.clone();
        for value in sorted {
            Self::count_in(&mut rows, value);
        }
        let mut passed = 0.0;
        for (row, buckets) in rows.iter().enumerate() {
            let Some(buckets) = buckets else { continue };
            for (column, &count) in buckets.iter().enumerate() {
                passed += f64::from(count);
                if passed > rank {
                    let middle = Self::middle(row, column);
                    return Some(middle.clamp(counted.min as f64, counted.max as f64));
                }
            }
        }
        Some(counted.max as f64)
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let older = self.older.as_ref().map_or(0, |older| {
            size_of::<Older>()
                + older.rows.iter().flatten().count() * size_of::<[u32; SUB_BUCKETS]>()
        });
        older + self.exact.capacity() * size_of::<i64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_samples_are_exact() {
        let mut samples = Samples::default();
        for value in [30, 10, 20, 40] {
            samples.add(value);
        }
        assert_eq!((samples.min(), samples.max(), samples.count()), (10, 40, 4));
        assert_eq!(samples.quantile(0.5), Some(25.0));
        assert_eq!(samples.mean(), Some(25.0));
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_one_percent(mut values in prop::collection::vec(0_i64..20_000_000_000, 65..400), share in 0.0..1.0_f64) {
            let mut samples = Samples::default();
            for &value in &values {
                samples.add(value);
            }
            values.sort_unstable();
            let rank = (share * (values.len() - 1) as f64).floor() as usize;
            let truth = values[rank] as f64;
            let found = samples.quantile(share).unwrap();
            prop_assert!((found - truth).abs() <= truth * 0.01 + 1.0, "{found} for {truth}");
        }

        #[test]
        fn every_value_has_a_bucket_that_holds_it(value: u64) {
            let (row, column) = Samples::bucket(value >> 1);
            prop_assert!(row < ROWS && column < SUB_BUCKETS);
            let middle = Samples::middle(row, column);
            let value = (value >> 1) as f64;
            prop_assert!((middle - value).abs() <= value * 0.008 + 1.0);
        }
    }

    #[test]
    fn a_million_samples_take_a_few_kilobytes() {
        let mut samples = Samples::default();
        for value in 0..1_000_000 {
            samples.add(value * 1_000);
        }
        assert!(samples.heap_bytes() < 10_000, "{}", samples.heap_bytes());
    }
}
