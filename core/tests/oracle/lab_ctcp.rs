//! The kernel runs' own Compound module (`lab_ctcp`), as the captures' README describes it: whole packets throughout.

use tcptrace_core::congestion::{Ack, Loss, State, Window};

#[derive(Clone, Debug)]
pub struct LabCtcp {
    gamma: i64,
    wc: i64,
    dwnd: i64,
    acked: f64,
    base_rtt_ns: i64,
    round_min_rtt_ns: i64,
    /// The round ends when this is acknowledged.
    round_end: u64,
    /// Outstanding when the round whose ACKs are coming in began, and when the next one did.
    outstanding: i64,
}

impl LabCtcp {
    pub fn new(gamma: i64) -> Self {
        Self {
            gamma,
            wc: 0,
            dwnd: 0,
            acked: 0.0,
            base_rtt_ns: i64::MAX,
            round_min_rtt_ns: i64::MAX,
            round_end: 0,
            outstanding: 0,
        }
    }

    fn begin_round(&mut self, snd_una: u64, snd_nxt: u64, smss: f64) {
        self.outstanding = ((snd_nxt - snd_una) as f64 / smss) as i64;
        self.round_end = snd_nxt;
        self.round_min_rtt_ns = i64::MAX;
    }

    fn end_round(&mut self) {
        if self.round_min_rtt_ns == i64::MAX {
            return;
        }
        // In 1024ths: Delta = w (1 - baseRTT / minRTT).
        let delta = (self.outstanding << 10) * (self.round_min_rtt_ns - self.base_rtt_ns)
            / self.round_min_rtt_ns;
        if delta < self.gamma << 10 {
            self.dwnd += ((self.outstanding as f64).powf(0.75).floor() as i64 / 8 - 1).max(0);
        } else {
            self.dwnd = (self.dwnd - (delta >> 10)).max(0);
        }
    }
}

impl Window for LabCtcp {
    fn start(&mut self, _state: &mut State, snd_nxt: u64) {
        self.round_end = snd_nxt;
    }

    fn on_rtt(&mut self, _now_ns: i64, rtt_ns: i64) {
        self.base_rtt_ns = self.base_rtt_ns.min(rtt_ns);
        self.round_min_rtt_ns = self.round_min_rtt_ns.min(rtt_ns);
    }

    fn on_slow_start_ack(&mut self, state: &mut State, ack: &Ack) {
        if ack.snd_una > self.round_end {
            self.begin_round(ack.snd_una, ack.snd_nxt, state.smss);
        }
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let w = (state.cwnd / state.smss) as i64;
        self.dwnd = self.dwnd.min(w);
        self.wc = w - self.dwnd;
        self.acked += ack.newly_acked / state.smss;
        if self.acked >= w as f64 {
            self.acked -= w as f64;
            self.wc += 1;
        }
        if ack.snd_una > self.round_end {
            self.end_round();
            self.begin_round(ack.snd_una, ack.snd_nxt, state.smss);
        }
        state.cwnd = (self.wc + self.dwnd) as f64 * state.smss;
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        let w = (state.cwnd / state.smss) as i64;
        let half = (w / 2).max(2);
        self.wc = (w - self.dwnd.min(w)) / 2;
        self.dwnd = (half - self.wc).max(0);
        self.acked = 0.0;
        state.ssthresh = half as f64 * state.smss;
    }

    fn on_timeout(&mut self, state: &mut State, loss: &Loss) {
        self.on_loss(state, loss);
        self.dwnd = 0;
    }

    fn on_recovered(&mut self, state: &mut State, _now_ns: i64, snd_nxt: u64) {
        self.round_end = snd_nxt;
        self.outstanding = (state.cwnd / state.smss) as i64;
        self.round_min_rtt_ns = i64::MAX;
    }
}
