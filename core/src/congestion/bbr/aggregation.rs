//! ACKs that come in lumps: how much more arrived than the bandwidth explains (Linux 5.0 and later; BBRv2's extra_acked).

/// Round trips that each of two halves of the window lasts, and the bound on what is added.
const WINDOW_ROUNDS: u32 = 5;
const MOST_NS: f64 = 100e6;
/// Segments after which the count begins anew.
const EPOCH_SEGMENTS: f64 = (1u64 << 20) as f64;

#[derive(Clone, Copy, Debug, Default)]
pub struct Aggregation {
    epoch_start_ns: i64,
    epoch_acked: f64,
    /// The largest excess of the present and of the last five round trips.
    excess: [f64; 2],
    half: usize,
    rounds: u32,
}

impl Aggregation {
    /// After idle, or at the start.
    pub fn restart(&mut self, now_ns: i64) {
        self.epoch_start_ns = now_ns;
        self.epoch_acked = 0.0;
    }

    /// `bandwidth` per second.
    pub fn on_delivery(
        &mut self,
        now_ns: i64,
        newly_delivered: f64,
        is_round_start: bool,
        bandwidth: f64,
        cwnd: f64,
        smss: f64,
    ) {
        if is_round_start {
            self.rounds += 1;
            if self.rounds >= WINDOW_ROUNDS {
                self.rounds = 0;
                self.half = 1 - self.half;
                self.excess[self.half] = 0.0;
            }
        }
        let mut expected = bandwidth * (now_ns - self.epoch_start_ns) as f64 / 1e9;
        // No lump any more: what came is what was expected.
        if self.epoch_acked <= expected
            || self.epoch_acked + newly_delivered >= EPOCH_SEGMENTS * smss
        {
            self.restart(now_ns);
            expected = 0.0;
        }
        self.epoch_acked += newly_delivered;
        let excess = (self.epoch_acked - expected).min(cwnd);
        self.excess[self.half] = self.excess[self.half].max(excess);
    }

    /// What the window needs beyond the path to bridge the gap between two lumps.
    pub fn allowance(&self, bandwidth: f64) -> f64 {
        self.excess[0]
            .max(self.excess[1])
            .min(bandwidth * MOST_NS / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lump_of_eight_segments_asks_for_room_for_what_the_bandwidth_does_not_explain() {
        let mut aggregation = Aggregation::default();
        // 1000 segments a second, eight of them every 8 ms in one lump of single ACKs.
        for lump in 0..20 {
            for _ in 0..8 {
                aggregation.on_delivery(lump * 8_000_000, 1.0, false, 1000.0, 100.0, 1.0);
            }
        }
        assert_eq!(aggregation.allowance(1000.0), 8.0);
        // Never more than 100 ms' worth.
        assert_eq!(aggregation.allowance(10.0), 1.0);
    }

    #[test]
    fn a_lump_is_forgotten_after_two_halves_of_the_window() {
        let mut aggregation = Aggregation::default();
        for _ in 0..8 {
            aggregation.on_delivery(0, 1.0, false, 1000.0, 100.0, 1.0);
        }
        for round in 1..=10 {
            aggregation.on_delivery(round * 50_000_000, 1.0, true, 1000.0, 100.0, 1.0);
        }
        assert_eq!(aggregation.allowance(1000.0), 1.0);
    }
}
