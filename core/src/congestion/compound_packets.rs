//! Compound TCP's draft in whole packets, as a kernel computes it (draft-sridharan-tcpm-ctcp-02; paper 003 section 2).
//!
//! Differs from `compound_draft` by its integers, and by the window that Delta is measured with: what was outstanding
//! when the round began. Slow start leaves the delay window alone. Section 3.2 leaves open which window the delay window
//! opens by, that of the round measured or that of now, and whether a round that a recovery began in tells anything.

use super::{Ack, Loss, State, Values, Window};

/// Fractions of a packet in Delta are kept in 1024ths.
const DELTA_SHIFT: u32 = 10;
/// alpha = 1/8 of the window to the power of k = 3/4.
const K: f64 = 0.75;
const ALPHA_DIVISOR: i64 = 8;

/// Windows in packets: w = wc + dwnd.
#[derive(Clone, Copy, Debug)]
pub struct CompoundPackets {
    gamma: f64,
    /// Opens by the window of now, and not by the round in which a recovery ended.
    is_by_cwnd: bool,
    dwnd: i64,
    /// Acknowledged and not yet part of an increase of wc.
    acked: f64,
    base_rtt_ns: Option<i64>,
    round: Round,
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// It is over when more than this is acknowledged.
    end: u64,
    /// Outstanding at its beginning; 0: it tells nothing.
    packets: i64,
    min_rtt_ns: Option<i64>,
}

impl CompoundPackets {
    pub fn new(gamma: f64) -> Self {
        Self {
            gamma,
            is_by_cwnd: false,
            dwnd: 0,
            acked: 0.0,
            base_rtt_ns: None,
            round: Round::default(),
        }
    }

    pub fn with_dwnd_by_cwnd(mut self, is_by_cwnd: bool) -> Self {
        self.is_by_cwnd = is_by_cwnd;
        self
    }

    fn begin_round(&mut self, state: &State, ack: &Ack) {
        let outstanding = ack.snd_nxt.saturating_sub(ack.snd_una) as f64;
        self.round = Round {
            end: ack.snd_nxt,
            packets: (outstanding / state.smss) as i64,
            min_rtt_ns: None,
        };
    }

    /// Section 3.2, once per round trip, at a window of `w`.
    fn update_dwnd(&mut self, w: i64) {
        let (Some(base), Some(rtt)) = (self.base_rtt_ns, self.round.min_rtt_ns) else {
            return;
        };
        let packets = self.round.packets;
        if packets == 0 {
            return;
        }
        let delta = i128::from(packets << DELTA_SHIFT) * i128::from(rtt - base) / i128::from(rtt);
        let delta = delta as i64;
        if (delta as f64) < self.gamma * f64::from(1 << DELTA_SHIFT) {
            let opens_by = if self.is_by_cwnd { w } else { packets };
            let root = (opens_by as f64).powf(K).floor() as i64;
            self.dwnd += (root / ALPHA_DIVISOR - 1).max(0);
        } else {
            self.dwnd = (self.dwnd - (delta >> DELTA_SHIFT)).max(0);
        }
    }
}

impl Window for CompoundPackets {
    fn start(&mut self, _state: &mut State, snd_nxt: u64) {
        self.round.end = snd_nxt;
    }

    fn on_rtt(&mut self, _now_ns: i64, rtt_ns: i64) {
        let least = |known: Option<i64>| Some(known.map_or(rtt_ns, |known| known.min(rtt_ns)));
        self.base_rtt_ns = least(self.base_rtt_ns);
        self.round.min_rtt_ns = least(self.round.min_rtt_ns);
    }

    fn on_slow_start_ack(&mut self, state: &mut State, ack: &Ack) {
        if ack.snd_una > self.round.end {
            self.begin_round(state, ack);
        }
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let w = (state.cwnd / state.smss) as i64;
        // Slow start and recovery move the window as a whole: wc is what the delay window leaves.
        self.dwnd = self.dwnd.min(w);
        let mut wc = w - self.dwnd;
        self.acked += ack.newly_acked / state.smss;
        if self.acked >= w as f64 {
            self.acked -= w as f64;
            wc += 1;
        }
        if ack.snd_una > self.round.end {
            self.update_dwnd(w);
            self.begin_round(state, ack);
        }
        state.cwnd = (wc + self.dwnd) as f64 * state.smss;
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        // Section 3.3: w and wc are halved, dwnd is the rest.
        let w = (state.cwnd / state.smss) as i64;
        let half = (w / 2).max(2);
        self.dwnd = (half - (w - self.dwnd.min(w)) / 2).max(0);
        self.acked = 0.0;
        state.ssthresh = half as f64 * state.smss;
    }

    fn on_expired(&mut self, _state: &mut State, _loss: &Loss) {
        self.dwnd = 0;
    }

    fn on_recovered(&mut self, state: &mut State, _now_ns: i64, snd_nxt: u64) {
        let packets = (state.cwnd / state.smss) as i64;
        self.round = Round {
            end: snd_nxt,
            packets: if self.is_by_cwnd { 0 } else { packets },
            min_rtt_ns: None,
        };
    }

    fn snapshot(&self, values: &mut Values) {
        let or_nan = |ns: Option<i64>| ns.map_or(f64::NAN, |ns| ns as f64);
        values.extend([
            ("dwnd", self.dwnd as f64),
            ("base_rtt_ns", or_nan(self.base_rtt_ns)),
            ("round_min_rtt_ns", or_nan(self.round.min_rtt_ns)),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_a_round(packets: i64, rtt_ns: i64, dwnd: i64) -> i64 {
        let mut compound = CompoundPackets {
            dwnd,
            base_rtt_ns: Some(50_000_000),
            round: Round {
                end: 0,
                packets,
                min_rtt_ns: Some(rtt_ns),
            },
            ..CompoundPackets::new(30.0)
        };
        compound.update_dwnd(packets);
        compound.dwnd
    }

    #[test]
    fn an_empty_queue_opens_the_delay_window_and_a_long_one_closes_it() {
        // 256^0.75 = 64; 64 / 8 - 1 = 7. Below 41 packets the root is under 16: nothing.
        assert_eq!(after_a_round(256, 50_000_000, 20), 27);
        assert_eq!(after_a_round(40, 50_000_000, 0), 0);
        // 400 packets (1 - 50/60) = 66.7 packets queued.
        assert_eq!(after_a_round(400, 60_000_000, 100), 34);
    }

    #[test]
    fn by_cwnd_a_round_that_a_recovery_began_in_opens_nothing_and_the_next_by_the_window_of_now() {
        let opened = |is_by_cwnd, begun| {
            let mut compound = CompoundPackets::new(30.0).with_dwnd_by_cwnd(is_by_cwnd);
            let mut state = State {
                cwnd: 256.0,
                ssthresh: 256.0,
                smss: 1.0,
            };
            compound.on_recovered(&mut state, 0, 100);
            if let Some(packets) = begun {
                compound.round.packets = packets;
            }
            compound.on_rtt(0, 50_000_000);
            compound.update_dwnd(600);
            compound.dwnd
        };
        // 256^0.75 = 64, an eighth less one; 600^0.75 = 121.
        assert_eq!(opened(false, None), 7);
        assert_eq!(opened(true, None), 0);
        assert_eq!(opened(true, Some(256)), 14);
    }
}
