//! Reno's congestion avoidance and reduction (RFC 5681 section 3.1).

use super::{Ack, Loss, State, Values, Window};

/// One segment more per round trip; half the flight after a loss.
#[derive(Clone, Copy, Debug)]
pub struct Reno {
    /// Every acknowledged byte counts, as in RFC 3465 and Linux; else every ACK.
    byte_counting: bool,
    /// RFC 3465 section 2.1: acknowledged and not yet part of an increase.
    bytes_acked: f64,
}

impl Reno {
    pub fn new(byte_counting: bool) -> Self {
        Self {
            byte_counting,
            bytes_acked: 0.0,
        }
    }
}

impl Window for Reno {
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        if self.byte_counting {
            // RFC 3465 section 2.1: a whole segment as soon as a window is acknowledged; the rest counts for the next.
            self.bytes_acked += ack.newly_acked;
            if self.bytes_acked >= state.cwnd {
                self.bytes_acked -= state.cwnd;
                state.cwnd += state.smss;
            }
        } else {
            // Equation (3) per ACK: with delayed ACKs the slope halves, as it does in old traces.
            state.cwnd += state.smss * state.smss / state.cwnd;
        }
    }

    fn on_loss(&mut self, state: &mut State, loss: &Loss) {
        // Equation (4): FlightSize, not cwnd. A sender short of data has less in flight than cwnd allows.
        state.ssthresh = loss.flight_size / 2.0;
        self.bytes_acked = 0.0;
    }

    fn snapshot(&self, values: &mut Values) {
        values.push(("bytes_acked", self.bytes_acked));
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::ack;
    use super::*;

    #[test]
    fn a_window_of_acks_adds_one_segment() {
        for (byte_counting, least) in [(false, 10_900.0), (true, 11_000.0)] {
            let mut reno = Reno::new(byte_counting);
            let mut state = State {
                cwnd: 10_000.0,
                ssthresh: 0.0,
                smss: 1000.0,
            };
            for _ in 0..10 {
                reno.on_ack(&mut state, &ack(1000.0));
            }
            // Per ACK a little less than one: the window grows within the round.
            assert!((least..=11_000.0).contains(&state.cwnd), "{}", state.cwnd);
        }
    }

    #[test]
    fn counted_bytes_beyond_a_window_are_kept_for_the_next() {
        let mut reno = Reno::new(true);
        let mut state = State {
            cwnd: 9000.0,
            ssthresh: 0.0,
            smss: 1000.0,
        };
        // Five ACKs of two segments: 10 000 >= 9000, 1000 are over. Five more: 11 000 >= 10 000.
        let windows: Vec<f64> = (0..10)
            .map(|_| {
                reno.on_ack(&mut state, &ack(2000.0));
                state.cwnd
            })
            .collect();
        assert_eq!(windows[3..5], [9000.0, 10_000.0]);
        assert_eq!(windows[8..], [10_000.0, 11_000.0]);
    }

    #[test]
    fn ssthresh_is_half_the_flight_not_half_of_cwnd() {
        let mut state = State {
            cwnd: 40_000.0,
            ssthresh: 1e9,
            smss: 1000.0,
        };
        Reno::new(false).on_loss(
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
