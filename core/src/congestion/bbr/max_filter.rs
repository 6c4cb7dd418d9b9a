//! The largest of the last measurements, in constant memory (Nichols' windowed filter, as BBR's draft section 4.1.1.3 names it).

/// The best measurement of the window, and the best of what came after it, and after that.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MaxFilter {
    best: [(u64, f64); 3],
}

impl MaxFilter {
    pub fn get(&self) -> f64 {
        self.best[0].1
    }

    /// A measurement at `time`, in the unit of `window`; returns the largest of the window.
    pub fn update(&mut self, window: u64, time: u64, value: f64) -> f64 {
        let new = (time, value);
        if value >= self.best[0].1 || time - self.best[2].0 > window {
            self.best = [new; 3];
            return value;
        }
        if value >= self.best[1].1 {
            (self.best[1], self.best[2]) = (new, new);
        } else if value >= self.best[2].1 {
            self.best[2] = new;
        }
        let age = time - self.best[0].0;
        if age > window {
            // The best is too old: the second takes its place, twice if that is too old as well.
            self.best = [self.best[1], self.best[2], new];
            if time - self.best[0].0 > window {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
            // A quarter without a second best: take one that is young enough to last.
            (self.best[1], self.best[2]) = (new, new);
        } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
            self.best[2] = new;
        }
        self.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_lasts_for_the_window_and_then_yields_to_what_came_since() {
        let mut filter = MaxFilter::default();
        filter.update(10, 0, 100.0);
        for time in 1..=10 {
            assert_eq!(filter.update(10, time, 50.0 + time as f64), 100.0, "{time}");
        }
        assert_eq!(filter.update(10, 11, 40.0), 60.0);
    }

    #[test]
    fn it_is_never_above_the_true_maximum_nor_below_the_newest() {
        let mut filter = MaxFilter::default();
        let values: Vec<f64> = (0..400_u64).map(|n| ((n * 7919) % 101) as f64).collect();
        for (time, &value) in values.iter().enumerate() {
            let largest = values[time.saturating_sub(10)..=time]
                .iter()
                .fold(0.0, |a: f64, &b| a.max(b));
            let got = filter.update(10, time as u64, value);
            assert!(value <= got && got <= largest, "{time}: {got} {largest}");
        }
    }
}
