//! A column's median and percentiles (core/src/infer/quantile.rs), and the line above points.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::columns::{Array, Column};
use crate::infer::quantile;
use crate::infer::tap::upper_line;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(percentile, module)?)?;
    module.add_function(wrap_pyfunction!(median, module)?)?;
    module.add_function(wrap_pyfunction!(rolling_median, module)?)?;
    module.add_function(wrap_pyfunction!(line_above, module)?)
}

#[derive(FromPyObject)]
enum Numbers<'py> {
    #[pyo3(transparent)]
    Whole(PyReadonlyArray1<'py, i64>),
    #[pyo3(transparent)]
    Short(PyReadonlyArray1<'py, i32>),
    #[pyo3(transparent)]
    Real(PyReadonlyArray1<'py, f64>),
}

/// As numpy's: the value below which so many percent of a column lie.
#[pyfunction]
fn percentile(values: Numbers<'_>, percent: f64) -> PyResult<f64> {
    let found = match values {
        Numbers::Whole(values) => quantile::percentile(&mut values.as_array().to_vec(), percent),
        Numbers::Short(values) => quantile::percentile(&mut values.as_array().to_vec(), percent),
        Numbers::Real(values) => quantile::percentile(&mut values.as_array().to_vec(), percent),
    };
    found.ok_or_else(empty)
}

/// As numpy's: the middle one of a column, or the mean of both.
#[pyfunction]
fn median(values: Numbers<'_>) -> PyResult<f64> {
    let found = match values {
        Numbers::Whole(values) => quantile::median(&mut values.as_array().to_vec()),
        Numbers::Short(values) => quantile::median(&mut values.as_array().to_vec()),
        Numbers::Real(values) => quantile::median(&mut values.as_array().to_vec()),
    };
    found.ok_or_else(empty)
}

/// Of each value the middle one of itself and of so many on either side (core/src/infer/quantile.rs).
#[pyfunction]
fn rolling_median<'py>(values: Column<'py, f64>, around: usize) -> PyResult<Array<'py, f64>> {
    let found = quantile::rolling_median(values.as_slice()?, around);
    Ok(found.into_pyarray(values.py()))
}

/// The line above all points that lies nearest to them: slope, and height at 0 (core/src/infer/tap/upper_line.rs).
#[pyfunction]
#[pyo3(name = "upper_line")]
fn line_above(
    at: PyReadonlyArray1<'_, f64>,
    above: PyReadonlyArray1<'_, f64>,
) -> PyResult<(f64, f64)> {
    upper_line::upper_line(at.as_slice()?, above.as_slice()?).ok_or_else(empty)
}

fn empty() -> PyErr {
    PyValueError::new_err("a column without a value has no middle")
}
