//! The simulator for Python: one call in, columns out.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::control::ControlState;
use super::outlet::Files;
use super::scenario::scenario_of;
use super::simulation::Simulation;
use super::sweep;
use crate::network::DropReason;
use crate::recovery::{DetectedBy, LEAST_RTO_NS};
use crate::simulate::capture_file::Kept;
use crate::simulate::{Controls, Logs, SenderState};

/// Runs a scenario given as a table; raises `ScenarioError` with the key that is wrong. `events`: ns-style rows are kept;
/// `truth`: the senders' variables and the queues are.
///
/// `controls` are congestion controls written in Python (`ControlState` says what their methods get), one for each
/// connection that has its own, else None. Without any it works without the interpreter's lock, so that runs go in
/// parallel in threads as well. After `most_events` (about one for each packet) it is cut.
#[pyfunction]
#[pyo3(signature = (scenario, controls=vec![], *, events=false, truth=true, most_events=None))]
fn simulate(
    py: Python<'_>,
    scenario: &Bound<'_, PyDict>,
    controls: Vec<Option<Bound<'_, PyAny>>>,
    events: bool,
    truth: bool,
    most_events: Option<u64>,
) -> PyResult<Simulation> {
    let scenario = scenario_of(scenario)?;
    let given = Controls {
        logs: Logs { events, truth },
        most_events,
        ..Controls::default()
    };
    let output = sweep::run(py, &scenario, controls, given)?;
    Ok(Simulation { scenario, output })
}

/// The same, nothing held: what each tap (in the spec's order) sees goes to its file, (path, whether it is pcapng), the
/// run beginning at `epoch_ns`, and `on_piece` is called with the tables' next rows as a `Simulation`. The one returned
/// holds their last rows, and the run's summary. Without `on_piece` no table but the summary is kept.
#[pyfunction]
#[pyo3(signature = (scenario, files, snaplen, has_payload, epoch_ns, on_piece=None, controls=vec![]))]
#[expect(
    clippy::too_many_arguments,
    reason = "one call, from tcptrace_lab/simulate_to_files.py"
)]
fn simulate_to_files(
    py: Python<'_>,
    scenario: &Bound<'_, PyDict>,
    files: Vec<(PathBuf, bool)>,
    snaplen: u32,
    has_payload: bool,
    epoch_ns: i64,
    on_piece: Option<Py<PyAny>>,
    controls: Vec<Option<Bound<'_, PyAny>>>,
) -> PyResult<Simulation> {
    let scenario = scenario_of(scenario)?;
    let logs = Logs {
        events: false,
        truth: on_piece.is_some(),
    };
    let kept = Kept {
        snaplen,
        has_payload,
    };
    let stop = Arc::default();
    let mut outlet = Files::new(
        &scenario,
        &files,
        kept,
        epoch_ns,
        on_piece,
        Arc::clone(&stop),
    )?;
    let own = Controls {
        stop,
        outlet: Some(&mut outlet),
        logs,
        ..Controls::default()
    };
    let output = sweep::run(py, &scenario, controls, own)?;
    outlet.finish()?;
    Ok(Simulation { scenario, output })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("DETECTED_BY", DetectedBy::ALL.map(DetectedBy::name))?;
    module.add("LEAST_RTO_NS", LEAST_RTO_NS.get())?;
    module.add("DROP_REASONS", DropReason::ALL.map(DropReason::name))?;
    let states = PyDict::new(module.py());
    for state in SenderState::ALL {
        states.set_item(state.name(), state as u8)?;
    }
    module.add("SENDER_STATES", states)?;
    module.add_class::<Simulation>()?;
    module.add_class::<ControlState>()?;
    module.add_function(wrap_pyfunction!(sweep::sweep, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_to_files, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)
}
