//! Candidates replayed for Python: a tape of columns in, the window after each row and what it is judged by out.

use std::collections::BTreeMap;

use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::congestion::{
    self, Control, Counting, Parameters, Profile, SlowStartRow, State, WindowRow,
};
use crate::infer::evidence;
use crate::infer::replay::{self, Event, Room, Unseen};
use crate::infer::tape::{self, Mark};

type Column<'py> = Bound<'py, PyArray1<f64>>;

/// What every reading of one sender has in common: numpy arrays that stay Python's, an entry per ACK.
#[pyclass(frozen)]
struct Heard {
    now_ns: Py<PyArray1<i64>>,
    una: Py<PyArray1<i64>>,
    nxt: Py<PyArray1<i64>>,
    flight_size: Py<PyArray1<i64>>,
    newly_acked: Py<PyArray1<i64>>,
    newly_sacked: Py<PyArray1<i64>>,
    rtt_ns: Py<PyArray1<i64>>,
    event: Py<PyArray1<u8>>,
    is_cwnd_limited: Py<PyArray1<bool>>,
    most_after: Py<PyArray1<f64>>,
    flight: Py<PyArray1<i64>>,
    is_shown: Py<PyArray1<bool>>,
    first: usize,
    zero_ns: i64,
}

/// Calls with the columns borrowed as one `tape::Heard`.
macro_rules! with_columns {
    ($heard:expr, $py:expr, $use:expr) => {{
        let heard = $heard;
        let now_ns = heard.now_ns.bind($py).try_readonly()?;
        let una = heard.una.bind($py).try_readonly()?;
        let nxt = heard.nxt.bind($py).try_readonly()?;
        let flight_size = heard.flight_size.bind($py).try_readonly()?;
        let newly_acked = heard.newly_acked.bind($py).try_readonly()?;
        let newly_sacked = heard.newly_sacked.bind($py).try_readonly()?;
        let rtt_ns = heard.rtt_ns.bind($py).try_readonly()?;
        let event = heard.event.bind($py).try_readonly()?;
        let is_cwnd_limited = heard.is_cwnd_limited.bind($py).try_readonly()?;
        let most_after = heard.most_after.bind($py).try_readonly()?;
        let flight = heard.flight.bind($py).try_readonly()?;
        let is_shown = heard.is_shown.bind($py).try_readonly()?;
        let columns = tape::Heard {
            now_ns: now_ns.as_slice()?,
            una: una.as_slice()?,
            nxt: nxt.as_slice()?,
            flight_size: flight_size.as_slice()?,
            newly_acked: newly_acked.as_slice()?,
            newly_sacked: newly_sacked.as_slice()?,
            rtt_ns: rtt_ns.as_slice()?,
            event: event.as_slice()?,
            is_cwnd_limited: is_cwnd_limited.as_slice()?,
            most_after: most_after.as_slice()?,
            flight: flight.as_slice()?,
            is_shown: is_shown.as_slice()?,
            first: heard.first,
            zero_ns: heard.zero_ns,
        };
        $use(columns)
    }};
}

#[pymethods]
impl Heard {
    #[new]
    #[pyo3(signature = (columns, *, first, zero_ns))]
    fn new(columns: &Bound<'_, PyDict>, first: usize, zero_ns: i64) -> PyResult<Self> {
        let found = Self {
            now_ns: array(columns, "now_ns")?,
            una: array(columns, "una")?,
            nxt: array(columns, "nxt")?,
            flight_size: array(columns, "flight_size")?,
            newly_acked: array(columns, "newly_acked")?,
            newly_sacked: array(columns, "newly_sacked")?,
            rtt_ns: array(columns, "rtt_ns")?,
            event: array(columns, "event")?,
            is_cwnd_limited: array(columns, "is_cwnd_limited")?,
            most_after: array(columns, "most_after")?,
            flight: array(columns, "flight")?,
            is_shown: array(columns, "is_shown")?,
            first,
            zero_ns,
        };
        let py = columns.py();
        with_columns!(&found, py, |heard: tape::Heard<'_>| heard
            .checked()
            .map_err(|error| PyValueError::new_err(error.to_string())))?;
        Ok(found)
    }
}

/// The events of one sender: the columns, and what stands between the ACKs; bytes and nanoseconds, NaN and -1 for "not
/// observed".
#[pyclass(frozen)]
struct Tape {
    heard: Py<Heard>,
    marks: Vec<Mark>,
}

/// The ACKs at which candidates are compared (core/src/infer/evidence.rs).
#[pyclass(frozen)]
struct Pieces {
    inner: evidence::Pieces,
    smss: f64,
}

#[pymethods]
impl Pieces {
    /// `ends`: where in `acks` each ends; `flight` (bytes) and `has_sent` are columns of all ACKs.
    #[new]
    #[pyo3(signature = (*, acks, ends, is_slow_start, flight, has_sent, smss))]
    fn new(
        acks: PyReadonlyArray1<'_, i64>,
        ends: PyReadonlyArray1<'_, i64>,
        is_slow_start: PyReadonlyArray1<'_, bool>,
        flight: PyReadonlyArray1<'_, i64>,
        has_sent: PyReadonlyArray1<'_, bool>,
        smss: f64,
    ) -> PyResult<Self> {
        let (flight, has_sent) = (flight.as_slice()?, has_sent.as_slice()?);
        let inner = evidence::Pieces::new(
            acks.as_slice()?,
            ends.as_slice()?,
            is_slow_start.as_slice()?,
            |ack| {
                let (&flight, &has_sent) = flight.get(ack).zip(has_sent.get(ack))?;
                Some((flight as f64 / smss, has_sent))
            },
        )
        .ok_or_else(|| PyValueError::new_err("pieces that are no runs of ACKs"))?;
        Ok(Self { inner, smss })
    }

    /// What the error of each is held against, in segments.
    #[getter]
    fn scale<'py>(&self, py: Python<'py>) -> Column<'py> {
        self.inner.scales().into_pyarray(py)
    }

    /// Segments outstanding at the end of each.
    #[getter]
    fn observed<'py>(&self, py: Python<'py>) -> Column<'py> {
        self.inner.observed().into_pyarray(py)
    }
}

#[pymethods]
impl Tape {
    #[new]
    fn new(heard: &Bound<'_, Heard>, marks: &Bound<'_, PyDict>) -> PyResult<Self> {
        let ack = column::<i64>(marks, "ack")?;
        let event = column::<u8>(marks, "event")?;
        let now_ns = column::<i64>(marks, "now_ns")?;
        let rtt_ns = column::<i64>(marks, "rtt_ns")?;
        let newly_acked = column::<f64>(marks, "newly_acked")?;
        let flight_size = column::<f64>(marks, "flight_size")?;
        let cwnd = column::<f64>(marks, "cwnd")?;
        let ssthresh = column::<f64>(marks, "ssthresh")?;
        let more = column::<f64>(marks, "more")?;
        let more_flight = column::<f64>(marks, "more_flight")?;
        let less = column::<f64>(marks, "less")?;
        let lengths = [
            event.len(),
            now_ns.len(),
            rtt_ns.len(),
            newly_acked.len(),
            flight_size.len(),
            cwnd.len(),
            ssthresh.len(),
            more.len(),
            more_flight.len(),
            less.len(),
        ];
        if lengths.iter().any(|length| *length != ack.len()) {
            return Err(PyValueError::new_err(
                "a tape's marks are columns of equal length",
            ));
        }
        let acks = heard.get().now_ns.bind(heard.py()).len()? as i64;
        let is_sorted = ack.windows(2).all(|pair| pair[0] <= pair[1]);
        if !is_sorted || ack.iter().any(|&ack| !(-1..acks).contains(&ack)) {
            return Err(PyValueError::new_err(
                "a tape's marks stand behind ACKs, in their order",
            ));
        }
        let each = (0..ack.len()).map(|i| {
            let kind = Event::ALL.get(usize::from(event[i]));
            Ok(Mark {
                ack: ack[i],
                event: *kind.ok_or_else(|| PyValueError::new_err("an event without a name"))?,
                now_ns: now_ns[i],
                rtt_ns: rtt_ns[i],
                newly_acked: newly_acked[i],
                flight_size: flight_size[i],
                cwnd: Some(cwnd[i]).filter(|value| value.is_finite()),
                ssthresh: Some(ssthresh[i]).filter(|value| !value.is_nan()),
                room: Room {
                    more: more[i].max(0.0),
                    flight: more_flight[i].max(0.0),
                    less: less[i].max(0.0),
                    ..Room::default()
                },
            })
        });
        Ok(Self {
            heard: heard.clone().unbind(),
            marks: each.collect::<PyResult<_>>()?,
        })
    }

    /// The window and the threshold after each row, as this control has them; `at_most`: the largest that it could have
    /// had where something else held it back; every time is `later_ns` later.
    #[pyo3(signature = (sender, *, at_most = false, later_ns = 0))]
    fn play<'py>(
        &self,
        py: Python<'py>,
        sender: &Sender,
        at_most: bool,
        later_ns: i64,
    ) -> PyResult<(Column<'py>, Column<'py>)> {
        let unseen = if at_most {
            Unseen::AtMost
        } else {
            Unseen::AsSeen
        };
        let played = with_columns!(self.heard.get(), py, |heard| {
            py.detach(|| self.played(heard, sender, later_ns, unseen))
        });
        Ok((
            played.cwnd.into_pyarray(py),
            played.ssthresh.into_pyarray(py),
        ))
    }

    /// What a candidate is judged by: per piece its error and its window at the end (segments), and its window and its
    /// threshold (bytes) after some rows.
    #[pyo3(signature = (sender, pieces, rows, *, later_ns = 0))]
    fn judge<'py>(
        &self,
        py: Python<'py>,
        sender: &Sender,
        pieces: &Pieces,
        rows: PyReadonlyArray1<'py, i64>,
        later_ns: i64,
    ) -> PyResult<(Column<'py>, Column<'py>, Column<'py>, Column<'py>)> {
        let rows = rows.as_slice()?;
        let (judged, played) = with_columns!(self.heard.get(), py, |heard: tape::Heard<'_>| {
            py.detach(|| {
                let played = self.played(heard, sender, later_ns, Unseen::AsSeen);
                let tape = tape::Tape {
                    heard,
                    marks: &self.marks,
                };
                let mut place = tape.places();
                let judged = pieces
                    .inner
                    .errors(|ack| place(ack).map_or(0.0, |row| played.cwnd[row] / pieces.smss));
                (judged, played)
            })
        });
        let at = |column: &[f64]| -> PyResult<Vec<f64>> {
            let each = rows.iter().map(|&row| {
                let found = usize::try_from(row).ok().and_then(|row| column.get(row));
                found
                    .copied()
                    .ok_or_else(|| PyValueError::new_err(format!("a tape without row {row}")))
            });
            each.collect()
        };
        let (cwnd, ssthresh) = (at(&played.cwnd)?, at(&played.ssthresh)?);
        let (errors, expected): (Vec<f64>, Vec<f64>) = judged.into_iter().unzip();
        Ok((
            errors.into_pyarray(py),
            expected.into_pyarray(py),
            cwnd.into_pyarray(py),
            ssthresh.into_pyarray(py),
        ))
    }

    /// What the control holds in mind after each row, by name.
    #[pyo3(signature = (sender, *, later_ns = 0))]
    fn memory<'py>(
        &self,
        py: Python<'py>,
        sender: &Sender,
        later_ns: i64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut control = sender.control();
        let names: Vec<&str> = control.values().iter().map(|(name, _)| *name).collect();
        let mut columns = vec![Vec::new(); names.len()];
        with_columns!(self.heard.get(), py, |heard| {
            let tape = tape::Tape {
                heard,
                marks: &self.marks,
            };
            replay::play_watched(
                control.as_mut(),
                sender.start,
                tape.rows(later_ns),
                Unseen::AsSeen,
                |control| {
                    for (column, (_, value)) in columns.iter_mut().zip(control.values()) {
                        column.push(value);
                    }
                },
            )
        });
        let found = PyDict::new(py);
        for (name, column) in names.into_iter().zip(columns) {
            found.set_item(name, column.into_pyarray(py))?;
        }
        Ok(found)
    }
}

impl Tape {
    fn played(
        &self,
        heard: tape::Heard<'_>,
        sender: &Sender,
        later_ns: i64,
        unseen: Unseen,
    ) -> replay::Played {
        let tape = tape::Tape {
            heard,
            marks: &self.marks,
        };
        let (mut control, start) = (sender.control(), sender.start);
        replay::play(control.as_mut(), start, tape.rows(later_ns), unseen)
    }
}

/// A candidate before its first ACK: a row of the table of controls, with parameters and an initial window in segments.
#[pyclass(frozen)]
struct Sender {
    slow_start: &'static SlowStartRow,
    window: &'static WindowRow,
    parameters: Parameters,
    start: State,
}

impl Sender {
    fn control(&self) -> Box<dyn Control> {
        let counting = Counting {
            profile: Profile::Rfc,
            segment_bytes: self.start.smss as u32,
        };
        self.window
            .under(self.slow_start, &self.parameters, counting)
    }
}

#[pymethods]
impl Sender {
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

fn array<'py, T: numpy::Element>(
    columns: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<Py<PyArray1<T>>> {
    let found = columns
        .get_item(name)?
        .ok_or_else(|| PyValueError::new_err(format!("a tape without {name}")))?;
    let wrong = |_| PyTypeError::new_err(format!("{name}: not an array of its type"));
    let array: Bound<'py, PyArray1<T>> = found.extract().map_err(wrong)?;
    Ok(array.unbind())
}

fn column<'py, T: numpy::Element + Copy>(
    columns: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<Vec<T>> {
    let found = columns
        .get_item(name)?
        .ok_or_else(|| PyValueError::new_err(format!("a tape without {name}")))?;
    let array: PyReadonlyArray1<'py, T> = found.extract()?;
    Ok(array.as_array().iter().copied().collect())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Sender>()?;
    module.add_class::<Tape>()?;
    module.add_class::<Heard>()?;
    module.add_class::<Pieces>()?;
    module.add("FRACTIONS", evidence::FRACTIONS.to_vec())
}
