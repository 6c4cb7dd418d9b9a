//! Worked arithmetic in the controls' tests: windows in packets, ACKs as plain as they get.

use super::{Ack, Loss, State, Window};

pub fn state(cwnd: f64, ssthresh: f64) -> State {
    State {
        cwnd,
        ssthresh,
        smss: 1.0,
    }
}

pub fn ack(newly_acked: f64) -> Ack {
    Ack {
        now_ns: 0,
        newly_acked,
        newly_sacked: 0.0,
        rtt_ns: None,
        srtt_ns: None,
        flight_size: 0.0,
        snd_una: 0,
        snd_nxt: 0,
        is_cwnd_limited: true,
    }
}

pub fn loss() -> Loss {
    Loss {
        now_ns: 0,
        flight_size: 0.0,
        snd_nxt: 0,
    }
}

/// The window after each of `count` ACKs of one packet in avoidance.
pub fn windows(window: &mut impl Window, state: &mut State, count: usize) -> Vec<f64> {
    (0..count)
        .map(|_| {
            window.on_ack(state, &ack(1.0));
            state.cwnd
        })
        .collect()
}

/// ssthresh after a loss at this window.
pub fn ssthresh_at(window: &mut impl Window, cwnd: f64) -> f64 {
    let mut state = state(cwnd, 1e9);
    window.on_loss(&mut state, &loss());
    state.ssthresh
}
