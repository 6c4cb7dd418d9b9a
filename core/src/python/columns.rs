//! Columns as numpy arrays: where values stand in those that rise, what is least, how many there are of each.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::infer::candidates::at_work;
use crate::infer::ordered;
use crate::infer::tap::{echoes, leaving, stamped};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(places_of, module)?)?;
    module.add_function(wrap_pyfunction!(least_within, module)?)?;
    module.add_function(wrap_pyfunction!(counts, module)?)?;
    module.add_function(wrap_pyfunction!(unfilled, module)?)?;
    module.add_function(wrap_pyfunction!(unwrapped, module)?)?;
    module.add_function(wrap_pyfunction!(echoed, module)?)?;
    module.add_function(wrap_pyfunction!(rounds, module)?)?;
    module.add_function(wrap_pyfunction!(in_order, module)?)?;
    module.add_function(wrap_pyfunction!(released, module)?)?;
    module.add_function(wrap_pyfunction!(unsteady, module)?)?;
    module.add_function(wrap_pyfunction!(stamped_alike, module)?)
}

pub(super) type Column<'py, T> = PyReadonlyArray1<'py, T>;
pub(super) type Array<'py, T> = Bound<'py, PyArray1<T>>;

/// Where keys belong in values that rise, as numpy's `searchsorted` on the left (`or_equal`: on the right), in one walk
/// where the keys rise too (infer/ordered.rs).
#[pyfunction]
#[pyo3(name = "places", signature = (values, keys, *, or_equal = false))]
fn places_of<'py>(
    py: Python<'py>,
    values: Column<'py, i64>,
    keys: Column<'py, i64>,
    or_equal: bool,
) -> PyResult<Array<'py, i32>> {
    let (values, keys) = (values.as_slice()?, keys.as_slice()?);
    let found = py.detach(|| ordered::places(values, keys, or_equal));
    Ok(found.into_pyarray(py))
}

/// The least of the values in each range from `first` to before `behind`.
#[pyfunction]
fn least_within<'py>(
    values: Column<'py, i64>,
    first: Column<'py, i32>,
    behind: Column<'py, i32>,
) -> PyResult<Array<'py, i64>> {
    let (first, behind) = (first.as_slice()?, behind.as_slice()?);
    let found = ordered::least_within(values.as_slice()?, first, behind);
    Ok(found.ok_or_else(empty_range)?.into_pyarray(values.py()))
}

fn empty_range() -> PyErr {
    PyValueError::new_err("a range without a value")
}

/// The different values in order, and how often each comes.
#[pyfunction]
fn counts<'py>(
    py: Python<'py>,
    values: Column<'py, i64>,
) -> PyResult<(Array<'py, i64>, Array<'py, i64>)> {
    let (values, counts): (Vec<_>, Vec<_>) =
        ordered::counts(values.as_slice()?).into_iter().unzip();
    Ok((values.into_pyarray(py), counts.into_pyarray(py)))
}

/// How many holes no segment sent again covers, of those between two places of each (infer/ordered.rs).
#[pyfunction]
fn unfilled(
    holes: Column<'_, i64>,
    begin: Column<'_, i64>,
    upto: Column<'_, i64>,
    offset: Column<'_, i64>,
    end: Column<'_, i64>,
) -> PyResult<usize> {
    let (holes, begin, upto) = (holes.as_slice()?, begin.as_slice()?, upto.as_slice()?);
    let (offset, end) = (offset.as_slice()?, end.as_slice()?);
    if [begin.len(), upto.len()] != [holes.len(); 2] || offset.len() != end.len() {
        return Err(unequal());
    }
    Ok(ordered::unfilled(holes, begin, upto, offset, end))
}

pub(super) fn unequal() -> PyErr {
    PyValueError::new_err("columns of one table are of equal length")
}

/// A 32-bit clock without its wraps (infer/tap/echoes.rs).
#[pyfunction]
fn unwrapped<'py>(py: Python<'py>, stamps: Column<'py, i64>) -> PyResult<Array<'py, i64>> {
    Ok(echoes::unwrapped(stamps.as_slice()?).into_pyarray(py))
}

/// (turn_ns, full_turn_ns, how many waited, of how many) of the segments (time_ns, offset, length, ts_ecr) that echo the
/// ACKs (time_ns, ts_val, offered); None without timestamps, or where they are stale (infer/tap/echoes.rs).
#[pyfunction]
#[pyo3(signature = (segments, acks, *, smss, long_ns, most_stale))]
fn echoed(
    segments: [Column<'_, i64>; 4],
    acks: [Column<'_, i64>; 3],
    smss: i64,
    long_ns: i64,
    most_stale: f64,
) -> PyResult<Option<Echoed>> {
    let [time_ns, offset, length, ts_ecr] = &segments;
    let segments = echoes::Segments {
        time_ns: time_ns.as_slice()?,
        offset: offset.as_slice()?,
        length: length.as_slice()?,
        ts_ecr: ts_ecr.as_slice()?,
    };
    let [time_ns, ts_val, offered] = &acks;
    let acks = echoes::Acks {
        time_ns: time_ns.as_slice()?,
        ts_val: ts_val.as_slice()?,
        offered: offered.as_slice()?,
    };
    let sent = [segments.offset, segments.length, segments.ts_ecr].map(<[i64]>::len);
    let is_whole = acks.offered.is_empty() || acks.offered.len() == acks.time_ns.len();
    if sent != [segments.time_ns.len(); 3] || acks.ts_val.len() != acks.time_ns.len() || !is_whole {
        return Err(unequal());
    }
    let asked = echoes::Asked {
        smss,
        long_ns,
        most_stale,
    };
    let found = echoes::echoed(segments, acks, asked);
    Ok(found.map(|each| (each.turn_ns, each.full_turn_ns, each.waited, each.of)))
}

/// The number of each ACK's round trip (infer/ordered.rs).
#[pyfunction]
fn rounds<'py>(
    py: Python<'py>,
    una: Column<'py, i64>,
    nxt: Column<'py, i64>,
) -> PyResult<Array<'py, i32>> {
    Ok(ordered::rounds(una.as_slice()?, nxt.as_slice()?).into_pyarray(py))
}

/// Bounds of sends (row, offset, end), in the order of leaving (infer/tap/leaving.rs).
#[pyfunction]
fn in_order<'py>(
    py: Python<'py>,
    row: Column<'py, i32>,
    offset: Column<'py, i64>,
    end: Column<'py, i64>,
    low: Column<'py, i32>,
    high: Column<'py, i32>,
) -> PyResult<(Array<'py, i32>, Array<'py, i32>)> {
    let sends = leaving::Sends {
        row: row.as_slice()?,
        offset: offset.as_slice()?,
        end: end.as_slice()?,
    };
    let (low, high) = (low.as_slice()?, high.as_slice()?);
    if [sends.offset.len(), sends.end.len(), low.len(), high.len()] != [sends.row.len(); 4] {
        return Err(unequal());
    }
    let (low, high) = leaving::in_order(sends, low, high);
    Ok((low.into_pyarray(py), high.into_pyarray(py)))
}

/// Of stretches of ACKs, each behind `first` up to `last`, those at which the flight is what the sender made of its window
/// (infer/candidates/at_work.rs), and where those of each stretch end.
#[pyfunction]
#[pyo3(signature = (opens, is_limited, has_sent, flight, first, last, *, slack, patience))]
#[expect(clippy::too_many_arguments, reason = "columns of two tables")]
fn released<'py>(
    py: Python<'py>,
    opens: Column<'py, bool>,
    is_limited: Column<'py, bool>,
    has_sent: Column<'py, bool>,
    flight: Column<'py, i64>,
    first: Column<'py, i64>,
    last: Column<'py, i64>,
    slack: i64,
    patience: (f64, f64),
) -> PyResult<(Array<'py, i32>, Array<'py, i64>)> {
    let acks = at_work::Acks {
        opens: opens.as_slice()?,
        is_limited: is_limited.as_slice()?,
        has_sent: has_sent.as_slice()?,
        flight: flight.as_slice()?,
    };
    let (first, last) = (first.as_slice()?, last.as_slice()?);
    let heard = [
        acks.is_limited.len(),
        acks.has_sent.len(),
        acks.flight.len(),
    ];
    if heard != [acks.opens.len(); 3] || first.len() != last.len() {
        return Err(unequal());
    }
    let (acks_held, share) = patience;
    let patience = at_work::Patience {
        acks: acks_held,
        share,
    };
    let mut found = Vec::new();
    let ends = first.iter().zip(last).map(|(&first, &last)| {
        acks.released((first, last), slack, patience, &mut found);
        found.len() as i64
    });
    let ends: Vec<_> = ends.collect();
    found.shrink_to_fit();
    Ok((found.into_pyarray(py), ends.into_pyarray(py)))
}

/// By how many bytes the flight jumps to and fro at runs of ACKs (infer/candidates/at_work.rs).
#[pyfunction]
fn unsteady(
    flight: Column<'_, i64>,
    acks: Column<'_, i32>,
    ends: Column<'_, i64>,
) -> PyResult<f64> {
    at_work::unsteady(flight.as_slice()?, acks.as_slice()?, ends.as_slice()?).ok_or_else(unequal)
}

type Echoed = (Option<i64>, Option<i64>, usize, usize);
type Alike = ((i64, i64), [[i64; 2]; 2], i64, [(i64, i64, i64); 2]);

/// Of stamps in the order of capture (infer/tap/stamped.rs): steps back and the largest; neighbours of one stamp by
/// their ways; those no more than `near_ns` apart; and of each way the stamps, the unprompted ones, those that are equal.
#[pyfunction]
fn stamped_alike(
    stamps: Column<'_, i64>,
    is_sent: Column<'_, bool>,
    near_ns: i64,
) -> PyResult<Alike> {
    let found = stamped::Stamped::new(stamps.as_slice()?, is_sent.as_slice()?, near_ns);
    let ways = found
        .ways
        .map(|way| (way.stamps, way.unprompted, way.equal));
    Ok((
        (found.back, found.most_back_ns),
        found.alike,
        found.near,
        ways,
    ))
}
