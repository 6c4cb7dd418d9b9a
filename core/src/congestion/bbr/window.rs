//! BBR's window and pace: bandwidth-delay products in whole quanta, and what a recovery makes of them (section 4.2).

use super::{Bbr, HIGH_GAIN, INITIAL_SEGMENTS, MIN_CWND_SEGMENTS, Mode};
use crate::congestion::{Delivery, State};

/// Linux: a percent less than the bandwidth, so that the queue does not grow by rounding.
pub(super) const PACING_MARGIN: f64 = 0.99;
/// Linux: without a round trip the initial window is taken for a millisecond's.
const UNKNOWN_RTT_NS: i64 = 1_000_000;
/// Linux's quantum: what is paced in about a millisecond (a 1024th of a second), one segment below 1.2 Mbit/s, else two.
const QUANTA_PER_S: f64 = 1024.0;
const ONE_SEGMENT_BELOW: f64 = 1_200_000.0 / 8.0;
const QUANTUM_SEGMENTS: f64 = 127.0;
const QUANTUM_BYTES: f64 = 65_000.0;

impl Bbr {
    /// `gain` bandwidth-delay products, in whole segments (section 4.2.3.2).
    fn product(&self, state: &State, bandwidth: f64, gain: f64) -> f64 {
        let Some(min_rtt_ns) = self.min_rtt_ns else {
            return INITIAL_SEGMENTS * state.smss;
        };
        let segments = bandwidth * min_rtt_ns as f64 / 1e9 * gain / state.smss;
        // A product that is whole but for the last bit of its quotient is whole.
        (segments - 1e-9).ceil() * state.smss
    }

    /// Segments that the pacing hands down at a time.
    fn quantum(&self, state: &State) -> f64 {
        let bytes = (self.pacing_rate / QUANTA_PER_S).min(QUANTUM_BYTES);
        let least = if self.pacing_rate < ONE_SEGMENT_BELOW {
            1.0
        } else {
            2.0
        };
        (bytes / state.smss)
            .floor()
            .max(least)
            .min(QUANTUM_SEGMENTS)
    }

    /// Room for three quanta on their way through the hosts, an even number so that no ACK is delayed, and for probing.
    fn with_quanta(&self, state: &State, window: f64) -> f64 {
        let segments = (window / state.smss).floor() + 3.0 * self.quantum(state);
        let even = 2.0 * (segments / 2.0).ceil();
        let is_probing_up = self.mode == Mode::ProbeBw && self.cycle_index == 0;
        (even + if is_probing_up { 2.0 } else { 0.0 }) * state.smss
    }

    pub(super) fn target(&self, state: &State, bandwidth: f64, gain: f64) -> f64 {
        self.with_quanta(state, self.product(state, bandwidth, gain))
    }

    /// In flight when the next segment departs: what is paced now has until then to leave.
    pub(super) fn in_flight_at_departure(
        &self,
        state: &State,
        ack: &Delivery,
        in_flight: u64,
    ) -> f64 {
        let wait_ns = (ack.departure_ns - ack.now_ns).max(0);
        let delivered = self.bandwidth() * wait_ns as f64 / 1e9;
        let rising = if self.pacing_gain > 1.0 {
            self.quantum(state) * state.smss
        } else {
            0.0
        };
        (in_flight as f64 + rising - delivered).max(0.0)
    }

    pub(super) fn save_cwnd(&mut self, state: &State) {
        self.prior_cwnd = if !self.was_in_recovery && self.mode != Mode::ProbeRtt {
            state.cwnd
        } else {
            self.prior_cwnd.max(state.cwnd)
        };
    }

    /// Section 4.2.1: never slower before the pipe has been filled.
    pub(super) fn set_pacing_rate(&mut self, state: &State, srtt_ns: Option<i64>) {
        if !self.has_seen_rtt && srtt_ns.is_some() {
            self.pace_by_rtt(state, srtt_ns);
        }
        let rate = self.bandwidth() * self.pacing_gain * PACING_MARGIN;
        if self.has_filled_pipe() || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    pub(super) fn pace_by_rtt(&mut self, state: &State, srtt_ns: Option<i64>) {
        self.has_seen_rtt = srtt_ns.is_some();
        let rtt_ns = srtt_ns.unwrap_or(UNKNOWN_RTT_NS).max(1000);
        self.pacing_rate = state.cwnd * 1e9 / rtt_ns as f64 * HIGH_GAIN * PACING_MARGIN;
    }

    /// Section 4.2.3.
    pub(super) fn set_cwnd(&mut self, state: &mut State, ack: &Delivery) {
        let newly_delivered = ack.newly_delivered as f64;
        let least = MIN_CWND_SEGMENTS * state.smss;
        if newly_delivered > 0.0 && !self.recovers_or_restores(state, ack) {
            let bandwidth = self.bandwidth();
            let mut target = self.product(state, bandwidth, self.cwnd_gain);
            if self.has_filled_pipe() {
                let segments = self.aggregation.allowance(bandwidth) / state.smss;
                target += segments.floor() * state.smss;
            }
            let target = self.with_quanta(state, target);
            let grown = state.cwnd + newly_delivered;
            if self.has_filled_pipe() {
                state.cwnd = grown.min(target);
            } else if state.cwnd < target || (ack.delivered as f64) < INITIAL_SEGMENTS * state.smss
            {
                state.cwnd = grown;
            }
            state.cwnd = state.cwnd.max(least);
        }
        if self.mode == Mode::ProbeRtt {
            state.cwnd = state.cwnd.min(least);
        }
    }

    /// Section 4.2.3.4: the first round trip of a recovery sends one segment for each that is delivered; the last
    /// returns to the window from before. True: nothing is to be added.
    fn recovers_or_restores(&mut self, state: &mut State, ack: &Delivery) -> bool {
        let in_flight = (ack.in_flight + ack.newly_delivered) as f64;
        state.cwnd = (state.cwnd - ack.newly_lost as f64).max(state.smss);
        let is_repairing = ack.is_in_recovery || ack.is_in_loss;
        if ack.is_in_recovery && !self.last.is_in_recovery {
            self.conserves_packets = true;
            self.next_round_delivered = ack.delivered;
            state.cwnd = in_flight;
        } else if self.was_in_recovery && !is_repairing {
            self.conserves_packets = false;
            state.cwnd = state.cwnd.max(self.prior_cwnd);
        }
        self.was_in_recovery = is_repairing;
        self.last = *ack;
        if self.conserves_packets {
            state.cwnd = state.cwnd.max(in_flight);
        }
        self.conserves_packets
    }
}
