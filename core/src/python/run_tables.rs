//! Tables that a simulation and a replay have in common.

use numpy::IntoPyArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::network::QueueBin;
use crate::simulate::{NodeTotals, QUEUE_BIN_NS};

/// A node's queue in bins.
pub fn queue_table<'py>(
    py: Python<'py>,
    nodes: &[NodeTotals],
    node: u32,
    is_reverse: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let found = nodes
        .iter()
        .find(|n| n.number == node && n.is_reverse == is_reverse);
    let found = found.ok_or_else(|| PyValueError::new_err(format!("no node {node}")))?;
    let rows: &[QueueBin] = &found.bins;
    let table = PyDict::new(py);
    column(&table, "time_ns", rows, |row| row.bin * QUEUE_BIN_NS)?;
    column(&table, "arrivals", rows, |row| row.arrivals)?;
    column(&table, "drops", rows, |row| row.drops)?;
    column(&table, "waiting_max", rows, |row| row.waiting_max)?;
    column(&table, "waiting_last", rows, |row| row.waiting_last)?;
    column(&table, "wait_ns", rows, |row| row.wait_ns)?;
    Ok(table)
}

/// Totals of a node.
pub fn node_row<'py>(py: Python<'py>, node: &NodeTotals) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("node", node.number)?;
    row.set_item("is_reverse", node.is_reverse)?;
    row.set_item("packets_in", node.counters.packets_in)?;
    row.set_item("packets_out", node.counters.packets_out)?;
    row.set_item("packets_dropped", node.counters.packets_dropped)?;
    row.set_item("bytes_in", node.counters.bytes_in)?;
    row.set_item("bytes_out", node.counters.bytes_out)?;
    row.set_item("bytes_dropped", node.counters.bytes_dropped)?;
    row.set_item("waiting", node.waiting)?;
    row.set_item("is_conserved", node.is_conserved)?;
    Ok(row)
}

pub fn column<'py, R, T: numpy::Element>(
    table: &Bound<'py, PyDict>,
    name: &str,
    rows: &[R],
    value: impl Fn(&R) -> T,
) -> PyResult<()> {
    table.set_item(
        name,
        rows.iter()
            .map(value)
            .collect::<Vec<_>>()
            .into_pyarray(table.py()),
    )
}
