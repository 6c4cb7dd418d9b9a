//! Compound's draft row against the equations of paper 003 (section 2) and draft-sridharan-tcpm-ctcp-02 section 3,
//! written out here on their own: every window the engine's sender has had is the one they give.

mod oracle;

use std::sync::{Arc, Mutex};

use oracle::run_with;
use tcptrace_core::congestion::{Ack, CompoundDraft, Control, Loss, Pair, Standard, State};
use tcptrace_core::simulate::{Controls, Output};

const ALPHA: f64 = 0.125;
const K: f64 = 0.75;
const BETA: f64 = 0.5;

/// How often each equation was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Met {
    increases: u32,
    decreases: u32,
    losses: u32,
}

/// The draft's control under observation, beside the equations.
#[derive(Clone, Debug)]
struct Beside {
    inner: Pair<Standard, CompoundDraft>,
    met: Arc<Mutex<Met>>,
    gamma: f64,
    dwnd: f64,
    base_rtt: f64,
    /// Least round trip of the round.
    round_rtt: f64,
    /// The round is over when this is acknowledged; the window at its start.
    round_end: u64,
    round_w: f64,
}

impl Beside {
    fn met(&self) -> std::sync::MutexGuard<'_, Met> {
        self.met.lock().expect("one thread")
    }

    fn begin_round(&mut self, snd_nxt: u64, w: f64) {
        self.round_end = snd_nxt;
        self.round_w = w;
        self.round_rtt = f64::INFINITY;
    }

    /// dwnd after a round in which w was the window.
    fn dwnd_after(&self, w: f64) -> f64 {
        let diff = self.round_w * (1.0 - self.base_rtt / self.round_rtt);
        if diff < self.gamma {
            self.met().increases += 1;
            self.dwnd + (ALPHA * w.powf(K) - 1.0).max(0.0)
        } else {
            self.met().decreases += 1;
            (self.dwnd - diff).max(0.0)
        }
    }
}

fn agree(state: &State, w: f64, what: &str) {
    let ours = state.cwnd / state.smss;
    assert!((ours - w).abs() < 1e-6 * w, "{what}: {ours} {w}");
}

impl Control for Beside {
    fn start(&mut self, state: &mut State, snd_nxt: u64) {
        self.inner.start(state, snd_nxt);
        self.begin_round(snd_nxt, state.cwnd / state.smss);
    }

    fn on_rtt(&mut self, now_ns: i64, rtt_ns: i64) {
        self.inner.on_rtt(now_ns, rtt_ns);
        self.base_rtt = self.base_rtt.min(rtt_ns as f64);
        self.round_rtt = self.round_rtt.min(rtt_ns as f64);
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let w = state.cwnd / state.smss;
        let is_avoidance = ack.is_cwnd_limited && !state.is_slow_start();
        self.inner.on_ack(state, ack);
        if !is_avoidance {
            return;
        }
        self.dwnd = self.dwnd.min(w);
        // cwnd = cwnd + 1 / (cwnd + dwnd) for each segment.
        let wc = w - self.dwnd + ack.newly_acked / state.smss / w;
        if ack.snd_una >= self.round_end {
            if self.round_rtt.is_finite() {
                self.dwnd = self.dwnd_after(w);
            }
            self.begin_round(ack.snd_nxt, w);
        }
        agree(state, wc + self.dwnd, "after an ACK");
    }

    fn on_loss(&mut self, state: &mut State, loss: &Loss) {
        let w = state.cwnd / state.smss;
        self.inner.on_loss(state, loss);
        // dwnd = win (1 - beta) - cwnd / 2, and cwnd is halved: together win (1 - beta).
        let dwnd = self.dwnd.min(w);
        self.dwnd = (w * (1.0 - BETA) - (w - dwnd) / 2.0).max(0.0);
        assert!((state.ssthresh / state.smss - w * (1.0 - BETA)).abs() < 1e-6 * w);
        self.met().losses += 1;
    }

    fn on_timeout(&mut self, _state: &mut State, _loss: &Loss) {
        panic!("no run here has a timeout");
    }

    fn on_recovered(&mut self, state: &mut State, now_ns: i64, snd_nxt: u64) {
        self.inner.on_recovered(state, now_ns, snd_nxt);
        self.begin_round(snd_nxt, state.cwnd / state.smss);
    }
}

fn scenario(profile: &str, bdp: f64, buffer: Option<u64>, duration_s: f64, more: &str) -> String {
    let buffer = buffer.map_or("null".to_owned(), |packets| packets.to_string());
    let rate = bdp * 12_000.0 / 0.05;
    format!(
        r#"{{"profile": "{profile}", "duration_s": {duration_s},
        "path": {{"nodes": [{{"rate_bps": {rate}, "buffer": {buffer}, "delay_s": 0.025}}], "return_delay_s": 0.025}},
        "connections": [{{"control": {{"window": "compound-draft", "recovery": "sack", "timestamps": true,
                                      "initial_window": 2{more}}}}}]}}"#
    )
}

fn beside(json: &str, gamma: f64) -> (Output, Met) {
    let met = Arc::new(Mutex::new(Met::default()));
    let own = Beside {
        inner: Pair {
            slow_start: Standard {
                byte_counting: false,
            },
            window: CompoundDraft::new(gamma),
        },
        met: Arc::clone(&met),
        gamma,
        dwnd: 0.0,
        base_rtt: f64::INFINITY,
        round_rtt: f64::INFINITY,
        round_end: 0,
        round_w: 0.0,
    };
    let controls = Controls {
        own: vec![Some(Box::new(own))],
        ..Controls::default()
    };
    let output = run_with(json, controls);
    let met = *met.lock().expect("one thread");
    (output, met)
}

#[test]
fn every_window_is_the_equations() {
    for bdp in [120.0, 417.0, 1000.0] {
        for gamma in [5.0, 30.0, 90.0] {
            let ssthresh = format!(r#", "initial_ssthresh": {}"#, (bdp / 2.0_f64).floor());
            let (_, met) = beside(&scenario("rfc", bdp, None, 20.0, &ssthresh), gamma);
            assert!(
                met.increases > 20 && met.decreases > 5 && met.losses == 0,
                "{bdp} {gamma}: {met:?}"
            );
            let (output, met) = beside(&scenario("rfc", bdp, Some(40), 60.0, ""), gamma);
            assert_eq!(met.losses as usize, output.losses.len());
            assert!(
                met.increases > 20 && met.losses > 2,
                "{bdp} {gamma}: {met:?}"
            );
        }
    }
}

/// The window a time after the start.
fn window_at(output: &Output, time_s: f64) -> f64 {
    let rows = output.truth.iter();
    let row = rows
        .take_while(|row| row.time_ns as f64 <= time_s * 1e9)
        .last();
    row.expect("a row").cwnd / f64::from(output.smss[0])
}

#[test]
fn over_an_empty_queue_the_window_follows_equation_3() {
    // dw/dt = alpha w^k / tau: w(t) = (w0^(1-k) + (1 - k) alpha t / tau)^(1/(1-k)). Reno's 1 is part of it.
    let json = scenario("rfc", 2000.0, None, 20.0, r#", "initial_ssthresh": 50"#);
    let output = run_with(&json, Controls::default());
    let tau_s = 0.05 * (1.0 + 1.0 / 2000.0);
    let w0 = window_at(&output, 1.0);
    let mut last = w0;
    for n in 1..200 {
        let t = 0.1 * f64::from(n);
        let wanted = (w0.powf(1.0 - K) + (1.0 - K) * ALPHA * t / tau_s).powf(1.0 / (1.0 - K));
        last = window_at(&output, 1.0 + t);
        if wanted > 1900.0 {
            break;
        }
        // In steps of a round trip it lags behind by up to one: alpha w^(k-1) of the window, and the steps' convexity.
        let step = ALPHA * wanted.powf(K - 1.0);
        assert!(
            (-1.5 * step..0.5 * step).contains(&(last / wanted - 1.0)),
            "{t}: {last} {wanted}"
        );
    }
    assert!(last > 1500.0, "{last}");
}
