//! HyStart++ (RFC 9406): leave slow start when the round trip grows.

use super::{Ack, SlowStart, Standard, State, Values};

/// RFC 9406 section 4.3.
const MIN_RTT_THRESH_NS: i64 = 4_000_000;
const MAX_RTT_THRESH_NS: i64 = 16_000_000;
const MIN_RTT_DIVISOR: i64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;
/// L for a sender that does not pace.
const L: f64 = 8.0;

/// Conservative slow start: the round trip it began with, and rounds since.
#[derive(Clone, Copy, Debug)]
struct Css {
    baseline_min_rtt_ns: i64,
    rounds: u32,
}

#[derive(Clone, Debug)]
pub struct HystartPlusPlus {
    /// What follows when it is done.
    standard: Standard,
    window_end: Option<u64>,
    last_round_min_rtt_ns: i64,
    current_round_min_rtt_ns: i64,
    rtt_sample_count: u32,
    css: Option<Css>,
    /// After the first loss only standard slow start follows (section 4.2).
    is_done: bool,
}

impl HystartPlusPlus {
    pub fn new(standard: Standard) -> Self {
        Self {
            standard,
            window_end: None,
            last_round_min_rtt_ns: i64::MAX,
            current_round_min_rtt_ns: i64::MAX,
            rtt_sample_count: 0,
            css: None,
            is_done: false,
        }
    }

    fn begin_round(&mut self, snd_nxt: u64) {
        self.window_end = Some(snd_nxt);
        self.last_round_min_rtt_ns = self.current_round_min_rtt_ns;
        self.current_round_min_rtt_ns = i64::MAX;
        self.rtt_sample_count = 0;
    }

    /// Whether the round trip has grown by RttThresh over the last round's.
    fn has_grown(&self) -> bool {
        let (last, current) = (self.last_round_min_rtt_ns, self.current_round_min_rtt_ns);
        if self.rtt_sample_count < N_RTT_SAMPLE || last == i64::MAX || current == i64::MAX {
            return false;
        }
        let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH_NS, MAX_RTT_THRESH_NS);
        current >= last + threshold
    }
}

impl SlowStart for HystartPlusPlus {
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let increase = ack.newly_acked.min(L * state.smss);
        if self.is_done {
            self.standard.on_ack(state, ack);
            return;
        }
        let window_end = *self.window_end.get_or_insert(ack.snd_nxt);
        if let Some(rtt_ns) = ack.rtt_ns {
            self.current_round_min_rtt_ns = self.current_round_min_rtt_ns.min(rtt_ns);
            self.rtt_sample_count += 1;
        }
        state.cwnd += if self.css.is_some() {
            increase / CSS_GROWTH_DIVISOR
        } else {
            increase
        };
        let has_grown = self.has_grown();
        let current = self.current_round_min_rtt_ns;
        let has_shrunk =
            |css: &Css| self.rtt_sample_count >= N_RTT_SAMPLE && current < css.baseline_min_rtt_ns;
        match &self.css {
            None if has_grown => {
                self.css = Some(Css {
                    baseline_min_rtt_ns: current,
                    rounds: 0,
                })
            }
            // The growth was passing noise: back to slow start.
            Some(css) if has_shrunk(css) => self.css = None,
            _ => {}
        }
        if ack.snd_una >= window_end {
            self.begin_round(ack.snd_nxt);
            if let Some(css) = &mut self.css {
                css.rounds += 1;
                if css.rounds >= CSS_ROUNDS {
                    state.ssthresh = state.cwnd;
                }
            }
        }
    }

    fn on_loss(&mut self) {
        self.is_done = true;
    }

    fn snapshot(&self, values: &mut Values) {
        let or_nan = |ns: i64| if ns == i64::MAX { f64::NAN } else { ns as f64 };
        values.extend([
            (
                "hystart_last_min_rtt_ns",
                or_nan(self.last_round_min_rtt_ns),
            ),
            ("hystart_min_rtt_ns", or_nan(self.current_round_min_rtt_ns)),
            (
                "hystart_css_rounds",
                self.css.map_or(f64::NAN, |css| f64::from(css.rounds)),
            ),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 20 ACKs whose round trip grows by `growth_ns` per round; rounds until slow start ends.
    fn rounds_until_exit(growth_ns: i64) -> Option<usize> {
        let mut hystart = HystartPlusPlus::new(Standard {
            byte_counting: false,
        });
        let mut state = State {
            cwnd: 10.0,
            ssthresh: 1e9,
            smss: 1.0,
        };
        let mut snd_una = 0;
        for round in 0..20 {
            for _ in 0..20 {
                snd_una += 1;
                let ack = Ack {
                    now_ns: 0,
                    newly_acked: 1.0,
                    newly_sacked: 0.0,
                    rtt_ns: Some(50_000_000 + growth_ns * round as i64),
                    srtt_ns: None,
                    flight_size: 20.0,
                    snd_una,
                    snd_nxt: snd_una + 19,
                    is_cwnd_limited: true,
                };
                hystart.on_ack(&mut state, &ack);
                if !state.is_slow_start() {
                    return Some(round);
                }
            }
        }
        None
    }

    #[test]
    fn a_round_trip_that_grows_by_the_threshold_ends_slow_start_after_five_rounds() {
        // 50 ms / 8 = 6.25 ms is the threshold.
        assert_eq!(
            rounds_until_exit(7_000_000).map(|rounds| rounds <= 7),
            Some(true)
        );
        assert_eq!(rounds_until_exit(0), None);
    }
}
