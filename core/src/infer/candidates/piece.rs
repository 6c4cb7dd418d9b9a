//! By how much a candidate is off in one piece of a capture, whatever fraction of a segment it may have begun with.

/// Sixteenths of a segment with which an epoch may have begun, where no fraction explains every ACK of it.
pub const FRACTIONS: [f64; 16] = {
    let mut found = [0.0; 16];
    let mut place = 0;
    while place < found.len() {
        found[place] = place as f64 / 16.0;
        place += 1;
    }
    found
};
/// Where a candidate is off by more than a segment, a finer fraction helps nobody.
const COARSE: usize = 4;

/// One piece of a replay, by flight less window at each of its ACKs: what its errors come to with each fraction of a
/// segment that it may have begun with, and no ACK by itself.
#[derive(Clone, Debug)]
pub struct Piece {
    acks: usize,
    least: f64,
    most: f64,
    /// By the fraction next below: by how much more the flight is above it.
    above: [Moments; PLACES],
    /// By the fraction next above: by how much less it is below what a whole number of segments leaves open.
    below: [Moments; PLACES],
}

/// A fraction, or a whole segment.
const PLACES: usize = FRACTIONS.len() + 1;

/// Sums of weight, weighted value and weighted square.
#[derive(Clone, Copy, Debug, Default)]
struct Moments([f64; 3]);

impl Moments {
    fn add(&mut self, value: f64, share: f64) {
        let weight = share * share;
        for (sum, each) in self.0.iter_mut().zip([1.0, value, value * value]) {
            *sum += weight * each;
        }
    }

    /// The sum of squares if every value were so many places more.
    fn squares(&self, places: usize) -> f64 {
        let [weight, values, squares] = self.0;
        if places == 0 {
            return squares;
        }
        let more = FRACTIONS[1] * places as f64;
        squares + 2.0 * more * values + more * more * weight
    }
}

impl Default for Piece {
    fn default() -> Self {
        Self {
            acks: 0,
            least: f64::INFINITY,
            most: f64::NEG_INFINITY,
            above: [Moments::default(); PLACES],
            below: [Moments::default(); PLACES],
        }
    }
}

impl Piece {
    /// ACKs, with what an error at the first of them counts; at the others it counts 1. Begun with a fraction, the flight
    /// less window may be between it and a segment less.
    pub fn add(&mut self, differences: &[f64], shares: &[f64]) {
        let (least, most) = bounds_of(differences);
        self.acks += differences.len();
        self.least = self.least.min(least);
        self.most = self.most.max(most);
        // The sums stay in registers while every ACK adds to the same, as most do where a candidate is far off.
        if least > 0.0 && place_above(least) == place_above(most) {
            let place = place_above(least);
            let mut sums = self.above[place as usize];
            each(differences, shares, |difference, share| {
                sums.add(more_than(place, difference), share);
            });
            self.above[place as usize] = sums;
        } else if most <= 0.0 && place_below(least) == place_below(most) {
            let place = place_below(least);
            let mut sums = self.below[place as usize];
            each(differences, shares, |difference, share| {
                sums.add(less_than(place, difference), share);
            });
            self.below[place as usize] = sums;
        } else {
            each(differences, shares, |difference, share| {
                if difference > 0.0 {
                    let place = place_above(difference);
                    self.above[place as usize].add(more_than(place, difference), share);
                } else {
                    let place = place_below(difference);
                    self.below[place as usize].add(less_than(place, difference), share);
                }
            });
        }
    }

    /// A candidate's error (root mean square, in segments). The fraction of a segment with which an epoch began is not
    /// seen: the least that explains all, or any.
    pub fn error(&self) -> f64 {
        let most = self.most.max(0.0);
        let excess = most - self.least - 1.0;
        if most < 1.0 && excess <= 0.0 {
            return 0.0;
        }
        let step = if excess < 1.0 { 1 } else { COARSE };
        let (mut low, mut high) = (0, FRACTIONS.len() / step - 1);
        let mut found = f64::INFINITY;
        // A sum of squares of what is convex in the fraction is convex: the lesser of two neighbours tells the side.
        while low < high {
            let middle = (low + high) / 2;
            let [here, next] = [middle, middle + 1].map(|place| self.squares(place * step));
            found = found.min(here).min(next);
            if here <= next {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        (found / self.acks as f64).sqrt()
    }

    /// The sum of squared errors from one beginning.
    fn squares(&self, begun: usize) -> f64 {
        let above = self.above[begun..].iter().enumerate();
        let below = self.below[..=begun].iter().rev().enumerate();
        above
            .chain(below)
            .map(|(places, moments)| moments.squares(places))
            .sum()
    }
}

/// Each with what it counts.
fn each(differences: &[f64], shares: &[f64], mut add: impl FnMut(f64, f64)) {
    let (told, others) = differences.split_at(shares.len().min(differences.len()));
    for (&difference, &share) in told.iter().zip(shares) {
        add(difference, share);
    }
    for &difference in others {
        add(difference, 1.0);
    }
}

const PER_SEGMENT: f64 = FRACTIONS.len() as f64;

fn place_above(difference: f64) -> u32 {
    ((difference * PER_SEGMENT) as u32).min(FRACTIONS.len() as u32)
}

fn more_than(place: u32, difference: f64) -> f64 {
    difference - f64::from(place) / PER_SEGMENT
}

fn place_below(difference: f64) -> u32 {
    ceil((difference + 1.0).max(0.0) * PER_SEGMENT)
}

fn less_than(place: u32, difference: f64) -> f64 {
    f64::from(place) / PER_SEGMENT - (difference + 1.0)
}

/// A processor of the first x86-64 has no instruction for it.
fn ceil(value: f64) -> u32 {
    let whole = value as u32;
    whole + u32::from(f64::from(whole) < value)
}

/// The least and the greatest.
pub(super) fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), each| {
        (least.min(each), most.max(each))
    })
}

/// The same of a column, four at a time: one comparison does not wait for the last.
fn bounds_of(values: &[f64]) -> (f64, f64) {
    let fours = values.chunks_exact(4);
    let (low, high) = bounds(fours.remainder().iter().copied());
    let none = ([f64::INFINITY; 4], [f64::NEG_INFINITY; 4]);
    let (least, most) = fours.fold(none, |(least, most), each| {
        let pick = |of: fn(f64, f64) -> f64, so_far: [f64; 4]| {
            std::array::from_fn(|at| of(so_far[at], each[at]))
        };
        (pick(f64::min, least), pick(f64::max, most))
    });
    (
        least.into_iter().fold(low, f64::min),
        most.into_iter().fold(high, f64::max),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::candidates::evidence::Pieces;

    fn pieces(flight: &[f64], is_slow_start: bool) -> Pieces {
        let acks: Vec<i64> = (0..flight.len() as i64).collect();
        let ends = [flight.len() as i64];
        let of_ack = |ack: usize| Some(flight[ack] as i64);
        Pieces::new(&acks, &ends, &[is_slow_start], of_ack, 1.0).expect("a run of ACKs")
    }

    fn error(pieces: &Pieces, windows: &[f64]) -> f64 {
        let mut piece = Piece::default();
        let each = windows.iter().enumerate();
        let differences: Vec<_> = each
            .map(|(at, window)| pieces.flight(at) - window)
            .collect();
        piece.add(&differences, pieces.shares_from(0));
        piece.error()
    }

    /// By how much flight less window lies outside of what a whole number of segments leaves open: (-1, 0].
    fn outside(difference: f64) -> f64 {
        difference.max(-1.0 - difference).max(0.0)
    }

    #[test]
    fn a_window_whose_whole_segments_were_outstanding_is_not_off() {
        let flown = pieces(&[10.0, 10.0, 10.0, 11.0], false);
        assert_eq!(error(&flown, &[10.0, 10.4, 10.8, 11.2]), 0.0);
    }

    #[test]
    fn an_epoch_may_have_begun_with_a_fraction_that_is_not_seen() {
        // 0.5 more explains that the third ACK already released the eleventh.
        let flown = pieces(&[10.0, 10.0, 11.0, 11.0], false);
        assert_eq!(error(&flown, &[10.0, 10.3, 10.6, 10.9]), 0.0);
    }

    #[test]
    fn in_slow_start_an_error_counts_as_if_made_at_the_end() {
        // Two segments short of two, at a window of 16: 7 of 8 parts too many, two ACKs of which one is off.
        let found = error(&pieces(&[8.0, 16.0], true), &[4.0, 16.0]);
        // Off by 4 at 8 less what a fraction of 0.75 explains: 3.25 * 16 / 8 = 6.5, over two ACKs.
        assert!((found - (6.5_f64.powi(2) / 2.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn acks_say_the_same_together_and_one_by_one() {
        let shares = [2.0, 0.5];
        // Far above, far below, and about what is open.
        for offset in [7.3, -9.6, -0.4] {
            let each: Vec<f64> = (0..9).map(|at| offset + 0.3 * f64::from(at % 4)).collect();
            let (mut together, mut apart) = (Piece::default(), Piece::default());
            together.add(&each, &shares);
            for (at, difference) in each.iter().enumerate() {
                apart.add(&[*difference], shares.get(at..).unwrap_or_default());
            }
            assert_eq!(together.error().to_bits(), apart.error().to_bits());
        }
    }

    #[test]
    fn the_least_of_all_fractions_is_found() {
        let windows: Vec<f64> = (0..40).map(|at| 10.0 + 0.4 * f64::from(at % 7)).collect();
        for off in 0..30 {
            let flight: Vec<f64> = (0..40)
                .map(|at| (9.0 + 0.1 * f64::from(off) + 0.3 * f64::from(at % 5)).floor())
                .collect();
            let flown = pieces(&flight, false);
            let least = FRACTIONS.iter().map(|begun| {
                let each = flight.iter().zip(&windows);
                let squares = each.map(|(flight, window)| outside(flight - window - begun).powi(2));
                (squares.sum::<f64>() / 40.0).sqrt()
            });
            let (all, found) = (least.fold(f64::INFINITY, f64::min), error(&flown, &windows));
            let coarse = FRACTIONS.len() / COARSE;
            assert!(found >= all - 1e-12 || found == 0.0);
            assert!(found <= all + 1.0 / coarse as f64);
        }
    }
}
