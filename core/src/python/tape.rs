//! Candidates replayed for Python: a tape of columns in, the window after each row out.

use std::collections::BTreeMap;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::congestion::{
    self, Control, Counting, Parameters, Profile, SlowStartRow, State, WindowRow,
};
use crate::infer::replay::{self, Event, Room, Row, Unseen};

type Column<'py> = Bound<'py, PyArray1<f64>>;

/// The events of one sender as equal columns; bytes and nanoseconds, NaN and -1 for "not observed".
#[pyclass(frozen)]
struct Tape {
    rows: Vec<Row>,
}

impl Tape {
    fn rows_later(&self, later_ns: i64) -> impl Iterator<Item = Row> + '_ {
        self.rows.iter().map(move |row| Row {
            now_ns: row.now_ns + later_ns,
            ..*row
        })
    }
}

#[pymethods]
impl Tape {
    #[new]
    fn new(columns: &Bound<'_, PyDict>) -> PyResult<Self> {
        let event = column::<u8>(columns, "event")?;
        let now_ns = column::<i64>(columns, "now_ns")?;
        let rtt_ns = column::<i64>(columns, "rtt_ns")?;
        let snd_una = column::<i64>(columns, "snd_una")?;
        let snd_nxt = column::<i64>(columns, "snd_nxt")?;
        let newly_acked = column::<f64>(columns, "newly_acked")?;
        let newly_sacked = column::<f64>(columns, "newly_sacked")?;
        let flight_size = column::<f64>(columns, "flight_size")?;
        let cwnd = column::<f64>(columns, "cwnd")?;
        let ssthresh = column::<f64>(columns, "ssthresh")?;
        let more = column::<f64>(columns, "more")?;
        let more_flight = column::<f64>(columns, "more_flight")?;
        let less = column::<f64>(columns, "less")?;
        let most_after = column::<f64>(columns, "most_after")?;
        let is_limited = column::<bool>(columns, "is_cwnd_limited")?;
        let lengths = [
            now_ns.len(),
            rtt_ns.len(),
            snd_una.len(),
            snd_nxt.len(),
            newly_acked.len(),
            newly_sacked.len(),
            flight_size.len(),
            cwnd.len(),
            ssthresh.len(),
            more.len(),
            more_flight.len(),
            less.len(),
            most_after.len(),
            is_limited.len(),
        ];
        if lengths.iter().any(|length| *length != event.len()) {
            return Err(PyValueError::new_err(
                "a tape's columns are of equal length",
            ));
        }
        let mut rows = Vec::with_capacity(event.len());
        let (mut now, mut una, mut nxt) = (0, 0, 0);
        for i in 0..event.len() {
            let kind = Event::ALL.get(usize::from(event[i]));
            // A control counts on a clock and on numbers that never go back.
            now = now_ns[i].max(now);
            una = snd_una[i].max(una);
            nxt = snd_nxt[i].max(una).max(nxt);
            rows.push(Row {
                event: *kind.ok_or_else(|| PyValueError::new_err("an event without a name"))?,
                now_ns: now,
                newly_acked: newly_acked[i],
                newly_sacked: newly_sacked[i],
                rtt_ns: (rtt_ns[i] > 0).then(|| rtt_ns[i].min(now)),
                flight_size: flight_size[i],
                snd_una: una as u64,
                snd_nxt: nxt as u64,
                is_cwnd_limited: is_limited[i],
                cwnd: Some(cwnd[i]).filter(|value| value.is_finite()),
                ssthresh: Some(ssthresh[i]).filter(|value| !value.is_nan()),
                room: Room {
                    more: more[i].max(0.0),
                    flight: more_flight[i].max(0.0),
                    less: less[i].max(0.0),
                    most_after: most_after[i],
                },
            });
        }
        Ok(Self { rows })
    }

    fn __len__(&self) -> usize {
        self.rows.len()
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
    ) -> (Column<'py>, Column<'py>) {
        let (mut control, start) = (sender.control(), sender.start);
        let rows = self.rows_later(later_ns);
        let unseen = if at_most {
            Unseen::AtMost
        } else {
            Unseen::AsSeen
        };
        let played = py.detach(|| replay::play(control.as_mut(), start, rows, unseen));
        (
            played.cwnd.into_pyarray(py),
            played.ssthresh.into_pyarray(py),
        )
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
        let mut columns = vec![Vec::with_capacity(self.rows.len()); names.len()];
        replay::play_watched(
            control.as_mut(),
            sender.start,
            self.rows_later(later_ns),
            Unseen::AsSeen,
            |control| {
                for (column, (_, value)) in columns.iter_mut().zip(control.values()) {
                    column.push(value);
                }
            },
        );
        let found = PyDict::new(py);
        for (name, column) in names.into_iter().zip(columns) {
            found.set_item(name, column.into_pyarray(py))?;
        }
        Ok(found)
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
    module.add_class::<Tape>()
}
