//! What stands between the ACKs of a tape, from Python's columns.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::column;
use crate::infer::candidates::heard::{Room, TapeEvent};
use crate::infer::candidates::tape::Mark;

/// Columns of the marks, from one list.
macro_rules! marks {
    ($($name:ident: $type:ty,)*) => {
        struct MarkColumns {
            $($name: Vec<$type>,)*
        }

        impl MarkColumns {
            fn read(columns: &Bound<'_, PyDict>) -> PyResult<Self> {
                let found = Self {
                    $($name: column(columns, stringify!($name))?,)*
                };
                if [$(found.$name.len()),*].iter().any(|&length| length != found.ack.len()) {
                    return Err(PyValueError::new_err("marks are columns of equal length"));
                }
                Ok(found)
            }
        }
    };
}
marks! {
    ack: i64,
    event: i64,
    now_ns: i64,
    rtt_ns: i64,
    newly_acked: f64,
    flight_size: f64,
    cwnd: f64,
    ssthresh: f64,
    more: f64,
    more_flight: f64,
    less: f64,
}

impl MarkColumns {
    fn mark(&self, at: usize) -> PyResult<Mark> {
        let event = usize::try_from(self.event[at]).ok();
        let event = event.and_then(|place| TapeEvent::ALL.get(place)).copied();
        Ok(Mark {
            ack: self.ack[at],
            event: event.ok_or_else(|| PyValueError::new_err("an event without a name"))?,
            now_ns: self.now_ns[at],
            rtt_ns: self.rtt_ns[at],
            newly_acked: self.newly_acked[at],
            flight_size: self.flight_size[at],
            cwnd: Some(self.cwnd[at]).filter(|value| value.is_finite()),
            ssthresh: Some(self.ssthresh[at]).filter(|value| !value.is_nan()),
            room: Room {
                more: self.more[at].max(0.0),
                flight: self.more_flight[at].max(0.0),
                less: self.less[at].max(0.0),
                ..Room::default()
            },
        })
    }
}

/// What stands between the ACKs in any reading; bytes and nanoseconds, NaN and -1 for "not observed".
#[pyclass(frozen)]
pub(super) struct Marks {
    pub(super) all: Vec<Mark>,
}

#[pymethods]
impl Marks {
    #[new]
    fn new(columns: &Bound<'_, PyDict>) -> PyResult<Self> {
        let columns = MarkColumns::read(columns)?;
        let mut all = Vec::with_capacity(columns.ack.len());
        for at in 0..columns.ack.len() {
            all.push(columns.mark(at)?);
        }
        Ok(Self { all })
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("TAPE_EVENTS", TapeEvent::ALL.map(TapeEvent::name))?;
    module.add_class::<Marks>()
}
