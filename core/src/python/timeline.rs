//! One direction of a connection as Python's timeline has it, for the core.

use numpy::PyReadonlyArray1;
use pyo3::Borrowed;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::infer;

/// One direction of a connection, seen from its sender (infer/sender/rows/trace.rs), as numpy arrays that stay Python's.
pub struct Timeline<'py> {
    send_ns: PyReadonlyArray1<'py, i64>,
    send_offset: PyReadonlyArray1<'py, i64>,
    send_end: PyReadonlyArray1<'py, i64>,
    fate: PyReadonlyArray1<'py, u8>,
    pub ack_ns: PyReadonlyArray1<'py, i64>,
    pub ack_offset: PyReadonlyArray1<'py, i64>,
    rwnd: PyReadonlyArray1<'py, i64>,
    is_bare: PyReadonlyArray1<'py, bool>,
    sack_high: PyReadonlyArray1<'py, i64>,
    sacked: PyReadonlyArray1<'py, i64>,
    sack_first: PyReadonlyArray1<'py, i64>,
    sack_edges: PyReadonlyArray1<'py, i64>,
    slack: PyReadonlyArray1<'py, i64>,
    smss: i64,
    has_start: bool,
    has_sack: bool,
    hides_blocks: bool,
    dsacks: Vec<(i64, i64)>,
    echoes_older: PyReadonlyArray1<'py, bool>,
    set_ns: Vec<i64>,
}

/// From an object that has them as attributes of these names, without a copy.
impl<'py> FromPyObject<'_, 'py> for Timeline<'py> {
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
            slack: column(&timeline, "slack")?,
            smss: timeline.getattr("smss")?.extract()?,
            has_start: timeline.getattr("has_start")?.extract()?,
            has_sack: timeline.getattr("has_sack")?.extract()?,
            hides_blocks: timeline.getattr("hides_blocks")?.extract()?,
            dsacks: timeline.getattr("dsacks")?.extract()?,
            echoes_older: column(&timeline, "echoes_older")?,
            set_ns: timeline.getattr("set_ns")?.extract()?,
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

impl Timeline<'_> {
    pub fn trace(&self) -> PyResult<infer::Trace<'_>> {
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
            slack: self.slack.as_slice()?,
            dsacks: &self.dsacks,
            echoes_older: self.echoes_older.as_slice()?,
            set_ns: &self.set_ns,
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
