//! Starts of k packets into b buffers as numpy arrays (core/src/models/start.rs).

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::table;
use super::columns::{Column, unequal};
use crate::models::start::{Packets, Start, follow};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(starts, module)?)
}

/// Of each start the first `count` packets, one start behind the other, and what its sender has counted.
#[pyfunction]
#[pyo3(signature = (*, initial_window, places, last_rate, feed_rate, feed_time, return_time, ack_timer, block_time,
                    forward, most_blocks, count))]
#[expect(
    clippy::too_many_arguments,
    reason = "the model's parameters, each by its name in Python"
)]
fn starts<'py>(
    py: Python<'py>,
    initial_window: Column<'py, f64>,
    places: Column<'py, f64>,
    last_rate: Column<'py, f64>,
    feed_rate: Column<'py, f64>,
    feed_time: Column<'py, f64>,
    return_time: Column<'py, f64>,
    ack_timer: Column<'py, f64>,
    block_time: Column<'py, f64>,
    forward: Column<'py, f64>,
    most_blocks: f64,
    count: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = [
        initial_window.as_slice()?,
        places.as_slice()?,
        last_rate.as_slice()?,
        feed_rate.as_slice()?,
        feed_time.as_slice()?,
        return_time.as_slice()?,
        ack_timer.as_slice()?,
        block_time.as_slice()?,
        forward.as_slice()?,
    ];
    let rows = columns[0].len();
    if columns.iter().any(|column| column.len() != rows) {
        return Err(unequal());
    }
    let cells = rows.checked_mul(count).ok_or_else(unequal)?;
    let [mut sent, mut delivered, mut ack_at, mut ack_number] =
        [(); 4].map(|()| vec![f64::NAN; cells]);
    let [mut is_lost, mut is_duplicate] = [(); 2].map(|()| vec![false; cells]);
    let ended: Vec<_> = (0..rows)
        .map(|row| {
            let own = row * count..(row + 1) * count;
            let [
                initial_window,
                places,
                last_rate,
                feed_rate,
                feed_time,
                return_time,
                ack_timer,
                block_time,
                forward,
            ] = columns.map(|column| column[row]);
            let start = Start {
                initial_window,
                places,
                last_rate,
                feed_rate,
                feed_time,
                return_time,
                ack_timer,
                block_time,
                most_blocks,
                is_forward: forward == 1.0,
            };
            follow(
                start,
                Packets {
                    sent: &mut sent[own.clone()],
                    delivered: &mut delivered[own.clone()],
                    ack_at: &mut ack_at[own.clone()],
                    ack_number: &mut ack_number[own.clone()],
                    is_lost: &mut is_lost[own.clone()],
                    is_duplicate: &mut is_duplicate[own],
                },
            )
        })
        .collect();
    let (duplicates, retransmitted): (Vec<_>, Vec<_>) = ended
        .iter()
        .map(|each| (each.duplicates, each.retransmitted))
        .unzip();
    table!(py, "sent" => sent, "delivered" => delivered, "ack_at" => ack_at, "ack_number" => ack_number,
        "is_lost" => is_lost, "is_duplicate" => is_duplicate, "duplicates" => duplicates,
        "retransmitted" => retransmitted)
}
