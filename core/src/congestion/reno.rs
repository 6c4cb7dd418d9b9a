//! Reno's congestion avoidance and reduction (RFC 5681 section 3.1).

use super::{Ack, Loss, State, Window};

/// One segment more per round trip; half the flight after a loss.
pub struct Reno {
    /// Every acknowledged byte counts, as in RFC 3465 and Linux; else every ACK.
    pub byte_counting: bool,
}

impl Window for Reno {
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        // Equation (3) per ACK: with delayed ACKs the slope halves, as it does in old traces.
        let acked = if self.byte_counting {
            ack.newly_acked
        } else {
            state.smss
        };
        state.cwnd += state.smss * acked / state.cwnd;
    }

    fn on_loss(&mut self, state: &mut State, loss: &Loss) {
        // Equation (4): FlightSize, not cwnd. A sender short of data has less in flight than cwnd allows.
        state.ssthresh = loss.flight_size / 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_acks_adds_one_segment() {
        for byte_counting in [false, true] {
            let mut state = State {
                cwnd: 10_000.0,
                ssthresh: 0.0,
                smss: 1000.0,
            };
            for _ in 0..10 {
                let ack = Ack {
                    now_ns: 0,
                    newly_acked: 1000.0,
                    rtt_ns: None,
                    srtt_ns: None,
                    flight_size: 10_000.0,
                    snd_una: 0,
                    snd_nxt: 0,
                    is_cwnd_limited: true,
                };
                Reno { byte_counting }.on_ack(&mut state, &ack);
            }
            // A little less than one: the window grows within the round.
            assert!(
                (10_900.0..=11_000.0).contains(&state.cwnd),
                "{}",
                state.cwnd
            );
        }
    }

    #[test]
    fn ssthresh_is_half_the_flight_not_half_of_cwnd() {
        let mut state = State {
            cwnd: 40_000.0,
            ssthresh: 1e9,
            smss: 1000.0,
        };
        Reno {
            byte_counting: false,
        }
        .on_loss(
            &mut state,
            &Loss {
                now_ns: 0,
                flight_size: 12_000.0,
                snd_nxt: 0,
            },
        );
        assert_eq!(state.ssthresh, 6000.0);
    }
}
