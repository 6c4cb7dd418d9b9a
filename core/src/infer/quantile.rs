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
    fn the_middle_of_an_even_number_is_the_mean_of_two() {
        assert_eq!(median(&mut [3_i64, 1, 2]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median::<f64>(&mut []), None);
    }
}
