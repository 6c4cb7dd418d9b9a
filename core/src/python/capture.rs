//! Captures and connections for Python.

use std::path::PathBuf;

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::capture::{self, Reader};
use crate::connection::filter::Filter;
use crate::connection::json;
use crate::connection::summary::{self, Kind, Value};
use crate::connection::{AckColumns, Cause, Connection, Followed, SegmentColumns, Wanted, follow};

pyo3::import_exception!(tcptrace_lab.errors, CaptureError);
pyo3::import_exception!(tcptrace_lab.errors, LabError);

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Capture>()?;
    module.add_function(wrap_pyfunction!(read_path, module)?)?;
    module.add_function(wrap_pyfunction!(analyze_json, module)?)?;
    module.add_function(wrap_pyfunction!(check_filter, module)?)?;
    let causes: Vec<&str> = Cause::ALL.iter().map(|(_, name)| *name).collect();
    module.add("CAUSES", causes)
}

/// A followed capture; per-segment columns exist for the connections that were asked for.
#[pyclass(module = "tcptrace_lab._core")]
pub struct Capture {
    name: String,
    packets: u64,
    segments: u64,
    undecoded: Vec<(&'static str, u64)>,
    unknown_link: Option<String>,
    truncated: Option<(u64, String)>,
    connections: Vec<Connection>,
}

impl Capture {
    pub fn new(followed: Followed) -> Self {
        Self {
            packets: followed.counts.packets,
            segments: followed.counts.segments,
            undecoded: followed
                .counts
                .causes()
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .collect(),
            unknown_link: followed.counts.unknown_link(),
            truncated: followed.truncated.map(|cut| (cut.offset, cut.reason)),
            connections: followed.table.into_connections(),
            name: followed.name,
        }
    }

    fn connection(&self, id: usize) -> PyResult<&Connection> {
        self.connections
            .get(id)
            .ok_or_else(|| pyo3::exceptions::PyIndexError::new_err(format!("no connection {id}")))
    }
}

#[pymethods]
impl Capture {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn packets(&self) -> u64 {
        self.packets
    }

    #[getter]
    fn segments(&self) -> u64 {
        self.segments
    }

    #[getter]
    fn undecoded<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = PyDict::new(py);
        for (cause, count) in &self.undecoded {
            counts.set_item(cause, count)?;
        }
        Ok(counts)
    }

    #[getter]
    fn unknown_link_type(&self) -> Option<String> {
        self.unknown_link.clone()
    }

    #[getter]
    fn truncated(&self) -> Option<(u64, String)> {
        self.truncated.clone()
    }

    fn __len__(&self) -> usize {
        self.connections.len()
    }

    /// The connections table as columns: arrays of int64, float64 (NaN: not known) or bool, lists of str.
    fn connection_columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let names: Vec<(String, Kind)> = summary::columns().collect();
        let mut cells: Vec<Vec<Value>> = vec![Vec::new(); names.len()];
        for connection in &self.connections {
            for (column, value) in cells.iter_mut().zip(summary::row(connection)) {
                column.push(value);
            }
        }
        let columns = PyDict::new(py);
        for ((name, kind), values) in names.into_iter().zip(cells) {
            columns.set_item(name, column(py, kind, values)?)?;
        }
        Ok(columns)
    }

    /// Ids of the connections that a filter accepts.
    fn accepted(&self, filter: &str) -> PyResult<Vec<usize>> {
        let filter = Filter::new(filter).map_err(|error| LabError::new_err(error.to_string()))?;
        Ok(self
            .connections
            .iter()
            .filter(|connection| filter.accepts(connection))
            .map(|connection| connection.id)
            .collect())
    }

    /// Whether `segment_columns` and `ack_columns` of a connection exist.
    fn has_detail(&self, id: usize) -> PyResult<bool> {
        Ok(self.connection(id)?.flows[0].columns().is_some())
    }

    /// Data segments of a flow: 0 client to server, 1 server to client. The arrays are moved out of the core, not
    /// copied: each can be taken once.
    fn take_columns<'py>(
        &mut self,
        py: Python<'py>,
        id: usize,
        direction: usize,
    ) -> PyResult<Option<(Bound<'py, PyDict>, Bound<'py, PyDict>)>> {
        self.connection(id)?;
        let connection = &mut self.connections[id];
        let client = connection.client();
        let from = if direction == 0 { client } else { 1 - client };
        let Some(detail) = connection.flows[from].detail.take() else {
            return Ok(None);
        };
        let (segments, acks) = detail.into_columns();
        Ok(Some((segment_arrays(py, segments)?, ack_arrays(py, acks)?)))
    }
}

fn column(py: Python<'_>, kind: Kind, values: Vec<Value>) -> PyResult<Bound<'_, PyAny>> {
    let values = values.into_iter();
    Ok(match kind {
        Kind::Int => values
            .map(|value| {
                if let Value::Int(value) = value {
                    value
                } else {
                    0
                }
            })
            .collect::<Vec<_>>()
            .into_pyarray(py)
            .into_any(),
        Kind::Float => values
            .map(|value| match value {
                Value::Float(value) => value,
                Value::Int(value) => value as f64,
                _ => f64::NAN,
            })
            .collect::<Vec<_>>()
            .into_pyarray(py)
            .into_any(),
        Kind::Bool => values
            .map(|value| value == Value::Bool(true))
            .collect::<Vec<_>>()
            .into_pyarray(py)
            .into_any(),
        Kind::Text => {
            let texts = values.map(|value| {
                if let Value::Text(text) = value {
                    text
                } else {
                    String::new()
                }
            });
            PyList::new(py, texts.collect::<Vec<_>>())?.into_any()
        }
    })
}

fn array<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> Bound<'_, PyArray1<T>> {
    values.into_pyarray(py)
}

fn segment_arrays(py: Python<'_>, columns: SegmentColumns) -> PyResult<Bound<'_, PyDict>> {
    let arrays = PyDict::new(py);
    arrays.set_item("time_ns", array(py, columns.time_ns))?;
    arrays.set_item("offset", array(py, columns.offset))?;
    arrays.set_item("length", array(py, columns.length))?;
    arrays.set_item("flags", array(py, columns.flags))?;
    arrays.set_item("is_retransmission", array(py, columns.is_retransmission))?;
    arrays.set_item("cause", array(py, columns.cause))?;
    arrays.set_item("confidence", array(py, columns.confidence))?;
    arrays.set_item("flight_size", array(py, columns.flight_size))?;
    arrays.set_item("pipe", array(py, columns.pipe))?;
    arrays.set_item("ts_val", array(py, columns.ts_val))?;
    arrays.set_item("ts_ecr", array(py, columns.ts_ecr))?;
    arrays.set_item("ip_id", array(py, columns.ip_id))?;
    arrays.set_item("packet", array(py, columns.packet))?;
    Ok(arrays)
}

fn ack_arrays(py: Python<'_>, columns: AckColumns) -> PyResult<Bound<'_, PyDict>> {
    let arrays = PyDict::new(py);
    arrays.set_item("time_ns", array(py, columns.time_ns))?;
    arrays.set_item("ack_offset", array(py, columns.ack_offset))?;
    arrays.set_item("rwnd", array(py, columns.rwnd))?;
    arrays.set_item("dup_count", array(py, columns.dup_count))?;
    arrays.set_item("sack_first", array(py, columns.sack_first))?;
    arrays.set_item("sack_edges", array(py, columns.sack_edges))?;
    arrays.set_item("rtt_ns", array(py, columns.rtt_ns))?;
    arrays.set_item("ts_rtt_ns", array(py, columns.ts_rtt_ns))?;
    arrays.set_item("newly_acked", array(py, columns.newly_acked))?;
    arrays.set_item("ts_val", array(py, columns.ts_val))?;
    arrays.set_item("ts_ecr", array(py, columns.ts_ecr))?;
    arrays.set_item("length", array(py, columns.length))?;
    arrays.set_item("flags", array(py, columns.flags))?;
    arrays.set_item("packet", array(py, columns.packet))?;
    Ok(arrays)
}

/// Which connections keep detail: none, all (`True`), or a list of ids.
pub fn wanted(detail: Option<&Bound<'_, PyAny>>) -> PyResult<Wanted> {
    match detail {
        None => Ok(Wanted::None),
        Some(detail) => match detail.extract::<bool>() {
            Ok(true) => Ok(Wanted::All),
            Ok(false) => Ok(Wanted::None),
            Err(_) => Ok(Wanted::Only(
                detail.extract::<Vec<usize>>()?.into_iter().collect(),
            )),
        },
    }
}

/// Reads a capture file; `progress(bytes)` is called now and then, `name` stands for the file in errors.
#[pyfunction]
#[pyo3(signature = (path, detail=None, progress=None, name=None))]
fn read_path(
    py: Python<'_>,
    path: PathBuf,
    detail: Option<&Bound<'_, PyAny>>,
    progress: Option<Py<PyAny>>,
    name: Option<&str>,
) -> PyResult<Capture> {
    let wanted = wanted(detail)?;
    let reader = match name {
        Some(name) => capture::open_as(path, name),
        None => capture::open(path),
    };
    run(py, reader, wanted, progress)
}

/// Follows a capture and appends it to a JSON document (`analyze --json`): nothing else need be imported for it.
#[pyfunction]
#[pyo3(signature = (path, filter=None, progress=None))]
fn analyze_json(
    py: Python<'_>,
    path: PathBuf,
    filter: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let filter = filter
        .map(Filter::new)
        .transpose()
        .map_err(|error| LabError::new_err(error.to_string()))?;
    let followed = follow_all(py, capture::open(path), Wanted::None, progress)?;
    let mut out = String::new();
    json::write_capture(&mut out, &followed, filter.as_ref());
    Ok(out)
}

/// Raises LabError if the expression is none.
#[pyfunction]
fn check_filter(text: &str) -> PyResult<()> {
    Filter::new(text)
        .map(|_| ())
        .map_err(|error| LabError::new_err(error.to_string()))
}

fn run(
    py: Python<'_>,
    reader: Result<Reader, capture::CaptureError>,
    wanted: Wanted,
    progress: Option<Py<PyAny>>,
) -> PyResult<Capture> {
    Ok(Capture::new(follow_all(py, reader, wanted, progress)?))
}

fn follow_all(
    py: Python<'_>,
    reader: Result<Reader, capture::CaptureError>,
    wanted: Wanted,
    progress: Option<Py<PyAny>>,
) -> PyResult<Followed> {
    let mut raised = None;
    let followed = py.detach(|| {
        follow(reader?, wanted, |position| {
            let told = Python::attach(|py| {
                py.check_signals()?;
                if let Some(progress) = &progress {
                    progress.call1(py, (position,))?;
                }
                Ok(())
            });
            raised = told.err();
            raised.is_none()
        })
    });
    if let Some(error) = raised {
        return Err(error);
    }
    followed.map_err(|error| CaptureError::new_err(error.to_string()))
}
