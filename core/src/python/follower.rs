//! Connections followed from what Python brings: packets as bytes, or columns that another dissector decoded.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::capture::Capture;
use crate::capture::{self, Reader};
use crate::connection::{ConnectionTable, Followed};
use crate::wire::{
    Checked, DecodeCounts, Decoder, Endpoint, SackBlocks, Segment, TcpFlags, TcpOptions,
};

pyo3::import_exception!(tcptrace_lab.errors, CaptureError);

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Follower>()?;
    module.add_class::<Records>()?;
    module.add("SEGMENT_NUMBERS", NUMBERS.to_vec())
}

/// A connection table that grows as it is fed. Packets count from 0, those without a segment included.
#[pyclass(module = "tcptrace_lab._core")]
pub struct Follower {
    name: String,
    table: ConnectionTable,
    decoder: Decoder,
    /// Packets that came as columns, and those a foreign dissector found no segment in.
    counts: DecodeCounts,
    packets: u64,
    truncated: Option<(u64, String)>,
}

#[pymethods]
impl Follower {
    #[new]
    #[pyo3(signature = (name, detail=None))]
    fn new(name: String, detail: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self {
            name,
            table: ConnectionTable::new(super::capture::wanted(detail)?),
            decoder: Decoder::new(),
            counts: DecodeCounts::default(),
            packets: 0,
            truncated: None,
        })
    }

    /// The next packet of the link type as its first `data` bytes; whether it held a segment.
    fn push_packet(&mut self, time_ns: i64, link_type: u16, orig_len: u32, data: &[u8]) -> bool {
        let segment = self.decoder.decode(link_type, data, orig_len);
        if let Ok(segment) = &segment {
            self.table.push_record(time_ns, self.packets, segment);
        }
        self.packets += 1;
        segment.is_ok()
    }

    /// The segments in the next `packets` packets as columns (all of one length; `packet` counts within them; -1: the
    /// option is not there), and how many of the others were no IP or no TCP.
    fn push_columns(
        &mut self,
        columns: &Bound<'_, PyDict>,
        packets: u64,
        not_ip: u64,
        not_tcp: u64,
    ) -> PyResult<()> {
        let columns = Columns::new(columns)?;
        for row in 0..columns.rows {
            let (index, time_ns, segment) = columns.segment(row)?;
            self.table
                .push_record(time_ns, self.packets + index, &segment);
        }
        self.packets += packets;
        self.counts.packets += packets;
        self.counts.segments += columns.rows as u64;
        self.counts.not_ip += not_ip;
        self.counts.not_tcp += not_tcp;
        self.counts.malformed += packets.saturating_sub(columns.rows as u64 + not_ip + not_tcp);
        Ok(())
    }

    /// Says that the capture is cut or damaged at this byte.
    fn set_truncated(&mut self, offset: u64, reason: String) {
        self.truncated = Some((offset, reason));
    }

    /// What was followed so far; the table goes on from there.
    fn capture(&self) -> Capture {
        Capture::new(Followed {
            name: self.name.clone(),
            table: self.table.clone(),
            counts: self.counts + *self.decoder.counts(),
            truncated: self
                .truncated
                .clone()
                .map(|(offset, reason)| capture::Truncated { offset, reason }),
        })
    }
}

/// Segments as another dissector's columns.
struct Columns<'py> {
    rows: usize,
    packet: PyReadonlyArray1<'py, i64>,
    time_ns: PyReadonlyArray1<'py, i64>,
    src: Vec<String>,
    dst: Vec<String>,
    /// Those that are whole numbers, in the order of `NUMBERS`.
    numbers: Vec<PyReadonlyArray1<'py, i64>>,
    sack_permitted: PyReadonlyArray1<'py, bool>,
    has_tfo: PyReadonlyArray1<'py, bool>,
    has_mptcp: PyReadonlyArray1<'py, bool>,
    sack: Vec<Vec<(u32, u32)>>,
}

const NUMBERS: [&str; 15] = [
    "src_port",
    "dst_port",
    "seq",
    "ack",
    "flags",
    "window",
    "payload_len",
    "ip_len",
    "ip_id",
    "ttl",
    "ecn",
    "mss",
    "wscale",
    "ts_val",
    "ts_ecr",
];

impl<'py> Columns<'py> {
    fn new(columns: &Bound<'py, PyDict>) -> PyResult<Self> {
        let get = |name: &str| {
            columns
                .get_item(name)?
                .ok_or_else(|| pyo3::exceptions::PyValueError::new_err(format!("no column {name}")))
        };
        let numbers: Vec<PyReadonlyArray1<'py, i64>> = NUMBERS
            .iter()
            .map(|name| get(name)?.extract())
            .collect::<PyResult<_>>()?;
        let found = Self {
            packet: get("packet")?.extract()?,
            time_ns: get("time_ns")?.extract()?,
            src: get("src")?.extract()?,
            dst: get("dst")?.extract()?,
            sack_permitted: get("sack_permitted")?.extract()?,
            has_tfo: get("has_tfo")?.extract()?,
            has_mptcp: get("has_mptcp")?.extract()?,
            sack: get("sack")?.extract()?,
            rows: numbers[0].as_array().len(),
            numbers,
        };
        let lengths = found
            .numbers
            .iter()
            .map(|column| column.as_array().len())
            .chain([
                found.packet.as_array().len(),
                found.time_ns.as_array().len(),
                found.src.len(),
                found.dst.len(),
                found.sack.len(),
                found.sack_permitted.as_array().len(),
                found.has_tfo.as_array().len(),
                found.has_mptcp.as_array().len(),
            ]);
        for length in lengths {
            if length != found.rows {
                return Err(pyo3::exceptions::PyValueError::new_err(format!(
                    "columns of {} and {length} rows",
                    found.rows
                )));
            }
        }
        Ok(found)
    }

    /// Index of its packet, time, and the segment.
    fn segment(&self, row: usize) -> PyResult<(u64, i64, Segment)> {
        let number = |column: usize| self.numbers[column].as_array()[row];
        let option = |column: usize| Some(number(column)).filter(|value| *value >= 0);
        let address = |text: &str| {
            text.parse::<IpAddr>().map_err(|_| {
                pyo3::exceptions::PyValueError::new_err(format!("not an IP address: {text:?}"))
            })
        };
        let mut sack = SackBlocks::default();
        for (place, edge) in sack.edges.iter_mut().zip(&self.sack[row]) {
            *place = *edge;
            sack.count += 1;
        }
        let segment = Segment {
            src: Endpoint {
                addr: address(&self.src[row])?,
                port: number(0) as u16,
            },
            dst: Endpoint {
                addr: address(&self.dst[row])?,
                port: number(1) as u16,
            },
            seq: number(2) as u32,
            ack: number(3) as u32,
            flags: TcpFlags(number(4) as u16 & 0x01ff),
            window: number(5) as u16,
            payload_len: number(6) as u32,
            ip_len: number(7) as u32,
            ip_id: number(8) as u16,
            ttl: number(9) as u8,
            ecn: number(10) as u8,
            network: 0,
            checked: Checked::Unknown,
            options: TcpOptions {
                mss: option(11).map(|mss| mss as u16),
                wscale: option(12).map(|shift| shift as u8),
                sack_permitted: self.sack_permitted.as_array()[row],
                sack,
                timestamps: option(13).map(|ts_val| (ts_val as u32, number(14) as u32)),
                has_tfo: self.has_tfo.as_array()[row],
                has_mptcp: self.has_mptcp.as_array()[row],
                ..TcpOptions::NONE
            },
        };
        let index = self.packet.as_array()[row];
        Ok((index as u64, self.time_ns.as_array()[row], segment))
    }
}

type Endpoints = (String, u16, String, u16);
type RecordTuple<'py> = (i64, u16, u32, Bound<'py, PyBytes>, Option<Endpoints>);

/// The records of a capture file, one by one: time_ns, link type, length on the wire, bytes captured, and the
/// endpoints (address, port, address, port) if it holds a TCP segment.
#[pyclass(module = "tcptrace_lab._core")]
pub struct Records {
    /// Python may hand the iterator to another thread; only one reads at a time.
    reader: Mutex<Reader>,
    decoder: Decoder,
}

#[pymethods]
impl Records {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let reader =
            capture::open(path).map_err(|error| CaptureError::new_err(error.to_string()))?;
        Ok(Self {
            reader: Mutex::new(reader),
            decoder: Decoder::new(),
        })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<RecordTuple<'py>>> {
        let reader = self
            .reader
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let record = reader.next_record();
        let record = record.map_err(|error| CaptureError::new_err(error.to_string()))?;
        Ok(record.map(|record| {
            let segment = self
                .decoder
                .decode(record.link_type, record.data, record.orig_len);
            let endpoints = segment.ok().map(|segment| {
                let (src, dst) = (segment.src, segment.dst);
                (
                    src.addr.to_string(),
                    src.port,
                    dst.addr.to_string(),
                    dst.port,
                )
            });
            (
                record.time_ns,
                record.link_type,
                record.orig_len,
                PyBytes::new(py, record.data),
                endpoints,
            )
        }))
    }
}
