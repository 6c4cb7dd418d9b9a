//! A policer: a token bucket (RFC 2697's committed rate and burst) that lets pass or drops, and delays nothing.

use super::Link;

/// The bucket by when it is full again, as a queue in which nobody waits is by when it is empty.
#[derive(Clone, Debug)]
pub struct Policer {
    refill: Link,
    burst_ns: i64,
    full_at_ns: i64,
}

impl Policer {
    pub fn new(rate_bps: f64, burst_bytes: u32) -> Self {
        let refill = Link {
            rate_bps: Some(rate_bps),
            delay_ns: 0.0,
        };
        Self {
            burst_ns: refill.service_ns(burst_bytes),
            refill,
            full_at_ns: 0,
        }
    }

    /// Whether there are tokens for a packet, which then takes them.
    pub fn lets_pass(&mut self, now_ns: i64, bytes: u32) -> bool {
        let taken_ns = self.refill.service_ns(bytes);
        let full_at_ns = self.full_at_ns.max(now_ns).saturating_add(taken_ns);
        let passes = full_at_ns - now_ns <= self.burst_ns;
        if passes {
            self.full_at_ns = full_at_ns;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_holds_a_burst_and_refills_at_the_rate() {
        // 8 Mbit/s: 1000 bytes in a millisecond. Of five at once three pass; then one for each millisecond that went by,
        // and after a long silence no more than the burst.
        let mut policer = Policer::new(8e6, 3000);
        let mut passed = |at_ms: i64, count: usize| {
            let now_ns = at_ms * 1_000_000;
            (0..count)
                .filter(|_| policer.lets_pass(now_ns, 1000))
                .count()
        };
        let steps = [(0, 5), (1, 2), (3, 5), (100, 5)];
        assert_eq!(steps.map(|(at, count)| passed(at, count)), [3, 1, 2, 3]);
    }

    #[test]
    fn a_smaller_packet_passes_where_a_larger_one_does_not() {
        let mut policer = Policer::new(8e6, 1500);
        let sizes = [1000, 1000, 500, 1];
        assert_eq!(
            sizes.map(|bytes| policer.lets_pass(0, bytes)),
            [true, false, true, false]
        );
    }
}
