//! BBR's ProbeBW: the cycle of gains by which it asks for more bandwidth and drains what that queued (section 4.3.4).

use super::{Bbr, Mode};
use crate::congestion::{Delivery, State};

/// One round trip each, in units of the smallest (section 4.3.4.1).
pub const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

impl Bbr {
    /// Section 4.3.4.3.
    pub(super) fn update_cycle(&mut self, state: &State, ack: &Delivery) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let min_rtt_ns = self.min_rtt_ns.unwrap_or(i64::MAX);
        let is_over = ack.now_ns - self.cycle_start_ns > min_rtt_ns;
        let bandwidth = self.max_bandwidth.get();
        let in_flight = self.in_flight_at_departure(state, ack, ack.prior_in_flight);
        let is_next = if self.pacing_gain > 1.0 {
            // Long enough to be heard of, unless the buffer is too small for it.
            let aim = self.target(state, bandwidth, self.pacing_gain);
            is_over && (ack.newly_lost > 0 || in_flight >= aim)
        } else if self.pacing_gain < 1.0 {
            is_over || in_flight <= self.target(state, bandwidth, 1.0)
        } else {
            is_over
        };
        if is_next {
            self.advance_cycle(ack);
        }
    }

    fn advance_cycle(&mut self, ack: &Delivery) {
        self.cycle_index = (self.cycle_index + 1) % CYCLE.len();
        self.cycle_start_ns = ack.now_ns;
    }

    /// Section 4.3.4.2: any phase but the one below 1.
    pub(super) fn begin_probe_bw(&mut self, ack: &Delivery) {
        self.mode = Mode::ProbeBw;
        self.cycle_index = CYCLE.len() - 1 - self.random.below(CYCLE.len() as u64 - 1) as usize;
        self.advance_cycle(ack);
    }
}
