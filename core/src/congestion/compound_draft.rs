//! Compound TCP in real arithmetic (draft-sridharan-tcpm-ctcp-02).

use super::{Ack, Loss, State, Values, Window};

/// Section 3: alpha, beta, k; zeta is what a full queue takes from dwnd.
const ALPHA: f64 = 0.125;
const BETA: f64 = 0.5;
const K: f64 = 0.75;
const ZETA: f64 = 1.0;

/// win = wc + dwnd in segments.
#[derive(Clone, Copy, Debug)]
pub struct CompoundDraft {
    gamma: f64,
    wc: f64,
    dwnd: f64,
    base_rtt_ns: i64,
    round_min_rtt_ns: i64,
    round_end: u64,
    /// Window at the start of the round whose ACKs are now coming in.
    round_win: f64,
}

impl CompoundDraft {
    pub fn new(gamma: f64) -> Self {
        Self {
            gamma,
            wc: 0.0,
            dwnd: 0.0,
            base_rtt_ns: i64::MAX,
            round_min_rtt_ns: i64::MAX,
            round_end: 0,
            round_win: 0.0,
        }
    }

    pub fn dwnd(&self) -> f64 {
        self.dwnd
    }

    fn update_dwnd(&mut self, win: f64) {
        // Section 3.2: expected less actual throughput, times the base round trip.
        let diff = self.round_win * (1.0 - self.base_rtt_ns as f64 / self.round_min_rtt_ns as f64);
        if diff < self.gamma {
            self.dwnd += (ALPHA * win.powf(K) - 1.0).max(0.0);
        } else {
            self.dwnd = (self.dwnd - ZETA * diff).max(0.0);
        }
    }
}

impl Window for CompoundDraft {
    fn start(&mut self, state: &mut State, snd_nxt: u64) {
        self.round_end = snd_nxt;
        self.round_win = state.cwnd / state.smss;
    }

    fn on_rtt(&mut self, _now_ns: i64, rtt_ns: i64) {
        self.base_rtt_ns = self.base_rtt_ns.min(rtt_ns);
        self.round_min_rtt_ns = self.round_min_rtt_ns.min(rtt_ns);
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let win = state.cwnd / state.smss;
        // Slow start and recovery move the window as a whole: wc is what the delay window leaves.
        self.dwnd = self.dwnd.min(win);
        self.wc = win - self.dwnd;
        // Section 3.1: cwnd = cwnd + 1 / (cwnd + dwnd) per segment acknowledged.
        self.wc += (ack.newly_acked / state.smss) / win;
        if ack.snd_una >= self.round_end {
            // One sample is enough: the Linux module's "more than two" is not the draft's.
            if self.round_min_rtt_ns < i64::MAX {
                self.update_dwnd(win);
            }
            self.round_end = ack.snd_nxt;
            self.round_win = win;
            self.round_min_rtt_ns = i64::MAX;
        }
        state.cwnd = (self.wc + self.dwnd) * state.smss;
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        let win = state.cwnd / state.smss;
        // Section 3.3: wc as Reno, dwnd = win (1 - beta) - cwnd/2.
        let wc = (win - self.dwnd.min(win)) / 2.0;
        self.dwnd = (win * (1.0 - BETA) - wc).max(0.0);
        state.ssthresh = win * (1.0 - BETA) * state.smss;
    }

    fn on_expired(&mut self, _state: &mut State, _loss: &Loss) {
        // Section 3.3: after a timeout dwnd is zero.
        self.dwnd = 0.0;
    }

    fn on_recovered(&mut self, state: &mut State, _now_ns: i64, snd_nxt: u64) {
        self.round_end = snd_nxt;
        self.round_win = state.cwnd / state.smss;
        self.round_min_rtt_ns = i64::MAX;
    }

    fn snapshot(&self, values: &mut Values) {
        let or_nan = |ns: i64| if ns == i64::MAX { f64::NAN } else { ns as f64 };
        values.extend([
            ("wc", self.wc),
            ("dwnd", self.dwnd),
            ("base_rtt_ns", or_nan(self.base_rtt_ns)),
            ("round_min_rtt_ns", or_nan(self.round_min_rtt_ns)),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_halves_both_parts() {
        let mut draft = CompoundDraft {
            dwnd: 60.0,
            ..CompoundDraft::new(30.0)
        };
        let mut state = State {
            cwnd: 100.0,
            ssthresh: 1e9,
            smss: 1.0,
        };
        draft.on_loss(
            &mut state,
            &Loss {
                now_ns: 0,
                flight_size: 100.0,
                snd_nxt: 0,
            },
        );
        assert_eq!((state.ssthresh, draft.dwnd), (50.0, 30.0));
    }

    #[test]
    fn an_empty_queue_grows_the_delay_window_as_the_binomial_rule_says() {
        let mut draft = CompoundDraft {
            base_rtt_ns: 50,
            round_min_rtt_ns: 50,
            round_win: 256.0,
            ..CompoundDraft::new(30.0)
        };
        draft.update_dwnd(256.0);
        // 256^0.75 = 64; 64 / 8 - 1 = 7.
        assert_eq!(draft.dwnd, 7.0);
    }
}
