//! Both ways of a connection in the order of capture, for Python (core/src/infer/tap/captured.rs, echoes.rs).

use numpy::IntoPyArray;
use pyo3::prelude::*;

use super::columns::{Array, Column, unequal};
use crate::infer::tap::{captured, echoes};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(merged, module)?)?;
    module.add_function(wrap_pyfunction!(long_gaps, module)?)?;
    module.add_function(wrap_pyfunction!(is_left_later, module)?)?;
    module.add_function(wrap_pyfunction!(never_captured, module)?)?;
    module.add_function(wrap_pyfunction!(echoes_named, module)?)
}

/// (stamps, which are segments') in the order of capture; `passed`: how many ACKs had passed before each segment.
#[pyfunction]
fn merged<'py>(
    py: Python<'py>,
    sent_ns: Column<'py, i64>,
    heard_ns: Column<'py, i64>,
    passed: Column<'py, i32>,
) -> PyResult<(Array<'py, i64>, Array<'py, bool>)> {
    let (sent, heard, passed) = (
        sent_ns.as_slice()?,
        heard_ns.as_slice()?,
        passed.as_slice()?,
    );
    let found = captured::merged(sent, heard, passed).filter(|_| sent.len() == passed.len());
    let (stamps, is_sent) = found.ok_or_else(unequal)?;
    Ok((stamps.into_pyarray(py), is_sent.into_pyarray(py)))
}

/// (place of the stamp before, how much later) of the stamps that come more than `least_ns` later than the one before.
#[pyfunction]
fn long_gaps<'py>(
    stamps: Column<'py, i64>,
    least_ns: i64,
) -> PyResult<(Array<'py, i64>, Array<'py, i64>)> {
    let (places, gaps) = captured::long_gaps(stamps.as_slice()?, least_ns);
    let py = stamps.py();
    Ok((places.into_pyarray(py), gaps.into_pyarray(py)))
}

/// Whether a segment passed more than `patience_ns` after the last ACK before it.
#[pyfunction]
fn is_left_later(
    sent_ns: Column<'_, i64>,
    heard_ns: Column<'_, i64>,
    passed: Column<'_, i32>,
    patience_ns: i64,
) -> PyResult<bool> {
    let (sent, heard, passed) = (
        sent_ns.as_slice()?,
        heard_ns.as_slice()?,
        passed.as_slice()?,
    );
    if sent.len() != passed.len() {
        return Err(unequal());
    }
    Ok(captured::is_left_later(sent, heard, passed, patience_ns))
}

/// Bytes below `most` in holes of segments (offset, length), of holes that end by `first_new` and of those above.
#[pyfunction]
fn never_captured(
    offset: Column<'_, i64>,
    length: Column<'_, i64>,
    most: i64,
    first_new: i64,
) -> PyResult<(i64, i64)> {
    let (offset, length) = (offset.as_slice()?, length.as_slice()?);
    if offset.len() != length.len() {
        return Err(unequal());
    }
    Ok(captured::never_captured(offset, length, most, first_new))
}

type Named<'py> = (usize, Array<'py, i64>, Array<'py, i64>, i64);

/// (how many TSvals that segments (length, ts_ecr) echo no ACK carries; of the others the first ACK and the first segment;
/// ticks from the first ACK to the last); None without timestamps.
#[pyfunction]
fn echoes_named<'py>(
    py: Python<'py>,
    length: Column<'py, i64>,
    ts_ecr: Column<'py, i64>,
    ts_val: Column<'py, i64>,
) -> PyResult<Option<Named<'py>>> {
    let (length, ts_ecr) = (length.as_slice()?, ts_ecr.as_slice()?);
    if length.len() != ts_ecr.len() {
        return Err(unequal());
    }
    let found = echoes::named(length, ts_ecr, ts_val.as_slice()?);
    Ok(found.map(|found| {
        (
            found.unheard,
            found.ack.into_pyarray(py),
            found.segment.into_pyarray(py),
            found.ticks,
        )
    }))
}
