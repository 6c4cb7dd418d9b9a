//! The open-loop replayer for Python: a capture through a path, or through many at once.

use std::collections::HashSet;
use std::fs::File;
use std::net::IpAddr;
use std::path::PathBuf;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::capture::told;
use super::run_tables::{column, node_row, queue_table};
use super::scenario::scenario_of;
use crate::capture::{self, FileFormat, Reader};
use crate::replay::{self, Carrier, Counts, Exit, Failed, NO_PAIR, Pair, Sides, WayTotals};
use crate::simulate::NodeTotals;
use crate::wire::Endpoint;

pyo3::import_exception!(tcptrace_lab.errors, CaptureError);
pyo3::import_exception!(tcptrace_lab.errors, LabError);

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<OpenLoop>()?;
    module.add_function(wrap_pyfunction!(open_loop, module)?)?;
    module.add_function(wrap_pyfunction!(open_loop_sweep, module)?)
}

/// What a capture met on a path. Times are nanoseconds since its first packet.
#[pyclass(frozen, module = "tcptrace_lab._core")]
struct OpenLoop {
    /// Nodes numbered before the scenario's first: 1 with an access link.
    #[pyo3(get)]
    nodes_before: usize,
    carrier: Carrier,
    nodes: Vec<NodeTotals>,
    counts: Counts,
    pairs: Vec<Pair>,
    epoch_ns: i64,
    truncated: Option<(u64, String)>,
}

#[pymethods]
impl OpenLoop {
    /// When the first packet was recorded.
    #[getter]
    fn epoch_ns(&self) -> i64 {
        self.epoch_ns
    }

    #[getter]
    fn truncated(&self) -> Option<(u64, String)> {
        self.truncated.clone()
    }

    /// Payload bytes per unit of offsets, as a simulation says it.
    #[getter]
    fn unit_bytes(&self) -> u32 {
        1
    }

    /// Records of the capture by what became of them.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        counts_dict(py, &self.counts)
    }

    /// Totals of both directions.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        summary(py, &self.carrier)
    }

    /// Endpoints of each pair: near address and port, far address and port.
    fn pairs(&self) -> Vec<(String, u16, String, u16)> {
        let row = |pair: &Pair| {
            let (near, far) = (pair.near, pair.far);
            (
                near.addr.to_string(),
                near.port,
                far.addr.to_string(),
                far.port,
            )
        };
        self.pairs.iter().map(row).collect()
    }

    /// Packets the path lost, in order of time; `pair` -1: no TCP. Columns as of a simulation's drops.
    fn drops<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = &self.carrier.drops;
        let table = PyDict::new(py);
        column(&table, "time_ns", rows, |row| row.time_ns)?;
        column(&table, "node", rows, |row| row.node)?;
        column(&table, "is_reverse", rows, |row| row.packet.is_reverse)?;
        column(&table, "reason", rows, |row| row.reason as u8)?;
        column(&table, "pair", rows, |row| match row.packet.pair {
            NO_PAIR => -1,
            pair => i64::from(pair),
        })?;
        column(&table, "recorded_ns", rows, |row| row.packet.time_ns)?;
        column(&table, "packet", rows, |row| row.packet.record)?;
        column(&table, "is_data", rows, |row| {
            row.packet.tcp.payload_len > 0
        })?;
        column(&table, "bytes", rows, |row| row.packet.ip_len)?;
        column(&table, "waiting", rows, |row| row.waiting)?;
        column(&table, "tcp_seq", rows, |row| row.packet.tcp.seq)?;
        column(&table, "payload_len", rows, |row| {
            row.packet.tcp.payload_len
        })?;
        column(&table, "ip_id", rows, |row| row.packet.tcp.ip_id)?;
        Ok(table)
    }

    /// A row per packet: its record's number, when it entered, and how long it was on the way (-1: lost).
    fn delays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = &self.carrier.delays;
        let table = PyDict::new(py);
        column(&table, "packet", rows, |row| row.record)?;
        column(&table, "time_ns", rows, |row| row.entered_ns)?;
        column(&table, "is_reverse", rows, |row| row.is_reverse)?;
        column(&table, "ip_len", rows, |row| row.ip_len)?;
        column(&table, "delay_ns", rows, |row| {
            row.left_ns.map_or(-1, |left_ns| left_ns - row.entered_ns)
        })?;
        Ok(table)
    }

    /// Queue of a node in bins of 10 ms, as of a simulation.
    fn queue<'py>(
        &self,
        py: Python<'py>,
        node: u32,
        is_reverse: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        queue_table(py, &self.nodes, node, is_reverse)
    }

    /// Totals per node, as of a simulation.
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.nodes.iter().map(|node| node_row(py, node)).collect()
    }
}

/// Sends a capture through a scenario's path; what comes out is written to `output` (raw IP, nanoseconds) if named.
///
/// `near` are the hosts before the path, `near_ends` endpoints there where both ends have one address. Packets longer
/// than `mtu` are cut to what the wire carried.
#[pyfunction]
#[pyo3(signature = (path, name, scenario, near, near_ends, mtu, output=None, is_pcapng=false, progress=None))]
#[expect(
    clippy::too_many_arguments,
    reason = "one call, from tcptrace_lab/replay"
)]
fn open_loop(
    py: Python<'_>,
    path: PathBuf,
    name: &str,
    scenario: &Bound<'_, PyDict>,
    near: Vec<String>,
    near_ends: Vec<(String, u16)>,
    mtu: u32,
    output: Option<PathBuf>,
    is_pcapng: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<OpenLoop> {
    let scenario = scenario_of(scenario)?;
    let sink = output.map(|output| {
        File::create(output).map(|file| Exit {
            file: Box::new(file),
            format: if is_pcapng {
                FileFormat::Pcapng
            } else {
                FileFormat::PcapNanos
            },
        })
    });
    let sink = sink.transpose()?;
    let carriers = vec![Carrier::new(&scenario, true)];
    let reader = capture::open_as(path, name);
    let sides = sides(&near, &near_ends)?;
    let mut finished = carry(py, reader, sides, mtu, carriers, sink, progress)?;
    let mut carrier = finished.carriers.remove(0);
    Ok(OpenLoop {
        nodes_before: scenario.path.nodes_before(),
        nodes: carrier.finish(),
        carrier,
        counts: finished.counts,
        pairs: finished.sides.pairs().to_vec(),
        epoch_ns: finished.epoch_ns,
        truncated: finished.truncated.map(|cut| (cut.offset, cut.reason)),
    })
}

/// A summary, and the totals of every node.
type SweepRow<'py> = (Bound<'py, PyDict>, Vec<Bound<'py, PyDict>>);

/// The same for many scenarios in one pass over the capture: a summary for each.
#[pyfunction]
#[pyo3(signature = (path, name, scenarios, near, near_ends, mtu, progress=None))]
#[expect(
    clippy::too_many_arguments,
    reason = "one call, from tcptrace_lab/replay"
)]
fn open_loop_sweep<'py>(
    py: Python<'py>,
    path: PathBuf,
    name: &str,
    scenarios: Vec<Bound<'_, PyDict>>,
    near: Vec<String>,
    near_ends: Vec<(String, u16)>,
    mtu: u32,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<SweepRow<'py>>> {
    let carriers = scenarios
        .iter()
        .map(|given| Ok(Carrier::new(&scenario_of(given)?, false)))
        .collect::<PyResult<Vec<_>>>()?;
    let reader = capture::open_as(path, name);
    let sides = sides(&near, &near_ends)?;
    let mut finished = carry(py, reader, sides, mtu, carriers, None, progress)?;
    let mut rows = Vec::new();
    for carrier in &mut finished.carriers {
        let nodes = carrier.finish();
        let nodes = nodes
            .iter()
            .map(|node| node_row(py, node))
            .collect::<PyResult<_>>()?;
        rows.push((summary(py, carrier)?, nodes));
    }
    Ok(rows)
}

fn sides(near: &[String], near_ends: &[(String, u16)]) -> PyResult<Sides> {
    let address = |text: &String| {
        text.parse::<IpAddr>()
            .map_err(|_| PyValueError::new_err(format!("not an IP address: {text:?}")))
    };
    let hosts: HashSet<IpAddr> = near.iter().map(address).collect::<PyResult<_>>()?;
    let ends: HashSet<Endpoint> = near_ends
        .iter()
        .map(|(text, port)| {
            Ok(Endpoint {
                addr: address(text)?,
                port: *port,
            })
        })
        .collect::<PyResult<_>>()?;
    Ok(Sides::new(hosts, ends))
}

fn carry(
    py: Python<'_>,
    reader: Result<Reader, capture::CaptureError>,
    sides: Sides,
    mtu: u32,
    carriers: Vec<Carrier>,
    sink: Option<Exit>,
    progress: Option<Py<PyAny>>,
) -> PyResult<replay::Finished> {
    let failed = |error| match error {
        Failed::Capture(error) => CaptureError::new_err(error.to_string()),
        Failed::Output(error) => PyOSError::new_err(error.to_string()),
        error => LabError::new_err(error.to_string()),
    };
    told(py, progress, failed, |tell| {
        replay::run(reader?, sides, mtu, carriers, sink, tell)
    })
}

fn counts_dict<'py>(py: Python<'py>, counts: &Counts) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("records", counts.records)?;
    row.set_item("elsewhere", counts.elsewhere)?;
    row.set_item("cut_up", counts.cut_up)?;
    row.set_item("out_of_order", counts.out_of_order)?;
    Ok(row)
}

/// Both directions in one row; those of the way back end in `_back`.
fn summary<'py>(py: Python<'py>, carrier: &Carrier) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    for (way, suffix) in carrier.ways.iter().zip(["", "_back"]) {
        put_way(&row, way, suffix)?;
    }
    let books = &carrier.acknowledged;
    row.set_item("acks", books.acks)?;
    row.set_item("acks_of_dropped", books.of_dropped)?;
    row.set_item("acks_early", books.early)?;
    Ok(row)
}

fn put_way(row: &Bound<'_, PyDict>, way: &WayTotals, suffix: &str) -> PyResult<()> {
    let put = |name: &str, value: u64| row.set_item(format!("{name}{suffix}"), value);
    put("packets", way.packets)?;
    put("bytes", way.bytes)?;
    put("packets_out", way.out)?;
    put("bytes_out", way.bytes_out)?;
    let [overflow, random, scheduled, ack_loss, managed, policed] = way.dropped;
    put("drops", way.dropped.iter().sum())?;
    put("drops_codel", managed)?;
    put("drops_policed", policed)?;
    put("drops_overflow", overflow)?;
    put("drops_random", random + scheduled + ack_loss)?;
    put("data_drops", way.data_dropped)?;
    let duration_ns = way.first_ns.map_or(0, |first_ns| way.last_ns - first_ns);
    put("duration_ns", duration_ns as u64)?;
    put("late_ns", (way.last_out_ns - way.last_ns).max(0) as u64)?;
    for (name, share) in [
        ("delay_p50_ns", 0.5),
        ("delay_p95_ns", 0.95),
        ("delay_p99_ns", 0.99),
    ] {
        row.set_item(format!("{name}{suffix}"), way.delays.percentile_ns(share))?;
    }
    row.set_item(format!("delay_mean_ns{suffix}"), way.delays.mean_ns())?;
    put("delay_max_ns", way.delays.max_ns as u64)
}
