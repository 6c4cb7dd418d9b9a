//! A congestion control written in Python, driven by the Rust engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;

use crate::congestion::{Ack, Control, Loss, State};

/// What a Python control reads and changes, and what it is told about the event.
///
/// `cwnd`, `ssthresh`, `flight_size` and `newly_acked` are in units in which a full segment is `smss`: bytes in the
/// rfc profile, packets (`smss` = 1) in ns2.
#[pyclass(name = "ControlState", module = "tcptrace_lab._core")]
pub struct ControlState {
    #[pyo3(get, set)]
    cwnd: f64,
    #[pyo3(get, set)]
    ssthresh: f64,
    #[pyo3(get)]
    smss: f64,
    #[pyo3(get)]
    now_ns: i64,
    #[pyo3(get)]
    newly_acked: f64,
    #[pyo3(get)]
    flight_size: f64,
    #[pyo3(get)]
    rtt_ns: Option<i64>,
    #[pyo3(get)]
    srtt_ns: Option<i64>,
    #[pyo3(get)]
    snd_una: u64,
    #[pyo3(get)]
    snd_nxt: u64,
    #[pyo3(get)]
    is_cwnd_limited: bool,
}

impl ControlState {
    fn of(state: &State, now_ns: i64) -> Self {
        Self {
            cwnd: state.cwnd,
            ssthresh: state.ssthresh,
            smss: state.smss,
            now_ns,
            newly_acked: 0.0,
            flight_size: 0.0,
            rtt_ns: None,
            srtt_ns: None,
            snd_una: 0,
            snd_nxt: 0,
            is_cwnd_limited: true,
        }
    }
}

/// The first exception of a run's control: it is not asked again, and the run ends with it.
pub type Failure = Arc<Mutex<Option<PyErr>>>;

/// Which of the optional methods the object has.
pub struct PyControl {
    object: Py<PyAny>,
    state: Py<ControlState>,
    has_start: bool,
    has_rtt: bool,
    has_recovered: bool,
    failure: Failure,
    /// Ends the run when a method has failed.
    stop: Arc<AtomicBool>,
}

impl PyControl {
    pub fn new(
        object: &Bound<'_, PyAny>,
        failure: Failure,
        stop: Arc<AtomicBool>,
    ) -> PyResult<Self> {
        for wanted in ["on_ack", "on_loss", "on_timeout"] {
            // The object's own error names the class and the method it lacks.
            object.getattr(wanted)?;
        }
        let nothing = ControlState::of(
            &State {
                cwnd: 1.0,
                ssthresh: 1.0,
                smss: 1.0,
            },
            0,
        );
        Ok(Self {
            state: Py::new(object.py(), nothing)?,
            has_start: object.hasattr("start")?,
            has_rtt: object.hasattr("on_rtt")?,
            has_recovered: object.hasattr("on_recovered")?,
            object: object.clone().unbind(),
            failure,
            stop,
        })
    }

    fn fail(&self, error: PyErr) {
        self.stop.store(true, Ordering::Relaxed);
        self.failure
            .lock()
            .expect("no holder of this lock panics")
            .get_or_insert(error);
    }

    fn has_failed(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Calls one method with the state and takes back what it set.
    fn call(&self, method: &str, state: &mut State, told: ControlState) {
        if self.has_failed() {
            return;
        }
        let result = Python::attach(|py| -> PyResult<(f64, f64)> {
            *self.state.borrow_mut(py) = told;
            self.object.call_method1(py, method, (&self.state,))?;
            let after = self.state.borrow(py);
            Ok((after.cwnd, after.ssthresh))
        });
        match result {
            // A window below one segment would stop the sender for ever; NaN would as well.
            Ok((cwnd, ssthresh)) if cwnd >= 0.0 && ssthresh >= 0.0 => {
                state.cwnd = cwnd.max(state.smss);
                state.ssthresh = ssthresh;
            }
            Ok((cwnd, ssthresh)) => {
                let message =
                    format!("{method} set cwnd = {cwnd}, ssthresh = {ssthresh}: must be >= 0");
                self.fail(pyo3::exceptions::PyValueError::new_err(message));
            }
            Err(error) => self.fail(error),
        }
    }
}

impl Control for PyControl {
    fn start(&mut self, state: &mut State, snd_nxt: u64) {
        if self.has_start {
            let told = ControlState {
                snd_nxt,
                ..ControlState::of(state, 0)
            };
            self.call("start", state, told);
        }
    }

    fn on_rtt(&mut self, now_ns: i64, rtt_ns: i64) {
        if !self.has_rtt || self.has_failed() {
            return;
        }
        let told = Python::attach(|py| self.object.call_method1(py, "on_rtt", (now_ns, rtt_ns)));
        if let Err(error) = told {
            self.fail(error);
        }
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let told = ControlState {
            newly_acked: ack.newly_acked,
            flight_size: ack.flight_size,
            rtt_ns: ack.rtt_ns,
            srtt_ns: ack.srtt_ns,
            snd_una: ack.snd_una,
            snd_nxt: ack.snd_nxt,
            is_cwnd_limited: ack.is_cwnd_limited,
            ..ControlState::of(state, ack.now_ns)
        };
        self.call("on_ack", state, told);
    }

    fn on_loss(&mut self, state: &mut State, loss: &Loss) {
        let told = of_loss(state, loss);
        self.call("on_loss", state, told);
    }

    fn on_timeout(&mut self, state: &mut State, loss: &Loss) {
        let told = of_loss(state, loss);
        self.call("on_timeout", state, told);
    }

    fn on_recovered(&mut self, state: &mut State, now_ns: i64, snd_nxt: u64) {
        if self.has_recovered {
            let told = ControlState {
                snd_nxt,
                ..ControlState::of(state, now_ns)
            };
            self.call("on_recovered", state, told);
        }
    }
}

fn of_loss(state: &State, loss: &Loss) -> ControlState {
    ControlState {
        flight_size: loss.flight_size,
        snd_nxt: loss.snd_nxt,
        ..ControlState::of(state, loss.now_ns)
    }
}
