//! CUBIC as Linux 2.6.22 and ns-2.35 compute it: integers, a 10-bit clock, beta 819/1024 (paper 002's runs).

use super::cubic_curve::{CLOCK_BITS, Curve};
use super::{Ack, Loss, State, Values, Window};

const BETA: u64 = 819;
const BETA_SCALE: u64 = 1024;
/// At most this many packets per round trip above the origin, per 100 ms.
const MAX_INCREMENT: u64 = 16;
const ACK_RATIO_SHIFT: u32 = 4;
const HZ: u64 = 1000;

/// Times in jiffies of 1 ms, windows in packets.
#[derive(Clone, Copy, Debug)]
pub struct Cubic26 {
    cnt: u64,
    last_max_cwnd: u64,
    loss_cwnd: u64,
    last_cwnd: u64,
    last_time: u64,
    curve: Curve,
    /// Eighths of a jiffy; 0: none yet.
    delay_min: u64,
    epoch_start: u64,
    ack_cnt: u64,
    tcp_cwnd: u64,
    /// Packets per ACK in sixteenths.
    delayed_ack: u64,
    cwnd_cnt: u64,
    /// The timestamp that the ACK at hand returns.
    ts_ecr: Option<u64>,
    is_open: bool,
}

impl Cubic26 {
    #[expect(
        clippy::new_without_default,
        reason = "one constructor, like its siblings"
    )]
    pub fn new() -> Self {
        Self {
            cnt: 0,
            last_max_cwnd: 0,
            loss_cwnd: 0,
            last_cwnd: 0,
            last_time: 0,
            curve: Curve::default(),
            delay_min: 0,
            epoch_start: 0,
            ack_cnt: 0,
            tcp_cwnd: 0,
            delayed_ack: 2 << ACK_RATIO_SHIFT,
            cwnd_cnt: 0,
            ts_ecr: None,
            is_open: true,
        }
    }

    /// On every ACK outside recovery: packets per ACK, and the shortest round trip.
    fn measure(&mut self, state: &State, ack: &Ack) {
        if self.is_open {
            let acked = (ack.newly_acked / state.smss) as u64;
            self.delayed_ack = self.delayed_ack + acked - (self.delayed_ack >> ACK_RATIO_SHIFT);
            self.measure_delay(jiffies(ack.now_ns));
        }
    }

    fn measure_delay(&mut self, now: u64) {
        let Some(ts_ecr) = self.ts_ecr else { return };
        // Nothing in the first second of an epoch: the queue of the recovery is still there.
        if (now as i64 - self.epoch_start as i64) < HZ as i64 {
            return;
        }
        // The clock is cut, a stamp is rounded.
        let delay = (now.saturating_sub(ts_ecr) << 3).max(1);
        if self.delay_min == 0 || self.delay_min > delay {
            self.delay_min = delay;
        }
    }

    fn update(&mut self, cwnd: u64, now: u64) {
        self.ack_cnt += 1;
        if self.last_cwnd == cwnd && now - self.last_time <= HZ / 32 {
            return;
        }
        self.last_cwnd = cwnd;
        self.last_time = now;
        if self.epoch_start == 0 {
            self.epoch_start = now;
            self.ack_cnt = 1;
            self.tcp_cwnd = cwnd;
            self.curve = Curve::new(cwnd, self.last_max_cwnd);
        }
        let t = ((now + (self.delay_min >> 3) - self.epoch_start) << CLOCK_BITS) / HZ;
        self.cnt = self.curve.cnt(cwnd, t);
        if self.delay_min > 0 && self.curve.is_past_origin(t) {
            self.cnt = self
                .cnt
                .max((cwnd * HZ * 8) / (10 * MAX_INCREMENT * self.delay_min));
        }
        if self.loss_cwnd == 0 {
            self.cnt = 50;
        }
        self.be_reno_friendly(cwnd);
        self.cnt = ((self.cnt << ACK_RATIO_SHIFT) / self.delayed_ack).max(1);
    }

    fn be_reno_friendly(&mut self, cwnd: u64) {
        let scale = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
        let per_packet = ((cwnd * scale) >> 3).max(1);
        while self.ack_cnt > per_packet {
            self.ack_cnt -= per_packet;
            self.tcp_cwnd += 1;
        }
        if self.tcp_cwnd > cwnd {
            self.cnt = self.cnt.min(cwnd / (self.tcp_cwnd - cwnd));
        }
    }
}

fn jiffies(now_ns: i64) -> u64 {
    now_ns as u64 / 1_000_000
}

impl Window for Cubic26 {
    fn wants_timestamps(&self) -> bool {
        true
    }

    /// Of a delayed ACK the first segment's stamp comes back, not that of the newest one. 0: none has.
    fn on_timestamps(&mut self, _ts_val: u64, ts_ecr: u64) {
        self.ts_ecr = Some(ts_ecr).filter(|&stamp| stamp > 0);
    }

    /// `<=`: the module's slow start goes one packet past ssthresh.
    fn is_slow_start(&self, state: &State) -> bool {
        state.cwnd <= state.ssthresh
    }

    fn on_slow_start_ack(&mut self, state: &mut State, ack: &Ack) {
        self.measure(state, ack);
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        self.measure(state, ack);
        let mut cwnd = (state.cwnd / state.smss) as u64;
        self.update(cwnd, jiffies(ack.now_ns));
        if self.cwnd_cnt >= self.cnt {
            cwnd += 1;
            self.cwnd_cnt = 0;
        } else {
            self.cwnd_cnt += 1;
        }
        state.cwnd = cwnd as f64 * state.smss;
    }

    /// It measures before it asks whether the window was used.
    fn on_ack_unused(&mut self, state: &mut State, ack: &Ack) {
        self.measure(state, ack);
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        let cwnd = (state.cwnd / state.smss) as u64;
        self.is_open = false;
        self.cwnd_cnt = 0;
        self.epoch_start = 0;
        self.last_max_cwnd = if cwnd < self.last_max_cwnd {
            (cwnd * (BETA_SCALE + BETA)) / (2 * BETA_SCALE)
        } else {
            cwnd
        };
        self.loss_cwnd = cwnd;
        state.ssthresh = ((cwnd * BETA) / BETA_SCALE).max(2) as f64 * state.smss;
    }

    fn on_expired(&mut self, _state: &mut State, _loss: &Loss) {
        *self = Self {
            is_open: false,
            ..Self::new()
        };
    }

    fn on_recovered(&mut self, _state: &mut State, _now_ns: i64, _snd_nxt: u64) {
        self.is_open = true;
    }

    fn snapshot(&self, values: &mut Values) {
        let has_epoch = self.epoch_start > 0;
        let in_epoch = |value: f64| if has_epoch { value } else { f64::NAN };
        values.extend([
            ("w_max", self.last_max_cwnd as f64),
            ("w_est", in_epoch(self.tcp_cwnd as f64)),
            ("k_s", in_epoch(self.curve.k_s())),
            ("epoch_start_ns", in_epoch(self.epoch_start as f64 * 1e6)),
            // Eighths of a millisecond; 0: none yet.
            (
                "base_rtt_ns",
                if self.delay_min > 0 {
                    self.delay_min as f64 * 125e3
                } else {
                    f64::NAN
                },
            ),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::ack;
    use super::super::{Control, MStart, Pair, SlowStart, Standard};
    use super::*;

    fn windows(slow_start: impl SlowStart + Clone + 'static) -> Vec<f64> {
        let mut state = State {
            cwnd: 1000.0,
            ssthresh: 1e9,
            smss: 1000.0,
        };
        let mut pair = Pair {
            slow_start,
            window: Cubic26::new(),
        };
        let ack = Ack {
            now_ns: 400_000_000,
            ..ack(1000.0)
        };
        (0..4)
            .map(|_| {
                pair.on_ack(&mut state, &ack);
                state.cwnd / state.smss
            })
            .collect()
    }

    #[test]
    fn slow_start_is_the_senders_own() {
        let standard = Standard {
            byte_counting: false,
        };
        assert_eq!(windows(standard), [2.0, 3.0, 4.0, 5.0]);
        // Paper 002, Table 2: the windows of its own slow start over CUBIC.
        assert_eq!(windows(MStart::new(false)), [2.0, 12.0, 21.0, 29.0]);
    }
}
