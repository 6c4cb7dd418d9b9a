//! The retransmission timeout (RFC 6298).

/// Nanoseconds throughout.
#[derive(Clone, Debug)]
pub struct Rto {
    min_ns: i64,
    max_ns: i64,
    /// G, the clock's granularity.
    granularity_ns: i64,
    srtt_ns: Option<i64>,
    rttvar_ns: i64,
    rto_ns: i64,
    /// Doublings so far.
    backoff: u32,
    backs_off: bool,
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
            srtt_ns: None,
            rttvar_ns: 0,
            rto_ns: initial_ns,
            backoff: 0,
            backs_off,
        }
    }

    /// Section 2 (2.2) and (2.3), with alpha = 1/8 and beta = 1/4; section 3: never a sample of a retransmission.
    pub fn on_sample(&mut self, rtt_ns: i64) {
        let srtt_ns = match self.srtt_ns {
            None => {
                self.rttvar_ns = rtt_ns / 2;
                rtt_ns
            }
            Some(srtt_ns) => {
                self.rttvar_ns += ((srtt_ns - rtt_ns).abs() - self.rttvar_ns) / 4;
                srtt_ns + (rtt_ns - srtt_ns) / 8
            }
        };
        self.srtt_ns = Some(srtt_ns);
        // (2.4): RTO = SRTT + max(G, K * RTTVAR), K = 4.
        let more_ns = self.granularity_ns.max(self.rttvar_ns.saturating_mul(4));
        let rto_ns = srtt_ns.saturating_add(more_ns);
        self.rto_ns = rto_ns.clamp(self.min_ns, self.max_ns);
        self.backoff = 0;
    }

    pub fn srtt_ns(&self) -> Option<i64> {
        self.srtt_ns
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
