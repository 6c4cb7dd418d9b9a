//! Compound round by round: what each update does to the delay window, and the oscillations that makes (paper 003).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tcptrace_core::congestion::{Ack, Compound, Control, Loss, Pair, Standard, State, Window};
use tcptrace_core::simulate::Controls;

/// A round's update of the delay window, and the window it leaves.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    pub time_s: f64,
    pub is_increase: bool,
    pub w: f64,
}

/// Compound under observation: what each round's update does to dwnd.
#[derive(Clone, Debug)]
struct Observed {
    inner: Pair<Standard, Shared>,
    compound: Arc<Mutex<Compound>>,
    updates: Arc<Mutex<Vec<Update>>>,
}

/// The window inside the pair, shared with the observer.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Compound>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Compound> {
        self.0.lock().expect("one thread")
    }
}

impl Window for Shared {
    fn start(&mut self, state: &mut State, snd_nxt: u64) {
        self.lock().start(state, snd_nxt);
    }
    fn on_rtt(&mut self, now_ns: i64, rtt_ns: i64) {
        self.lock().on_rtt(now_ns, rtt_ns);
    }
    fn is_slow_start(&self, state: &State) -> bool {
        self.lock().is_slow_start(state)
    }
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        self.lock().on_ack(state, ack);
    }
    fn on_ack_unused(&mut self, state: &mut State, ack: &Ack) {
        self.lock().on_ack_unused(state, ack);
    }
    fn on_loss(&mut self, state: &mut State, loss: &Loss) {
        self.lock().on_loss(state, loss);
    }
}

impl Control for Observed {
    fn start(&mut self, state: &mut State, snd_nxt: u64) {
        self.inner.start(state, snd_nxt);
    }
    fn on_rtt(&mut self, now_ns: i64, rtt_ns: i64) {
        self.inner.on_rtt(now_ns, rtt_ns);
    }
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let dwnd = || self.compound.lock().expect("one thread").dwnd();
        let before = dwnd();
        self.inner.on_ack(state, ack);
        let after = dwnd();
        // In phase 3 every update moves dwnd: it grows by more than nothing, and a queue of gamma shrinks it.
        if after != before {
            self.updates.lock().expect("one thread").push(Update {
                time_s: ack.now_ns as f64 / 1e9,
                is_increase: after > before,
                w: state.cwnd,
            });
        }
    }
    fn on_loss(&mut self, _state: &mut State, _loss: &Loss) {
        panic!("the buffer has no end");
    }
    fn on_timeout(&mut self, _state: &mut State, _loss: &Loss) {
        panic!("the buffer has no end");
    }
}

/// Runs a scenario of one Compound sender; in order of time.
pub fn updates(json: &str, gamma: f64) -> Vec<Update> {
    let compound = Arc::new(Mutex::new(Compound::new(gamma)));
    let updates = Arc::new(Mutex::new(Vec::new()));
    let inner = Pair {
        slow_start: Standard {
            byte_counting: false,
        },
        window: Shared(Arc::clone(&compound)),
    };
    let own = Observed {
        inner,
        compound,
        updates: Arc::clone(&updates),
    };
    let controls = Controls {
        own: vec![Some(Box::new(own))],
        ..Controls::default()
    };
    super::run_with(json, controls);
    Arc::into_inner(updates)
        .expect("the run is over")
        .into_inner()
        .expect("one thread")
}

/// m rounds up, then n rounds down, with the windows they leave.
#[derive(Debug)]
pub struct Oscillation {
    up: usize,
    down: usize,
    pub max: f64,
    pub min: f64,
}

impl Oscillation {
    fn kind(&self) -> String {
        format!("{}:{}", self.up, self.down)
    }
}

/// The complete oscillations from a time on.
pub fn oscillations(updates: &[Update], from_s: f64) -> Vec<Oscillation> {
    let from = updates.partition_point(|update| update.time_s < from_s);
    let starts: Vec<usize> = (from.max(1)..updates.len())
        .filter(|&n| updates[n].is_increase && !updates[n - 1].is_increase)
        .collect();
    // The last one is complete where the run ends with it.
    let ends = starts.iter().skip(1).copied();
    let last = updates
        .last()
        .filter(|update| !update.is_increase)
        .map(|_| updates.len());
    starts
        .iter()
        .zip(ends.chain(last))
        .map(|(&start, end)| {
            let rounds = &updates[start..end];
            let up = rounds.iter().filter(|round| round.is_increase).count();
            let windows = || rounds.iter().map(|round| round.w);
            Oscillation {
                up,
                down: rounds.len() - up,
                max: windows().fold(0.0, f64::max),
                min: windows().fold(f64::MAX, f64::min),
            }
        })
        .collect()
}

/// How many of each kind (m:n).
pub fn kinds(seen: &[Oscillation]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for one in seen {
        *counts.entry(one.kind()).or_insert(0) += 1;
    }
    counts
}

/// Medians of the largest and the smallest window of one kind.
pub fn theta(seen: &[Oscillation], kind: &str) -> (f64, f64) {
    let of_kind = || seen.iter().filter(|one| one.kind() == kind);
    (
        median(of_kind().map(|one| one.max).collect()),
        median(of_kind().map(|one| one.min).collect()),
    )
}

/// The middle value, or the mean of the middle two; NaN of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[half],
        _ => (values[half - 1] + values[half]) / 2.0,
    }
}
