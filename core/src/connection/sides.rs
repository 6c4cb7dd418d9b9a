//! The columns of one direction of a connection, each named once.

use super::cells::{Cell, Kind, among, float, int, number};
use super::connection::Connection;
use super::counts::FlowCounts;
use super::flow::Flow;

pub type FlowColumn = (
    &'static str,
    Kind,
    &'static str,
    &'static str,
    fn(&Side<'_>) -> Cell,
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
        |s| Cell::Int(s.flow.missing_bytes()),
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
    (
        "blocks_cut",
        Kind::Int,
        "packets",
        "those of them that may have had a SACK block which was not captured and no packet before tells of",
        |s| int(s.counts().blocks_cut),
    ),
    (
        "options_cut_alike",
        Kind::Bool,
        "",
        "the headers of those of them that are no SYN are of one length: none has a SACK block, or each",
        |s| {
            let headers = s.counts().cut_headers;
            Cell::Bool(headers.is_some_and(|(least, most)| least == most))
        },
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
        |s| Cell::Bool(s.counts().sack_permitted),
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
        |s| Cell::Int(s.counts().idle_max),
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

fn from_start(side: &Side<'_>, value: u64) -> Cell {
    if side.flow.isn.is_some() {
        Cell::Float(value as f64)
    } else {
        Cell::Missing
    }
}

/// Nanoseconds since the connection's start: a float holds them exactly for a hundred days.
fn seen(side: &Side<'_>, time: i64) -> Cell {
    number((side.counts().packets() > 0).then_some(time - side.connection.first_time()))
}
