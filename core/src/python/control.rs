//! A congestion control written in Python, driven by the Rust engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::congestion::{Ack, Control, Delivery, Loss, State};

/// What a Python control reads and changes, and what it is told about the event (`tcptrace_lab.simulate` has the table).
///
/// One object per connection, always the same: a method that wants to keep a value copies it.
#[pyclass(name = "ControlState", module = "tcptrace_lab._core")]
#[derive(Clone, Copy, Default)]
pub struct ControlState {
    #[pyo3(get, set)]
    cwnd: f64,
    #[pyo3(get, set)]
    ssthresh: f64,
    #[pyo3(get, set)]
    pacing_rate: Option<f64>,
    #[pyo3(get)]
    smss: f64,
    #[pyo3(get)]
    now_ns: i64,
    #[pyo3(get)]
    newly_acked: f64,
    #[pyo3(get)]
    newly_lost: f64,
    #[pyo3(get)]
    delivered: f64,
    #[pyo3(get)]
    lost: f64,
    #[pyo3(get)]
    delivery_rate: Option<f64>,
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
    #[pyo3(get)]
    is_app_limited: bool,
    #[pyo3(get)]
    is_in_recovery: bool,
}

/// The first exception of a run's control: it is not asked again, and the run ends with it.
pub type Failure = Arc<Mutex<Option<PyErr>>>;

/// What an object may have; the first three it must.
#[derive(Clone, Copy)]
enum Method {
    OnAck,
    OnLoss,
    OnTimeout,
    Start,
    OnRtt,
    OnDelivery,
    OnRecovered,
}

const NAMES: [&str; 7] = [
    "on_ack",
    "on_loss",
    "on_timeout",
    "start",
    "on_rtt",
    "on_delivery",
    "on_recovered",
];
const REQUIRED: usize = 3;

/// A Python object as a control.
///
/// Its methods are looked up once, and each is called with the same tuple of the same state: a call allocates nothing.
#[derive(Debug)]
pub struct PyControl {
    object: Py<PyAny>,
    methods: [Option<Py<PyAny>>; NAMES.len()],
    state: Py<ControlState>,
    arguments: Py<PyTuple>,
    owns_window: bool,
    /// Its sender waits for departure times.
    paces: bool,
    pacing_rate: Option<f64>,
    failure: Failure,
    /// Ends the run when a method has failed.
    stop: Arc<AtomicBool>,
}

/// Its own state is whatever the object holds: a copy is `copy.deepcopy`'s.
impl Clone for PyControl {
    fn clone(&self) -> Self {
        Python::attach(|py| {
            let copied = py
                .import("copy")
                .and_then(|copy| copy.call_method1("deepcopy", (&self.object,)))
                .and_then(|object| {
                    Self::new(&object, self.paces, self.failure.clone(), self.stop.clone())
                });
            let mut control = copied.unwrap_or_else(|error| {
                // The run is over, and nobody asks the copy.
                self.fail(error);
                Self {
                    object: self.object.clone_ref(py),
                    methods: [const { None }; NAMES.len()],
                    state: self.state.clone_ref(py),
                    arguments: self.arguments.clone_ref(py),
                    owns_window: self.owns_window,
                    paces: self.paces,
                    pacing_rate: None,
                    failure: self.failure.clone(),
                    stop: self.stop.clone(),
                }
            });
            control.pacing_rate = self.pacing_rate;
            control
        })
    }
}

impl PyControl {
    pub fn new(
        object: &Bound<'_, PyAny>,
        paces: bool,
        failure: Failure,
        stop: Arc<AtomicBool>,
    ) -> PyResult<Self> {
        let py = object.py();
        let mut methods = [const { None }; NAMES.len()];
        for (number, (slot, name)) in methods.iter_mut().zip(NAMES).enumerate() {
            *slot = if number < REQUIRED {
                // The object's own error names the class and the method it lacks.
                Some(object.getattr(name)?.unbind())
            } else {
                object.getattr_opt(name)?.map(Bound::unbind)
            };
        }
        let owns_window = match object.getattr_opt("owns_window")? {
            Some(value) => value.is_truthy()?,
            None => false,
        };
        let state = Py::new(py, ControlState::default())?;
        Ok(Self {
            object: object.clone().unbind(),
            methods,
            arguments: PyTuple::new(py, [&state])?.unbind(),
            state,
            owns_window,
            paces,
            pacing_rate: None,
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

    /// Calls one method with the state and takes back what it set.
    fn call(&mut self, method: Method, state: &mut State, tell: impl FnOnce(&mut ControlState)) {
        let Some(function) = &self.methods[method as usize] else {
            return;
        };
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        let result = Python::attach(|py| -> PyResult<(f64, f64, Option<f64>)> {
            let shared = self.state.bind(py);
            {
                let mut told = shared.try_borrow_mut()?;
                told.cwnd = state.cwnd;
                told.ssthresh = state.ssthresh;
                told.smss = state.smss;
                tell(&mut told);
            }
            function.bind(py).call(self.arguments.bind(py), None)?;
            let after = shared.try_borrow()?;
            Ok((after.cwnd, after.ssthresh, after.pacing_rate))
        });
        match result {
            Ok((_, _, Some(_))) if !self.paces => {
                let message = "pacing_rate: profile ns2's agents do not pace, use profile rfc";
                self.fail(PyValueError::new_err(message));
            }
            // A window below one segment would stop the sender for ever; NaN would as well, and a rate of 0.
            Ok((cwnd, ssthresh, rate))
                if cwnd >= 0.0 && ssthresh >= 0.0 && rate.is_none_or(|rate| rate > 0.0) =>
            {
                state.cwnd = cwnd.max(state.smss);
                state.ssthresh = ssthresh;
                self.pacing_rate = rate;
            }
            Ok((cwnd, ssthresh, rate)) => {
                let name = NAMES[method as usize];
                let rate = rate.map_or("None".to_owned(), |rate| rate.to_string());
                let message = format!(
                    "{name} set cwnd = {cwnd}, ssthresh = {ssthresh}, pacing_rate = {rate}: windows must be >= 0, \
                     a rate > 0"
                );
                self.fail(PyValueError::new_err(message));
            }
            Err(error) => self.fail(error),
        }
    }
}

impl Control for PyControl {
    fn start(&mut self, state: &mut State, snd_nxt: u64) {
        self.call(Method::Start, state, |told| told.snd_nxt = snd_nxt);
    }

    fn on_rtt(&mut self, now_ns: i64, rtt_ns: i64) {
        let Some(on_rtt) = &self.methods[Method::OnRtt as usize] else {
            return;
        };
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = Python::attach(|py| on_rtt.call1(py, (now_ns, rtt_ns))) {
            self.fail(error);
        }
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        self.call(Method::OnAck, state, |told| {
            told.now_ns = ack.now_ns;
            told.newly_acked = ack.newly_acked;
            told.flight_size = ack.flight_size;
            told.rtt_ns = ack.rtt_ns;
            told.srtt_ns = ack.srtt_ns;
            told.snd_una = ack.snd_una;
            told.snd_nxt = ack.snd_nxt;
            told.is_cwnd_limited = ack.is_cwnd_limited;
        });
    }

    fn on_delivery(&mut self, state: &mut State, delivery: &Delivery) {
        self.call(Method::OnDelivery, state, |told| {
            told.now_ns = delivery.now_ns;
            told.newly_acked = delivery.newly_delivered as f64;
            told.newly_lost = delivery.newly_lost as f64;
            told.delivered = delivery.delivered as f64;
            told.lost = delivery.lost as f64;
            told.delivery_rate = delivery.sample.and_then(|sample| sample.rate());
            told.is_app_limited = delivery.sample.is_some_and(|sample| sample.is_app_limited);
            told.flight_size = delivery.in_flight as f64;
            told.rtt_ns = delivery.rtt_ns;
            told.srtt_ns = delivery.srtt_ns;
            told.is_in_recovery = delivery.is_in_recovery || delivery.is_in_loss;
        });
    }

    fn on_loss(&mut self, state: &mut State, loss: &Loss) {
        self.call(Method::OnLoss, state, |told| of_loss(told, loss));
    }

    fn on_timeout(&mut self, state: &mut State, loss: &Loss) {
        self.call(Method::OnTimeout, state, |told| of_loss(told, loss));
    }

    fn on_recovered(&mut self, state: &mut State, now_ns: i64, snd_nxt: u64) {
        self.call(Method::OnRecovered, state, |told| {
            told.now_ns = now_ns;
            told.snd_nxt = snd_nxt;
            told.is_in_recovery = false;
        });
    }

    fn wants_delivery(&self) -> bool {
        self.methods[Method::OnDelivery as usize].is_some()
    }

    fn owns_window(&self) -> bool {
        self.owns_window
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.pacing_rate
    }
}

fn of_loss(told: &mut ControlState, loss: &Loss) {
    told.now_ns = loss.now_ns;
    told.flight_size = loss.flight_size;
    told.snd_nxt = loss.snd_nxt;
    told.is_in_recovery = true;
}
