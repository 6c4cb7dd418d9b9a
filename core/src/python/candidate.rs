//! One candidate for the sender of a capture, from Python's names and numbers.

use std::collections::BTreeMap;

use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::timeline::Timeline;
use crate::congestion::{
    self, Control, Counting, Parameters, Profile, SlowStartRow, State, WindowRow,
};
use crate::infer::candidates::told;

/// A candidate before its first ACK: a row of the table of controls, with parameters and an initial window in segments.
#[pyclass(frozen)]
pub(super) struct CandidateSender {
    slow_start: &'static SlowStartRow,
    window: &'static WindowRow,
    parameters: Parameters,
    pub(super) start: State,
}

impl CandidateSender {
    pub(super) fn control(&self) -> Box<dyn Control> {
        let counting = Counting {
            profile: Profile::Rfc,
            segment_bytes: self.start.smss as u32,
        };
        self.window
            .under(self.slow_start, &self.parameters, counting)
    }
}

#[pymethods]
impl CandidateSender {
    #[new]
    fn new(
        slow_start: &str,
        window: &str,
        parameters: BTreeMap<String, f64>,
        initial_window: f64,
        smss: f64,
    ) -> PyResult<Self> {
        let unknown = |name| PyValueError::new_err(format!("no control is called {name}"));
        let given = parameters
            .iter()
            .fold(Parameters::default(), |given, (name, value)| {
                given.with(name, *value)
            });
        Ok(Self {
            slow_start: congestion::slow_start(slow_start).ok_or_else(|| unknown(slow_start))?,
            window: congestion::window(window).ok_or_else(|| unknown(window))?,
            parameters: given,
            start: State {
                cwnd: initial_window * smss,
                ssthresh: f64::INFINITY,
                smss,
            },
        })
    }
}

type Floats<'py> = Bound<'py, PyArray1<f64>>;

/// After each ACK the window in bytes of a control that owns it, told of what was seen, and how much of that bridges the
/// time between ACKs that come in lumps (infer/candidates/told.rs).
#[pyfunction]
fn told_windows<'py>(
    py: Python<'py>,
    timeline: Timeline<'py>,
    sender: &CandidateSender,
    handshake_rtt_ns: Option<i64>,
    by_timer: Vec<usize>,
) -> PyResult<(Floats<'py>, Floats<'py>)> {
    let trace = timeline.trace()?;
    let (control, start) = (sender.control(), sender.start);
    let told = told::Told {
        handshake_rtt_ns,
        by_timer: &by_timer,
    };
    let found = py.detach(|| told::windows(&trace, control, start, told));
    Ok((found.cwnd.into_pyarray(py), found.bridging.into_pyarray(py)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(told_windows, module)?)?;
    module.add_class::<CandidateSender>()
}
