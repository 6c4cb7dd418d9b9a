//! Our own sender for Python.

use pyo3::prelude::*;

#[cfg(target_os = "linux")]
mod linux {
    use std::net::IpAddr;
    use std::sync::Mutex;

    use pyo3::exceptions::{PyRuntimeError, PyValueError};
    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    use crate::emulate::{KernelRow, OwnSender as Core, SendReport, Stop, send};
    use crate::python::scenario::scenario_of;
    use crate::wire::Endpoint;

    /// One connection of a scenario, sent by this project's own code over a TUN descriptor.
    #[pyclass(frozen, module = "tcptrace_lab._core")]
    pub struct OwnSender {
        sender: Mutex<Option<Core>>,
        device: i32,
        duration_ns: i64,
        stop: Stop,
    }

    #[pymethods]
    impl OwnSender {
        #[new]
        fn new(
            scenario: &Bound<'_, PyDict>,
            connection: usize,
            device_fd: i32,
            source: (IpAddr, u16),
            destination: (IpAddr, u16),
        ) -> PyResult<Self> {
            let scenario = scenario_of(scenario)?;
            let end = |(addr, port)| Endpoint { addr, port };
            let sender = Core::new(&scenario, connection, end(source), end(destination))
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            Ok(Self {
                sender: Mutex::new(Some(sender)),
                device: device_fd,
                duration_ns: scenario.duration_ns(),
                stop: Stop::new()?,
            })
        }

        /// Sends for the scenario's duration and waits for the end, `drain_s` at most; what it knew, as columns.
        fn run<'py>(&self, py: Python<'py>, drain_s: f64) -> PyResult<Bound<'py, PyDict>> {
            let taken = self.sender.lock().ok().and_then(|mut place| place.take());
            let mut sender = taken.ok_or_else(|| PyRuntimeError::new_err("it has run already"))?;
            let drain_ns = (drain_s * 1e9) as i64;
            let sent = py.detach(|| {
                send(
                    &mut sender,
                    self.device,
                    self.duration_ns,
                    drain_ns,
                    &self.stop,
                )
            })?;
            columns(py, &sent)
        }

        fn stop(&self) -> PyResult<()> {
            Ok(self.stop.stop()?)
        }
    }

    fn columns<'py>(py: Python<'py>, sent: &SendReport) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("time_ns", column(sent, |row| row.time_ns))?;
        dict.set_item("ev", column(sent, |row| row.event.name()))?;
        dict.set_item("cwnd", column(sent, |row| row.cwnd))?;
        dict.set_item("ssthresh", column(sent, |row| row.ssthresh))?;
        dict.set_item("srtt_us", column(sent, |row| row.srtt_us))?;
        dict.set_item("snd_una", column(sent, |row| row.snd_una))?;
        dict.set_item("snd_nxt", column(sent, |row| row.snd_nxt))?;
        dict.set_item("packets_out", column(sent, |row| row.packets_out))?;
        dict.set_item("ca_state", column(sent, |row| row.ca_state))?;
        dict.set_item("snd_wnd", column(sent, |row| row.snd_wnd))?;
        dict.set_item("arg", column(sent, |row| row.arg))?;
        let result = PyDict::new(py);
        result.set_item("rows", dict)?;
        result.set_item("acknowledged", sent.acknowledged)?;
        result.set_item("has_ended", sent.has_ended)?;
        result.set_item("is_reset", sent.is_reset)?;
        result.set_item("stalls", &sent.stalls)?;
        Ok(result)
    }

    fn column<V>(sent: &SendReport, value: impl Fn(&KernelRow) -> V) -> Vec<V> {
        sent.rows.iter().map(value).collect()
    }
}

#[cfg(target_os = "linux")]
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<linux::OwnSender>()
}

/// TUN devices are Linux's.
#[cfg(not(target_os = "linux"))]
pub fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
