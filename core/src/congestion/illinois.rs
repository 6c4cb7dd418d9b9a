//! TCP-Illinois (Liu, Basar and Srikant, Performance Evaluation 65(6-7), 2008): loss says when, delay says how much.

use super::module::{Kernel, KernelWindow};
use super::{Ack, Loss, State, Values, Window};

/// alpha in 128ths: 0.3 to 10.
const ALPHA_SHIFT: u32 = 7;
const ALPHA_BASE: u64 = 1 << ALPHA_SHIFT;
const ALPHA_MIN: u64 = 3 * ALPHA_BASE / 10;
const ALPHA_MAX: u64 = 10 * ALPHA_BASE;
/// beta in 64ths: 1/8 to 1/2.
const BETA_SHIFT: u32 = 6;
const BETA_MIN: u64 = (1 << BETA_SHIFT) / 8;
const BETA_MAX: u64 = (1 << BETA_SHIFT) / 2;
/// Below this window it is Reno.
const WIN_THRESH: u64 = 15;
/// Rounds without a queue until alpha is at its largest again.
const THETA: u32 = 5;
/// 32 bits hold no more, times `ALPHA_MAX`.
const RTT_MAX_US: u64 = u32::MAX as u64 / ALPHA_MAX;

#[derive(Clone, Debug)]
pub struct Illinois {
    packets: KernelWindow,
    alpha: u64,
    beta: u64,
    base_rtt_us: u64,
    max_rtt_us: u64,
    sum_rtt_us: u64,
    samples: u64,
    round_end: u64,
    /// Packets that the ACK being looked at acknowledges.
    acked: u64,
    /// The delay has been above the lower threshold.
    has_queued: bool,
    rounds_below: u32,
}

impl Illinois {
    pub fn new(kernel: Kernel) -> Self {
        Self {
            packets: KernelWindow::new(kernel),
            alpha: ALPHA_MAX,
            beta: BETA_MAX,
            base_rtt_us: 0x7fff_ffff,
            max_rtt_us: 0,
            sum_rtt_us: 0,
            samples: 0,
            round_end: 0,
            acked: 0,
            has_queued: false,
            rounds_below: 0,
        }
    }

    fn begin_round(&mut self, snd_nxt: u64) {
        self.round_end = snd_nxt;
        self.samples = 0;
        self.sum_rtt_us = 0;
    }

    /// Once per round trip: alpha and beta by the mean queueing delay of the round.
    fn update(&mut self, state: &State, ack: &Ack) {
        if ack.snd_una <= self.round_end {
            return;
        }
        if KernelWindow::cwnd(state) < WIN_THRESH {
            self.alpha = ALPHA_BASE;
            self.beta = BETA_MAX;
        } else if let Some(mean) = self.sum_rtt_us.checked_div(self.samples) {
            let most = self.max_rtt_us - self.base_rtt_us;
            let mean = mean - self.base_rtt_us;
            self.alpha = self.alpha_at(mean, most);
            self.beta = beta_at(mean, most);
        }
        self.begin_round(ack.snd_nxt);
    }

    /// alpha_max up to d1, then kappa1 / (kappa2 + da), which is 0.3 at da = dm.
    fn alpha_at(&mut self, da: u64, dm: u64) -> u64 {
        let d1 = dm / 100;
        if da <= d1 {
            if !self.has_queued {
                return ALPHA_MAX;
            }
            // One good round does not yet mean that the queue is gone.
            self.rounds_below += 1;
            if self.rounds_below < THETA {
                return self.alpha;
            }
            self.rounds_below = 0;
            self.has_queued = false;
            return ALPHA_MAX;
        }
        self.has_queued = true;
        let (dm, da) = (dm - d1, da - d1);
        dm * ALPHA_MAX / (dm + da * (ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN)
    }
}

/// From 1/8 at a tenth of the largest delay to 1/2 at eight tenths.
fn beta_at(da: u64, dm: u64) -> u64 {
    let d2 = dm / 10;
    if da <= d2 {
        return BETA_MIN;
    }
    let d3 = 8 * dm / 10;
    if da >= d3 || d3 <= d2 {
        return BETA_MAX;
    }
    (BETA_MIN * d3 + (BETA_MAX - BETA_MIN) * da - BETA_MAX * d2) / (d3 - d2)
}

impl Window for Illinois {
    fn start(&mut self, _state: &mut State, snd_nxt: u64) {
        self.begin_round(snd_nxt);
    }

    fn on_arrival(&mut self, state: &mut State, ack: &Ack) {
        if ack.newly_acked > 0.0 {
            self.acked = KernelWindow::acked(state, ack);
        }
        if let Some(rtt_ns) = ack.rtt_ns {
            let rtt_us = (rtt_ns as u64 / 1000).min(RTT_MAX_US);
            self.base_rtt_us = self.base_rtt_us.min(rtt_us);
            self.max_rtt_us = self.max_rtt_us.max(rtt_us);
            self.sum_rtt_us += rtt_us;
            self.samples += 1;
        }
    }

    fn is_slow_start(&self, state: &State) -> bool {
        self.packets.is_slow_start(state)
    }

    fn on_slow_start_ack(&mut self, state: &mut State, ack: &Ack) {
        self.update(state, ack);
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        self.update(state, ack);
        // All that the ACK covers: the one that ends a recovery also what was SACKed before.
        self.packets.count += std::mem::replace(&mut self.acked, 1);
        let cwnd = KernelWindow::cwnd(state);
        let delta = (self.packets.count * self.alpha) >> ALPHA_SHIFT;
        if delta >= cwnd {
            KernelWindow::set_cwnd(state, cwnd + delta / cwnd);
            self.packets.count = 0;
        }
    }

    fn on_ack_unused(&mut self, state: &mut State, ack: &Ack) {
        self.update(state, ack);
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        self.packets.forget();
        let cwnd = KernelWindow::cwnd(state);
        let share = (cwnd * self.beta) >> BETA_SHIFT;
        // 2.6.22 keeps the share that should go.
        let left = match self.packets.kernel {
            Kernel::V2_6 => share,
            Kernel::V6 => cwnd - share,
        };
        KernelWindow::set_ssthresh(state, left);
    }

    fn on_expired(&mut self, _state: &mut State, loss: &Loss) {
        self.alpha = ALPHA_BASE;
        self.beta = BETA_MAX;
        self.rounds_below = 0;
        self.has_queued = false;
        self.begin_round(loss.snd_nxt);
    }

    fn min_cwnd(&self, state: &State) -> f64 {
        KernelWindow::half_of_ssthresh(state)
    }

    fn snapshot(&self, values: &mut Values) {
        values.push(("alpha", self.alpha as f64 / ALPHA_BASE as f64));
        values.push(("beta", self.beta as f64 / f64::from(1 << BETA_SHIFT)));
        let or_nan = |us: u64| {
            if self.max_rtt_us == 0 {
                f64::NAN
            } else {
                us as f64 * 1e3
            }
        };
        values.push(("base_rtt_ns", or_nan(self.base_rtt_us)));
        values.push(("max_rtt_ns", or_nan(self.max_rtt_us)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{ssthresh_at, state, windows};
    use super::*;

    #[test]
    fn alpha_falls_from_ten_to_three_tenths_with_the_queueing_delay() {
        // dm = 100 ms, d1 = 1 ms. da = 50.5 ms is half way: 10 * 99 / (99 + 49.5 * 32.3) = 0.58.
        let mut illinois = Illinois::new(Kernel::V6);
        let mut at = |da_us| illinois.alpha_at(da_us, 100_000) as f64 / ALPHA_BASE as f64;
        assert_eq!(at(1000), 10.0);
        assert!((at(50_500) - 0.58).abs() < 0.01);
        assert!((at(100_000) - 0.3).abs() < 0.01);
    }

    #[test]
    fn alpha_returns_to_ten_after_five_rounds_without_a_queue() {
        let mut illinois = Illinois::new(Kernel::V6);
        illinois.alpha = illinois.alpha_at(100_000, 100_000);
        let rounds = [(); 5].map(|()| {
            illinois.alpha = illinois.alpha_at(0, 100_000);
            illinois.alpha
        });
        assert_eq!((rounds[3], rounds[4]), (38, ALPHA_MAX));
    }

    #[test]
    fn beta_rises_from_an_eighth_to_a_half() {
        for (da, beta) in [(10, 8), (45, 20), (80, 32), (100, 32)] {
            assert_eq!(beta_at(da, 100), beta, "{da}");
        }
    }

    #[test]
    fn a_window_of_acks_adds_alpha() {
        let mut illinois = Illinois::new(Kernel::V6);
        illinois.acked = 1;
        // alpha 10: a packet for each tenth of the window.
        assert_eq!(windows(&mut illinois, &mut state(100.0, 2.0), 10)[9], 101.0);
    }

    #[test]
    fn linux_2_6_22_keeps_what_should_go() {
        for (kernel, left) in [(Kernel::V2_6, 12.0), (Kernel::V6, 88.0)] {
            let mut illinois = Illinois::new(kernel);
            illinois.beta = BETA_MIN;
            assert_eq!(ssthresh_at(&mut illinois, 100.0), left);
        }
    }
}
