//! The curve of Linux's CUBIC in integers: origin and K of an epoch, and how many ACKs a packet more takes.
//!
//! Its cube root is a first guess from the six leading bits, then one Newton step. Linux's guesses are a table,
//! "precomputed, then refined by hand". Here each is the one whose step errs least at its worst over the range of its six
//! bits, which gives 36 of the 56; where the hand went another way stands below.

use std::sync::LazyLock;

/// C = 41 * 10 / 1024 over 2^30: windows in packets, times in 1024ths of a second.
const CUBE_RTT_SCALE: u64 = 410;
pub const CLOCK_BITS: u32 = 10;
const CUBE_FACTOR: u64 = (1 << (10 + 3 * CLOCK_BITS)) / CUBE_RTT_SCALE;

/// An epoch's curve: the window reaches `origin` packets after `k` 1024ths of a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Curve {
    origin: u64,
    k: u64,
}

impl Curve {
    /// From `cwnd` up to the plateau of the last loss, if that is above.
    pub fn new(cwnd: u64, last_max_cwnd: u64) -> Self {
        if last_max_cwnd <= cwnd {
            return Self { origin: cwnd, k: 0 };
        }
        Self {
            origin: last_max_cwnd,
            k: cubic_root(CUBE_FACTOR * (last_max_cwnd - cwnd)),
        }
    }

    /// ACKs per packet with which the window is on the curve at `t`.
    pub fn cnt(&self, cwnd: u64, t: u64) -> u64 {
        let offset = t.abs_diff(self.k);
        // The module's product has 64 bits: after 347 s without a loss it begins again.
        let cube = offset.wrapping_mul(offset).wrapping_mul(offset);
        let delta = CUBE_RTT_SCALE.wrapping_mul(cube) >> (10 + 3 * CLOCK_BITS);
        let target = if t < self.k {
            self.origin.saturating_sub(delta)
        } else {
            self.origin + delta
        };
        if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            100 * cwnd
        }
    }

    pub fn is_past_origin(&self, t: u64) -> bool {
        t >= self.k
    }

    pub fn k_s(&self) -> f64 {
        self.k as f64 / f64::from(1 << CLOCK_BITS)
    }
}

/// Leading bits for which Linux guesses a 64th less or more than the formula.
const A_64TH_LESS: [usize; 8] = [8, 16, 24, 32, 33, 34, 35, 45];
const A_64TH_MORE: [usize; 11] = [14, 19, 25, 27, 28, 30, 31, 42, 56, 60, 63];
const TWO_64THS_MORE: usize = 15;

/// Guesses for `x` in 8..64, in 64ths and less 10.
static GUESSES: LazyLock<[u64; 64]> = LazyLock::new(|| {
    let mut guesses = [0; 64];
    for (x, guess) in guesses.iter_mut().enumerate() {
        *guess = guess_of(x);
        if A_64TH_LESS.contains(&x) {
            *guess -= 1;
        } else if A_64TH_MORE.contains(&x) {
            *guess += 1;
        } else if x == TWO_64THS_MORE {
            *guess += 2;
        }
    }
    guesses
});

/// A step from the guess g r gives 341/1024 (2 g + 1 / g^2) r: right at g = 1.031, as 341 / 1024 is less than a third.
/// Within the range the guess stays and the root r grows.
fn guess_of(x: usize) -> u64 {
    const STEP: f64 = 341.0 / 1024.0;
    let [low, high] = [x as f64, x as f64 + 1.0].map(f64::cbrt);
    let worst = |v: u64| {
        let error = |root: f64| {
            let g = (v + 10) as f64 / 64.0 / root;
            (STEP * (2.0 * g + 1.0 / (g * g)) - 1.0).abs()
        };
        error(low).max(error(high))
    };
    // From above, where the error grows with the guess.
    let guesses = (0..256).filter(|&v| (v + 10) as f64 / 64.0 > high);
    let best = guesses.min_by(|&a, &b| worst(a).total_cmp(&worst(b)));
    best.unwrap_or(0)
}

/// The cube root of `a`, 0.2 % off on average.
fn cubic_root(a: u64) -> u64 {
    let bits = u64::BITS - a.leading_zeros();
    if bits < 7 {
        return (a as f64).cbrt().round() as u64;
    }
    let b = ((bits * 84) >> 8) - 1;
    let leading = (a >> (3 * b)) as usize;
    let x = ((GUESSES[leading] + 10) << b) >> 6;
    let x = 2 * x + a / (x * (x - 1));
    (x * 341) >> 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_of_a_long_epoch_begins_again() {
        let curve = Curve::new(100, 100);
        let at = |seconds: u64| curve.cnt(1_000_000, seconds << CLOCK_BITS);
        // 0.4 t^3 is far above a million packets; at 347 s 410 t^3 passes 2^64, and what is left of it is far below.
        assert_eq!((at(346), at(348)), (0, 100_000_000));
    }

    #[test]
    fn the_root_is_a_five_hundredth_off_at_the_most() {
        let mut worst = 0.0_f64;
        for n in 0..20_000_u64 {
            let a = (1 << 34) + n * n * n * 41;
            let exact = (a as f64).cbrt();
            worst = worst.max((cubic_root(a) as f64 - exact).abs() / exact);
        }
        assert!((0.0005..0.005).contains(&worst), "{worst}");
        assert_eq!([1, 8, 27, 63].map(cubic_root), [1, 2, 3, 4]);
    }
}
