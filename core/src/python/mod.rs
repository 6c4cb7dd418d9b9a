//! The Python extension module `tcptrace_lab._core`: the only folder that knows PyO3.

use pyo3::prelude::*;

mod analyze;
mod arrays;
mod candidate;
mod capture;
mod captured;
mod columns;
mod contest;
mod control;
mod controls;
mod emulate;
mod evidence;
mod follower;
mod infer;
mod json_rows;
mod json_text;
mod marks;
mod observed;
mod outlet;
mod own_sender;
mod paces;
mod quantile;
mod replay;
mod run_tables;
mod scenario;
mod simulate;
mod simulation;
mod start;
mod sweep;
mod tape;
mod tapped;
mod timeline;
mod watch;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("BUILD", env!("TCPTRACE_BUILD"))?;
    capture::register(module)?;
    analyze::register(module)?;
    follower::register(module)?;
    infer::register(module)?;
    observed::register(module)?;
    columns::register(module)?;
    captured::register(module)?;
    paces::register(module)?;
    json_rows::register(module)?;
    json_text::register(module)?;
    quantile::register(module)?;
    simulate::register(module)?;
    start::register(module)?;
    controls::register(module)?;
    scenario::register(module)?;
    own_sender::register(module)?;
    replay::register(module)?;
    watch::register(module)?;
    candidate::register(module)?;
    marks::register(module)?;
    tape::register(module)?;
    evidence::register(module)?;
    contest::register(module)?;
    #[cfg(feature = "vary")]
    module.add_function(wrap_pyfunction!(vary_threshold, module)?)?;
    emulate::register(module)
}

/// The threshold of this name (`tcptrace_core::infer::sender::loss_events::events::SILENT_SHARE`) is multiplied from now
/// on; None: none.
#[cfg(feature = "vary")]
#[pyfunction]
#[pyo3(signature = (name=None, factor=1.0))]
fn vary_threshold(name: Option<String>, factor: f64) {
    crate::threshold::varied::set(name.map(|name| (name, factor)));
}
