//! Candidates replayed for Python: a tape of columns in, the window after each row and what it is judged by out.

use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::{Column, array};
use super::candidate::CandidateSender;
use super::marks::Marks;
use crate::infer::candidates::own_times::{self, Begins};
use crate::infer::candidates::replay::{self, Unseen};
use crate::infer::candidates::tape::{self, Mark, heard_columns};

/// Columns of numpy that stay Python's: a struct of them from one list, read by name, borrowed as `tape::Heard`.
macro_rules! heard {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// What every reading of one sender has in common: an entry per ACK.
        #[pyclass(frozen)]
        pub(super) struct Heard {
            $($name: Py<PyArray1<$type>>,)*
            first: usize,
            zero_ns: i64,
        }

        impl Heard {
            fn read(columns: &Bound<'_, PyDict>, first: usize, zero_ns: i64) -> PyResult<Self> {
                Ok(Self {
                    $($name: array(columns, stringify!($name))?,)*
                    first,
                    zero_ns,
                })
            }

            pub(super) fn borrowed<'py>(&self, py: Python<'py>) -> PyResult<Borrowed<'py>> {
                Ok(Borrowed {
                    $($name: self.$name.bind(py).try_readonly()?,)*
                    first: self.first,
                    zero_ns: self.zero_ns,
                })
            }

            fn with<T>(&self, py: Python<'_>, look: impl FnOnce(tape::Heard<'_>) -> T) -> PyResult<T> {
                Ok(look(self.borrowed(py)?.heard()?))
            }
        }

        /// The columns while nobody may write to them.
        pub(super) struct Borrowed<'py> {
            $($name: PyReadonlyArray1<'py, $type>,)*
            first: usize,
            zero_ns: i64,
        }

        impl Borrowed<'_> {
            pub(super) fn heard(&self) -> PyResult<tape::Heard<'_>> {
                Ok(tape::Heard {
                    $($name: self.$name.as_slice()?,)*
                    first: self.first,
                    zero_ns: self.zero_ns,
                })
            }
        }
    };
}
heard_columns!(heard);

#[pymethods]
impl Heard {
    #[new]
    #[pyo3(signature = (columns, *, first, zero_ns))]
    fn new(columns: &Bound<'_, PyDict>, first: usize, zero_ns: i64) -> PyResult<Self> {
        let found = Self::read(columns, first, zero_ns)?;
        found.with(columns.py(), |heard| {
            heard
                .checked()
                .map_err(|error| PyValueError::new_err(error.to_string()))
        })??;
        Ok(found)
    }
}

/// The events of one sender as one reading has them: the columns, and which of the marks, behind those of `before`.
#[pyclass(frozen)]
pub(super) struct Tape {
    pub(super) heard: Py<Heard>,
    before: Option<Py<Marks>>,
    marks: Py<Marks>,
    chosen: Vec<u32>,
    opens: bool,
}

fn all_of(marks: Option<&Py<Marks>>) -> &[Mark] {
    marks.map_or(&[], |marks| &marks.get().all)
}

#[pymethods]
impl Tape {
    /// `chosen`: places of marks, in the order of their ACKs; `before`: all of these come first; `opens`:
    /// core/src/infer/candidates/tape.rs.
    #[new]
    #[pyo3(signature = (heard, marks, chosen, *, before = None, opens = false))]
    fn new(
        heard: &Bound<'_, Heard>,
        marks: &Bound<'_, Marks>,
        chosen: Vec<u32>,
        before: Option<Py<Marks>>,
        opens: bool,
    ) -> PyResult<Self> {
        let acks = heard.get().now_ns.bind(heard.py()).len()? as i64;
        let ack = |&at: &u32| marks.get().all.get(at as usize).map(|mark| mark.ack);
        let first = all_of(before.as_ref()).iter().map(|mark| Some(mark.ack));
        let places: Option<Vec<i64>> = first.chain(chosen.iter().map(ack)).collect();
        let fits = |places: Vec<i64>| {
            places.is_sorted() && places.iter().all(|ack| (-1..acks).contains(ack))
        };
        if !places.is_some_and(fits) {
            return Err(PyValueError::new_err(
                "a tape's marks stand behind ACKs, in their order",
            ));
        }
        Ok(Self {
            heard: heard.clone().unbind(),
            before,
            marks: marks.clone().unbind(),
            chosen,
            opens,
        })
    }

    /// The window and the threshold after each row, as this control has them; `at_most`: the largest that it could have
    /// had where something else held it back; every time is `later_ns` later. `rows`: of these alone, which rise.
    #[pyo3(signature = (sender, *, at_most = false, later_ns = 0, rows = None))]
    fn play<'py>(
        &self,
        py: Python<'py>,
        sender: &CandidateSender,
        at_most: bool,
        later_ns: i64,
        rows: Option<PyReadonlyArray1<'py, i64>>,
    ) -> PyResult<(Column<'py>, Column<'py>)> {
        let unseen = if at_most {
            Unseen::AtMost
        } else {
            Unseen::AsSeen
        };
        let asked = rows
            .as_ref()
            .map(|rows| self.asked(py, rows.as_slice()?))
            .transpose()?;
        let played = self.heard.get().with(py, |heard| {
            py.detach(|| self.played(heard, sender, later_ns, unseen, asked))
        })?;
        Ok((
            played.cwnd.into_pyarray(py),
            played.ssthresh.into_pyarray(py),
        ))
    }

    /// The window after each row, as this control has it whose round trips are those of its own window; `begins_ns`:
    /// when its first window left, on the control's clock; `since_ns`: when the first loss was of what is seen from
    /// there on; `count`: of so many rows, the first.
    #[pyo3(signature = (sender, *, begins_ns, later_ns, since_ns, count))]
    fn play_by_itself<'py>(
        &self,
        py: Python<'py>,
        sender: &CandidateSender,
        begins_ns: i64,
        later_ns: i64,
        since_ns: Option<i64>,
        count: usize,
    ) -> PyResult<Column<'py>> {
        let mut control = sender.control();
        let cwnd = self.heard.get().with(py, |heard| {
            py.detach(|| {
                let rows = self.tape(heard).rows(later_ns).take(count);
                let begins = Begins {
                    begins_ns,
                    since_ns,
                };
                let begins = begins.later(later_ns);
                own_times::play_by_itself(control.as_mut(), sender.start, rows, begins, self.opens)
            })
        })?;
        Ok(cwnd.into_pyarray(py))
    }

    /// What the control holds in mind after each row, or after these alone, which rise: a column for each of these names.
    #[pyo3(signature = (sender, names, *, later_ns = 0, rows = None))]
    fn memory<'py>(
        &self,
        py: Python<'py>,
        sender: &CandidateSender,
        names: Vec<String>,
        later_ns: i64,
        rows: Option<PyReadonlyArray1<'py, i64>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut control = sender.control();
        let known = control.values();
        let place = |name: &String| {
            let found = known.iter().position(|(known, _)| known == name);
            found.ok_or_else(|| PyValueError::new_err(format!("the control holds no {name}")))
        };
        let places: Vec<usize> = names.iter().map(place).collect::<PyResult<_>>()?;
        let asked = rows
            .as_ref()
            .map(|rows| self.asked(py, rows.as_slice()?))
            .transpose()?;
        let (mut columns, mut values) = (Vec::new(), known);
        self.heard.get().with(py, |heard| {
            let tape = self.tape(heard);
            let count = asked.map_or(tape.len(), <[i64]>::len);
            columns.resize_with(names.len(), || Vec::with_capacity(count));
            let (start, rows) = (sender.start, tape.rows(later_ns));
            replay::watch(control.as_mut(), start, rows, asked, |control, _| {
                values.clear();
                control.snapshot(&mut values);
                for (column, &place) in columns.iter_mut().zip(&places) {
                    column.push(values[place].1);
                }
            });
        })?;
        let found = PyDict::new(py);
        for (name, column) in names.into_iter().zip(columns) {
            found.set_item(name, column.into_pyarray(py))?;
        }
        Ok(found)
    }
}

impl Tape {
    pub(super) fn tape<'a>(&'a self, heard: tape::Heard<'a>) -> tape::Tape<'a> {
        tape::Tape {
            heard,
            before: all_of(self.before.as_ref()),
            marks: &self.marks.get().all,
            chosen: &self.chosen,
            opens: self.opens,
        }
    }

    /// The same rows, checked: they are the tape's, and rise. They may be as many as the capture's, so none is copied.
    fn asked<'a>(&self, py: Python<'_>, rows: &'a [i64]) -> PyResult<&'a [i64]> {
        let count = self.heard.get().with(py, |heard| self.tape(heard).len())?;
        let is_within = rows.first().is_none_or(|&first| first >= 0)
            && rows.last().is_none_or(|&last| last < count as i64);
        (is_within && rows.is_sorted())
            .then_some(rows)
            .ok_or_else(|| PyValueError::new_err("rows of a tape, which rise"))
    }

    fn played(
        &self,
        heard: tape::Heard<'_>,
        sender: &CandidateSender,
        later_ns: i64,
        unseen: Unseen,
        asked: Option<&[i64]>,
    ) -> replay::Played {
        let (mut control, start) = (sender.control(), sender.start);
        let (control, rows) = (control.as_mut(), self.tape(heard).rows(later_ns));
        match asked {
            Some(asked) => replay::play_at(control, start, rows, unseen, asked),
            None => replay::play(control, start, rows, unseen),
        }
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Heard>()?;
    module.add_class::<Tape>()
}
