//! Slow start: standard (RFC 5681), limited (RFC 3742), M-Start (paper 002).

use std::fmt::Debug;

use super::{Ack, State, Values};

/// How cwnd grows below ssthresh.
pub trait SlowStart: CloneSlowStart + Debug + Send {
    fn on_ack(&mut self, state: &mut State, ack: &Ack);
    /// A loss or timeout: the next slow start begins from its first step.
    fn on_loss(&mut self) {}
    /// As `Control`'s.
    fn snapshot(&self, _values: &mut Values) {}
}

/// Copies of a slow start whose type is not known.
pub trait CloneSlowStart {
    fn clone_box(&self) -> Box<dyn SlowStart>;
}

impl<T: SlowStart + Clone + 'static> CloneSlowStart for T {
    fn clone_box(&self) -> Box<dyn SlowStart> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn SlowStart> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

impl SlowStart for Box<dyn SlowStart> {
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        (**self).on_ack(state, ack);
    }

    fn on_loss(&mut self) {
        (**self).on_loss();
    }

    fn snapshot(&self, values: &mut Values) {
        (**self).snapshot(values);
    }
}

/// One segment more per ACK (RFC 5681 equation (2)).
#[derive(Clone, Copy, Debug)]
pub struct Standard {
    /// RFC 3465: by the bytes acknowledged, as Linux does, not by at most one segment.
    pub byte_counting: bool,
}

impl SlowStart for Standard {
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let increase = if self.byte_counting {
            ack.newly_acked
        } else {
            ack.newly_acked.min(state.smss)
        };
        // Linux's and RFC 3465's slow start ends at ssthresh; what is left over is small change for avoidance.
        // Differs: equation (2) may pass ssthresh by less than a segment, which matters to ns-2's real-valued window.
        state.cwnd = if self.byte_counting {
            (state.cwnd + increase).min(state.ssthresh.max(state.cwnd))
        } else {
            state.cwnd + increase
        };
    }
}

/// RFC 3742: above `max_ssthresh` at most max_ssthresh/2 segments per round trip.
#[derive(Clone, Copy, Debug)]
pub struct LimitedSlowStart {
    /// Segments.
    pub max_ssthresh: f64,
}

impl SlowStart for LimitedSlowStart {
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let segments = state.cwnd / state.smss;
        // K = int(cwnd / (0.5 max_ssthresh)); cwnd += int(MSS / K).
        let k = if segments <= self.max_ssthresh {
            1.0
        } else {
            (segments / (0.5 * self.max_ssthresh)).floor()
        };
        state.cwnd += ack.newly_acked.min(state.smss) / k;
    }
}

/// M-Start's steps: 1 for the first ACK, then 10, 9, ..., 1 again and again (paper 002 equation (3)).
#[derive(Clone, Copy, Debug)]
pub struct MStart {
    /// The pseudo-code's reading: a step of 0 after 1, an 11-ACK cycle.
    pub zero_step: bool,
    acks: u64,
}

impl MStart {
    pub fn new(zero_step: bool) -> Self {
        Self { zero_step, acks: 0 }
    }

    /// Segments by which the next ACK opens the window.
    pub fn step(&self) -> u64 {
        match self.acks.checked_sub(1) {
            None => 1,
            Some(k) => 10 - k % if self.zero_step { 11 } else { 10 },
        }
    }
}

impl SlowStart for MStart {
    fn on_ack(&mut self, state: &mut State, _ack: &Ack) {
        state.cwnd += self.step() as f64 * state.smss;
        self.acks += 1;
    }

    fn snapshot(&self, values: &mut Values) {
        values.push(("m_start_step", self.step() as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::ack;
    use super::*;

    fn state(cwnd: f64) -> State {
        State {
            cwnd,
            ssthresh: 1e9,
            smss: 1000.0,
        }
    }

    #[test]
    fn a_delayed_ack_of_two_segments_opens_by_one_unless_bytes_are_counted() {
        for (byte_counting, grown) in [(false, 5000.0), (true, 6000.0)] {
            let mut state = state(4000.0);
            Standard { byte_counting }.on_ack(&mut state, &ack(2000.0));
            assert_eq!(state.cwnd, grown);
        }
    }

    #[test]
    fn limited_slow_start_slows_down_above_max_ssthresh() {
        // max_ssthresh 100: at 150 segments K = 3, a third of a segment per ACK.
        let mut state = state(150_000.0);
        LimitedSlowStart {
            max_ssthresh: 100.0,
        }
        .on_ack(&mut state, &ack(1000.0));
        assert!((state.cwnd - 150_333.333).abs() < 0.01);
    }

    #[test]
    fn m_start_steps_10_to_1_after_the_first_ack() {
        for (zero_step, wanted) in [(false, [1, 10, 9, 2, 1, 10]), (true, [1, 10, 9, 2, 1, 0])] {
            let mut m_start = MStart::new(zero_step);
            let mut steps = Vec::new();
            for _ in 0..12 {
                steps.push(m_start.step());
                m_start.on_ack(&mut state(1.0), &ack(1000.0));
            }
            assert_eq!(
                [steps[0], steps[1], steps[2], steps[9], steps[10], steps[11]],
                wanted
            );
        }
    }
}
