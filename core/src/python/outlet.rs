//! Where a run's rows go while it goes on: captures to their files, pieces of the tables to a function of Python.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;

use super::simulation::Simulation;
use super::tapped::{BLOCK, file_format};
use crate::scenario::Scenario;
use crate::simulate::capture_file::{CaptureFile, Kept};
use crate::simulate::{Outlet, Output};
use crate::wire::Segment;

/// A file for each tap, and whom to tell of the tables.
pub struct Files {
    scenario: Scenario,
    captures: Vec<CaptureFile<BufWriter<File>>>,
    epoch_ns: i64,
    /// Called with a `Simulation` that holds the tables' next rows.
    on_piece: Option<Py<PyAny>>,
    stop: Arc<AtomicBool>,
    /// What ended the run: a full disk, an exception.
    failed: Option<PyErr>,
}

impl Files {
    /// `paths`: of each tap in the spec's order. `stop` ends the run after an error.
    pub fn new(
        scenario: &Scenario,
        paths: &[(PathBuf, bool)],
        kept: Kept,
        epoch_ns: i64,
        on_piece: Option<Py<PyAny>>,
        stop: Arc<AtomicBool>,
    ) -> PyResult<Self> {
        let create = |(path, is_pcapng): &(PathBuf, bool)| {
            let sink = BufWriter::with_capacity(BLOCK, File::create(path)?);
            CaptureFile::new(sink, file_format(*is_pcapng), kept)
        };
        Ok(Self {
            scenario: scenario.clone(),
            captures: paths.iter().map(create).collect::<Result<_, _>>()?,
            epoch_ns,
            on_piece,
            stop,
            failed: None,
        })
    }

    /// The files as they stand at the end of the run.
    pub fn finish(self) -> PyResult<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        for capture in self.captures {
            capture.finish()?;
        }
        Ok(())
    }

    fn keep(&mut self, result: PyResult<()>) {
        if let Err(error) = result {
            self.stop.store(true, Ordering::Relaxed);
            self.failed.get_or_insert(error);
        }
    }
}

impl Outlet for Files {
    fn packets(&mut self, tap: usize, rows: &mut dyn Iterator<Item = (i64, Segment)>) {
        let Some(capture) = self.captures.get_mut(tap) else {
            return;
        };
        let epoch_ns = self.epoch_ns;
        for (at_ns, row) in rows {
            if let Err(error) = capture.write(epoch_ns + at_ns, &row) {
                return self.keep(Err(error.into()));
            }
        }
    }

    fn piece(&mut self, piece: Output) {
        let Some(on_piece) = &self.on_piece else {
            return;
        };
        let piece = Simulation {
            scenario: self.scenario.clone(),
            output: piece,
        };
        let told = Python::attach(|py| on_piece.call1(py, (piece,)).map(drop));
        self.keep(told);
    }
}
