//! Questions that Python asks of a sender's trace, or of columns of one, and the thresholds that it shares.

use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::infer;
use crate::recovery::DUP_THRESH;
use crate::{congestion, connection};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(scoreboard, module)?)?;
    module.add_function(wrap_pyfunction!(dsacks, module)?)?;
    module.add_function(wrap_pyfunction!(slow_starts_per_cycle, module)?)?;
    module.add_function(wrap_pyfunction!(swapped_ns, module)?)?;
    module.add("HOST_NS", infer::HOST_NS.get())?;
    module.add("DELAYED_ACK_SEGMENTS", infer::DELAYED_ACK_SEGMENTS.get())?;
    module.add("PROMPT_PARTS", infer::PROMPT_PARTS.get())?;
    module.add("BURST_NS", infer::BURST_NS.get())?;
    module.add("FEWEST_SAMPLES", infer::FEWEST_SAMPLES.get())?;
    module.add("PAUSE_PARTS", infer::PAUSE_PARTS.get())?;
    module.add("DUP_THRESH", DUP_THRESH)?;
    module.add("BBR_MIN_CWND_SEGMENTS", congestion::BBR_MIN_CWND_SEGMENTS)?;
    module.add("BBR_PROBE_RTT_NS", congestion::BBR_PROBE_RTT_NS)?;
    module.add("BBR_MIN_RTT_WINDOW_NS", congestion::BBR_MIN_RTT_WINDOW_NS)?;
    module.add("BBR_CYCLE_ROUNDS", congestion::BBR_CYCLE.len())?;
    module.add("LIMITS", infer::Limit::NAMES.to_vec())?;
    module.add("FATES", infer::FATES.to_vec())?;
    module.add("BEGINS", infer::Begin::ALL.map(|(_, name)| name).to_vec())
}

type Ints<'py> = Bound<'py, PyArray1<i64>>;
type Triple<'py> = (Ints<'py>, Ints<'py>, Ints<'py>);

#[pyfunction]
fn swapped_ns(turn_ns: i64) -> i64 {
    connection::swapped_ns(turn_ns)
}

/// (left, right, ack): disjoint ranges in order of offset, and the ACK that first reported each as SACKed.
#[pyfunction]
fn scoreboard<'py>(
    py: Python<'py>,
    ack_offset: PyReadonlyArray1<'py, i64>,
    sack_first: PyReadonlyArray1<'py, i64>,
    sack_edges: PyReadonlyArray1<'py, i64>,
) -> PyResult<Triple<'py>> {
    let rows = infer::reported(&infer::Trace {
        ack_offset: ack_offset.as_slice()?,
        sack_first: sack_first.as_slice()?,
        sack_edges: sack_edges.as_slice()?,
        ..infer::Trace::default()
    });
    let column = |value: fn(&(i64, i64, u32)) -> i64| {
        let values: Vec<i64> = rows.iter().map(value).collect();
        values.into_pyarray(py)
    };
    Ok((
        column(|row| row.0),
        column(|row| row.1),
        column(|row| i64::from(row.2)),
    ))
}

/// Ranges that the SACK blocks of some ACKs report as received twice (RFC 2883).
#[pyfunction]
fn dsacks(
    ack_offset: PyReadonlyArray1<'_, i64>,
    sack_first: PyReadonlyArray1<'_, i64>,
    sack_edges: PyReadonlyArray1<'_, i64>,
) -> PyResult<Vec<(i64, i64)>> {
    let trace = infer::Trace {
        ack_offset: ack_offset.as_slice()?,
        sack_first: sack_first.as_slice()?,
        sack_edges: sack_edges.as_slice()?,
        ..infer::Trace::default()
    };
    Ok(trace.received_twice())
}

/// Slow starts per cycle of a truth table (infer/sender/slow_starts/cycles.rs): the windows and, where `is_loss`, the
/// losses in order of time. Sequence numbers as on the wire.
#[pyfunction]
fn slow_starts_per_cycle(
    is_loss: PyReadonlyArray1<'_, bool>,
    snd_una: PyReadonlyArray1<'_, i64>,
    snd_nxt: PyReadonlyArray1<'_, i64>,
    is_slow_start: PyReadonlyArray1<'_, bool>,
    has_restarted: PyReadonlyArray1<'_, bool>,
) -> PyResult<Vec<u32>> {
    let (is_loss, una, nxt) = (is_loss.to_vec()?, snd_una.to_vec()?, snd_nxt.to_vec()?);
    let (slow, restarted) = (is_slow_start.to_vec()?, has_restarted.to_vec()?);
    let lengths = [una.len(), nxt.len(), slow.len(), restarted.len()];
    if lengths.iter().any(|length| *length != is_loss.len()) {
        return Err(PyValueError::new_err(
            "columns of one table are of equal length",
        ));
    }
    let mut cycles = infer::Cycles::default();
    let (mut number, mut offset) = (una.first().map_or(0, |first| *first as u32), 0_u64);
    for row in 0..is_loss.len() {
        // A number behind the last one is an old row's.
        let moved = (una[row] as u32).wrapping_sub(number);
        if moved <= u32::MAX / 2 {
            (number, offset) = (una[row] as u32, offset + u64::from(moved));
        }
        if is_loss[row] {
            cycles.loss(row as i64, offset);
            continue;
        }
        let ahead = (nxt[row] as u32).wrapping_sub(number);
        cycles.window(infer::Moment {
            snd_una: offset,
            snd_nxt: offset + u64::from(if ahead <= u32::MAX / 2 { ahead } else { 0 }),
            is_slow_start: slow[row],
            has_restarted: restarted[row],
        });
    }
    Ok(cycles.all().iter().map(|cycle| cycle.slow_starts).collect())
}
