//! The columns of the connections table, each named once: DataFrame, CSV, Parquet and JSON are made from here.

use super::connection::Connection;
use super::counts::FlowCounts;
use super::flow::Flow;
use crate::infer::Samples;

/// One cell; `Missing` where the capture cannot tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Missing,
}

/// What a column holds; a `Float` column may miss values, an `Int` or `Bool` column may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    Float,
    Bool,
    Text,
}

/// Name, kind, unit, what it holds, the cell.
pub type Column<T> = (
    &'static str,
    Kind,
    &'static str,
    &'static str,
    fn(&T) -> Value,
);

pub type FlowColumn = (
    &'static str,
    Kind,
    &'static str,
    &'static str,
    fn(&Side<'_>) -> Value,
);

/// One direction of a connection with what only the connection knows of it.
pub struct Side<'a> {
    pub connection: &'a Connection,
    pub flow: &'a Flow,
    pub from: usize,
}

impl Side<'_> {
    fn counts(&self) -> &FlowCounts {
        &self.flow.counts
    }
}

fn int(value: u64) -> Value {
    Value::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

fn float(value: Option<f64>) -> Value {
    value
        .filter(|value| value.is_finite())
        .map_or(Value::Missing, Value::Float)
}

fn number(value: Option<impl Into<i64>>) -> Value {
    value.map_or(Value::Missing, |value| Value::Float(value.into() as f64))
}

fn among(samples: &Samples, value: i64) -> Value {
    number((samples.count() > 0).then_some(value))
}

fn both(connection: &Connection, count: fn(&FlowCounts) -> u64) -> Value {
    int(connection
        .flows
        .iter()
        .map(|flow| count(&flow.counts))
        .sum())
}

/// Whole-connection columns. Times are nanoseconds, `start_ns` since the epoch.
pub const CONNECTION: &[Column<Connection>] = &[
    (
        "id",
        Kind::Int,
        "",
        "the connection's number: the order of first packets, from 0",
        |c| int(c.id as u64),
    ),
    (
        "client",
        Kind::Text,
        "",
        "who opened it: the first SYN's sender, else the receiver of a SYN-ACK, else the higher port",
        |c| Value::Text(c.ends[c.client()].addr.to_string()),
    ),
    ("client_port", Kind::Int, "", "the client's port", |c| {
        Value::Int(c.ends[c.client()].port.into())
    }),
    ("server", Kind::Text, "", "the other end", |c| {
        Value::Text(c.ends[1 - c.client()].addr.to_string())
    }),
    ("port", Kind::Int, "", "the server's port", |c| {
        Value::Int(c.ends[1 - c.client()].port.into())
    }),
    (
        "start_ns",
        Kind::Int,
        "ns",
        "time of the first packet since 1970, UTC",
        |c| Value::Int(c.first_time()),
    ),
    (
        "duration_ns",
        Kind::Int,
        "ns",
        "first packet to last",
        |c| Value::Int(c.duration()),
    ),
    ("packets", Kind::Int, "packets", "packets captured", |c| {
        int(c.packets())
    }),
    (
        "bytes",
        Kind::Int,
        "bytes",
        "payload, repeated bytes included",
        |c| both(c, |counts| counts.bytes()),
    ),
    (
        "unique_bytes",
        Kind::Int,
        "bytes",
        "payload counted once (as tcptrace's unique bytes)",
        |c| both(c, |counts| counts.unique_bytes),
    ),
    (
        "retransmissions",
        Kind::Int,
        "segments",
        "segments with a payload byte that had been sent before",
        |c| both(c, |counts| counts.retransmissions),
    ),
    (
        "handshake_rtt_ns",
        Kind::Float,
        "ns",
        "SYN to the ACK of the SYN-ACK: a whole round trip wherever the tap stands",
        |c| number(c.handshake_rtt()),
    ),
    (
        "sack",
        Kind::Bool,
        "",
        "both SYNs permit SACK (RFC 2018)",
        |c| Value::Bool(c.flows.iter().all(|flow| flow.counts.sack_permitted)),
    ),
    (
        "timestamps",
        Kind::Bool,
        "",
        "both sides send timestamps (RFC 7323)",
        |c| Value::Bool(c.flows.iter().all(|flow| flow.counts.timestamps)),
    ),
    (
        "end",
        Kind::Text,
        "",
        "fin: both sides sent one; rst: reset; open: neither in the capture",
        |c| Value::Text(c.end().name().to_owned()),
    ),
    (
        "vantage",
        Kind::Text,
        "",
        "where the tap stands, by the parts of the handshake's round trip: client, server, middle, unknown",
        |c| Value::Text(c.vantage().name().to_owned()),
    ),
    ("from_start", Kind::Bool, "", "the capture has a SYN", |c| {
        Value::Bool(c.is_from_start())
    }),
    (
        "simultaneous_open",
        Kind::Bool,
        "",
        "both sides sent a SYN before either answered (RFC 9293 section 3.5)",
        |c| Value::Bool(c.is_simultaneous),
    ),
    (
        "approximate",
        Kind::Bool,
        "",
        "old gaps were given up to stay within memory: counts of repeated bytes are estimates",
        |c| Value::Bool(c.flows.iter().any(Flow::is_approximate)),
    ),
];

/// Columns of one direction; in the table each stands twice, with `_client` and `_server`: who sent it.
/// RTTs are those of the data that this side sent, from the tap to the peer and back.
pub const FLOW: &[FlowColumn] = &[
    (
        "packets",
        Kind::Int,
        "packets",
        "packets that this side sent",
        |s| int(s.counts().packets()),
    ),
    (
        "data_packets",
        Kind::Int,
        "packets",
        "of them with payload",
        |s| int(s.counts().data_packets),
    ),
    (
        "bytes",
        Kind::Int,
        "bytes",
        "payload, repeated bytes included",
        |s| int(s.counts().bytes()),
    ),
    (
        "unique_bytes",
        Kind::Int,
        "bytes",
        "payload counted once",
        |s| int(s.counts().unique_bytes),
    ),
    (
        "missing_bytes",
        Kind::Int,
        "bytes",
        "payload within what was sent that the capture does not hold",
        |s| Value::Int(s.flow.missing_bytes()),
    ),
    (
        "acks",
        Kind::Int,
        "packets",
        "packets with the ACK flag",
        |s| int(s.counts().acks()),
    ),
    (
        "pure_acks",
        Kind::Int,
        "packets",
        "of them without payload, SYN, FIN and RST",
        |s| int(s.counts().pure_acks),
    ),
    (
        "dup_acks",
        Kind::Int,
        "packets",
        "duplicate ACKs that this side sent (RFC 5681 section 2; with new SACK blocks RFC 6675)",
        |s| int(s.counts().dup_acks),
    ),
    (
        "retransmissions",
        Kind::Int,
        "segments",
        "segments with a payload byte that had been sent before",
        |s| int(s.counts().retransmissions),
    ),
    (
        "retransmitted_bytes",
        Kind::Int,
        "bytes",
        "such bytes",
        |s| int(s.counts().retransmitted_bytes),
    ),
    (
        "out_of_order",
        Kind::Int,
        "segments",
        "segments that filled a hole below data seen before",
        |s| int(s.counts().out_of_order),
    ),
    (
        "duplicate_packets",
        Kind::Int,
        "packets",
        "packets captured twice",
        |s| int(s.counts().duplicate_packets),
    ),
    (
        "damaged_packets",
        Kind::Int,
        "packets",
        "packets left out for a wrong checksum, where nearly all others are right",
        |s| int(s.counts().damaged_packets),
    ),
    (
        "syn_after_ack_ns",
        Kind::Float,
        "ns",
        "by how much its SYN was captured after the ACK of it: two clocks, or stamps out of order",
        |s| number(s.counts().syn_after_ack),
    ),
    (
        "keep_alives",
        Kind::Int,
        "packets",
        "keep-alives (RFC 9293 section 3.8.4)",
        |s| int(s.counts().keep_alives),
    ),
    (
        "window_probes",
        Kind::Int,
        "packets",
        "one byte into a closed window (RFC 9293 section 3.8.6.1)",
        |s| int(s.counts().window_probes),
    ),
    (
        "sack_packets",
        Kind::Int,
        "packets",
        "packets with SACK blocks",
        |s| int(s.counts().sack_packets),
    ),
    ("sack_blocks", Kind::Int, "blocks", "SACK blocks", |s| {
        int(s.counts().sack_blocks)
    }),
    (
        "dsacks",
        Kind::Int,
        "packets",
        "reports of data received twice (RFC 2883)",
        |s| int(s.counts().dsacks),
    ),
    (
        "zero_windows",
        Kind::Int,
        "packets",
        "packets that offer no window",
        |s| int(s.counts().zero_windows),
    ),
    (
        "options_cut",
        Kind::Int,
        "packets",
        "packets of whose TCP options the capture has not all (snaplen, overwritten)",
        |s| int(s.counts().options_cut),
    ),
    ("syns", Kind::Int, "packets", "SYNs", |s| {
        int(s.counts().syns)
    }),
    ("fins", Kind::Int, "packets", "FINs", |s| {
        int(s.counts().fins)
    }),
    ("resets", Kind::Int, "packets", "RSTs", |s| {
        int(s.counts().resets)
    }),
    (
        "mss",
        Kind::Float,
        "bytes",
        "the MSS option of this side's SYN (RFC 9293 section 3.7.1)",
        |s| number(s.counts().mss),
    ),
    (
        "ttl",
        Kind::Float,
        "hops",
        "TTL or hop limit of this side's first packet, as captured",
        |s| number(s.counts().ttl),
    ),
    (
        "first_seq",
        Kind::Float,
        "",
        "the wire's sequence number of offset 0",
        |s| number(s.flow.first_sequence()),
    ),
    (
        "wscale",
        Kind::Float,
        "",
        "the shift of this side's windows (RFC 7323 section 2); missing where the handshake was not captured",
        |s| number(s.connection.known_shift(s.from)),
    ),
    (
        "sack_permitted",
        Kind::Bool,
        "",
        "this side's SYN permits SACK",
        |s| Value::Bool(s.counts().sack_permitted),
    ),
    (
        "max_segment",
        Kind::Int,
        "bytes",
        "largest payload of one packet",
        |s| int(s.counts().max_segment.into()),
    ),
    (
        "initial_window_bytes",
        Kind::Float,
        "bytes",
        "sent before the first ACK of data (RFC 6928)",
        |s| from_start(s, s.counts().initial_window_bytes),
    ),
    (
        "initial_window_segments",
        Kind::Float,
        "segments",
        "the same in segments",
        |s| from_start(s, s.counts().initial_window_segments),
    ),
    (
        "max_window",
        Kind::Int,
        "bytes",
        "largest window offered, scaled",
        |s| int(s.counts().max_window),
    ),
    (
        "mean_window",
        Kind::Float,
        "bytes",
        "mean window offered, scaled, SYNs apart",
        |s| float(s.counts().mean_window()),
    ),
    (
        "rtt_count",
        Kind::Int,
        "samples",
        "round trips from the tap to the peer and back, by sequence numbers (Karn's rule)",
        |s| int(s.counts().rtt.count()),
    ),
    (
        "rtt_min_ns",
        Kind::Float,
        "ns",
        "the shortest of them",
        |s| among(&s.counts().rtt, s.counts().rtt.min()),
    ),
    (
        "rtt_median_ns",
        Kind::Float,
        "ns",
        "their median (within 0.8 % beyond 64 samples)",
        |s| float(s.counts().rtt.quantile(0.5)),
    ),
    ("rtt_mean_ns", Kind::Float, "ns", "their mean", |s| {
        float(s.counts().rtt.mean())
    }),
    (
        "rtt_p95_ns",
        Kind::Float,
        "ns",
        "their 95th percentile (within 0.8 % beyond 64 samples)",
        |s| float(s.counts().rtt.quantile(0.95)),
    ),
    (
        "rtt_max_ns",
        Kind::Float,
        "ns",
        "the longest of them",
        |s| among(&s.counts().rtt, s.counts().rtt.max()),
    ),
    (
        "ts_rtt_count",
        Kind::Int,
        "samples",
        "round trips by timestamps (RFC 7323 section 4), retransmitted segments included",
        |s| int(s.counts().ts_rtt.count()),
    ),
    (
        "ts_rtt_min_ns",
        Kind::Float,
        "ns",
        "the shortest of them",
        |s| among(&s.counts().ts_rtt, s.counts().ts_rtt.min()),
    ),
    ("ts_rtt_median_ns", Kind::Float, "ns", "their median", |s| {
        float(s.counts().ts_rtt.quantile(0.5))
    }),
    ("ts_rtt_mean_ns", Kind::Float, "ns", "their mean", |s| {
        float(s.counts().ts_rtt.mean())
    }),
    (
        "ts_rtt_p95_ns",
        Kind::Float,
        "ns",
        "their 95th percentile",
        |s| float(s.counts().ts_rtt.quantile(0.95)),
    ),
    (
        "ts_rtt_max_ns",
        Kind::Float,
        "ns",
        "the longest of them",
        |s| among(&s.counts().ts_rtt, s.counts().ts_rtt.max()),
    ),
    (
        "handshake_rtt_ns",
        Kind::Float,
        "ns",
        "from this side's SYN or SYN-ACK, if sent once, to its ACK: the part of the handshake behind the tap",
        |s| number(s.counts().handshake_rtt),
    ),
    (
        "throughput_bps",
        Kind::Float,
        "bit/s",
        "unique payload over the connection's whole time, as in tcptrace",
        |s| {
            // Unique payload over the connection's whole time, as tcptrace has it.
            float(Some(
                s.counts().unique_bytes as f64 * 8e9 / s.connection.duration() as f64,
            ))
        },
    ),
    (
        "idle_max_ns",
        Kind::Int,
        "ns",
        "longest time without a packet of this side",
        |s| Value::Int(s.counts().idle_max),
    ),
    (
        "first_ns",
        Kind::Float,
        "ns",
        "this side's first packet, since the connection's",
        |s| seen(s, s.counts().first_time),
    ),
    (
        "last_ns",
        Kind::Float,
        "ns",
        "this side's last packet, since the connection's first",
        |s| seen(s, s.counts().last_time),
    ),
];

fn from_start(side: &Side<'_>, value: u64) -> Value {
    if side.flow.isn.is_some() {
        Value::Float(value as f64)
    } else {
        Value::Missing
    }
}

/// Nanoseconds since the connection's start: a float holds them exactly for a hundred days.
fn seen(side: &Side<'_>, time: i64) -> Value {
    number((side.counts().packets() > 0).then_some(time - side.connection.first_time()))
}

/// Every column's name and kind, in the table's order.
pub fn columns() -> impl Iterator<Item = (String, Kind)> {
    let whole = CONNECTION
        .iter()
        .map(|(name, kind, ..)| ((*name).to_owned(), *kind));
    let sides = ["client", "server"].into_iter().flat_map(|side| {
        FLOW.iter()
            .map(move |(name, kind, ..)| (format!("{name}_{side}"), *kind))
    });
    whole.chain(sides)
}

/// Every column's name, unit and meaning, in the table's order.
pub fn documented() -> impl Iterator<Item = (String, &'static str, String)> {
    let whole = CONNECTION
        .iter()
        .map(|(name, _, unit, text, _)| ((*name).to_owned(), *unit, (*text).to_owned()));
    let sides = ["client", "server"].into_iter().flat_map(|side| {
        FLOW.iter().map(move |(name, _, unit, text, _)| {
            (format!("{name}_{side}"), *unit, format!("{side}: {text}"))
        })
    });
    whole.chain(sides)
}

/// One connection's cells, in the order of `columns`.
pub fn row(connection: &Connection) -> impl Iterator<Item = Value> + '_ {
    let whole = CONNECTION.iter().map(move |(.., cell)| cell(connection));
    let client = connection.client();
    let sides = [client, 1 - client].into_iter().flat_map(move |from| {
        FLOW.iter().map(move |(.., cell)| {
            cell(&Side {
                connection,
                flow: &connection.flows[from],
                from,
            })
        })
    });
    whole.chain(sides)
}
