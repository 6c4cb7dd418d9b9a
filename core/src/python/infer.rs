//! A sender's trace for Python: columns in, columns out.

use std::sync::Arc;

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::infer;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Trace>()
}

/// One direction of a connection, seen from its sender (core/src/infer/trace.rs).
#[pyclass(frozen, module = "tcptrace_lab._core")]
pub struct Trace {
    pub inner: Arc<infer::Trace>,
}

#[pymethods]
impl Trace {
    /// From int64 arrays by name (`is_bare`: bool; `sack_first` and `sack_edges` may be missing).
    #[new]
    #[pyo3(signature = (columns, *, smss, has_start, has_sack, dsacks))]
    fn new(
        columns: &Bound<'_, PyDict>,
        smss: i64,
        has_start: bool,
        has_sack: bool,
        dsacks: Vec<(i64, i64)>,
    ) -> PyResult<Self> {
        let trace = infer::Trace {
            send_ns: ints(columns, "send_ns")?,
            send_offset: ints(columns, "send_offset")?,
            send_end: ints(columns, "send_end")?,
            ack_ns: ints(columns, "ack_ns")?,
            ack_offset: ints(columns, "ack_offset")?,
            rwnd: ints(columns, "rwnd")?,
            is_bare: values(columns, "is_bare")?.ok_or_else(|| PyKeyError::new_err("is_bare"))?,
            sack_high: ints(columns, "sack_high")?,
            sacked: ints(columns, "sacked")?,
            sack_first: values(columns, "sack_first")?.unwrap_or_default(),
            sack_edges: values(columns, "sack_edges")?.unwrap_or_default(),
            dsacks,
            smss,
            has_start,
            has_sack,
        };
        let checked = trace
            .checked()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self {
            inner: Arc::new(checked),
        })
    }

    #[getter]
    fn smss(&self) -> i64 {
        self.inner.smss
    }

    #[getter]
    fn has_start(&self) -> bool {
        self.inner.has_start
    }

    #[getter]
    fn has_sack(&self) -> bool {
        self.inner.has_sack
    }

    #[getter]
    fn dsacks(&self) -> Vec<(i64, i64)> {
        self.inner.dsacks.clone()
    }

    /// A copy of one of the columns that the trace was made of.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let trace = &*self.inner;
        let ints = match name {
            "send_ns" => &trace.send_ns,
            "send_offset" => &trace.send_offset,
            "send_end" => &trace.send_end,
            "ack_ns" => &trace.ack_ns,
            "ack_offset" => &trace.ack_offset,
            "rwnd" => &trace.rwnd,
            "sack_high" => &trace.sack_high,
            "sacked" => &trace.sacked,
            "sack_first" => &trace.sack_first,
            "sack_edges" => &trace.sack_edges,
            "is_bare" => return Ok(PyArray1::from_slice(py, &trace.is_bare).into_any()),
            _ => return Err(PyKeyError::new_err(name.to_owned())),
        };
        Ok(PyArray1::from_slice(py, ints).into_any())
    }
}

fn values<T: numpy::Element>(columns: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<Vec<T>>> {
    let Some(column) = columns.get_item(name)? else {
        return Ok(None);
    };
    let array: PyReadonlyArray1<'_, T> = column.extract()?;
    Ok(Some(array.to_vec()?))
}

fn ints(columns: &Bound<'_, PyDict>, name: &str) -> PyResult<Vec<i64>> {
    values(columns, name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
}
