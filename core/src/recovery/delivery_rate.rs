//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation-02): how fast the path delivered what was in flight.
//!
//! A segment carries away how much had been delivered when it was sent; its ACK subtracts. A sender does this as it goes;
//! of a capture at the sender the same is computed from what is seen sent and acknowledged. Nanoseconds and bytes.

use crate::congestion::RateSample;

/// P.*: what a segment takes along when it is sent (section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryStamp {
    delivered: u64,
    delivered_ns: i64,
    first_sent_ns: i64,
    is_app_limited: bool,
}

/// The newest segment that the ACK at hand delivers.
#[derive(Clone, Copy, Debug)]
struct Newest {
    sent_ns: i64,
    end: u64,
    stamp: DeliveryStamp,
}

/// C.*: one connection's books.
#[derive(Clone, Debug, Default)]
pub struct DeliveryRate {
    delivered: u64,
    delivered_ns: i64,
    first_sent_ns: i64,
    /// C.delivered beyond which samples are no longer limited by the application; `None`: they are not.
    app_limited_until: Option<u64>,
    newest: Option<Newest>,
    newly_delivered: u64,
}

impl DeliveryRate {
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// A segment leaves, for the first time or again (section 3.2). `is_first`: nothing else is in flight, so the
    /// intervals begin here and not in the idle time before.
    pub fn on_sent(&mut self, now_ns: i64, is_first: bool) -> DeliveryStamp {
        if is_first {
            self.first_sent_ns = now_ns;
            self.delivered_ns = now_ns;
        }
        DeliveryStamp {
            delivered: self.delivered,
            delivered_ns: self.delivered_ns,
            first_sent_ns: self.first_sent_ns,
            is_app_limited: self.app_limited_until.is_some(),
        }
    }

    /// Everything written has been sent although more was allowed: what is sent from now on says little (section 3.4).
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = Some((self.delivered + in_flight).max(1));
    }

    /// The ACK at hand delivers a segment that was last sent at `sent_ns`, once for each (section 3.3).
    pub fn on_delivered(&mut self, bytes: u64, sent_ns: i64, end: u64, stamp: DeliveryStamp) {
        self.newly_delivered += bytes;
        let is_newer = self
            .newest
            .is_none_or(|newest| (sent_ns, end) > (newest.sent_ns, newest.end));
        if is_newer {
            self.newest = Some(Newest {
                sent_ns,
                end,
                stamp,
            });
        }
    }

    /// Without SACK: a duplicate ACK says that something arrived, not what (RFC 5681 section 3.2).
    pub fn on_duplicate(&mut self, bytes: u64) {
        self.newly_delivered += bytes;
    }

    /// Whether samples of what is sent now are the application's.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    /// The ACK is through: what it delivered, and its sample. `min_rtt_ns`: the smallest round trip so far.
    pub fn take(&mut self, now_ns: i64, min_rtt_ns: i64) -> (u64, Option<RateSample>) {
        let newly_delivered = std::mem::take(&mut self.newly_delivered);
        self.delivered += newly_delivered;
        if self
            .app_limited_until
            .is_some_and(|until| self.delivered > until)
        {
            self.app_limited_until = None;
        }
        if newly_delivered > 0 {
            self.delivered_ns = now_ns;
        }
        let Some(Newest { sent_ns, stamp, .. }) = self.newest.take() else {
            return (newly_delivered, None);
        };
        // The next send interval begins with this segment.
        self.first_sent_ns = sent_ns;
        let send_interval_ns = sent_ns - stamp.first_sent_ns;
        let ack_interval_ns = now_ns - stamp.delivered_ns;
        let interval_ns = send_interval_ns.max(ack_interval_ns);
        let sample = RateSample {
            prior_delivered: stamp.delivered,
            delivered: self.delivered - stamp.delivered,
            // The ACK of a first copy, taken for its retransmission's.
            interval_ns: (interval_ns >= min_rtt_ns).then_some(interval_ns),
            is_app_limited: stamp.is_app_limited,
        };
        (newly_delivered, Some(sample))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Ten segments of 1000 bytes at 0, acknowledged one per millisecond from 50 ms on; each ACK releases one.
    fn steady() -> Vec<RateSample> {
        let mut rate = DeliveryRate::default();
        let mut flight: Vec<(i64, u64, DeliveryStamp)> = (0..10)
            .map(|n| (0, 1000 * (n + 1), rate.on_sent(0, n == 0)))
            .collect();
        let mut samples = Vec::new();
        for n in 0..30 {
            let now_ns = (50 + n) * MS;
            let (sent_ns, end, stamp) = flight.remove(0);
            rate.on_delivered(1000, sent_ns, end, stamp);
            let (newly, sample) = rate.take(now_ns, 50 * MS);
            assert_eq!(newly, 1000);
            samples.push(sample.expect("a segment was delivered"));
            flight.push((now_ns, end + 10_000, rate.on_sent(now_ns, false)));
        }
        samples
    }

    #[test]
    fn a_sample_divides_what_was_delivered_since_the_segment_left_by_the_longer_interval() {
        let samples = steady();
        // First ACK: 1000 bytes in 50 ms. Tenth: 10 000 bytes in 59 ms.
        assert_eq!(samples[0].rate(), Some(20_000.0));
        assert_eq!(
            (samples[9].delivered, samples[9].interval_ns),
            (10_000, Some(59 * MS))
        );
        // The segment sent at 50 ms comes back at 60 ms with 10 000 bytes delivered since; sent over 50 ms (from the
        // first flight's time on), acknowledged over 10 ms: the longer counts.
        assert_eq!(
            (samples[10].delivered, samples[10].interval_ns),
            (10_000, Some(50 * MS))
        );
    }

    #[test]
    fn an_interval_shorter_than_any_round_trip_gives_no_rate() {
        let mut rate = DeliveryRate::default();
        let stamp = rate.on_sent(100 * MS, true);
        rate.on_delivered(1000, 100 * MS, 1000, stamp);
        let (_, sample) = rate.take(110 * MS, 50 * MS);
        assert_eq!(sample.and_then(|sample| sample.rate()), None);
    }

    #[test]
    fn the_newest_segment_delivered_gives_the_sample() {
        let mut rate = DeliveryRate::default();
        let old = rate.on_sent(0, true);
        let new = rate.on_sent(20 * MS, false);
        // SACKed out of order: the segment sent later comes first.
        rate.on_delivered(1000, 20 * MS, 2000, new);
        rate.on_delivered(1000, 0, 1000, old);
        let (newly, sample) = rate.take(70 * MS, 50 * MS);
        assert_eq!(newly, 2000);
        assert_eq!(sample.and_then(|sample| sample.interval_ns), Some(70 * MS));
    }

    #[test]
    fn samples_are_the_application_s_until_all_it_had_in_flight_is_delivered() {
        let mut rate = DeliveryRate::default();
        let first = rate.on_sent(0, true);
        rate.on_app_limited(1000);
        let second = rate.on_sent(10 * MS, false);
        assert!(!first.is_app_limited && second.is_app_limited);
        rate.on_delivered(1000, 0, 1000, first);
        rate.take(50 * MS, 50 * MS);
        assert!(rate.on_sent(51 * MS, false).is_app_limited);
        rate.on_delivered(1000, 10 * MS, 2000, second);
        let (_, sample) = rate.take(60 * MS, 50 * MS);
        assert!(sample.is_some_and(|sample| sample.is_app_limited));
        assert!(!rate.on_sent(61 * MS, false).is_app_limited);
    }
}
