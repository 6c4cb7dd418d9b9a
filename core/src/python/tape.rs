//! Candidates replayed for Python: a tape of columns in, the window after each row out.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::congestion::{Counting, Profile, State};
use crate::infer::replay::{self, Event, Row};
use crate::simulate::{SenderSpec, control};

/// The events of one sender as equal columns; bytes and nanoseconds, NaN and -1 for "not observed".
#[pyclass(frozen)]
struct Tape {
    rows: Vec<Row>,
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
            });
        }
        Ok(Self { rows })
    }

    fn __len__(&self) -> usize {
        self.rows.len()
    }

    /// The window and the threshold after each row, as the sender described by the JSON of a `SenderSpec` has them.
    fn play<'py>(
        &self,
        py: Python<'py>,
        sender_json: &str,
        smss: f64,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let sender: SenderSpec = serde_json::from_str(sender_json)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let counting = Counting {
            profile: Profile::Rfc,
            segment_bytes: smss as u32,
        };
        let mut control = control(&sender, counting)
            .ok_or_else(|| PyValueError::new_err("a control that is not the core's"))?;
        let start = State {
            cwnd: f64::from(sender.initial_window) * smss,
            ssthresh: sender
                .initial_ssthresh
                .map_or(f64::INFINITY, |segments| segments * smss),
            smss,
        };
        let played = py.detach(|| replay::play(control.as_mut(), start, self.rows.iter().copied()));
        PyTuple::new(
            py,
            [
                played.cwnd.into_pyarray(py),
                played.ssthresh.into_pyarray(py),
            ],
        )
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
    module.add_class::<Tape>()
}
