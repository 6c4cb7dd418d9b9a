//! H-TCP (Leith and Shorten, PFLDnet 2004; draft-leith-tcp-htcp): faster the longer there was no loss.

use super::module::{Clock, Kernel, KernelWindow};
use super::{Ack, Loss, State, Values, Window};

/// alpha and beta in 128ths.
const SHIFT: u32 = 7;
const ALPHA_BASE: u64 = 1 << SHIFT;
// The kernel holds alpha in 32 bits.
const MOST_FACTOR: u64 = u32::MAX as u64;
const BETA_MIN: u64 = 1 << (SHIFT - 1);
/// 0.8.
const BETA_MAX: u64 = 102;
/// Round trips after a loss before its queue is gone.
const SETTLING: u64 = 3;
/// A rise of the round trip that is too sudden, and a round trip too short to tell a queue by.
const SUDDEN_NS: i64 = 20_000_000;
const SHORT_RTT_NS: i64 = 10_000_000;

#[derive(Clone, Debug)]
pub struct Htcp {
    packets: KernelWindow,
    clock: Clock,
    counts_from_recovery: bool,
    alpha: u64,
    beta: u64,
    /// beta follows the delay only from the second loss with much the same bandwidth.
    follows_delay: bool,
    is_open: bool,
    /// Packets that the ACK being looked at acknowledges.
    acked: u64,
    /// In ticks; 0: none yet.
    min_rtt: u64,
    max_rtt: u64,
    last_congestion: u64,
    /// `last_congestion`, `max_rtt` and `old_max_bandwidth` before the last loss.
    before: (u64, u64, u64),
    /// Packets since `counted_since`: the bandwidth.
    counted: u64,
    counted_since: u64,
    bandwidth: u64,
    max_bandwidth: u64,
    old_max_bandwidth: u64,
}

impl Htcp {
    /// `counts_from_recovery`: Linux's time without a loss begins when recovery ends, the draft's with the loss.
    pub fn new(kernel: Kernel, clock: Clock, counts_from_recovery: bool) -> Self {
        Self {
            packets: KernelWindow::new(kernel),
            clock,
            counts_from_recovery,
            alpha: ALPHA_BASE,
            beta: BETA_MIN,
            follows_delay: false,
            is_open: true,
            acked: 1,
            min_rtt: 0,
            max_rtt: 0,
            last_congestion: 0,
            before: (0, 0, 0),
            counted: 0,
            counted_since: 0,
            bandwidth: 0,
            max_bandwidth: 0,
            old_max_bandwidth: 0,
        }
    }

    fn ticks(&self, ns: i64) -> u64 {
        self.clock.ticks(ns)
    }

    fn hz(&self) -> u64 {
        self.clock.hz
    }

    fn is_settled(&self, now: u64) -> bool {
        (now - self.last_congestion) / self.min_rtt.max(1) > SETTLING
    }

    fn lower_min_rtt(&mut self, rtt: u64) {
        if self.min_rtt == 0 || self.min_rtt > rtt {
            self.min_rtt = rtt;
        }
    }

    fn raise_max_rtt(&mut self, rtt: u64) {
        self.max_rtt = self.max_rtt.max(self.min_rtt);
        // A sudden rise is no queue of ours.
        if self.max_rtt < rtt && rtt <= self.max_rtt + self.clock.ticks_of_sample(SUDDEN_NS) {
            self.max_rtt = rtt;
        }
    }

    /// 2.6.22: by the smoothed round trip, in avoidance, once the losses' queue is gone.
    fn measure_srtt(&mut self, state: &State, ack: &Ack) {
        let Some(srtt_ns) = ack.srtt_ns else { return };
        // The sender keeps eighths of a tick.
        let srtt = (srtt_ns as u64 + 62_500) / 125_000 / 8;
        self.lower_min_rtt(srtt);
        let has_had_loss = state.ssthresh / state.smss < 65_535.0;
        if self.is_open && has_had_loss && self.is_settled(self.ticks(ack.now_ns)) {
            self.raise_max_rtt(srtt);
        }
    }

    fn measure_bandwidth(&mut self, state: &State, acked: u64, now: u64) {
        if !self.is_open {
            self.counted = 0;
            self.counted_since = now;
            return;
        }
        self.counted += acked;
        let cwnd = KernelWindow::cwnd(state);
        let slack = (self.alpha >> SHIFT).max(1);
        let is_a_window = slack <= cwnd && self.counted >= cwnd - slack;
        let time = now - self.counted_since;
        if !(is_a_window && self.min_rtt > 0 && time >= self.min_rtt) {
            return;
        }
        let current = self.counted * self.hz() / time;
        if self.is_settled(now) {
            self.bandwidth = (3 * self.bandwidth + current) / 4;
            self.max_bandwidth = self.max_bandwidth.max(self.bandwidth);
        } else {
            self.bandwidth = current;
            self.max_bandwidth = current;
        }
        self.counted = 0;
        self.counted_since = now;
    }

    /// beta = RTTmin / RTTmax, unless the bandwidth has changed by more than a fifth.
    fn update_beta(&mut self) {
        let (new, old) = (self.max_bandwidth, self.old_max_bandwidth);
        self.old_max_bandwidth = new;
        if !(4 * old..=6 * old).contains(&(5 * new)) {
            self.beta = BETA_MIN;
            self.follows_delay = false;
            return;
        }
        if self.follows_delay
            && self.min_rtt > self.clock.ticks_of_sample(SHORT_RTT_NS)
            && self.max_rtt > 0
        {
            self.beta = ((self.min_rtt << SHIFT) / self.max_rtt).clamp(BETA_MIN, BETA_MAX);
        } else {
            self.beta = BETA_MIN;
            self.follows_delay = true;
        }
    }

    /// alpha = 2 (1 - beta) f(time since the last loss), f scaled by the round trip.
    fn update_alpha(&mut self, now: u64) {
        let hz = self.hz();
        let mut factor = 1;
        let time = now - self.last_congestion;
        if time > hz {
            // A square of microseconds: more than 64 bits after two hours.
            let (beyond, hz) = (u128::from(time - hz), u128::from(hz));
            let grown = 1 + (10 * beyond + (beyond / 2) * (beyond / 2) / hz) / hz;
            factor = u64::try_from(grown).map_or(MOST_FACTOR, |grown| grown.min(MOST_FACTOR));
        }
        if self.min_rtt > 0 {
            // 100 ms over RTTmin in eighths, 0.5 to 10.
            let scale = ((hz << 3) / (10 * self.min_rtt)).clamp(1 << 2, 10 << 3);
            factor = ((factor << 3) / scale).max(1);
        }
        self.alpha = 2 * factor * ((1 << SHIFT) - self.beta);
    }
}

impl Window for Htcp {
    fn on_arrival(&mut self, state: &mut State, ack: &Ack) {
        let now = self.ticks(ack.now_ns);
        if self.last_congestion == 0 {
            self.last_congestion = now;
        }
        if ack.newly_acked == 0.0 {
            return;
        }
        let acked = KernelWindow::acked(state, ack);
        if self.is_open {
            self.acked = acked;
        }
        if let (Kernel::V6, Some(rtt_ns)) = (self.packets.kernel, ack.rtt_ns) {
            let rtt = self.clock.ticks_of_sample(rtt_ns);
            self.lower_min_rtt(rtt);
            if self.is_open {
                self.raise_max_rtt(rtt);
            }
        }
        self.measure_bandwidth(state, acked, now);
    }

    fn is_slow_start(&self, state: &State) -> bool {
        self.packets.is_slow_start(state)
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        if self.packets.kernel == Kernel::V2_6 {
            self.measure_srtt(state, ack);
        }
        let cwnd = KernelWindow::cwnd(state);
        if self.packets.count.saturating_mul(self.alpha) >> SHIFT >= cwnd {
            KernelWindow::set_cwnd(state, cwnd + 1);
            self.packets.count = 0;
            self.update_alpha(self.ticks(ack.now_ns));
        } else {
            self.packets.count += self.acked;
        }
        self.acked = 1;
    }

    fn on_loss(&mut self, state: &mut State, loss: &Loss) {
        let now = self.ticks(loss.now_ns);
        self.before = (self.last_congestion, self.max_rtt, self.old_max_bandwidth);
        self.update_beta();
        self.update_alpha(now);
        // RTTmax fades, as routes change.
        if self.min_rtt > 0 && self.max_rtt > self.min_rtt {
            self.max_rtt = self.min_rtt + (self.max_rtt - self.min_rtt) * 95 / 100;
        }
        self.packets.forget();
        self.is_open = false;
        self.last_congestion = now;
        KernelWindow::set_ssthresh(state, (KernelWindow::cwnd(state) * self.beta) >> SHIFT);
    }

    fn on_timeout(&mut self, state: &mut State, loss: &Loss) {
        self.on_loss(state, loss);
    }

    /// The time without a loss begins again.
    fn on_expired(&mut self, _state: &mut State, loss: &Loss) {
        self.before = (self.last_congestion, self.max_rtt, self.old_max_bandwidth);
        self.last_congestion = self.ticks(loss.now_ns);
    }

    fn on_recovered(&mut self, _state: &mut State, now_ns: i64, _snd_nxt: u64) {
        self.is_open = true;
        if self.counts_from_recovery {
            self.last_congestion = self.ticks(now_ns);
        }
    }

    /// The time without a loss goes on.
    fn on_undone(&mut self, _state: &mut State, _now_ns: i64, _snd_nxt: u64) {
        self.is_open = true;
        (self.last_congestion, self.max_rtt, self.old_max_bandwidth) = self.before;
    }

    fn snapshot(&self, values: &mut Values) {
        let clock = self.clock;
        values.push(("alpha", self.alpha as f64 / ALPHA_BASE as f64));
        values.push(("beta", self.beta as f64 / ALPHA_BASE as f64));
        values.push(("base_rtt_ns", clock.ns_or_nan(self.min_rtt)));
        values.push(("max_rtt_ns", clock.ns_or_nan(self.max_rtt)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{ssthresh_at, state, windows};
    use super::*;

    fn alpha_after(time_s: u64, min_rtt_ms: u64) -> f64 {
        let mut htcp = Htcp::new(Kernel::V6, Clock::MICROSECONDS, false);
        htcp.min_rtt = min_rtt_ms * 1000;
        htcp.update_alpha(time_s * 1_000_000);
        htcp.alpha as f64 / ALPHA_BASE as f64
    }

    #[test]
    fn alpha_grows_from_the_first_second_on() {
        // 100 ms, beta 1/2: alpha = f. t = 3: 1 + 10 * 2 + (2/2)^2 = 22.
        assert_eq!(alpha_after(1, 100), 1.0);
        assert_eq!(alpha_after(3, 100), 22.0);
        // Scaled by 50/100 and 400/100, at most by 2.
        assert_eq!(alpha_after(3, 50), 11.0);
        assert_eq!(alpha_after(3, 400), 44.0);
    }

    #[test]
    fn beta_is_the_ratio_of_the_round_trips_if_the_bandwidth_is_the_last_one() {
        let mut htcp = Htcp::new(Kernel::V6, Clock::MICROSECONDS, false);
        (htcp.min_rtt, htcp.max_rtt) = (60_000, 100_000);
        let mut left = |bandwidth| {
            htcp.max_bandwidth = bandwidth;
            htcp.max_rtt = 100_000;
            ssthresh_at(&mut htcp, 128.0)
        };
        // Bandwidth new, then the same again (from now on the delay counts), then 19 % more, then 25 % more.
        assert_eq!([left(1000), left(1000), left(1000)], [64.0, 64.0, 76.0]);
        assert_eq!([left(1190), left(1488)], [76.0, 64.0]);
    }

    #[test]
    fn a_window_of_acks_adds_alpha() {
        let mut htcp = Htcp::new(Kernel::V6, Clock::MICROSECONDS, false);
        htcp.alpha = 4 * ALPHA_BASE;
        // 25 counted reach 100/4, the next ACK grows.
        let grown = windows(&mut htcp, &mut state(100.0, 2.0), 26);
        assert_eq!((grown[24], grown[25]), (100.0, 101.0));
    }
}
