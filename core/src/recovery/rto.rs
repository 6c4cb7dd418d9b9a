//! The retransmission timeout (RFC 6298), and Linux's way to compute it.

use crate::threshold::threshold;

// No stack in use waits for less before it sends again (Linux's TCP_RTO_MIN, BSD's is longer; RFC 6298 (2.4) asks for a
// second), restarts after idling, or probes a closed window (RFC 9293 section 3.8.6.1 begins with the timeout).
threshold!(pub LEAST_RTO_NS: i64 = 200_000_000, Nanoseconds);

/// The smoothed round trip (RFC 6298 section 2, (2.2) and (2.3) with alpha = 1/8), in nanoseconds; none before the first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Srtt(Option<i64>);

impl Srtt {
    /// What it is now.
    pub fn on_sample(&mut self, rtt_ns: i64) -> i64 {
        let srtt_ns = self
            .0
            .map_or(rtt_ns, |srtt_ns| srtt_ns + (rtt_ns - srtt_ns) / 8);
        self.0 = Some(srtt_ns);
        srtt_ns
    }

    /// The same with the round trip of an ACK, if that tells one.
    pub fn with(&mut self, rtt_ns: Option<i64>) -> Option<i64> {
        match rtt_ns {
            Some(rtt_ns) => Some(self.on_sample(rtt_ns)),
            None => self.0,
        }
    }
}

/// Nanoseconds throughout.
#[derive(Clone, Debug)]
pub struct Rto {
    min_ns: i64,
    max_ns: i64,
    /// G, the clock's granularity.
    granularity_ns: i64,
    srtt: Srtt,
    /// K * RTTVAR.
    deviation_ns: i64,
    /// `Some`: as Linux computes it.
    linux: Option<Linux>,
    rto_ns: i64,
    /// Doublings so far.
    backoff: u32,
    backs_off: bool,
}

/// Differs: the timeout is the smoothed round trip and the largest deviation of the last round trips, the least timeout
/// being the least deviation; what is faster than expected counts for an eighth (`tcp_rtt_estimator`).
/// Omitted: its timers' wheel, by which they go off up to an eighth later: that hangs on the host's tick (HZ, 1 to 10 ms),
/// of which nothing on the wire tells.
#[derive(Clone, Copy, Debug, Default)]
struct Linux {
    /// Four deviations, and the most of them within this round trip.
    now_ns: i64,
    most_ns: i64,
    round_ends: u64,
}

impl Linux {
    fn on_sample(&mut self, error_ns: i64) {
        let further = error_ns.abs() - self.now_ns / 4;
        self.now_ns += if error_ns < 0 && further > 0 {
            further / 8
        } else {
            further
        };
        self.most_ns = self.most_ns.max(self.now_ns);
    }
}

impl Rto {
    pub fn new(
        initial_ns: i64,
        min_ns: i64,
        max_ns: i64,
        granularity_ns: i64,
        backs_off: bool,
    ) -> Self {
        Self {
            min_ns,
            max_ns,
            granularity_ns,
            srtt: Srtt::default(),
            deviation_ns: 0,
            linux: None,
            rto_ns: initial_ns,
            backoff: 0,
            backs_off,
        }
    }

    #[must_use]
    pub fn of_linux(mut self, is_linux: bool) -> Self {
        self.linux = is_linux.then(Linux::default);
        self
    }

    /// Section 2 (2.2) and (2.3), with alpha = 1/8 and beta = 1/4, K = 4; section 3: never a sample of a retransmission.
    pub fn on_sample(&mut self, rtt_ns: i64) {
        match (self.srtt_ns(), &mut self.linux) {
            (None, linux) => {
                self.deviation_ns = (rtt_ns / 2).saturating_mul(4);
                if let Some(linux) = linux {
                    linux.now_ns = self.deviation_ns;
                    self.deviation_ns = self.deviation_ns.max(self.min_ns);
                    linux.most_ns = self.deviation_ns;
                }
            }
            (Some(srtt_ns), None) => {
                let rttvar_ns = self.deviation_ns / 4;
                let rttvar_ns = rttvar_ns + ((srtt_ns - rtt_ns).abs() - rttvar_ns) / 4;
                self.deviation_ns = rttvar_ns.saturating_mul(4);
            }
            (Some(srtt_ns), Some(linux)) => {
                linux.on_sample(rtt_ns - srtt_ns);
                self.deviation_ns = self.deviation_ns.max(linux.most_ns);
            }
        }
        let srtt_ns = self.srtt.on_sample(rtt_ns);
        self.backoff = 0;
        self.set(srtt_ns);
    }

    /// The sample came with an ACK: Linux lets the deviation fade once a round trip.
    pub fn on_acked(&mut self, snd_una: u64, snd_nxt: u64) {
        let Some(linux) = self.linux.as_mut().filter(|it| snd_una > it.round_ends) else {
            return;
        };
        self.deviation_ns -= (self.deviation_ns - linux.most_ns).max(0) / 4;
        (linux.round_ends, linux.most_ns) = (snd_nxt, self.min_ns);
        if let Some(srtt_ns) = self.srtt_ns() {
            self.set(srtt_ns);
        }
    }

    /// (2.4): RTO = SRTT + max(G, K * RTTVAR).
    fn set(&mut self, srtt_ns: i64) {
        let more_ns = self.granularity_ns.max(self.deviation_ns);
        let rto_ns = srtt_ns.saturating_add(more_ns);
        self.rto_ns = rto_ns.clamp(self.min_ns, self.max_ns);
    }

    pub fn srtt_ns(&self) -> Option<i64> {
        self.srtt.0
    }

    /// How long to wait now.
    pub fn timeout_ns(&self) -> i64 {
        self.rto_ns
            .checked_shl(self.backoff)
            .map_or(self.max_ns, |ns| ns.min(self.max_ns))
    }

    /// (5.5): twice as long after each expiry, up to the maximum.
    pub fn back_off(&mut self) {
        if self.backs_off && self.timeout_ns() < self.max_ns {
            self.backoff += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rto() -> Rto {
        Rto::new(1_000_000_000, 200_000_000, 60_000_000_000, 1_000_000, true)
    }

    #[test]
    fn the_first_sample_sets_rto_to_three_round_trips() {
        let mut rto = rto();
        rto.on_sample(100_000_000);
        // SRTT 100 ms, RTTVAR 50 ms: 100 + 4 * 50.
        assert_eq!(rto.timeout_ns(), 300_000_000);
    }

    #[test]
    fn later_samples_move_by_an_eighth_and_a_quarter() {
        let mut rto = rto();
        rto.on_sample(100_000_000);
        rto.on_sample(180_000_000);
        // RTTVAR = 50 + (80 - 50)/4 = 57.5; SRTT = 100 + 80/8 = 110; RTO = 110 + 230.
        assert_eq!(rto.timeout_ns(), 340_000_000);
    }

    #[test]
    fn linux_waits_for_a_round_trip_and_the_least_timeout() {
        let mut rto = rto().of_linux(true);
        for round in 0..60 {
            rto.on_sample(180_000_000);
            rto.on_acked(round + 1, round + 1);
        }
        let is_close = |rto: &Rto, ms: f64| (rto.timeout_ns() as f64 / 1e6 - ms).abs() < 0.1;
        // The deviation is gone: 180 + 200, where RFC 6298 has 200.
        assert!(is_close(&rto, 380.0));
        // SRTT = 180 + 60/8; four deviations are 60 now, which is less than 200.
        rto.on_sample(240_000_000);
        assert!(is_close(&rto, 387.5));
        // SRTT = 187.5 + 1000/8; 60 + (1000 - 60/4).
        rto.on_sample(1_187_500_000);
        assert!(is_close(&rto, 312.5 + 1045.0));
        // 400 less: SRTT = 312.5 - 50; four deviations are 1045 + (400 - 1045/4)/8, and the most of them counts.
        rto.on_sample(-87_500_000);
        assert!(is_close(&rto, 262.5 + 1062.3));
    }

    #[test]
    fn it_doubles_up_to_the_maximum_and_a_sample_ends_that() {
        let mut rto = rto();
        for _ in 0..10 {
            rto.back_off();
        }
        assert_eq!(rto.timeout_ns(), 60_000_000_000);
        rto.on_sample(10_000_000);
        assert_eq!(rto.timeout_ns(), 200_000_000);
    }
}
