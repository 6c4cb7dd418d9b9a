//! A sender's trace for Python: columns in, columns out.

use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::Borrowed;
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::infer;
use crate::recovery::DUP_THRESH;
use crate::{congestion, connection};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Observed>()?;
    module.add_function(wrap_pyfunction!(observe, module)?)?;
    module.add_function(wrap_pyfunction!(scoreboard, module)?)?;
    module.add_function(wrap_pyfunction!(dsacks, module)?)?;
    module.add_function(wrap_pyfunction!(slow_starts_per_cycle, module)?)?;
    module.add_function(wrap_pyfunction!(places_of, module)?)?;
    module.add_function(wrap_pyfunction!(least_within, module)?)?;
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

/// Columns by name.
macro_rules! table {
    ($py:expr, $($name:literal => $values:expr),+ $(,)?) => {{
        let arrays = PyDict::new($py);
        $(arrays.set_item($name, $values.into_pyarray($py))?;)+
        Ok(arrays)
    }};
}

/// One direction of a connection, seen from its sender (core/src/infer/trace.rs), as numpy arrays that stay Python's.
pub struct Columns<'py> {
    send_ns: PyReadonlyArray1<'py, i64>,
    send_offset: PyReadonlyArray1<'py, i64>,
    send_end: PyReadonlyArray1<'py, i64>,
    fate: PyReadonlyArray1<'py, u8>,
    ack_ns: PyReadonlyArray1<'py, i64>,
    ack_offset: PyReadonlyArray1<'py, i64>,
    rwnd: PyReadonlyArray1<'py, i64>,
    is_bare: PyReadonlyArray1<'py, bool>,
    sack_high: PyReadonlyArray1<'py, i64>,
    sacked: PyReadonlyArray1<'py, i64>,
    sack_first: PyReadonlyArray1<'py, i64>,
    sack_edges: PyReadonlyArray1<'py, i64>,
    smss: i64,
    has_start: bool,
    has_sack: bool,
    hides_blocks: bool,
    dsacks: Vec<(i64, i64)>,
}

/// From an object that has them as attributes of these names, without a copy.
impl<'py> FromPyObject<'_, 'py> for Columns<'py> {
    type Error = PyErr;

    fn extract(timeline: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            send_ns: column(&timeline, "send_ns")?,
            send_offset: column(&timeline, "send_offset")?,
            send_end: column(&timeline, "send_end")?,
            fate: column(&timeline, "fate")?,
            ack_ns: column(&timeline, "ack_ns")?,
            ack_offset: column(&timeline, "ack_offset")?,
            rwnd: column(&timeline, "rwnd")?,
            is_bare: column(&timeline, "is_bare")?,
            sack_high: column(&timeline, "sack_high")?,
            sacked: column(&timeline, "sacked")?,
            sack_first: column(&timeline, "sack_first")?,
            sack_edges: column(&timeline, "sack_edges")?,
            smss: timeline.getattr("smss")?.extract()?,
            has_start: timeline.getattr("has_start")?.extract()?,
            has_sack: timeline.getattr("has_sack")?.extract()?,
            hides_blocks: timeline.getattr("hides_blocks")?.extract()?,
            dsacks: timeline.getattr("dsacks")?.extract()?,
        })
    }
}

fn column<'py, T: numpy::Element>(
    timeline: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<PyReadonlyArray1<'py, T>> {
    let wrong = |_| PyTypeError::new_err(format!("{name}: not an array of its type"));
    let array = timeline.getattr(name)?;
    let found: PyReadonlyArray1<'py, T> = array.extract().map_err(wrong)?;
    if found.as_slice().is_ok() {
        return Ok(found);
    }
    // A view with gaps.
    array.call_method0("copy")?.extract().map_err(wrong)
}

impl Columns<'_> {
    fn trace(&self) -> PyResult<infer::Trace<'_>> {
        let trace = infer::Trace {
            send_ns: self.send_ns.as_slice()?,
            send_offset: self.send_offset.as_slice()?,
            send_end: self.send_end.as_slice()?,
            fate: self.fate.as_slice()?,
            ack_ns: self.ack_ns.as_slice()?,
            ack_offset: self.ack_offset.as_slice()?,
            rwnd: self.rwnd.as_slice()?,
            is_bare: self.is_bare.as_slice()?,
            sack_high: self.sack_high.as_slice()?,
            sacked: self.sacked.as_slice()?,
            sack_first: self.sack_first.as_slice()?,
            sack_edges: self.sack_edges.as_slice()?,
            dsacks: &self.dsacks,
            smss: self.smss,
            has_start: self.has_start,
            has_sack: self.has_sack,
            before: None,
            hides_blocks: self.hides_blocks,
        };
        trace
            .checked()
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// (left, right, ack): disjoint ranges in order of offset, and the ACK that first reported each as SACKed.
#[pyfunction]
fn scoreboard<'py>(py: Python<'py>, timeline: Columns<'py>) -> PyResult<Triple<'py>> {
    let board = infer::Scoreboard::new(&timeline.trace()?);
    let column = |value: fn(&(i64, i64, u32)) -> i64| {
        let values: Vec<i64> = board.rows().iter().map(value).collect();
        values.into_pyarray(py)
    };
    Ok((
        column(|row| row.0),
        column(|row| row.1),
        column(|row| i64::from(row.2)),
    ))
}

/// Where keys belong in values that rise, as numpy's `searchsorted` on the left (`or_equal`: on the right), in one walk
/// where the keys rise too (core/src/infer/ordered.rs).
#[pyfunction]
#[pyo3(name = "places", signature = (values, keys, *, or_equal = false))]
fn places_of<'py>(
    py: Python<'py>,
    values: PyReadonlyArray1<'py, i64>,
    keys: PyReadonlyArray1<'py, i64>,
    or_equal: bool,
) -> PyResult<Ints<'py>> {
    let (values, keys) = (values.as_slice()?, keys.as_slice()?);
    let found = py.detach(|| infer::ordered::places(values, keys, or_equal));
    Ok(found.into_pyarray(py))
}

/// The least of the values in each range from `first` to before `behind`.
#[pyfunction]
fn least_within<'py>(
    values: PyReadonlyArray1<'py, i64>,
    first: PyReadonlyArray1<'py, i64>,
    behind: PyReadonlyArray1<'py, i64>,
) -> PyResult<Ints<'py>> {
    let (first, behind) = (first.as_slice()?, behind.as_slice()?);
    let found = infer::ordered::least_within(values.as_slice()?, first, behind);
    let found = found.ok_or_else(|| PyValueError::new_err("a range without a value"))?;
    Ok(found.into_pyarray(values.py()))
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
fn observe(py: Python<'_>, timeline: Columns<'_>) -> PyResult<Observed> {
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
    let columns = sequence_arrays(py, &mut inner)?.unbind();
    Ok(Observed {
        inner,
        around,
        first_offset,
        columns,
        windows,
    })
}

/// What is as long as the trace, handed over: places and counts of rows in 32 bits.
fn sequence_arrays<'py>(
    py: Python<'py>,
    inner: &mut infer::Observed,
) -> PyResult<Bound<'py, PyDict>> {
    let seen = std::mem::take(&mut inner.sequence);
    let mut is_retransmission = vec![false; seen.snd_max.len()];
    for &send in &seen.again {
        is_retransmission[send as usize] = true;
    }
    let acks = 0..seen.snd_una.len();
    let is_dupack: Vec<bool> = acks.map(|ack| seen.is_dup(ack)).collect();
    let rtt = std::mem::take(&mut inner.rtt);
    (inner.rtt.base_ns, inner.rtt.median_ns) = (rtt.base_ns, rtt.median_ns);
    let (moved, seen) = seen.into_moved();
    table!(py,
        "snd_max" => seen.snd_max,
        "is_retransmission" => is_retransmission,
        "acks_before_send" => places(seen.acks_before_send),
        "snd_una" => seen.snd_una,
        "is_dupack" => is_dupack,
        "last_moved" => places(moved),
        "sends_before_next_ack" => places(seen.sends_before_next_ack),
        "flight" => std::mem::take(&mut inner.flight),
        "rtt_ack" => places(rtt.ack),
        "rtt_ns" => rtt.rtt_ns,
    )
}

/// As numpy counts backwards too; no place: -1.
fn places(values: Vec<u32>) -> Vec<i32> {
    values.into_iter().map(|value| value as i32).collect()
}

fn window_arrays(py: Python<'_>, windows: infer::Windows) -> PyResult<Bound<'_, PyDict>> {
    let limited_by = windows.limited_by.iter().map(|&limit| limit as i8);
    table!(py,
        "time_ns" => windows.time_ns,
        "cwnd" => windows.cwnd,
        "cwnd_low" => windows.cwnd_low,
        "cwnd_high" => windows.cwnd_high,
        "ssthresh" => windows.ssthresh,
        "limited_by" => limited_by.collect::<Vec<_>>(),
    )
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

    /// A row per ACK and per restart; -1: not known, or nothing bounds it. The same arrays each time.
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
