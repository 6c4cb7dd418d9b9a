//! What candidates are judged by, from Python's columns.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::arrays::Column;
use crate::infer::candidates::{
    evidence::{self, Reduction},
    piece::FRACTIONS,
};

/// Where candidates are compared with what was sent (infer/candidates/evidence.rs).
#[pyclass(frozen)]
pub(super) struct Evidence {
    pub(super) inner: evidence::Evidence,
}

#[pymethods]
impl Evidence {
    /// Pieces, by their ACKs: `ends` is where in `acks` each ends, `followed` its place among all; `flight` (bytes) is a
    /// column of all ACKs. Reductions: the place of each, the segments observed, and of what.
    #[new]
    #[pyo3(signature = (*, acks, ends, is_slow_start, followed, flight, reductions, smss))]
    fn new(
        acks: PyReadonlyArray1<'_, i64>,
        ends: PyReadonlyArray1<'_, i64>,
        is_slow_start: PyReadonlyArray1<'_, bool>,
        followed: Vec<usize>,
        flight: PyReadonlyArray1<'_, i64>,
        reductions: Vec<(usize, f64, bool)>,
        smss: f64,
    ) -> PyResult<Self> {
        let flight = flight.as_slice()?;
        let pieces = evidence::Pieces::new(
            acks.as_slice()?,
            ends.as_slice()?,
            is_slow_start.as_slice()?,
            |ack| flight.get(ack).copied(),
            smss,
        )
        .ok_or_else(|| PyValueError::new_err("pieces that are no runs of ACKs"))?;
        let each = reductions
            .into_iter()
            .map(|(place, observed, is_threshold)| Reduction {
                place,
                observed,
                is_threshold,
            });
        let inner = evidence::Evidence {
            pieces,
            followed,
            reductions: each.collect(),
        };
        if !inner.is_whole(inner.followed.len() + inner.reductions.len()) {
            return Err(PyValueError::new_err(
                "evidence of which two have one place",
            ));
        }
        Ok(Self { inner })
    }

    /// What the error of each is held against, in segments.
    #[getter]
    fn scale<'py>(&self, py: Python<'py>) -> Column<'py> {
        self.inner.pieces.scales().into_pyarray(py)
    }

    /// Segments outstanding at the end of each.
    #[getter]
    fn observed<'py>(&self, py: Python<'py>) -> Column<'py> {
        self.inner.pieces.observed().into_pyarray(py)
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("FRACTIONS", FRACTIONS.to_vec())?;
    module.add_class::<Evidence>()
}
