//! A token bucket on the path (draft-cardwell-iccrg-bbr-congestion-control-00 does without; Linux has it): when two
//! intervals between heavy losses have the same throughput, that is the bandwidth, and it is not probed above.

use crate::congestion::Delivery;

/// An interval lasts at least this many round trips, and at most four times as many.
const INTERVAL_MIN_ROUNDS: u32 = 4;
/// Losses per delivered byte that make the interval's end a policer's.
const LOSS_THRESHOLD: f64 = 50.0 / 256.0;
/// Two intervals agree within an eighth, or within 4 kbit/s.
const SAME_SHARE: f64 = 1.0 / 8.0;
const SAME_BYTES_PER_S: f64 = 4000.0 / 8.0;
/// Round trips after which the bandwidth is probed again.
const LAST_ROUNDS: u32 = 48;

#[derive(Clone, Copy, Debug, Default)]
pub struct Policer {
    is_sampling: bool,
    rounds: u32,
    bandwidth: Option<f64>,
    is_used: bool,
    /// At the start of the interval.
    start_ns: i64,
    delivered: u64,
    lost: u64,
}

/// What a delivery meant for the policer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policing {
    Unchanged,
    /// A policer was found: pace at its rate.
    Found,
    /// Its time is over: probe for more.
    Expired,
}

impl Policer {
    /// Bytes per second, while it is used.
    pub fn bandwidth(&self) -> Option<f64> {
        self.bandwidth.filter(|_| self.is_used)
    }

    pub fn reset(&mut self, ack: &Delivery) {
        *self = Self::default();
        self.restart(ack);
    }

    fn restart(&mut self, ack: &Delivery) {
        self.start_ns = ack.now_ns;
        self.delivered = ack.delivered;
        self.lost = ack.lost;
        self.rounds = 0;
    }

    pub fn on_delivery(
        &mut self,
        ack: &Delivery,
        is_round_start: bool,
        is_app_limited: bool,
        is_probing: bool,
    ) -> Policing {
        if self.is_used {
            if is_probing && is_round_start {
                self.rounds += 1;
                if self.rounds >= LAST_ROUNDS {
                    self.reset(ack);
                    return Policing::Expired;
                }
            }
            return Policing::Unchanged;
        }
        // An interval begins and ends with a loss: the bucket is empty then.
        if !self.is_sampling {
            if ack.newly_lost == 0 {
                return Policing::Unchanged;
            }
            self.restart(ack);
            self.is_sampling = true;
        }
        if is_app_limited {
            self.reset(ack);
            return Policing::Unchanged;
        }
        self.rounds += u32::from(is_round_start);
        if self.rounds < INTERVAL_MIN_ROUNDS {
            return Policing::Unchanged;
        }
        if self.rounds > 4 * INTERVAL_MIN_ROUNDS {
            self.reset(ack);
            return Policing::Unchanged;
        }
        let delivered = (ack.delivered - self.delivered) as f64;
        // A timeout's interval began with all that was outstanding; what was SACKed of it is not lost.
        let lost = ack.lost.saturating_sub(self.lost) as f64;
        let interval_ns = ack.now_ns - self.start_ns;
        if ack.newly_lost == 0
            || delivered <= 0.0
            || lost < LOSS_THRESHOLD * delivered
            || interval_ns < 1_000_000
        {
            return Policing::Unchanged;
        }
        let bandwidth = delivered * 1e9 / interval_ns as f64;
        if let Some(before) = self.bandwidth {
            let difference = (bandwidth - before).abs();
            if difference <= SAME_SHARE * before || difference <= SAME_BYTES_PER_S {
                self.bandwidth = Some((bandwidth + before) / 2.0);
                self.is_used = true;
                self.rounds = 0;
                return Policing::Found;
            }
        }
        self.bandwidth = Some(bandwidth);
        self.restart(ack);
        Policing::Unchanged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Round trips of 50 ms that deliver 10 000 bytes and lose `lost` of them.
    fn rounds(policer: &mut Policer, from: u64, count: u64, lost: u64) -> Vec<Policing> {
        (from..from + count)
            .map(|n| {
                let ack = Delivery {
                    now_ns: n as i64 * 50_000_000,
                    delivered: 10_000 * n,
                    lost: lost * n,
                    newly_lost: lost,
                    ..Delivery::default()
                };
                policer.on_delivery(&ack, true, false, true)
            })
            .collect()
    }

    #[test]
    fn two_intervals_of_heavy_loss_at_one_throughput_are_a_policer() {
        let mut policer = Policer::default();
        // 25 % lost: the first interval ends in its fourth round trip, the second four later.
        let seen = rounds(&mut policer, 1, 8, 2500);
        assert_eq!(seen.iter().position(|&p| p == Policing::Found), Some(7));
        // 10 000 bytes in 50 ms.
        assert_eq!(policer.bandwidth(), Some(200_000.0));
        let later = rounds(&mut policer, 9, 48, 0);
        assert_eq!(later[47], Policing::Expired);
        assert_eq!(policer.bandwidth(), None);
    }

    #[test]
    fn losses_of_a_tenth_are_not() {
        let mut policer = Policer::default();
        let seen = rounds(&mut policer, 1, 100, 1000);
        assert!(seen.iter().all(|&p| p == Policing::Unchanged));
    }
}
