//! A finished run for Python: columns out.

use std::path::PathBuf;

use numpy::IntoPyArray;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::capture::Capture;
use super::run_tables::{column, node_row, queue_table};
use super::sweep;
use super::tapped;
use crate::scenario::Scenario;
use crate::simulate::capture_file::Kept;
use crate::simulate::summary::summary;
use crate::simulate::{Output, Site, Totals};

/// A finished run. Every table is a dict of numpy columns of equal length.
///
/// Windows, offsets and numbers count packets in the `ns2` profile and bytes in `rfc`; `unit_bytes` is the payload of
/// one unit (1 in `rfc`). Codes: `state` as in `SENDER_STATES`; `detected_by` and a drop's `reason` are places in
/// `DETECTED_BY` and `DROP_REASONS`.
#[pyclass(frozen)]
pub struct Simulation {
    pub scenario: Scenario,
    pub output: Output,
}

#[pymethods]
impl Simulation {
    #[getter]
    fn unit_bytes(&self) -> u32 {
        self.output.unit_bytes
    }

    /// Nodes numbered before the scenario's first: 1 with an access link.
    #[getter]
    fn nodes_before(&self) -> usize {
        self.scenario.path.nodes_before()
    }

    #[getter]
    fn duration_ns(&self) -> i64 {
        self.output.duration_ns
    }

    /// Whether it ended before its duration, with `most_events`.
    #[getter]
    fn is_cut(&self) -> bool {
        self.output.is_cut
    }

    /// Columns of `truth` that are the controls' own: what they hold in mind.
    #[getter]
    fn control_names(&self) -> Vec<&'static str> {
        self.output.control_names()
    }

    /// Segment size of each connection in bytes.
    fn smss(&self) -> Vec<u32> {
        self.output.smss.clone()
    }

    /// Ports of each connection: its sender's and its receiver's.
    fn ports(&self) -> Vec<(u16, u16)> {
        let ends = self.output.taps.ends();
        ends.iter()
            .map(|ends| (ends.sender.port, ends.receiver.port))
            .collect()
    }

    /// The wire's number of each connection's first byte of data.
    fn first_seqs(&self) -> Vec<u32> {
        self.output.taps.first_seqs()
    }

    /// The run as one row of a sweep.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        sweep::dict(py, summary(&self.scenario, &self.output))
    }

    /// What a tap (by number in the spec's order) saw: a row per packet, numbers as on the wire.
    fn packets<'py>(&self, py: Python<'py>, tap: usize) -> PyResult<Bound<'py, PyDict>> {
        self.check(tap)?;
        tapped::packets(py, self.output.taps.as_ref(), tap)
    }

    /// What a tap saw, followed like a capture file.
    #[pyo3(signature = (tap, name, detail=None))]
    fn capture(
        &self,
        py: Python<'_>,
        tap: usize,
        name: String,
        detail: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Capture> {
        self.check(tap)?;
        tapped::capture(py, self.output.taps.as_ref(), tap, name, detail)
    }

    /// Writes what a tap saw, the run beginning at `epoch_ns`: pcap with nanoseconds, or pcapng.
    #[expect(
        clippy::too_many_arguments,
        reason = "one call, from tcptrace_lab/simulate.py"
    )]
    fn write(
        &self,
        py: Python<'_>,
        tap: usize,
        path: PathBuf,
        is_pcapng: bool,
        snaplen: u32,
        has_payload: bool,
        epoch_ns: i64,
    ) -> PyResult<()> {
        self.check(tap)?;
        let kept = Kept {
            snaplen,
            has_payload,
        };
        tapped::write(
            py,
            self.output.taps.as_ref(),
            tap,
            &path,
            is_pcapng,
            kept,
            epoch_ns,
        )
    }

    /// Sender variables at every change: time_ns, connection, cwnd, usable_window, ssthresh, flight_size, state, snd_una, snd_nxt, rwnd,
    /// srtt_ns, sacked, lost, retransmitted (NaN: not known), then what the controls hold in mind, under their names.
    fn truth<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = &self.output.truth;
        let table = PyDict::new(py);
        column(&table, "time_ns", rows, |row| row.time_ns)?;
        column(&table, "connection", rows, |row| row.connection)?;
        column(&table, "cwnd", rows, |row| row.cwnd)?;
        column(&table, "usable_window", rows, |row| row.usable_window)?;
        column(&table, "ssthresh", rows, |row| row.ssthresh)?;
        column(&table, "flight_size", rows, |row| row.flight_size)?;
        column(&table, "state", rows, |row| row.state as u8)?;
        column(&table, "snd_una", rows, |row| row.snd_una)?;
        column(&table, "snd_nxt", rows, |row| row.snd_nxt)?;
        column(&table, "rwnd", rows, |row| row.rwnd)?;
        let or_nan = |value: Option<f64>| value.unwrap_or(f64::NAN);
        column(&table, "srtt_ns", rows, |row| {
            or_nan(row.known.srtt_ns.map(|ns| ns as f64))
        })?;
        column(&table, "sacked", rows, |row| {
            or_nan(row.known.board.map(|board| board.sacked as f64))
        })?;
        column(&table, "lost", rows, |row| {
            or_nan(row.known.board.map(|board| board.lost as f64))
        })?;
        column(&table, "retransmitted", rows, |row| {
            or_nan(row.known.board.map(|board| board.retransmitted as f64))
        })?;
        for (name, values) in self.output.control_columns() {
            table.set_item(name, values.into_pyarray(py))?;
        }
        Ok(table)
    }

    /// Loss events as the senders saw them: time_ns, connection, offset, detected_by, cwnd_before, ssthresh_after.
    fn losses<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = &self.output.losses;
        let table = PyDict::new(py);
        column(&table, "time_ns", rows, |row| row.time_ns)?;
        column(&table, "connection", rows, |row| row.connection)?;
        column(&table, "offset", rows, |row| row.offset)?;
        column(&table, "detected_by", rows, |row| row.detected_by as u8)?;
        column(&table, "cwnd_before", rows, |row| row.cwnd_before)?;
        column(&table, "ssthresh_after", rows, |row| row.ssthresh_after)?;
        Ok(table)
    }

    /// Loss cycles: time_ns of each one's begin, connection, slow_starts. A connection's first begins with it, its last
    /// may not be complete.
    fn cycles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let of_each = self.output.cycles.iter().zip(0_u32..);
        let rows: Vec<_> = of_each
            .flat_map(|(cycles, number)| cycles.all().iter().map(move |cycle| (number, *cycle)))
            .collect();
        let table = PyDict::new(py);
        column(&table, "time_ns", &rows, |row| row.1.start_ns)?;
        column(&table, "connection", &rows, |row| row.0)?;
        column(&table, "slow_starts", &rows, |row| row.1.slow_starts)?;
        Ok(table)
    }

    /// Packets the path lost, in order of time; `node` is a number in `path.nodes`, or in `path.reverse` where
    /// `is_reverse`. An overflow has the time of arrival, other losses that of the end of service.
    fn drops<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = &self.output.drops;
        let table = PyDict::new(py);
        column(&table, "time_ns", rows, |row| row.time_ns)?;
        column(&table, "node", rows, |row| row.node)?;
        column(&table, "is_reverse", rows, |row| row.is_reverse)?;
        column(&table, "reason", rows, |row| row.reason as u8)?;
        column(&table, "connection", rows, |row| row.connection)?;
        column(&table, "is_data", rows, |row| row.is_data)?;
        column(&table, "offset", rows, |row| row.offset)?;
        column(&table, "bytes", rows, |row| row.bytes)?;
        column(&table, "waiting", rows, |row| row.waiting)?;
        column(&table, "tcp_seq", rows, |row| row.tcp_seq)?;
        column(&table, "payload_len", rows, |row| row.payload_len)?;
        column(&table, "ip_id", rows, |row| row.ip_id)?;
        Ok(table)
    }

    /// Every event, if the scenario asks for them: `place` "S", "D", or "N0", "N1", ... ("R0" on the way back);
    /// `event` as in ns's traces.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = &self.output.events;
        let table = PyDict::new(py);
        column(&table, "time_ns", rows, |row| row.time_ns)?;
        table.set_item(
            "place",
            rows.iter()
                .map(|row| place_name(row.place))
                .collect::<Vec<_>>(),
        )?;
        table.set_item(
            "event",
            rows.iter().map(|row| row.kind.name()).collect::<Vec<_>>(),
        )?;
        column(&table, "connection", rows, |row| row.connection)?;
        column(&table, "is_data", rows, |row| row.is_data)?;
        column(&table, "offset", rows, |row| row.offset)?;
        column(&table, "bytes", rows, |row| row.bytes)?;
        Ok(table)
    }

    /// Queue of a node in bins of 10 ms (bins without an arrival are absent): time_ns (start of the bin), arrivals,
    /// drops, waiting_max, waiting_last, wait_ns (sum over arrivals).
    fn queue<'py>(
        &self,
        py: Python<'py>,
        node: u32,
        is_reverse: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        queue_table(py, &self.output.nodes, node, is_reverse)
    }

    /// Totals per node: packets and bytes in, out, dropped, waiting at the end, is_conserved.
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let rows = self.output.nodes.iter();
        rows.map(|node| node_row(py, node)).collect()
    }

    /// Totals per connection: packets_sent, retransmissions, timeouts, acked, delivered, acks_sent.
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let totals = |total: &Totals| {
            let row = PyDict::new(py);
            row.set_item("packets_sent", total.packets_sent)?;
            row.set_item("retransmissions", total.retransmissions)?;
            row.set_item("timeouts", total.timeouts)?;
            row.set_item("acked", total.acked)?;
            row.set_item("delivered", total.delivered)?;
            row.set_item("acks_sent", total.acks_sent)?;
            Ok(row)
        };
        self.output.totals.iter().map(totals).collect()
    }
}

impl Simulation {
    fn check(&self, tap: usize) -> PyResult<()> {
        if tap < self.output.taps.count() {
            return Ok(());
        }
        Err(PyIndexError::new_err(format!("no tap {tap}")))
    }
}

fn place_name(place: Site) -> String {
    match place {
        Site::Sender => "S".to_owned(),
        Site::Receiver => "D".to_owned(),
        Site::Node { number, is_reverse } => {
            format!("{}{number}", if is_reverse { "R" } else { "N" })
        }
    }
}
