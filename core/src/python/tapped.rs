//! What a simulation's taps saw, for Python: packets, a followed capture, a file.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::capture::{Capture, wanted};
use crate::capture::FileFormat;
use crate::connection::{ConnectionTable, Followed};
use crate::simulate::capture_file::{Kept, write_capture};
use crate::simulate::taps::FinishedTaps;
use crate::wire::{DecodeCounts, Segment, TcpFlags};

/// Capture files are written in blocks of this many bytes.
pub const BLOCK: usize = 1 << 18;

/// Every packet with its numbers on the wire: a dict of columns.
pub fn packets<'py>(
    py: Python<'py>,
    taps: &dyn FinishedTaps,
    tap: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let rows: Vec<(i64, Segment)> = taps.segments(tap).collect();
    let ends = taps.ends();
    let number = |segment: &Segment| {
        let of = ends
            .iter()
            .position(|row| row.sender == segment.src || row.sender == segment.dst);
        of.expect("every simulated segment belongs to a connection")
    };
    let table = PyDict::new(py);
    let put = |name: &str, value: &dyn Fn(&(i64, Segment)) -> i64| {
        table.set_item(
            name,
            rows.iter().map(value).collect::<Vec<_>>().into_pyarray(py),
        )
    };
    put("time_ns", &|row| row.0)?;
    put("connection", &|row| number(&row.1) as i64)?;
    put("seq", &|row| i64::from(row.1.seq))?;
    put("ack", &|row| i64::from(row.1.ack))?;
    put("flags", &|row| i64::from(row.1.flags.0))?;
    put("window", &|row| i64::from(row.1.window))?;
    put("payload_len", &|row| i64::from(row.1.payload_len))?;
    put("ts_val", &|row| {
        row.1
            .options
            .timestamps
            .map_or(-1, |(value, _)| i64::from(value))
    })?;
    put("ts_ecr", &|row| match row.1.options.timestamps {
        Some((_, echo)) if row.1.flags.has(TcpFlags::ACK) => i64::from(echo),
        _ => -1,
    })?;
    let from_sender: Vec<bool> = rows
        .iter()
        .map(|row| ends[number(&row.1)].sender == row.1.src)
        .collect();
    table.set_item("is_from_sender", from_sender.into_pyarray(py))?;
    let none = PyTuple::empty(py);
    let blocks = rows.iter().map(|row| match row.1.options.sack.as_slice() {
        [] => Ok(none.clone()),
        blocks => PyTuple::new(py, blocks.iter().copied()),
    });
    table.set_item(
        "sack",
        PyList::new(py, blocks.collect::<PyResult<Vec<_>>>()?)?,
    )?;
    Ok(table)
}

/// The connection table over a tap, without a file between.
pub fn capture(
    py: Python<'_>,
    taps: &dyn FinishedTaps,
    tap: usize,
    name: String,
    detail: Option<&Bound<'_, PyAny>>,
) -> PyResult<Capture> {
    let mut table = ConnectionTable::new(wanted(detail)?);
    let mut counts = DecodeCounts::default();
    py.detach(|| {
        for (time_ns, segment) in taps.segments(tap) {
            table.push(time_ns, &segment);
            counts.packets += 1;
            counts.segments += 1;
        }
    });
    Ok(Capture::new(Followed {
        name,
        table,
        counts,
        truncated: None,
    }))
}

/// Writes a tap as pcap (nanoseconds) or pcapng.
pub fn write(
    py: Python<'_>,
    taps: &dyn FinishedTaps,
    tap: usize,
    path: &Path,
    is_pcapng: bool,
    kept: Kept,
    epoch_ns: i64,
) -> PyResult<()> {
    let format = file_format(is_pcapng);
    py.detach(|| {
        let sink = BufWriter::with_capacity(BLOCK, File::create(path)?);
        write_capture(
            sink,
            format,
            kept,
            taps.segments(tap)
                .map(|(time_ns, segment)| (epoch_ns + time_ns, segment)),
        )
        .map(drop)
    })?;
    Ok(())
}

pub fn file_format(is_pcapng: bool) -> FileFormat {
    if is_pcapng {
        FileFormat::Pcapng
    } else {
        FileFormat::PcapNanos
    }
}
