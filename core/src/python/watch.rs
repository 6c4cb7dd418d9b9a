//! Watching for Python: how far to go, what is seen, what happened.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::capture::{Capture, wanted};
use crate::infer::{Limit, Now};
use crate::watch::{self, Glance, Live, News, Progress, Sources, Stop};
use crate::wire::Endpoint;

pyo3::import_exception!(tcptrace_lab.errors, CaptureError);

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Watcher>()
}

/// Connections as they go. Packets are read by a thread of its own; nothing is followed that `advance` did not ask for.
#[pyclass(frozen, module = "tcptrace_lab._core")]
struct Watcher {
    inner: Mutex<watch::Watcher>,
    stop: Stop,
}

#[pymethods]
impl Watcher {
    /// `paths` one after the other (`-`: standard input); with `follow` the last as it grows and what comes after it.
    #[new]
    #[pyo3(signature = (name, paths, follow=false, detail=None))]
    fn new(
        name: String,
        paths: Vec<PathBuf>,
        follow: bool,
        detail: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let stop = Stop::default();
        let sources = Sources::new(paths, follow, stop.clone());
        let inner = watch::Watcher::new(name, sources, stop.clone(), wanted(detail)?);
        Ok(Self {
            inner: Mutex::new(inner),
            stop,
        })
    }

    /// No more packets are wanted: a file that grows ends here.
    fn stop(&self) {
        self.stop.stop();
    }

    /// Follows packets captured until `until_ns`, at most `most`, or until something happens; waits `patience_s` for
    /// them. Returns "reached", "waiting" or "ended".
    #[pyo3(signature = (until_ns, most, to_event, patience_s))]
    fn advance(
        &self,
        py: Python<'_>,
        until_ns: i64,
        most: u64,
        to_event: bool,
        patience_s: f64,
    ) -> PyResult<&'static str> {
        let patience = Duration::from_secs_f64(patience_s.clamp(0.0, 60.0));
        let progress = py.detach(|| self.lock().advance(until_ns, most, to_event, patience));
        let progress = progress.map_err(|error| CaptureError::new_err(error.to_string()))?;
        Ok(match progress {
            Progress::Reached => "reached",
            Progress::Waiting => "waiting",
            Progress::Ended => "ended",
        })
    }

    /// Records followed, the first one's time, the last one's, and bytes read of the source.
    fn position(&self) -> (u64, Option<i64>, i64, u64) {
        let inner = self.lock();
        (
            inner.records(),
            inner.first_ns,
            inner.now_ns,
            inner.position,
        )
    }

    /// What happened since the last call; where senders are observed with what is known of the sender then.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let mut inner = self.lock();
        let events = std::mem::take(&mut inner.events);
        // Endpoints by id: events are few, connections may be many.
        let rows = events.iter();
        rows.map(|event| row(py, event, inner.live(event.connection)))
            .collect()
    }

    /// Events that nobody asked for in time.
    fn events_lost(&self) -> u64 {
        self.lock().events_lost
    }

    /// The connections heard of last, at most `most`, in order of their ids.
    fn connections<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let mut inner = self.lock();
        let all = inner.connections().map(|live| (live.last_ns, live.id));
        let mut last: Vec<(i64, u32)> = all.collect();
        if last.len() > most {
            last.select_nth_unstable_by_key(most, |&(last_ns, _)| std::cmp::Reverse(last_ns));
            last.truncate(most);
        }
        last.sort_unstable_by_key(|&(_, id)| id);
        for &(_, id) in &last {
            inner.catch_up(id);
        }
        let each = last.iter().filter_map(|&(_, id)| inner.live(id));
        each.map(|live| connection(py, live, &inner)).collect()
    }

    /// From the first packet on senders are observed: `observed` of `connections`, and with `keeps_recent` also `recent`.
    #[pyo3(signature = (keeps_recent=true))]
    fn observe(&self, keeps_recent: bool) {
        self.lock().observe(keeps_recent);
    }

    /// Rows kept of all senders observed.
    fn kept_rows(&self) -> usize {
        self.lock().kept_rows()
    }

    /// The last packets, some windows' worth, of a connection whose sender is not where the tap is, as a capture of
    /// their own; None: no such connection.
    fn recent(&self, id: u32) -> Option<Capture> {
        self.lock().recent(id).map(Capture::new)
    }

    /// What was followed so far, as reading a capture gives it.
    fn capture(&self) -> Capture {
        Capture::new(self.lock().followed())
    }
}

impl Watcher {
    fn lock(&self) -> MutexGuard<'_, watch::Watcher> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text(end: Endpoint) -> String {
    if end.addr.is_ipv6() {
        format!("[{}]:{}", end.addr, end.port)
    } else {
        format!("{}:{}", end.addr, end.port)
    }
}

fn row<'py>(py: Python<'py>, event: &News, live: Option<&Live>) -> PyResult<Bound<'py, PyDict>> {
    let from = usize::from(event.from);
    let name = |end: usize| live.map_or_else(String::new, |live| text(live.ends[end]));
    let row = PyDict::new(py);
    row.set_item("time_ns", event.time_ns)?;
    row.set_item("connection", event.connection)?;
    row.set_item("event", event.kind.name())?;
    row.set_item("from", name(from))?;
    row.set_item("to", name(1 - from))?;
    row.set_item("flight", event.flight)?;
    if let Some(state) = &event.state {
        measured(&row, &state.glance)?;
        match &state.now {
            Some(now) => put_observed(&row, now)?,
            None => {
                for name in OBSERVED {
                    row.set_item(name, py.None())?;
                }
            }
        }
    }
    Ok(row)
}

/// The end that sent more, first.
fn connection<'py>(
    py: Python<'py>,
    live: &Live,
    watcher: &watch::Watcher,
) -> PyResult<Bound<'py, PyDict>> {
    let from = usize::from(live.glances[1].bytes > live.glances[0].bytes);
    let glance = &live.glances[from];
    let row = PyDict::new(py);
    row.set_item("id", live.id)?;
    row.set_item("sender", text(live.ends[from]))?;
    row.set_item("receiver", text(live.ends[1 - from]))?;
    row.set_item("first_ns", live.first_ns)?;
    row.set_item("last_ns", live.last_ns)?;
    row.set_item("packets", live.packets)?;
    row.set_item("bytes_back", live.glances[1 - from].bytes)?;
    put(&row, glance)?;
    row.set_item("is_near", watcher.is_near(live.id, from))?;
    let now = watcher.now(live.id, from);
    let now = now.map(|now| observed(py, &now)).transpose()?;
    row.set_item("observed", now)?;
    Ok(row)
}

/// What the observer says.
const OBSERVED: [&str; 7] = [
    "cwnd",
    "cwnd_low",
    "cwnd_high",
    "ssthresh",
    "limited_by",
    "phase",
    "losses",
];

fn observed<'py>(py: Python<'py>, now: &Now) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("flight", now.flight)?;
    put_observed(&row, now)?;
    Ok(row)
}

fn put_observed(row: &Bound<'_, PyDict>, now: &Now) -> PyResult<()> {
    row.set_item("cwnd", now.cwnd)?;
    row.set_item("cwnd_low", now.cwnd_low)?;
    row.set_item("cwnd_high", now.cwnd_high)?;
    row.set_item("ssthresh", now.ssthresh)?;
    row.set_item("limited_by", Limit::NAMES[now.limited_by as usize])?;
    row.set_item("phase", now.phase)?;
    row.set_item("losses", now.loss_events)
}

/// What needs no hindsight.
fn measured(row: &Bound<'_, PyDict>, glance: &Glance) -> PyResult<()> {
    row.set_item("bytes", glance.bytes)?;
    row.set_item("retransmissions", glance.retransmissions)?;
    row.set_item("rwnd", glance.rwnd)?;
    let known = |ns: i64| (ns > 0).then_some(ns);
    row.set_item("srtt_ns", known(glance.srtt_ns))?;
    row.set_item("min_rtt_ns", known(glance.min_rtt_ns))?;
    row.set_item("rate_bps", glance.rate_bps)
}

fn put(row: &Bound<'_, PyDict>, glance: &Glance) -> PyResult<()> {
    measured(row, glance)?;
    row.set_item("losses", glance.losses)?;
    row.set_item("flight", glance.flight())?;
    row.set_item("window", glance.window)?;
    row.set_item("ssthresh", glance.ssthresh)?;
    row.set_item("mss", glance.mss)?;
    row.set_item("phase", glance.phase.name())?;
    row.set_item("limited_by", glance.limited_by())?;
    let last = glance.last_event;
    row.set_item("last_event", last.map(|(kind, _)| kind.name()))?;
    row.set_item("last_event_ns", last.map(|(_, time_ns)| time_ns))
}
