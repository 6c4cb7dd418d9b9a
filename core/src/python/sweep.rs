//! Runs that Python waits for: one with a control of its own, or many on all cores. Ctrl-C ends both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;

use super::control::{Failure, PyControl};
use super::scenario::scenario_of;
use crate::congestion::Control;
use crate::scenario::{Profile, Scenario};
use crate::simulate::summary::{Value, summary};
use crate::simulate::{self, Controls, Logs, Output};

/// How often a run looks for Ctrl-C.
const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// Runs one scenario; `own` stand in for the controls of the connections of the same number, where they are not None.
pub fn run(
    py: Python<'_>,
    scenario: &Scenario,
    own: Vec<Option<Bound<'_, PyAny>>>,
    controls: Controls<'_>,
) -> PyResult<Output> {
    if own.iter().any(Option::is_some) {
        return run_with(scenario, own, controls);
    }
    let stop = controls.stop.clone();
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, result) = channel();
            scope.spawn(move || {
                // The other end waits for as long as this thread runs.
                let _ = done.send(simulate::run(scenario, controls));
            });
            receive(&result, &stop)?
                .ok_or_else(|| PyRuntimeError::new_err("the simulator panicked"))
        })
    })
}

/// A run that calls Python keeps the interpreter's lock, which its callbacks lend to other threads as any Python code
/// does: to take it for each would cost more than the control. Ctrl-C is raised in a callback.
fn run_with(
    scenario: &Scenario,
    own: Vec<Option<Bound<'_, PyAny>>>,
    mut controls: Controls<'_>,
) -> PyResult<Output> {
    let failure = Failure::default();
    let paces = scenario.profile == Profile::Rfc;
    for object in own {
        let control = object
            .map(|object| PyControl::new(&object, paces, failure.clone(), controls.stop.clone()))
            .transpose()?;
        controls
            .own
            .push(control.map(|control| Box::new(control) as Box<dyn Control>));
    }
    let output = simulate::run(scenario, controls);
    let mut failed = failure.lock().expect("no holder of this lock panics");
    match failed.take() {
        Some(error) => Err(error),
        None => Ok(output),
    }
}

/// The next message, `None` when there will be none; on Ctrl-C tells the senders to stop.
fn receive<T>(from: &Receiver<T>, stop: &AtomicBool) -> PyResult<Option<T>> {
    loop {
        match from.recv_timeout(SIGNAL_CHECK) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                Python::attach(|py| py.check_signals())
                    .inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            }
        }
    }
}

/// Runs many scenarios on all cores; `done(number, row)` is called as each ends, in any order.
#[pyfunction]
pub fn sweep(
    py: Python<'_>,
    scenarios: Vec<Bound<'_, PyDict>>,
    done: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let scenarios: Vec<Scenario> = scenarios.iter().map(scenario_of).collect::<PyResult<_>>()?;
    let done = done.clone().unbind();
    let stop = Arc::new(AtomicBool::new(false));
    py.detach(|| {
        std::thread::scope(|scope| {
            let (send, finished) = channel();
            let stopped = stop.clone();
            scope.spawn(move || {
                scenarios
                    .par_iter()
                    .enumerate()
                    .for_each_with(send, |send, (number, scenario)| {
                        if stopped.load(Ordering::Relaxed) {
                            return;
                        }
                        let controls = Controls {
                            stop: stopped.clone(),
                            logs: Logs {
                                events: false,
                                truth: false,
                            },
                            ..Controls::default()
                        };
                        let row = summary(scenario, &simulate::run(scenario, controls));
                        // A run stopped in the middle has no row; nobody listens after an error.
                        if !stopped.load(Ordering::Relaxed) {
                            let _ = send.send((number, row));
                        }
                    });
            });
            while let Some((number, row)) = receive(&finished, &stop)? {
                let told = Python::attach(|py| done.call1(py, (number, dict(py, row)?)).map(drop));
                told.inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            }
            Ok(())
        })
    })
}

/// A row of names and values as a dict.
pub fn dict(py: Python<'_>, row: Vec<(String, Value)>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in row {
        match value {
            Value::Int(value) => dict.set_item(name, value)?,
            Value::Float(value) => dict.set_item(name, value)?,
            Value::Text(value) => dict.set_item(name, value)?,
        }
    }
    Ok(dict)
}
