//! BBR's smallest round trip, and the pauses in which it is measured again (sections 4.1.2 and 4.3.5).

use super::{Bbr, MIN_CWND_SEGMENTS, Mode};
use crate::congestion::{Delivery, State};

/// The smallest round trip is measured again after this long (section 4.3.5), at a window of four segments, for 200 ms.
pub const MIN_RTT_WINDOW_NS: i64 = 10_000_000_000;
pub const PROBE_RTT_NS: i64 = 200_000_000;

impl Bbr {
    pub(super) fn update_min_rtt(&mut self, state: &mut State, ack: &Delivery) {
        let measured_ns = *self.min_rtt_at_ns.get_or_insert(ack.now_ns);
        let has_expired = ack.now_ns > measured_ns + MIN_RTT_WINDOW_NS;
        if let Some(rtt_ns) = ack.rtt_ns {
            let is_least = self.min_rtt_ns.is_none_or(|least_ns| rtt_ns < least_ns);
            if is_least || (has_expired && !ack.is_maybe_delayed) {
                self.min_rtt_ns = Some(rtt_ns);
                self.min_rtt_at_ns = Some(ack.now_ns);
            }
        }
        if has_expired && !self.restarts_from_idle && self.mode != Mode::ProbeRtt {
            self.save_cwnd(state);
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_done_ns = None;
        }
        self.limits_itself = self.mode == Mode::ProbeRtt;
        if self.limits_itself {
            match self.probe_rtt_done_ns {
                None if ack.in_flight as f64 <= MIN_CWND_SEGMENTS * state.smss => {
                    self.probe_rtt_done_ns = Some(ack.now_ns + PROBE_RTT_NS);
                    self.has_probed_rtt_round = false;
                    self.next_round_delivered = ack.delivered;
                }
                None => {}
                Some(_) => {
                    self.has_probed_rtt_round |= self.is_round_start;
                    if self.has_probed_rtt_round {
                        self.end_probe_rtt(state, ack);
                    }
                }
            }
        }
        if ack.sample.is_some_and(|sample| sample.delivered > 0) {
            self.restarts_from_idle = false;
        }
    }

    pub(super) fn end_probe_rtt(&mut self, state: &mut State, ack: &Delivery) {
        if self.probe_rtt_done_ns.is_none_or(|done| ack.now_ns <= done) {
            return;
        }
        self.min_rtt_at_ns = Some(ack.now_ns);
        state.cwnd = state.cwnd.max(self.prior_cwnd);
        if self.has_filled_pipe() {
            self.begin_probe_bw(ack);
        } else {
            self.mode = Mode::Startup;
        }
    }
}
