//! A sender's trace for Python: columns in, columns out.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::infer;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Trace>()?;
    module.add_class::<Observed>()?;
    module.add_function(wrap_pyfunction!(observe, module)?)?;
    module.add_function(wrap_pyfunction!(dsacks, module)?)?;
    module.add_function(wrap_pyfunction!(slow_starts_per_cycle, module)?)?;
    module.add("LIMITS", infer::Limit::NAMES.to_vec())?;
    module.add("BEGINS", infer::Begin::ALL.map(|(_, name)| name).to_vec())
}

type Ints<'py> = Bound<'py, PyArray1<i64>>;
type Triple<'py> = (Ints<'py>, Ints<'py>, Ints<'py>);

/// Columns by name.
macro_rules! table {
    ($py:expr, $($name:literal => $values:expr),+ $(,)?) => {{
        let arrays = PyDict::new($py);
        $(arrays.set_item($name, $values.into_pyarray($py))?;)+
        Ok(arrays)
    }};
}

/// One direction of a connection, seen from its sender (core/src/infer/trace.rs).
#[pyclass(frozen, module = "tcptrace_lab._core")]
pub struct Trace {
    pub inner: Arc<infer::Trace>,
}

#[pymethods]
impl Trace {
    /// From int64 arrays by name (`is_bare`: bool; `sack_first` and `sack_edges` may be missing).
    #[new]
    #[pyo3(signature = (columns, *, smss, has_start, has_sack, dsacks))]
    fn new(
        columns: &Bound<'_, PyDict>,
        smss: i64,
        has_start: bool,
        has_sack: bool,
        dsacks: Vec<(i64, i64)>,
    ) -> PyResult<Self> {
        let trace = infer::Trace {
            send_ns: ints(columns, "send_ns")?,
            send_offset: ints(columns, "send_offset")?,
            send_end: ints(columns, "send_end")?,
            ack_ns: ints(columns, "ack_ns")?,
            ack_offset: ints(columns, "ack_offset")?,
            rwnd: ints(columns, "rwnd")?,
            is_bare: values(columns, "is_bare")?.ok_or_else(|| PyKeyError::new_err("is_bare"))?,
            sack_high: ints(columns, "sack_high")?,
            sacked: ints(columns, "sacked")?,
            sack_first: values(columns, "sack_first")?.unwrap_or_default(),
            sack_edges: values(columns, "sack_edges")?.unwrap_or_default(),
            dsacks,
            smss,
            has_start,
            has_sack,
        };
        let checked = trace
            .checked()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self {
            inner: Arc::new(checked),
        })
    }

    #[getter]
    fn smss(&self) -> i64 {
        self.inner.smss
    }

    #[getter]
    fn has_start(&self) -> bool {
        self.inner.has_start
    }

    #[getter]
    fn has_sack(&self) -> bool {
        self.inner.has_sack
    }

    #[getter]
    fn dsacks(&self) -> Vec<(i64, i64)> {
        self.inner.dsacks.clone()
    }

    /// (left, right, ack): disjoint ranges in order of offset, and the ACK that first reported each as SACKed.
    fn scoreboard<'py>(&self, py: Python<'py>) -> Triple<'py> {
        let board = infer::Scoreboard::new(&self.inner);
        let column = |value: fn(&(i64, i64, u32)) -> i64| {
            let values: Vec<i64> = board.rows().iter().map(value).collect();
            values.into_pyarray(py)
        };
        (
            column(|row| row.0),
            column(|row| row.1),
            column(|row| i64::from(row.2)),
        )
    }

    /// A copy of one of the columns that the trace was made of.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let trace = &*self.inner;
        let ints = match name {
            "send_ns" => &trace.send_ns,
            "send_offset" => &trace.send_offset,
            "send_end" => &trace.send_end,
            "ack_ns" => &trace.ack_ns,
            "ack_offset" => &trace.ack_offset,
            "rwnd" => &trace.rwnd,
            "sack_high" => &trace.sack_high,
            "sacked" => &trace.sacked,
            "sack_first" => &trace.sack_first,
            "sack_edges" => &trace.sack_edges,
            "is_bare" => return Ok(PyArray1::from_slice(py, &trace.is_bare).into_any()),
            _ => return Err(PyKeyError::new_err(name.to_owned())),
        };
        Ok(PyArray1::from_slice(py, ints).into_any())
    }
}

fn values<T: numpy::Element>(columns: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<Vec<T>>> {
    let Some(column) = columns.get_item(name)? else {
        return Ok(None);
    };
    let array: PyReadonlyArray1<'_, T> = column.extract()?;
    Ok(Some(array.to_vec()?))
}

fn ints(columns: &Bound<'_, PyDict>, name: &str) -> PyResult<Vec<i64>> {
    values(columns, name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
}

/// Ranges that the SACK blocks of some ACKs report as received twice (RFC 2883).
#[pyfunction]
fn dsacks(
    ack_offset: PyReadonlyArray1<'_, i64>,
    sack_first: PyReadonlyArray1<'_, i64>,
    sack_edges: PyReadonlyArray1<'_, i64>,
) -> PyResult<Vec<(i64, i64)>> {
    let trace = infer::Trace {
        ack_offset: ack_offset.to_vec()?,
        sack_first: sack_first.to_vec()?,
        sack_edges: sack_edges.to_vec()?,
        ..infer::Trace::default()
    };
    Ok(trace.received_twice())
}

/// Slow starts per cycle of a truth table (core/src/infer/cycles.rs): the windows and, where `is_loss`, the losses in
/// order of time. Sequence numbers as on the wire.
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
        if is_loss[row] {
            cycles.loss(row as i64);
            continue;
        }
        // A number behind the last one is an old row's.
        let moved = (una[row] as u32).wrapping_sub(number);
        if moved <= u32::MAX / 2 {
            (number, offset) = (una[row] as u32, offset + u64::from(moved));
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

/// What a trace shows of its sender (core/src/infer/observer.rs): each table a dict of numpy columns.
#[pyclass(frozen, module = "tcptrace_lab._core")]
pub struct Observed {
    pub inner: infer::Observed,
}

/// Reads a trace from end to end.
#[pyfunction]
fn observe(py: Python<'_>, trace: &Trace) -> Observed {
    let trace = Arc::clone(&trace.inner);
    let inner = py.detach(|| infer::observe(&trace));
    Observed { inner }
}

#[pymethods]
impl Observed {
    #[getter]
    fn first_offset(&self) -> i64 {
        self.inner.sequence.first_offset
    }

    /// Per send: snd_max, is_retransmission, acks_before_send. Per ACK: snd_una, newly_acked, is_dupack, last_moved (-1:
    /// none yet), sends_before_next_ack, flight. Per round trip: rtt_ack (the ACK's index), rtt_ns.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let seen = &self.inner.sequence;
        let acks = 0..seen.snd_una.len();
        let ints: Vec<i64> = match name {
            "snd_max" => seen.snd_max.clone(),
            "acks_before_send" => wide(&seen.acks_before_send),
            "snd_una" => seen.snd_una.clone(),
            "newly_acked" => acks.map(|ack| seen.newly_acked(ack)).collect(),
            "last_moved" => acks.map(|ack| index(seen.last_moved(ack + 1))).collect(),
            "sends_before_next_ack" => wide(&seen.sends_before_next_ack),
            "flight" => self.inner.flight.clone(),
            "rtt_ack" => wide(&self.inner.rtt.ack),
            "rtt_ns" => self.inner.rtt.rtt_ns.clone(),
            "is_dupack" => {
                let flags: Vec<bool> = acks.map(|ack| seen.is_dup(ack)).collect();
                return Ok(flags.into_pyarray(py).into_any());
            }
            "is_retransmission" => {
                let mut flags = vec![false; seen.snd_max.len()];
                for &send in &seen.again {
                    flags[send as usize] = true;
                }
                return Ok(flags.into_pyarray(py).into_any());
            }
            _ => return Err(PyKeyError::new_err(name.to_owned())),
        };
        Ok(ints.into_pyarray(py).into_any())
    }

    /// (smallest, median) round trip; 0 without any.
    #[getter]
    fn rtt_ns(&self) -> (i64, i64) {
        (self.inner.rtt.base_ns, self.inner.rtt.median_ns)
    }

    /// A row per loss event; `window_after`: -1 where it is not known.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let events = &self.inner.events;
        let each =
            |value: fn(&infer::LossEvent) -> i64| events.iter().map(value).collect::<Vec<_>>();
        table!(py,
            "first_send" => each(|event| event.first_send as i64),
            "time_ns" => each(|event| event.time_ns),
            "end_ns" => each(|event| event.end_ns),
            "una" => each(|event| event.una),
            "recover" => each(|event| event.recover),
            "flight" => each(|event| event.flight),
            "detected_by" => each(|event| event.detected_by as i64),
            "dupacks" => each(|event| event.dupacks as i64),
            "restarts" => events.iter().map(|event| event.restarts).collect::<Vec<_>>(),
            "sure" => events.iter().map(|event| event.sure).collect::<Vec<_>>(),
            "lost_sent_ns" => each(|event| event.lost_sent_ns),
            "retransmitted" => each(|event| event.retransmitted as i64),
            "round_trip_sends" => each(|event| event.round_trip_sends as i64),
            "window_before" => events.iter().map(|event| self.inner.window_before(event)).collect::<Vec<_>>(),
            "window_after" => events.iter().map(|event| self.inner.window_after(event).unwrap_or(-1))
                .collect::<Vec<_>>(),
        )
    }

    /// How many more segments may have been lost, unseen.
    #[getter]
    fn possible_losses(&self) -> usize {
        self.inner.lost.possible
    }

    /// A row per lost segment.
    fn lost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let lost = &self.inner.lost.rows;
        table!(py,
            "time_ns" => lost.iter().map(|row| row.time_ns).collect::<Vec<_>>(),
            "offset" => lost.iter().map(|row| row.offset).collect::<Vec<_>>(),
            "length" => lost.iter().map(|row| row.length).collect::<Vec<_>>(),
            "spurious" => lost.iter().map(|row| row.is_spurious).collect::<Vec<_>>(),
            "event" => lost.iter().map(|row| row.event as i64).collect::<Vec<_>>(),
        )
    }

    /// A row per stretch; -1: no such ACK or event.
    fn stretches<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parts = &self.inner.stretches;
        let each = |value: fn(&infer::Stretch) -> i64| parts.iter().map(value).collect::<Vec<_>>();
        table!(py,
            "begin" => each(|part| part.begin as i64),
            "first" => each(|part| part.first as i64),
            "last" => each(|part| part.last as i64),
            "peak" => each(|part| index(part.peak)),
            "has_threshold" => parts.iter().map(|part| part.has_threshold).collect::<Vec<_>>(),
            "grown_from" => each(|part| part.grown_from),
            "grown_to" => each(|part| part.grown_to),
            "started_by" => each(|part| index(part.started_by)),
            "ended_by" => each(|part| index(part.ended_by)),
            "cycle" => self.inner.places.iter().map(|place| place.cycle as i64).collect::<Vec<_>>(),
            "slow_start_end" => self.inner.places.iter().map(|place| index(place.slow_start_end)).collect::<Vec<_>>(),
            "is_counted" => self.inner.places.iter().map(|place| place.is_counted).collect::<Vec<_>>(),
        )
    }

    /// A row per ACK and per restart; -1: not known, or nothing bounds it.
    fn windows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let windows = &self.inner.windows;
        table!(py,
            "time_ns" => windows.time_ns.clone(),
            "cwnd" => windows.cwnd.clone(),
            "cwnd_low" => windows.cwnd_low.clone(),
            "cwnd_high" => windows.cwnd_high.clone(),
            "ssthresh" => windows.ssthresh.clone(),
            "limited_by" => windows.limited_by.iter().map(|&limit| limit as i8).collect::<Vec<_>>(),
        )
    }

    /// Share of the time by what limited the sender, in the order of `LIMITS`; None: nothing was to be delivered.
    #[getter]
    fn limits(&self) -> Option<[f64; 4]> {
        self.inner.limits
    }
}

fn wide(values: &[u32]) -> Vec<i64> {
    values.iter().map(|&value| i64::from(value)).collect()
}

fn index(value: Option<usize>) -> i64 {
    value.map_or(-1, |value| value as i64)
}
