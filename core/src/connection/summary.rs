//! The columns of the connections table, each named once: DataFrame, CSV, Parquet and JSON are made from here.

use super::connection::Connection;
use super::counts::Counts;
use super::flow::Flow;
use super::samples::Samples;

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

pub type Column<T> = (&'static str, Kind, fn(&T) -> Value);

pub type FlowColumn = (&'static str, Kind, fn(&Side<'_>) -> Value);

/// One direction of a connection with what only the connection knows of it.
pub struct Side<'a> {
    pub connection: &'a Connection,
    pub flow: &'a Flow,
    pub from: usize,
}

impl Side<'_> {
    fn counts(&self) -> &Counts {
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

fn both(connection: &Connection, count: fn(&Counts) -> u64) -> Value {
    int(connection
        .flows
        .iter()
        .map(|flow| count(&flow.counts))
        .sum())
}

/// Whole-connection columns. Times are nanoseconds, `start_ns` since the epoch.
pub const CONNECTION: &[Column<Connection>] = &[
    ("id", Kind::Int, |c| int(c.id as u64)),
    ("client", Kind::Text, |c| {
        Value::Text(c.ends[c.client()].addr.to_string())
    }),
    ("client_port", Kind::Int, |c| {
        Value::Int(c.ends[c.client()].port.into())
    }),
    ("server", Kind::Text, |c| {
        Value::Text(c.ends[1 - c.client()].addr.to_string())
    }),
    ("port", Kind::Int, |c| {
        Value::Int(c.ends[1 - c.client()].port.into())
    }),
    ("start_ns", Kind::Int, |c| Value::Int(c.first_time())),
    ("duration_ns", Kind::Int, |c| Value::Int(c.duration())),
    ("packets", Kind::Int, |c| int(c.packets())),
    ("bytes", Kind::Int, |c| both(c, |counts| counts.bytes())),
    ("unique_bytes", Kind::Int, |c| {
        both(c, |counts| counts.unique_bytes)
    }),
    ("retransmissions", Kind::Int, |c| {
        both(c, |counts| counts.retransmissions)
    }),
    ("handshake_rtt_ns", Kind::Float, |c| {
        number(c.handshake_rtt())
    }),
    ("sack", Kind::Bool, |c| {
        Value::Bool(c.flows.iter().all(|flow| flow.counts.sack_permitted))
    }),
    ("timestamps", Kind::Bool, |c| {
        Value::Bool(c.flows.iter().all(|flow| flow.counts.timestamps))
    }),
    ("end", Kind::Text, |c| {
        Value::Text(c.end().name().to_owned())
    }),
    ("vantage", Kind::Text, |c| {
        Value::Text(c.vantage().name().to_owned())
    }),
    ("from_start", Kind::Bool, |c| Value::Bool(c.is_from_start())),
    ("simultaneous_open", Kind::Bool, |c| {
        Value::Bool(c.is_simultaneous)
    }),
    ("approximate", Kind::Bool, |c| {
        Value::Bool(c.flows.iter().any(Flow::is_approximate))
    }),
];

/// Columns of one direction; in the table each stands twice, with `_client` and `_server`: who sent it.
/// RTTs are those of the data that this side sent, from the tap to the peer and back.
pub const FLOW: &[FlowColumn] = &[
    ("packets", Kind::Int, |s| int(s.counts().packets())),
    ("data_packets", Kind::Int, |s| int(s.counts().data_packets)),
    ("bytes", Kind::Int, |s| int(s.counts().bytes())),
    ("unique_bytes", Kind::Int, |s| int(s.counts().unique_bytes)),
    ("missing_bytes", Kind::Int, |s| {
        Value::Int(s.flow.missing_bytes())
    }),
    ("acks", Kind::Int, |s| int(s.counts().acks())),
    ("pure_acks", Kind::Int, |s| int(s.counts().pure_acks)),
    ("dup_acks", Kind::Int, |s| int(s.counts().dup_acks)),
    ("retransmissions", Kind::Int, |s| {
        int(s.counts().retransmissions)
    }),
    ("retransmitted_bytes", Kind::Int, |s| {
        int(s.counts().retransmitted_bytes)
    }),
    ("out_of_order", Kind::Int, |s| int(s.counts().out_of_order)),
    ("duplicate_packets", Kind::Int, |s| {
        int(s.counts().duplicate_packets)
    }),
    ("keep_alives", Kind::Int, |s| int(s.counts().keep_alives)),
    ("window_probes", Kind::Int, |s| {
        int(s.counts().window_probes)
    }),
    ("sack_packets", Kind::Int, |s| int(s.counts().sack_packets)),
    ("sack_blocks", Kind::Int, |s| int(s.counts().sack_blocks)),
    ("dsacks", Kind::Int, |s| int(s.counts().dsacks)),
    ("zero_windows", Kind::Int, |s| int(s.counts().zero_windows)),
    ("syns", Kind::Int, |s| int(s.counts().syns)),
    ("fins", Kind::Int, |s| int(s.counts().fins)),
    ("resets", Kind::Int, |s| int(s.counts().resets)),
    ("mss", Kind::Float, |s| number(s.counts().mss)),
    ("ttl", Kind::Float, |s| number(s.counts().ttl)),
    ("wscale", Kind::Float, |s| {
        number(s.connection.known_shift(s.from))
    }),
    ("sack_permitted", Kind::Bool, |s| {
        Value::Bool(s.counts().sack_permitted)
    }),
    ("max_segment", Kind::Int, |s| {
        int(s.counts().max_segment.into())
    }),
    ("initial_window_bytes", Kind::Float, |s| {
        from_start(s, s.counts().initial_window_bytes)
    }),
    ("initial_window_segments", Kind::Float, |s| {
        from_start(s, s.counts().initial_window_segments)
    }),
    ("max_window", Kind::Int, |s| int(s.counts().max_window)),
    ("mean_window", Kind::Float, |s| {
        float(s.counts().mean_window())
    }),
    ("rtt_count", Kind::Int, |s| int(s.counts().rtt.count())),
    ("rtt_min_ns", Kind::Float, |s| {
        among(&s.counts().rtt, s.counts().rtt.min())
    }),
    ("rtt_median_ns", Kind::Float, |s| {
        float(s.counts().rtt.quantile(0.5))
    }),
    ("rtt_mean_ns", Kind::Float, |s| float(s.counts().rtt.mean())),
    ("rtt_p95_ns", Kind::Float, |s| {
        float(s.counts().rtt.quantile(0.95))
    }),
    ("rtt_max_ns", Kind::Float, |s| {
        among(&s.counts().rtt, s.counts().rtt.max())
    }),
    ("ts_rtt_count", Kind::Int, |s| {
        int(s.counts().ts_rtt.count())
    }),
    ("ts_rtt_min_ns", Kind::Float, |s| {
        among(&s.counts().ts_rtt, s.counts().ts_rtt.min())
    }),
    ("ts_rtt_median_ns", Kind::Float, |s| {
        float(s.counts().ts_rtt.quantile(0.5))
    }),
    ("ts_rtt_mean_ns", Kind::Float, |s| {
        float(s.counts().ts_rtt.mean())
    }),
    ("ts_rtt_p95_ns", Kind::Float, |s| {
        float(s.counts().ts_rtt.quantile(0.95))
    }),
    ("ts_rtt_max_ns", Kind::Float, |s| {
        among(&s.counts().ts_rtt, s.counts().ts_rtt.max())
    }),
    ("handshake_rtt_ns", Kind::Float, |s| {
        number(s.counts().handshake_rtt)
    }),
    ("throughput_bps", Kind::Float, |s| {
        // Unique payload over the connection's whole time, as tcptrace has it.
        float(Some(
            s.counts().unique_bytes as f64 * 8e9 / s.connection.duration() as f64,
        ))
    }),
    ("idle_max_ns", Kind::Int, |s| {
        Value::Int(s.counts().idle_max)
    }),
    ("first_ns", Kind::Float, |s| seen(s, s.counts().first_time)),
    ("last_ns", Kind::Float, |s| seen(s, s.counts().last_time)),
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
        .map(|(name, kind, _)| ((*name).to_owned(), *kind));
    let sides = ["client", "server"].into_iter().flat_map(|side| {
        FLOW.iter()
            .map(move |(name, kind, _)| (format!("{name}_{side}"), *kind))
    });
    whole.chain(sides)
}

/// One connection's cells, in the order of `columns`.
pub fn row(connection: &Connection) -> impl Iterator<Item = Value> + '_ {
    let whole = CONNECTION.iter().map(move |(_, _, cell)| cell(connection));
    let client = connection.client();
    let sides = [client, 1 - client].into_iter().flat_map(move |from| {
        FLOW.iter().map(move |(_, _, cell)| {
            cell(&Side {
                connection,
                flow: &connection.flows[from],
                from,
            })
        })
    });
    whole.chain(sides)
}
