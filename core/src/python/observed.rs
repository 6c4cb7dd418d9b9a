//! What a trace shows of its sender, for Python: each table a dict of numpy columns.

use numpy::IntoPyArray;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::table;
use super::timeline::Timeline;
use crate::infer;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Observed>()?;
    module.add_function(wrap_pyfunction!(observe, module)?)?;
    module.add_function(wrap_pyfunction!(followed, module)?)
}

/// What a trace shows of its sender (infer/sender/observer.rs): each table a dict of numpy columns.
#[pyclass(frozen, module = "tcptrace_lab._core")]
pub struct Observed {
    /// Without what is as long as the trace: that is moved out.
    inner: infer::Observed,
    /// Per loss event, the windows around it.
    around: Vec<(i64, Option<i64>)>,
    first_offset: i64,
    columns: Py<PyDict>,
    windows: Py<PyDict>,
}

/// Reads a trace from end to end.
#[pyfunction]
fn observe(py: Python<'_>, timeline: Timeline<'_>) -> PyResult<Observed> {
    let trace = timeline.trace()?;
    let mut inner = py.detach(|| infer::observe(&trace));
    let events = inner.events.iter();
    let around = events.map(|event| (inner.window_before(event), inner.window_after(event)));
    let around = around.collect();
    let windows = std::mem::take(&mut inner.windows);
    let is_ack_ns = windows.time_ns == trace.ack_ns;
    let windows = window_arrays(py, windows)?;
    if is_ack_ns {
        // Without a restart there is a row per ACK: one column is enough.
        windows.set_item("time_ns", timeline.ack_ns.as_any())?;
    }
    let windows = windows.unbind();
    let first_offset = inner.sequence.first_offset;
    let (sequence, rtt) = (
        std::mem::take(&mut inner.sequence),
        std::mem::take(&mut inner.rtt),
    );
    (inner.rtt.base_ns, inner.rtt.median_ns) = (rtt.base_ns, rtt.median_ns);
    let columns = sequence_arrays(py, &timeline, sequence, rtt)?;
    columns.set_item("flight", std::mem::take(&mut inner.flight).into_pyarray(py))?;
    let columns = columns.unbind();
    Ok(Observed {
        inner,
        around,
        first_offset,
        columns,
        windows,
    })
}

/// The first byte, and the columns of `Observed.column` that follow row by row, without the losses: all but the flight.
#[pyfunction]
fn followed<'py>(py: Python<'py>, timeline: Timeline<'py>) -> PyResult<(i64, Bound<'py, PyDict>)> {
    let trace = timeline.trace()?;
    let (sequence, rtt) = py.detach(|| infer::followed(&trace));
    let first_offset = sequence.first_offset;
    Ok((first_offset, sequence_arrays(py, &timeline, sequence, rtt)?))
}

/// What is as long as the trace, handed over: places and counts of rows in 32 bits.
fn sequence_arrays<'py>(
    py: Python<'py>,
    timeline: &Timeline<'py>,
    seen: infer::Sequence,
    rtt: infer::RoundTrips,
) -> PyResult<Bound<'py, PyDict>> {
    let mut is_retransmission = vec![false; seen.snd_max.len()];
    for &send in &seen.again {
        is_retransmission[send as usize] = true;
    }
    let acks = 0..seen.snd_una.len();
    let is_dupack: Vec<bool> = acks.map(|ack| seen.is_dup(ack)).collect();
    let is_ack_offset = seen.snd_una == timeline.ack_offset.as_slice()?;
    let (moved, seen) = seen.into_moved();
    let columns: PyResult<Bound<'py, PyDict>> = table!(py,
        "snd_max" => seen.snd_max,
        "is_retransmission" => is_retransmission,
        "acks_before_send" => places(seen.acks_before_send),
        "snd_una" => seen.snd_una,
        "is_dupack" => is_dupack,
        "last_moved" => places(moved),
        "sends_before_next_ack" => places(seen.sends_before_next_ack),
        "rtt_ack" => places(rtt.ack),
        "rtt_ns" => rtt.rtt_ns,
    );
    let columns = columns?;
    if is_ack_offset {
        // Nothing came out of order, and nothing was held before the first byte.
        columns.set_item("snd_una", timeline.ack_offset.as_any())?;
    }
    Ok(columns)
}

/// As numpy counts backwards too; no place: -1.
fn places(values: Vec<u32>) -> Vec<i32> {
    values.into_iter().map(|value| value as i32).collect()
}

fn window_arrays(py: Python<'_>, windows: infer::Windows) -> PyResult<Bound<'_, PyDict>> {
    let limited_by = windows.limited_by.iter().map(|&limit| limit as i8);
    let limited_by: Vec<_> = limited_by.collect();
    let arrays = PyDict::new(py);
    arrays.set_item("time_ns", windows.time_ns.into_pyarray(py))?;
    arrays.set_item("cwnd", narrow(py, windows.cwnd))?;
    arrays.set_item("cwnd_low", narrow(py, windows.cwnd_low))?;
    arrays.set_item("cwnd_high", narrow(py, windows.cwnd_high))?;
    arrays.set_item("ssthresh", narrow(py, windows.ssthresh))?;
    arrays.set_item("limited_by", limited_by.into_pyarray(py))?;
    arrays.set_item("is_exhausted", windows.is_exhausted.into_pyarray(py))?;
    Ok(arrays)
}

/// In 32 bits where all values fit: no window is larger (RFC 7323 section 2.3), but what seems outstanding may be.
fn narrow(py: Python<'_>, values: Vec<i64>) -> Bound<'_, PyAny> {
    if !values.iter().all(|&value| i32::try_from(value).is_ok()) {
        return values.into_pyarray(py).into_any();
    }
    // Of a length that is known: nothing is held that is not used.
    let narrow: Vec<_> = values.iter().map(|&value| value as i32).collect();
    narrow.into_pyarray(py).into_any()
}

#[pymethods]
impl Observed {
    #[getter]
    fn first_offset(&self) -> i64 {
        self.first_offset
    }

    /// Per send: snd_max, is_retransmission, acks_before_send. Per ACK: snd_una, is_dupack, last_moved (-1: none yet),
    /// sends_before_next_ack, flight. Per round trip: rtt_ack (the ACK's index), rtt_ns. The same arrays each time.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let found = self.columns.bind(py).get_item(name)?;
        found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
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
            "follows" => events.iter().map(|event| event.follows).collect::<Vec<_>>(),
            "window_before" => self.around.iter().map(|around| around.0).collect::<Vec<_>>(),
            "window_after" => self.around.iter().map(|around| around.1.unwrap_or(-1)).collect::<Vec<_>>(),
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

    /// A row per ACK and per restart; -1: not known, or nothing bounds it. The same arrays each time, of 32 bits where
    /// that is enough.
    fn windows<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        self.windows.bind(py).clone()
    }

    /// Share of the time by what limited the sender, in the order of `LIMITS`; None: nothing was to be delivered.
    #[getter]
    fn limits(&self) -> Option<[f64; 4]> {
        self.inner.limits
    }

    /// The part of the application's share that does not rest on how promptly ACKs released segments.
    #[getter]
    fn starved(&self) -> f64 {
        self.inner.starved
    }
}

fn index(value: Option<usize>) -> i64 {
    value.map_or(-1, |value| value as i64)
}
