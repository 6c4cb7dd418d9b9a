//! Tables of the core as numpy arrays, by their columns' names.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::connection::summary::{Cell, Kind};
use crate::connection::{AckColumns, SegmentColumns};

/// `table!(py, "name" => values, ...)`, or `table!(py, rows => { column, ... })` of a struct of vectors.
macro_rules! table {
    ($py:expr, $rows:ident => { $($name:ident),+ $(,)? }) => {
        table!($py, $(stringify!($name) => $rows.$name),+)
    };
    ($py:expr, $($name:expr => $values:expr),+ $(,)?) => {{
        let arrays = pyo3::types::PyDict::new($py);
        $(arrays.set_item($name, numpy::IntoPyArray::into_pyarray($values, $py))?;)+
        Ok(arrays)
    }};
}

pub(super) use table;

pub fn segment_arrays(py: Python<'_>, rows: SegmentColumns) -> PyResult<Bound<'_, PyDict>> {
    table!(py, rows => {
        time_ns, offset, length, flags, is_retransmission, cause, confidence, flight_size, pipe, ts_val, ts_ecr, ip_id,
        packet,
    })
}

pub fn ack_arrays(py: Python<'_>, rows: AckColumns) -> PyResult<Bound<'_, PyDict>> {
    table!(py, rows => {
        time_ns, ack_offset, rwnd, dup_count, sack_first, sack_edges, rtt_ns, sack_high, sacked, ts_rtt_ns, newly_acked,
        echoes_older, ts_val, ts_ecr, length, flags, packet,
    })
}

/// A column of the connections table as it grows.
pub enum Cells {
    Int(Vec<i64>),
    Float(Vec<f64>),
    Bool(Vec<bool>),
    Text(Vec<String>),
}

impl Cells {
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Int => Self::Int(Vec::new()),
            Kind::Float => Self::Float(Vec::new()),
            Kind::Bool => Self::Bool(Vec::new()),
            Kind::Text => Self::Text(Vec::new()),
        }
    }

    /// A value of another kind than the column's, and a missing one, is nothing: 0, NaN, false, "".
    pub fn push(&mut self, value: Cell) {
        match self {
            Self::Int(cells) => cells.push(match value {
                Cell::Int(value) => value,
                _ => 0,
            }),
            Self::Float(cells) => cells.push(match value {
                Cell::Float(value) => value,
                Cell::Int(value) => value as f64,
                _ => f64::NAN,
            }),
            Self::Bool(cells) => cells.push(value == Cell::Bool(true)),
            Self::Text(cells) => cells.push(match value {
                Cell::Text(text) => text,
                _ => String::new(),
            }),
        }
    }

    pub fn into_array(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Self::Int(cells) => cells.into_pyarray(py).into_any(),
            Self::Float(cells) => cells.into_pyarray(py).into_any(),
            Self::Bool(cells) => cells.into_pyarray(py).into_any(),
            Self::Text(cells) => PyList::new(py, cells)?.into_any(),
        })
    }
}

/// A column for Python.
pub type Column<'py> = Bound<'py, PyArray1<f64>>;

/// The array of this name, which stays Python's.
pub fn array<'py, T: numpy::Element>(
    columns: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<Py<PyArray1<T>>> {
    let wrong = |_| PyTypeError::new_err(format!("{name}: not an array of its type"));
    let array: Bound<'py, PyArray1<T>> = named(columns, name)?.extract().map_err(wrong)?;
    Ok(array.unbind())
}

/// The column of this name.
fn named<'py>(columns: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    columns
        .get_item(name)?
        .ok_or_else(|| PyValueError::new_err(format!("a table without {name}")))
}

/// A copy of the array of this name.
pub fn column<'py, T: numpy::Element + Copy>(
    columns: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<Vec<T>> {
    let array: PyReadonlyArray1<'py, T> = named(columns, name)?.extract()?;
    Ok(array.as_array().iter().copied().collect())
}
