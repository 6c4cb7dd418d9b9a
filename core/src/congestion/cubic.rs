//! CUBIC window growth and reduction (RFC 9438).

use super::{Ack, Loss, State, Values, Window};

/// Sections 4.6 and 5.1.
const BETA_CUBIC: f64 = 0.7;
const C: f64 = 0.4;

/// Windows in segments, time in seconds, as in the document.
///
/// Differs: section 4.10 has slow start when cwnd is no more than ssthresh; here, as in Linux, where slow start stops at
/// ssthresh itself, an ACK at ssthresh is congestion avoidance's (RFC 5681 section 3.1 leaves it to the sender).
/// Differs: sections 4.4 and 4.5 open the window by (target - cwnd) / cwnd for an ACK; here for each segment that it
/// acknowledges, as equation (4) counts and Linux does. A window of delayed ACKs would go half of the way to the target.
///
/// Omitted: of spurious congestion events (section 4.9, MAY) all but cwnd and ssthresh, and ECN (section 4.6).
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    has_fast_convergence: bool,
    w_max: f64,
    /// The congestion avoidance stage, once one of its ACKs has come.
    epoch: Option<Epoch>,
    w_est: f64,
    cwnd_prior: f64,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// `t_epoch`, moved on by the time that does not count.
    start_ns: i64,
    k: f64,
    /// The last ACK that could move the window.
    last_ns: i64,
    /// An ACK since then could not: the application or the receiver was the limit.
    is_paused: bool,
    /// That last ACK left nothing outstanding.
    was_emptied: bool,
}

impl Cubic {
    pub fn new(has_fast_convergence: bool) -> Self {
        Self {
            has_fast_convergence,
            w_max: 0.0,
            epoch: None,
            w_est: 0.0,
            cwnd_prior: 0.0,
        }
    }

    /// A congestion avoidance stage begins.
    fn begin(&mut self, now_ns: i64, cwnd: f64) -> Epoch {
        // Section 4.10: slow start ended without a loss; section 4.8: after a timeout. The window is its own plateau.
        if self.w_max < cwnd {
            self.w_max = cwnd;
        }
        if self.cwnd_prior == 0.0 {
            self.cwnd_prior = cwnd;
        }
        self.w_est = cwnd;
        Epoch {
            start_ns: now_ns,
            k: k(self.w_max, cwnd),
            last_ns: now_ns,
            is_paused: false,
            was_emptied: false,
        }
    }
}

impl Epoch {
    /// Section 4.2: t must not include time in which the window was not updated as the application was the limit.
    fn skip_pause(&mut self, now_ns: i64, rtt_ns: i64) {
        let since_ns = now_ns - self.last_ns;
        if self.is_paused {
            self.start_ns += since_ns;
        } else if self.was_emptied {
            // Sending and its ACK took a round trip; the rest was silence.
            self.start_ns += (since_ns - rtt_ns).max(0);
        }
    }
}

/// Equation (2): the time W_cubic takes from the epoch's window up to w_max.
fn k(w_max: f64, cwnd_epoch: f64) -> f64 {
    ((w_max - cwnd_epoch) / C).cbrt()
}

/// Equation (1).
fn w_cubic(t: f64, k: f64, w_max: f64) -> f64 {
    C * (t - k).powi(3) + w_max
}

impl Window for Cubic {
    /// Slow start ends the stage: the next begins with its own window.
    fn on_slow_start_ack(&mut self, _state: &mut State, _ack: &Ack) {
        self.epoch = None;
    }

    fn on_ack_unused(&mut self, _state: &mut State, _ack: &Ack) {
        if let Some(epoch) = &mut self.epoch {
            epoch.is_paused = true;
        }
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let cwnd = state.cwnd / state.smss;
        let acked = ack.newly_acked / state.smss;
        let rtt_ns = ack.srtt_ns.or(ack.rtt_ns).unwrap_or(0);
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(ack.now_ns, cwnd));
        epoch.skip_pause(ack.now_ns, rtt_ns);
        epoch = Epoch {
            last_ns: ack.now_ns,
            is_paused: false,
            was_emptied: ack.snd_una == ack.snd_nxt,
            ..epoch
        };
        self.epoch = Some(epoch);
        let t = (ack.now_ns - epoch.start_ns) as f64 / 1e9;
        let rtt = rtt_ns as f64 / 1e9;
        // Section 4.3: as fast as Reno would; once back at cwnd_prior exactly as fast.
        let alpha = if self.w_est >= self.cwnd_prior {
            1.0
        } else {
            3.0 * (1.0 - BETA_CUBIC) / (1.0 + BETA_CUBIC)
        };
        self.w_est += alpha * acked / cwnd;
        if w_cubic(t, epoch.k, self.w_max) < self.w_est {
            state.cwnd = self.w_est.max(cwnd) * state.smss;
            return;
        }
        // Section 4.2: the target one round trip ahead, at most half as much again.
        let target = w_cubic(t + rtt, epoch.k, self.w_max).clamp(cwnd, 1.5 * cwnd);
        // Sections 4.4 and 4.5.
        state.cwnd += (target - cwnd) / cwnd * acked * state.smss;
    }

    fn on_loss(&mut self, state: &mut State, loss: &Loss) {
        let cwnd = state.cwnd / state.smss;
        self.cwnd_prior = cwnd;
        // Section 4.7: below the last plateau give up more of it.
        self.w_max = if cwnd < self.w_max && self.has_fast_convergence {
            cwnd * (1.0 + BETA_CUBIC) / 2.0
        } else {
            cwnd
        };
        self.epoch = None;
        // Section 4.6: flight_size, which is less than cwnd when the application is the limit.
        state.ssthresh = loss.flight_size.min(state.cwnd) * BETA_CUBIC;
    }

    fn on_expired(&mut self, _state: &mut State, _loss: &Loss) {
        // Section 4.8: the stage that follows has K = 0 and its first window for W_max.
        self.w_max = 0.0;
    }

    fn snapshot(&self, values: &mut Values) {
        let epoch = |value: fn(&Epoch) -> f64| self.epoch.as_ref().map_or(f64::NAN, value);
        values.extend([
            ("w_max", self.w_max),
            ("w_est", self.w_est),
            ("k_s", epoch(|epoch| epoch.k)),
            ("epoch_start_ns", epoch(|epoch| epoch.start_ns as f64)),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_reduction_the_window_is_back_at_w_max_after_k() {
        // w_max 100, epoch at 70: K = cbrt(30 / 0.4) = 4.217 s.
        let k = k(100.0, 70.0);
        assert!((k - 4.217).abs() < 0.001);
        assert!((w_cubic(k, k, 100.0) - 100.0).abs() < 1e-9);
        assert!((w_cubic(0.0, k, 100.0) - 70.0).abs() < 1e-9);
    }

    #[test]
    fn a_second_loss_below_the_plateau_lowers_it_further() {
        let mut cubic = Cubic {
            w_max: 100.0,
            ..Cubic::new(true)
        };
        let mut state = State {
            cwnd: 80.0,
            ssthresh: 70.0,
            smss: 1.0,
        };
        cubic.on_loss(
            &mut state,
            &Loss {
                now_ns: 0,
                flight_size: 80.0,
                snd_nxt: 0,
            },
        );
        assert_eq!(cubic.w_max, 68.0);
        assert_eq!(state.ssthresh, 56.0);
    }

    #[test]
    fn growth_is_concave_up_to_the_plateau_and_convex_beyond() {
        let mut cubic = Cubic {
            w_max: 1000.0,
            ..Cubic::new(true)
        };
        let mut state = State {
            cwnd: 700.0,
            ssthresh: 700.0,
            smss: 1.0,
        };
        let mut windows = Vec::new();
        let mut snd_una = 0;
        for round in 0..200 {
            for _ in 0..state.cwnd as u64 {
                snd_una += 1;
                let ack = Ack {
                    now_ns: round * 100_000_000,
                    newly_acked: 1.0,
                    newly_sacked: 0.0,
                    rtt_ns: None,
                    srtt_ns: Some(100_000_000),
                    flight_size: state.cwnd,
                    snd_una,
                    snd_nxt: snd_una,
                    is_cwnd_limited: true,
                };
                cubic.on_ack(&mut state, &ack);
            }
            windows.push(state.cwnd);
        }
        // K = cbrt(300 / 0.4) = 9.09 s: the plateau is at round 91.
        assert!((windows[90] - 1000.0).abs() < 5.0, "{}", windows[90]);
        assert!(windows[20] - windows[0] > 2.0 * (windows[90] - windows[70]));
        assert!(windows[190] - windows[170] > windows[110] - windows[90]);
    }
}
