//! Compound TCP in integer arithmetic, as the Linux module of paper 003 (and ns-2.35) computes it.

use super::{Ack, Loss, State, Values, Window};

/// alpha = 1/8 of the window's fourth root cubed.
const ALPHA_SHIFT: u32 = 3;

/// w = wc + dwnd: Reno's window and the delay window, updated once per round trip.
#[derive(Clone, Copy, Debug)]
pub struct Compound {
    /// Packets in the queue at which dwnd stops growing.
    gamma: f64,
    /// wc grows per ACK up to and with ssthresh; else another slow start opens it, while cwnd is below ssthresh.
    has_own_slow_start: bool,
    /// Acknowledged segments grow wc, as in kernels since Linux 3.18; else ACKs, as in the module.
    byte_counting: bool,
    wc: u64,
    dwnd: u64,
    /// ACKs since wc last grew in avoidance.
    acks: u64,
    beg_snd_una: u64,
    beg_snd_nxt: u64,
    rtt_samples: u32,
    min_rtt_us: u64,
    base_rtt_us: u64,
}

impl Compound {
    pub fn new(gamma: f64) -> Self {
        Self {
            gamma,
            has_own_slow_start: true,
            byte_counting: false,
            wc: 0,
            dwnd: 0,
            acks: 0,
            beg_snd_una: 0,
            beg_snd_nxt: 0,
            rtt_samples: 0,
            min_rtt_us: u64::MAX,
            base_rtt_us: u64::MAX,
        }
    }

    /// RFC 3465: with delayed ACKs the window grows as without.
    pub fn with_byte_counting(mut self, byte_counting: bool) -> Self {
        self.byte_counting = byte_counting;
        self
    }

    pub fn with_own_slow_start(mut self, has_own_slow_start: bool) -> Self {
        self.has_own_slow_start = has_own_slow_start;
        self
    }

    pub fn dwnd(&self) -> u64 {
        self.dwnd
    }

    fn begin_samples(&mut self) {
        self.rtt_samples = 0;
        self.min_rtt_us = u64::MAX;
    }

    /// The window was cut behind our back: what is left goes to wc first.
    fn follow_reduction(&mut self, cwnd: u64) {
        if self.wc + self.dwnd <= cwnd {
            return;
        }
        if self.wc > cwnd || self.dwnd > cwnd {
            self.wc = cwnd;
            self.dwnd = 0;
        } else {
            self.wc = cwnd - self.dwnd;
        }
    }

    /// A round trip is over where the ACK passes what was sent when it began.
    #[inline]
    fn count_round(&mut self, state: &State, ack: &Ack) {
        if ack.snd_una > self.beg_snd_nxt {
            self.end_round(state, ack);
        }
    }

    #[inline(never)]
    fn end_round(&mut self, state: &State, ack: &Ack) {
        let old = (self.beg_snd_nxt - self.beg_snd_una) / state.smss as u64;
        self.beg_snd_una = self.beg_snd_nxt;
        self.beg_snd_nxt = ack.snd_nxt;
        // Two samples may both be of delayed ACKs; with three one is not.
        if self.rtt_samples > 2 {
            self.update_dwnd(old);
        }
        self.begin_samples();
    }

    /// `old` packets were sent in the round before.
    fn update_dwnd(&mut self, old: u64) {
        // Half packets, as in the module: diff = w (1 - baseRTT / RTT).
        let diff = 2 * old - (2 * old * self.base_rtt_us) / self.min_rtt_us;
        if (diff as f64) < 2.0 * self.gamma {
            // 64 bits hold the cube of 2.6 million packets.
            let root = fourth_root(u128::from(old).pow(3)) >> ALPHA_SHIFT;
            self.dwnd += root.saturating_sub(1);
        } else {
            self.dwnd = (2 * self.dwnd).saturating_sub(diff) / 2;
        }
    }
}

/// The window in whole packets. A processor converts signed numbers in one step, unsigned ones in ten.
fn packets(state: &State) -> u64 {
    (state.cwnd / state.smss) as i64 as u64
}

/// The other way, as fast.
fn real(packets: u64) -> f64 {
    packets as i64 as f64
}

/// Newton's iteration for the fourth root; it stops as soon as a step is at most one, as the module's does.
fn fourth_root(a: u128) -> u64 {
    let bits = u128::BITS - a.leading_zeros();
    let mut x: u128 = 1 << (bits >> 2);
    loop {
        let last = x;
        x = (3 * x + a / (x * x * x)) / 4;
        if last.abs_diff(x) <= 1 {
            return x as u64;
        }
    }
}

impl Window for Compound {
    fn start(&mut self, state: &mut State, snd_nxt: u64) {
        self.base_rtt_us = u64::MAX;
        self.begin_samples();
        self.beg_snd_nxt = snd_nxt;
        self.wc = packets(state);
        self.dwnd = 0;
    }

    fn on_rtt(&mut self, _now_ns: i64, rtt_ns: i64) {
        let rtt_us = (rtt_ns as u64 + 500) / 1000 + 1;
        self.base_rtt_us = self.base_rtt_us.min(rtt_us);
        self.min_rtt_us = self.min_rtt_us.min(rtt_us);
        self.rtt_samples += 1;
    }

    fn is_slow_start(&self, state: &State) -> bool {
        !self.has_own_slow_start && state.is_slow_start()
    }

    fn on_slow_start_ack(&mut self, state: &mut State, _ack: &Ack) {
        self.follow_reduction(packets(state));
    }

    /// What another slow start opened is wc's; parts of a packet stay in cwnd until they are one.
    fn after_slow_start(&mut self, state: &mut State, ack: &Ack) {
        let dwnd = self.dwnd;
        self.wc = packets(state).saturating_sub(dwnd);
        self.count_round(state, ack);
        state.cwnd += (self.dwnd as f64 - dwnd as f64) * state.smss;
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let cwnd = packets(state);
        self.follow_reduction(cwnd);
        let segments = if self.byte_counting {
            (ack.newly_acked / state.smss).round() as u64
        } else {
            1
        };
        if self.has_own_slow_start && real(self.wc) <= state.ssthresh / state.smss {
            self.wc += segments;
        } else {
            self.acks += if self.acks < cwnd { segments } else { 0 };
            if self.acks >= cwnd {
                self.wc += 1;
                self.acks = 0;
            }
        }
        self.count_round(state, ack);
        state.cwnd = real(self.wc + self.dwnd) * state.smss;
    }

    fn on_ack_unused(&mut self, state: &mut State, _ack: &Ack) {
        self.follow_reduction(packets(state));
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        self.acks = 0;
        state.ssthresh = (packets(state) / 2).max(2) as f64 * state.smss;
    }

    fn on_recovered(&mut self, _state: &mut State, _now_ns: i64, snd_nxt: u64) {
        self.beg_snd_nxt = snd_nxt;
        self.begin_samples();
    }

    /// Reno's: half of ssthresh.
    fn min_cwnd(&self, state: &State) -> f64 {
        (state.ssthresh / 2.0 / state.smss).floor() * state.smss
    }

    fn snapshot(&self, values: &mut Values) {
        let or_nan = |us: u64| {
            if us == u64::MAX {
                f64::NAN
            } else {
                us as f64 * 1e3
            }
        };
        values.extend([
            ("wc", self.wc as f64),
            ("dwnd", self.dwnd as f64),
            ("base_rtt_ns", or_nan(self.base_rtt_us)),
            ("round_min_rtt_ns", or_nan(self.min_rtt_us)),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_the_integer_part_or_one_off() {
        for w in [1u128, 5, 38, 100, 417, 1700, 100_000, 5_000_000, 1 << 30] {
            let exact = (w as f64).powf(0.75);
            assert!((fourth_root(w * w * w) as f64 - exact).abs() <= 1.5, "{w}");
        }
    }

    #[test]
    fn the_delay_window_grows_by_an_eighth_of_w_to_three_quarters_less_one() {
        // w = 400: 400^0.75 = 89.4, an eighth is 11, less one is 10.
        let mut compound = Compound {
            base_rtt_us: 50_000,
            min_rtt_us: 50_000,
            ..Compound::new(30.0)
        };
        compound.update_dwnd(400);
        assert_eq!(compound.dwnd, 10);
    }

    #[test]
    fn a_queue_of_gamma_shrinks_the_delay_window_by_the_whole_queue() {
        // 400 packets over 55 ms with a base of 50 ms: floor(800 * 50/55) = 727, diff = 73 half packets >= 60.
        let mut compound = Compound {
            base_rtt_us: 50_000,
            min_rtt_us: 55_000,
            dwnd: 100,
            ..Compound::new(30.0)
        };
        compound.update_dwnd(400);
        assert_eq!(compound.dwnd, (200 - 73) / 2);
    }

    #[test]
    fn a_reduction_below_the_delay_window_leaves_reno_alone() {
        for (wc, dwnd, cwnd, left) in [
            (100, 300, 200, (200, 0)),
            (300, 100, 200, (200, 0)),
            (150, 150, 200, (50, 150)),
        ] {
            let mut compound = Compound {
                wc,
                dwnd,
                ..Compound::new(30.0)
            };
            compound.follow_reduction(cwnd);
            assert_eq!((compound.wc, compound.dwnd), left);
        }
    }
}
