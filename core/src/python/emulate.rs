//! The real-time path for Python.

use pyo3::prelude::*;

#[cfg(target_os = "linux")]
mod linux {
    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    use crate::emulate::{Bin, Dropped, Journal, Report, Stop, Tunnel};
    use crate::python::scenario::scenario_of;

    /// Two open TUN descriptors joined by a scenario's path.
    #[pyclass(frozen, module = "tcptrace_lab._core")]
    pub struct Emulator {
        tunnel: Tunnel,
        stop: Stop,
        /// Nodes numbered before the scenario's first: 1 with an access link.
        #[pyo3(get)]
        nodes_before: usize,
    }

    #[pymethods]
    impl Emulator {
        /// Of the scenario `path` and `seed` count; the descriptors are non-blocking TUN devices.
        #[new]
        fn new(scenario: &Bound<'_, PyDict>, sender_fd: i32, receiver_fd: i32) -> PyResult<Self> {
            let scenario = scenario_of(scenario)?;
            let nodes_before = scenario.path.nodes_before();
            let tunnel = Tunnel::new(scenario, sender_fd, receiver_fd)?;
            let stop = tunnel.stop_handle();
            Ok(Self {
                tunnel,
                stop,
                nodes_before,
            })
        }

        /// Carries packets until `stop` is called from another thread; the report as columns.
        fn run<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
            let report = py.detach(|| self.tunnel.run())?;
            columns(py, &report)
        }

        fn stop(&self) -> PyResult<()> {
            Ok(self.stop.stop()?)
        }
    }

    fn columns<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("drops", drops(py, &report.drops)?)?;
        dict.set_item("queue", queue(py, &report.bins)?)?;
        dict.set_item("lateness_ns", lateness(py, &report.journal)?)?;
        let freezes: Vec<_> = report
            .freezes
            .iter()
            .map(|freeze| (freeze.noticed_ns, freeze.length_ns))
            .collect();
        dict.set_item("freezes", freezes)?;
        for (name, counts) in [("forward", report.forward), ("reverse", report.reverse)] {
            let row = PyDict::new(py);
            row.set_item("entered", counts.entered)?;
            row.set_item("left", counts.left)?;
            row.set_item("lost", counts.lost)?;
            row.set_item("inside", counts.inside)?;
            dict.set_item(name, row)?;
        }
        dict.set_item("is_conserved", report.is_conserved)?;
        dict.set_item("write_errors", report.write_errors)?;
        dict.set_item("clock_drift_ns", report.clock_drift_ns)?;
        Ok(dict)
    }

    fn drops<'py>(py: Python<'py>, rows: &[Dropped]) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("time_ns", column(rows, |row| row.time_ns))?;
        dict.set_item("node", column(rows, |row| row.node))?;
        dict.set_item("reason", column(rows, |row| row.reason.name()))?;
        let direction = |row: &Dropped| if row.label.is_reverse { "rev" } else { "fwd" };
        dict.set_item("dir", column(rows, direction))?;
        dict.set_item("ip_id", column(rows, |row| row.label.ip_id))?;
        dict.set_item("tcp_seq", column(rows, |row| row.label.tcp_seq))?;
        dict.set_item("payload_len", column(rows, |row| row.label.payload_len))?;
        dict.set_item("sport", column(rows, |row| row.label.src_port))?;
        dict.set_item("dport", column(rows, |row| row.label.dst_port))?;
        dict.set_item("queue_len", column(rows, |row| row.waiting))?;
        dict.set_item("ip_len", column(rows, |row| row.label.ip_len))?;
        Ok(dict)
    }

    fn queue<'py>(py: Python<'py>, rows: &[Bin]) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("time_ns", column(rows, |row| row.time_ns))?;
        dict.set_item("node", column(rows, |row| row.node))?;
        dict.set_item("arrivals", column(rows, |row| row.arrivals))?;
        dict.set_item("drops", column(rows, |row| row.drops))?;
        dict.set_item("qmax", column(rows, |row| row.max))?;
        dict.set_item("qlast", column(rows, |row| row.last))?;
        Ok(dict)
    }

    fn lateness<'py>(py: Python<'py>, journal: &Journal) -> PyResult<Bound<'py, PyDict>> {
        const SHARES: [(&str, f64); 6] = [
            ("p50", 0.5),
            ("p90", 0.9),
            ("p99", 0.99),
            ("p99.9", 0.999),
            ("p99.99", 0.9999),
            ("max", 1.0),
        ];
        let dict = PyDict::new(py);
        let values = journal.lateness_percentiles(&SHARES.map(|(_, share)| share));
        for ((name, _), value) in SHARES.into_iter().zip(values) {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    fn column<R, V>(rows: &[R], value: impl Fn(&R) -> V) -> Vec<V> {
        rows.iter().map(value).collect()
    }
}

#[cfg(target_os = "linux")]
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<linux::Emulator>()
}

/// TUN devices and network namespaces are Linux's.
#[cfg(not(target_os = "linux"))]
pub fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
