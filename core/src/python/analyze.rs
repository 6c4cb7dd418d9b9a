//! `analyze --json` without Python's table: a capture followed and written by the core.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::capture::{LabError, follow_all, told, unreadable};
use crate::capture;
use crate::connection::filter::Filter;
use crate::connection::json;
use crate::connection::{Connection, Patience, Wanted, follow_by_row};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(analyze_json, module)?)?;
    module.add_function(wrap_pyfunction!(check_filter, module)?)
}

/// Python's `write` as a sink: bytes in pieces of about a megabyte.
struct Sink(Py<PyAny>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Python::attach(|py| self.0.call1(py, (PyBytes::new(py, bytes),)))
            .map_err(io::Error::from)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const PIECE: usize = 1 << 20;

/// Follows a capture and writes it as JSON (`analyze --json`): nothing else need be imported for it.
///
/// `patience_s`: a connection a line, written as soon as it has been closed, or idle, for so many seconds.
#[pyfunction]
#[pyo3(signature = (path, write, filter=None, patience_s=None, progress=None))]
fn analyze_json(
    py: Python<'_>,
    path: PathBuf,
    write: Py<PyAny>,
    filter: Option<&str>,
    patience_s: Option<(f64, f64)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let filter = filter
        .map(Filter::new)
        .transpose()
        .map_err(|error| LabError::new_err(error.to_string()))?;
    let out = &mut BufWriter::with_capacity(PIECE, Sink(write));
    let reader = capture::open(path);
    let Some((closed_s, idle_s)) = patience_s else {
        let followed = follow_all(py, reader, Wanted::None, progress)?;
        py.detach(|| {
            json::write_capture(out, &followed, filter.as_ref())?;
            out.flush()
        })?;
        return Ok(());
    };
    let patience = Patience {
        closed_ns: (closed_s * 1e9) as i64,
        idle_ns: (idle_s * 1e9) as i64,
    };
    let (rows, mut line) = (json::Rows::new()?, Vec::new());
    let followed = told(py, progress, unreadable, |tell| {
        let row = |file: &str, connection: &Connection| {
            if filter
                .as_ref()
                .is_none_or(|filter| filter.accepts(connection))
            {
                line.clear();
                rows.push(&mut line, Some(file), connection)?;
                line.push(b'\n');
                out.write_all(&line)?;
            }
            Ok::<(), io::Error>(())
        };
        follow_by_row(reader?, patience, row, tell)
    })?;
    let followed = followed?;
    py.detach(|| {
        json::write_summary(out, &followed)?;
        out.flush()
    })?;
    Ok(())
}

/// Raises LabError if the expression is none.
#[pyfunction]
fn check_filter(text: &str) -> PyResult<()> {
    Filter::new(text)
        .map(|_| ())
        .map_err(|error| LabError::new_err(error.to_string()))
}
