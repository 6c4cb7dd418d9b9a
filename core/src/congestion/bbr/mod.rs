//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), as Linux 6.x has it.
//!
//! A model of the path, its bandwidth and its smallest round trip, sets the pacing rate and the window; losses do not,
//! but for a round trip of packet conservation. Differs: real numbers where the kernel has fixed point of 24 and 8 bits.
//! Omitted: segmentation offload; a pacing quantum is one segment, but its share of the window is kept.

mod aggregation;
mod cycle;
mod max_filter;
mod policer;
mod probe_rtt;
#[cfg(test)]
mod tests;
mod window;

pub use cycle::CYCLE;
pub use max_filter::MaxFilter;
pub use probe_rtt::{MIN_RTT_WINDOW_NS, PROBE_RTT_NS};

use super::{Ack, Control, Delivery, Loss, State, Values};
use crate::network::Random;
use aggregation::Aggregation;
use policer::{Policer, Policing};

/// 2/ln 2: the smallest gain that doubles the rate each round trip (section 4.3.2.1), in the kernel's 256ths.
const HIGH_GAIN: f64 = 739.0 / 256.0;
/// Its inverse drains in one round trip what Startup has queued (section 4.3.2.2).
const DRAIN_GAIN: f64 = 88.0 / 256.0;
const CWND_GAIN: f64 = 2.0;
/// Round trips over which the largest delivery rate is the bandwidth: a cycle and two.
const BANDWIDTH_ROUNDS: u64 = CYCLE.len() as u64 + 2;
/// The window in which the smallest round trip is measured.
pub const MIN_CWND_SEGMENTS: f64 = 4.0;
/// Startup ends when three round trips bring less than a quarter more (section 4.3.2.1).
const FULL_BANDWIDTH_GROWTH: f64 = 1.25;
const FULL_BANDWIDTH_ROUNDS: u32 = 3;
/// Linux: the initial window, while nothing is known.
const INITIAL_SEGMENTS: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

#[derive(Clone, Debug)]
pub struct Bbr {
    mode: Mode,
    /// BtlBw: per second, over the last ten round trips.
    max_bandwidth: MaxFilter,
    /// RTprop, and when it was last measured.
    min_rtt_ns: Option<i64>,
    min_rtt_at_ns: Option<i64>,
    round: u64,
    next_round_delivered: u64,
    is_round_start: bool,
    full_bandwidth: f64,
    full_bandwidth_rounds: u32,
    pacing_gain: f64,
    cwnd_gain: f64,
    cycle_index: usize,
    cycle_start_ns: i64,
    /// The window to return to after recovery or ProbeRTT.
    prior_cwnd: f64,
    conserves_packets: bool,
    was_in_recovery: bool,
    /// The last delivery, for what happens between two.
    last: Delivery,
    probe_rtt_done_ns: Option<i64>,
    has_probed_rtt_round: bool,
    /// The last ACK's samples tell what ProbeRTT allowed.
    limits_itself: bool,
    /// The application begins again after idle: its samples are not yet the path's.
    restarts_from_idle: bool,
    policer: Policer,
    aggregation: Aggregation,
    /// Bytes per second.
    pacing_rate: f64,
    has_seen_rtt: bool,
    random: Random,
}

impl Bbr {
    /// `seed` chooses the phase with which ProbeBW begins, so that flows do not probe together.
    pub fn new(seed: u64) -> Self {
        Self {
            mode: Mode::Startup,
            max_bandwidth: MaxFilter::default(),
            min_rtt_ns: None,
            min_rtt_at_ns: None,
            round: 0,
            next_round_delivered: 0,
            is_round_start: false,
            full_bandwidth: 0.0,
            full_bandwidth_rounds: 0,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            cycle_index: 0,
            cycle_start_ns: 0,
            prior_cwnd: 0.0,
            conserves_packets: false,
            was_in_recovery: false,
            last: Delivery::default(),
            probe_rtt_done_ns: None,
            has_probed_rtt_round: false,
            limits_itself: false,
            restarts_from_idle: false,
            policer: Policer::default(),
            aggregation: Aggregation::default(),
            pacing_rate: 0.0,
            has_seen_rtt: false,
            random: Random::new(seed),
        }
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The bandwidth in use, per second.
    pub fn bandwidth(&self) -> f64 {
        let policed = self.policer.bandwidth();
        policed.unwrap_or(self.max_bandwidth.get())
    }

    pub fn min_rtt_ns(&self) -> Option<i64> {
        self.min_rtt_ns
    }

    pub fn pacing_gain(&self) -> f64 {
        self.pacing_gain
    }

    fn has_filled_pipe(&self) -> bool {
        self.full_bandwidth_rounds >= FULL_BANDWIDTH_ROUNDS
    }

    /// Section 4.1.1: rounds are counted in deliveries, and the largest rate of ten is the bandwidth.
    fn update_bandwidth(&mut self, ack: &Delivery) {
        self.is_round_start = false;
        let Some(sample) = &ack.sample else { return };
        let Some(rate) = sample.rate() else { return };
        if sample.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = ack.delivered;
            self.round += 1;
            self.is_round_start = true;
            self.conserves_packets = false;
        }
        let is_probing = self.mode == Mode::ProbeBw;
        self.police(ack, sample.is_app_limited, is_probing);
        // What the application limited is a lower bound.
        if !sample.is_app_limited || rate >= self.max_bandwidth.get() {
            self.max_bandwidth
                .update(BANDWIDTH_ROUNDS, self.round, rate);
        }
    }

    fn police(&mut self, ack: &Delivery, is_app_limited: bool, is_probing: bool) {
        let what = self
            .policer
            .on_delivery(ack, self.is_round_start, is_app_limited, is_probing);
        match what {
            Policing::Unchanged => {}
            Policing::Found => self.pacing_gain = 1.0,
            Policing::Expired => self.begin_probe_bw(ack),
        }
    }

    fn update_aggregation(&mut self, state: &State, ack: &Delivery) {
        let has_rate = ack.sample.is_some_and(|sample| sample.rate().is_some());
        if ack.newly_delivered > 0 && has_rate {
            let bandwidth = self.bandwidth();
            self.aggregation.on_delivery(
                ack.now_ns,
                ack.newly_delivered as f64,
                self.is_round_start,
                bandwidth,
                state.cwnd,
                state.smss,
            );
        }
    }

    /// Section 4.3.2.1.
    fn check_full_pipe(&mut self, ack: &Delivery) {
        let is_app_limited = ack.sample.is_some_and(|sample| sample.is_app_limited);
        if self.has_filled_pipe() || !self.is_round_start || is_app_limited {
            return;
        }
        let bandwidth = self.max_bandwidth.get();
        if bandwidth >= self.full_bandwidth * FULL_BANDWIDTH_GROWTH {
            self.full_bandwidth = bandwidth;
            self.full_bandwidth_rounds = 0;
        } else {
            self.full_bandwidth_rounds += 1;
        }
    }

    /// Section 4.3.3.
    fn check_drain(&mut self, state: &mut State, ack: &Delivery) {
        if self.mode == Mode::Startup && self.has_filled_pipe() {
            self.mode = Mode::Drain;
            // Nobody acts on it; it is shown.
            state.ssthresh = self.target(state, self.max_bandwidth.get(), 1.0);
        }
        if self.mode == Mode::Drain {
            let in_flight = self.in_flight_at_departure(state, ack, ack.in_flight);
            if in_flight <= self.target(state, self.max_bandwidth.get(), 1.0) {
                self.begin_probe_bw(ack);
            }
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.bandwidth().is_some() => (1.0, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.cycle_index], CWND_GAIN),
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }
}

impl Control for Bbr {
    fn on_established(&mut self, state: &mut State, now_ns: i64, rtt_ns: Option<i64>) {
        self.min_rtt_ns = rtt_ns;
        self.min_rtt_at_ns = Some(now_ns);
        self.aggregation.restart(now_ns);
        self.pace_by_rtt(state, rtt_ns);
    }

    /// All is done in `on_delivery`, which comes for every ACK.
    fn on_ack(&mut self, _state: &mut State, _ack: &Ack) {}

    fn on_delivery(&mut self, state: &mut State, ack: &Delivery) {
        self.update_bandwidth(ack);
        self.update_aggregation(state, ack);
        self.update_cycle(state, ack);
        self.check_full_pipe(ack);
        self.check_drain(state, ack);
        self.update_min_rtt(state, ack);
        self.update_gains();
        self.set_pacing_rate(state, ack.srtt_ns);
        self.set_cwnd(state, ack);
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        self.save_cwnd(state);
    }

    fn on_timeout(&mut self, state: &mut State, loss: &Loss) {
        self.save_cwnd(state);
        self.on_expired(state, loss);
    }

    fn on_expired(&mut self, _state: &mut State, loss: &Loss) {
        self.was_in_recovery = true;
        self.full_bandwidth = 0.0;
        // Like the end of a round trip.
        self.is_round_start = true;
        let ack = Delivery {
            now_ns: loss.now_ns,
            lost: self.last.lost + loss.flight_size as u64,
            newly_lost: 1,
            ..self.last
        };
        self.last.is_in_recovery = false;
        let is_probing = self.mode == Mode::ProbeBw;
        self.police(&ack, false, is_probing);
    }

    fn on_restart(&mut self, state: &mut State, now_ns: i64) {
        self.restarts_from_idle = true;
        self.aggregation.restart(now_ns);
        let ack = Delivery {
            now_ns,
            ..self.last
        };
        if self.mode == Mode::ProbeBw {
            // The path is empty: begin at its rate, not above.
            self.pacing_rate = self.bandwidth() * window::PACING_MARGIN;
        } else if self.mode == Mode::ProbeRtt {
            self.end_probe_rtt(state, &ack);
        }
    }

    fn snapshot(&self, values: &mut Values) {
        values.extend([
            // 0 Startup, 1 Drain, 2 ProbeBW, 3 ProbeRTT.
            ("bbr_mode", f64::from(self.mode as u8)),
            ("bottleneck_bps", 8.0 * self.bandwidth()),
            (
                "min_rtt_ns",
                self.min_rtt_ns.map_or(f64::NAN, |ns| ns as f64),
            ),
            ("pacing_gain", self.pacing_gain),
            ("pacing_bps", 8.0 * self.pacing_rate),
        ]);
    }

    fn wants_delivery(&self) -> bool {
        true
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn pacing_rate(&self) -> Option<f64> {
        Some(self.pacing_rate)
    }

    fn bridging(&self) -> f64 {
        if self.has_filled_pipe() {
            self.aggregation.allowance(self.bandwidth())
        } else {
            0.0
        }
    }

    fn limits_itself(&self) -> bool {
        self.limits_itself
    }
}
