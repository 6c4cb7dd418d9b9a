//! Captures and connections for Python.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use numpy::IntoPyArray;
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::{Cells, ack_arrays, segment_arrays};
use crate::capture::{self, Reader};
use crate::connection::filter::Filter;
use crate::connection::summary::{self, Kind};
use crate::connection::{Connection, ConnectionTable, Followed, Keep, Wanted, follow};
use crate::infer::Cause;

/// How often who reads looks up: a person who interrupts does not notice it, nor does who holds Python's lock meanwhile.
const EACH: Duration = Duration::from_millis(50);

pyo3::import_exception!(tcptrace_lab.errors, CaptureError);
pyo3::import_exception!(tcptrace_lab.errors, LabError);

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Capture>()?;
    module.add_function(wrap_pyfunction!(read_path, module)?)?;
    let documented: Vec<(String, &str, String)> = summary::documented().collect();
    module.add("COLUMNS", documented)?;
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
    table: ConnectionTable,
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
            table: followed.table,
            name: followed.name,
        }
    }

    fn connection(&self, id: usize) -> PyResult<Cow<'_, Connection>> {
        self.table
            .connection(id)
            .ok_or_else(|| PyIndexError::new_err(format!("no connection {id}")))
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
        self.table.len()
    }

    /// The connections table, or `count` of its rows from `first` on, as columns: arrays of int64, float64 (NaN: not
    /// known) or bool, lists of str.
    #[pyo3(signature = (first=0, count=None))]
    fn connection_columns<'py>(
        &self,
        py: Python<'py>,
        first: usize,
        count: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let names: Vec<(String, Kind)> = summary::columns().collect();
        let mut cells: Vec<Cells> = names.iter().map(|(_, kind)| Cells::new(*kind)).collect();
        let until = first.saturating_add(count.unwrap_or(self.table.len()));
        for id in first..until.min(self.table.len()) {
            for (column, value) in cells.iter_mut().zip(summary::row(&*self.connection(id)?)) {
                column.push(value);
            }
        }
        let columns = PyDict::new(py);
        for ((name, _), cells) in names.into_iter().zip(cells) {
            columns.set_item(name, cells.into_array(py)?)?;
        }
        Ok(columns)
    }

    /// One column of the whole table, as in `connection_columns`.
    fn connection_column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let (kind, cell) =
            summary::column(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        let mut cells = Cells::new(kind);
        for connection in self.table.connections() {
            cells.push(cell(&connection));
        }
        cells.into_array(py)
    }

    /// Ids of the connections that a filter accepts.
    fn accepted(&self, filter: &str) -> PyResult<Vec<usize>> {
        let filter = Filter::new(filter).map_err(|error| LabError::new_err(error.to_string()))?;
        Ok(self
            .table
            .connections()
            .filter(|connection| filter.accepts(connection))
            .map(|connection| connection.id)
            .collect())
    }

    /// Whether the columns of one direction of a connection can be taken and are those of the tables; None: there are none.
    fn has_detail(&self, id: usize, direction: usize) -> PyResult<Option<bool>> {
        let connection = self.connection(id)?;
        let detail = &connection.flows[connection.place_of(direction)].detail;
        Ok(detail.as_ref().map(|detail| detail.keep == Keep::Tables))
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
        let Some(connection) = self.table.detailed(id) else {
            return Ok(None);
        };
        let from = connection.place_of(direction);
        let Some((mut segments, acks)) = py.detach(|| connection.take_tables(from)) else {
            return Ok(None);
        };
        let bare_ns = std::mem::take(&mut segments.bare_ns);
        let is_table = segments.flags.len() == segments.time_ns.len();
        let segments = segment_arrays(py, segments)?;
        if !is_table {
            segments.set_item("bare_ns", bare_ns.into_pyarray(py))?;
        }
        Ok(Some((segments, ack_arrays(py, acks)?)))
    }

    /// The place of the client (direction 0) or the server (1) among a connection's ends: which of them spoke first.
    fn end_of(&self, id: usize, direction: usize) -> PyResult<usize> {
        Ok(self.connection(id)?.place_of(direction))
    }
}

/// Of which connections rows are kept: none, all (`True`), those of a list of ids, or, with fewer columns, one direction
/// of each of a list of pairs: an id and the place of the end that sent (`end_of`); "first": of the first connection the
/// main sender's.
pub fn wanted(detail: Option<&Bound<'_, PyAny>>) -> PyResult<Wanted> {
    match detail {
        None => Ok(Wanted::None),
        Some(detail) => match detail.extract::<bool>() {
            Ok(true) => Ok(Wanted::All),
            Ok(false) => Ok(Wanted::None),
            Err(_) => match detail.extract::<Vec<usize>>() {
                Ok(ids) => Ok(Wanted::Only(ids.into_iter().collect())),
                Err(_) if detail.extract::<&str>().is_ok_and(|word| word == "first") => {
                    Ok(Wanted::First)
                }
                Err(_) => {
                    let ends: Vec<(usize, usize)> = detail.extract()?;
                    Ok(Wanted::Ends(ends.into_iter().collect()))
                }
            },
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

fn run(
    py: Python<'_>,
    reader: Result<Reader, capture::CaptureError>,
    wanted: Wanted,
    progress: Option<Py<PyAny>>,
) -> PyResult<Capture> {
    Ok(Capture::new(follow_all(py, reader, wanted, progress)?))
}

pub fn follow_all(
    py: Python<'_>,
    reader: Result<Reader, capture::CaptureError>,
    wanted: Wanted,
    progress: Option<Py<PyAny>>,
) -> PyResult<Followed> {
    told(py, progress, unreadable, |tell| {
        follow(reader?, wanted, tell)
    })
}

/// Does work without Python's lock that tells how many bytes it has read, now and then; a signal, or an exception of
/// `progress`, ends it.
pub fn told<T: Send, E: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    failed: impl FnOnce(E) -> PyErr,
    work: impl FnOnce(&mut dyn FnMut(u64) -> bool) -> Result<T, E> + Send,
) -> PyResult<T> {
    let (mut raised, mut last) = (None, None::<Instant>);
    let done = py.detach(|| {
        work(&mut |position| {
            if last.is_some_and(|last| last.elapsed() < EACH) {
                return true;
            }
            last = Some(Instant::now());
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
    done.map_err(failed)
}

pub fn unreadable(error: capture::CaptureError) -> PyErr {
    CaptureError::new_err(error.to_string())
}
