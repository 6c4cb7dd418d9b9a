//! A median and percentiles, to the last bit as numpy's (`linear`): without what numpy needs to be asked once.

/// A number of a column.
pub trait Number: Copy {
    fn order(&self, other: &Self) -> std::cmp::Ordering;
    fn real(self) -> f64;
    /// `next - self`, in the column's own arithmetic.
    fn up_to(self, next: Self) -> f64;
}

impl Number for i64 {
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.cmp(other)
    }

    fn real(self) -> f64 {
        self as f64
    }

    fn up_to(self, next: Self) -> f64 {
        next.wrapping_sub(self) as f64
    }
}

impl Number for i32 {
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.cmp(other)
    }

    fn real(self) -> f64 {
        f64::from(self)
    }

    fn up_to(self, next: Self) -> f64 {
        f64::from(next.wrapping_sub(self))
    }
}

impl Number for f64 {
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.total_cmp(other)
    }

    fn real(self) -> f64 {
        self
    }

    fn up_to(self, next: Self) -> f64 {
        next - self
    }
}

/// The value below which so many percent lie, between two neighbours as far as is asked for; None: there is no value.
pub fn percentile<T: Number>(values: &mut [T], percent: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let place = last as f64 * (percent / 100.0);
    let below = (place.floor() as usize).min(last);
    let share = place - below as f64;
    let (own, next) = neighbours(values, below);
    let rises = own.up_to(next.unwrap_or(own));
    Some(if share >= 0.5 {
        next.unwrap_or(own).real() - rises * (1.0 - share)
    } else {
        own.real() + rises * share
    })
}

/// The middle one, or the mean of both; None: there is no value.
pub fn median<T: Number>(values: &mut [T]) -> Option<f64> {
    let count = values.len();
    let below = count.checked_sub(1)? / 2;
    let (own, next) = neighbours(values, below);
    Some(match next {
        Some(next) if count % 2 == 0 => (own.real() + next.real()) / 2.0,
        _ => own.real(),
    })
}

/// Of each value the middle one of itself and of so many on either side; beyond the ends the last ones stand.
pub fn rolling_median(values: &[f64], around: usize) -> Vec<f64> {
    let Some(last) = values.len().checked_sub(1) else {
        return Vec::new();
    };
    let known = |place: usize| values[place.saturating_sub(around).min(last)];
    // Of 0: what stands before the first, and what comes behind it.
    let mut near: Vec<f64> = (0..=2 * around).map(known).collect();
    near.sort_unstable_by(f64::total_cmp);
    let middles = (0..values.len()).map(|place| {
        let middle = near[around];
        let place_of =
            |near: &[f64], value: f64| near.partition_point(|each| each.total_cmp(&value).is_lt());
        near.remove(place_of(&near, known(place)));
        let next = known(place + 2 * around + 1);
        near.insert(place_of(&near, next), next);
        middle
    });
    middles.collect()
}

/// The value at this place in order, and the one behind it.
fn neighbours<T: Number>(values: &mut [T], place: usize) -> (T, Option<T>) {
    let (_, own, above) = values.select_nth_unstable_by(place, T::order);
    (*own, above.iter().copied().min_by(T::order))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_values_as_far_as_is_asked_for() {
        assert_eq!(percentile(&mut [40_i64, 10, 20, 30], 25.0), Some(17.5));
        assert_eq!(percentile(&mut [40.0, 10.0, 20.0, 30.0], 95.0), Some(38.5));
        assert_eq!(percentile(&mut [7_i64], 99.0), Some(7.0));
        assert_eq!(percentile::<i64>(&mut [], 50.0), None);
    }

    #[test]
    fn the_middle_of_each_and_its_neighbours() {
        let values = [5.0, 1.0, 4.0, 4.0, 9.0];
        assert_eq!(rolling_median(&values, 1), [5.0, 4.0, 4.0, 4.0, 9.0]);
        assert_eq!(rolling_median(&values, 9), [5.0, 5.0, 5.0, 5.0, 9.0]);
        assert_eq!(rolling_median(&[], 3), [0.0; 0]);
    }

    #[test]
    fn the_middle_of_an_even_number_is_the_mean_of_two() {
        assert_eq!(median(&mut [3_i64, 1, 2]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median::<f64>(&mut []), None);
    }
}
