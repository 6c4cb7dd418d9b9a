//! Candidates replayed side by side for Python, which decides who goes on.

use std::sync::{Mutex, PoisonError};

use numpy::PyArray1;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::arrays::Column;
use super::candidate::CandidateSender;
use super::evidence::Evidence;
use super::tape::Tape;
use crate::infer::candidates::contest;
use crate::infer::candidates::own_times::Begins;
use crate::infer::candidates::tape;

/// Candidates replayed side by side (infer/candidates/contest.rs): each is a tape's number, a sender, and how much later
/// every time is.
#[pyclass]
struct Contest {
    // Several may not hear at once.
    inner: Mutex<contest::Contest>,
    tapes: Vec<Py<Tape>>,
    evidence: Py<Evidence>,
}

#[pymethods]
impl Contest {
    /// `rows`: per tape those of the reductions. `by_themselves`: their round trips are those of their own windows, the
    /// first of which left then; in what begins in the middle, with the time of the first loss.
    #[new]
    #[pyo3(signature = (evidence, tapes, rows, entries, *, by_themselves = None))]
    fn new(
        py: Python<'_>,
        evidence: Py<Evidence>,
        tapes: Vec<Py<Tape>>,
        rows: Vec<Vec<usize>>,
        entries: Vec<(usize, Py<CandidateSender>, i64)>,
        by_themselves: Option<(i64, Option<i64>)>,
    ) -> PyResult<Self> {
        let wrong = || PyValueError::new_err("a contest whose columns do not fit each other");
        let known = &evidence.get().inner;
        let is_whole = rows.len() == tapes.len()
            && rows.iter().all(|rows| rows.len() == known.reductions.len());
        if !is_whole {
            return Err(wrong());
        }
        let entries = entries.iter().map(|(tape, sender, later_ns)| {
            let sender = sender.get();
            let entry = contest::Entry {
                control: sender.control(),
                start: sender.start,
                later_ns: *later_ns,
            };
            (*tape, entry)
        });
        let entries: Vec<_> = entries.collect();
        let begins = by_themselves.map(|(begins_ns, since_ns)| Begins {
            begins_ns,
            since_ns,
        });
        let inner = with_tapes(py, &tapes, |tapes| {
            contest::Contest::new(tapes, rows, entries, begins)
        })?;
        Ok(Self {
            inner: Mutex::new(inner.ok_or_else(wrong)?),
            tapes,
            evidence,
        })
    }

    /// Everyone hears all up to an ACK (None: to the end).
    fn advance(&mut self, py: Python<'_>, upto: Option<usize>) -> PyResult<()> {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        let evidence = &self.evidence.get().inner;
        with_tapes(py, &self.tapes, |tapes| {
            py.detach(|| inner.advance(tapes, evidence, upto));
        })
    }

    /// Only these go on.
    fn keep(&mut self, numbers: Vec<usize>) {
        self.heard().keep(&numbers);
    }

    /// Of everyone who goes on: the number, and of each piece and reduction so far the error and the own window there
    /// (segments); NaN: not judged yet.
    fn judged<'py>(&mut self, py: Python<'py>) -> Vec<(usize, Column<'py>, Column<'py>)> {
        let judged = self.heard().judged().into_iter();
        let column = |values| PyArray1::from_slice(py, values);
        judged
            .map(|each| (each.number, column(each.errors), column(each.expected)))
            .collect()
    }
}

impl Contest {
    fn heard(&mut self) -> &mut contest::Contest {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Their columns are borrowed meanwhile.
fn with_tapes<T>(
    py: Python<'_>,
    tapes: &[Py<Tape>],
    look: impl FnOnce(&[tape::Tape<'_>]) -> T,
) -> PyResult<T> {
    let heard = tapes.iter().map(|tape| tape.get().heard.get().borrowed(py));
    let heard: Vec<_> = heard.collect::<PyResult<_>>()?;
    let each = tapes.iter().zip(&heard);
    let each = each.map(|(tape, heard)| Ok(tape.get().tape(heard.heard()?)));
    Ok(look(&each.collect::<PyResult<Vec<_>>>()?))
}

/// This process, one of several, uses one core from now on (core/src/infer/candidates/contest.rs).
#[pyfunction]
fn stay_alone() -> PyResult<()> {
    contest::stay_alone().map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(stay_alone, module)?)?;
    module.add_class::<Contest>()
}
