//! The columns of the connections table, each named once: DataFrame, CSV, Parquet and JSON are made from here.

pub use super::cells::{Cell, Kind};
use super::cells::{int, number};
use super::connection::Connection;
use super::counts::FlowCounts;
use super::flow::Flow;
use super::sides::{FLOW, Side};

/// Name, kind, unit, what it holds, the cell.
pub type Column<T> = (
    &'static str,
    Kind,
    &'static str,
    &'static str,
    fn(&T) -> Cell,
);

fn both(connection: &Connection, count: fn(&FlowCounts) -> u64) -> Cell {
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
        |c| Cell::Text(c.ends[c.client()].addr.to_string()),
    ),
    ("client_port", Kind::Int, "", "the client's port", |c| {
        Cell::Int(c.ends[c.client()].port.into())
    }),
    ("server", Kind::Text, "", "the other end", |c| {
        Cell::Text(c.ends[1 - c.client()].addr.to_string())
    }),
    ("port", Kind::Int, "", "the server's port", |c| {
        Cell::Int(c.ends[1 - c.client()].port.into())
    }),
    (
        "start_ns",
        Kind::Int,
        "ns",
        "time of the first packet since 1970, UTC",
        |c| Cell::Int(c.first_time()),
    ),
    (
        "duration_ns",
        Kind::Int,
        "ns",
        "first packet to last",
        |c| Cell::Int(c.duration()),
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
        |c| Cell::Bool(c.flows.iter().all(|flow| flow.counts.sack_permitted)),
    ),
    (
        "timestamps",
        Kind::Bool,
        "",
        "both sides send timestamps (RFC 7323)",
        |c| Cell::Bool(c.flows.iter().all(|flow| flow.counts.timestamps)),
    ),
    (
        "end",
        Kind::Text,
        "",
        "fin: both sides sent one; rst: reset; open: neither in the capture",
        |c| Cell::Text(c.end().name().to_owned()),
    ),
    (
        "vantage",
        Kind::Text,
        "",
        "where the tap stands, by the parts of the handshake's round trip: client, server, middle, unknown",
        |c| Cell::Text(c.vantage().name().to_owned()),
    ),
    ("from_start", Kind::Bool, "", "the capture has a SYN", |c| {
        Cell::Bool(c.is_from_start())
    }),
    (
        "simultaneous_open",
        Kind::Bool,
        "",
        "both sides sent a SYN before either answered (RFC 9293 section 3.5)",
        |c| Cell::Bool(c.is_simultaneous),
    ),
    (
        "approximate",
        Kind::Bool,
        "",
        "old gaps were given up to stay within memory: counts of repeated bytes are estimates",
        |c| Cell::Bool(c.flows.iter().any(Flow::is_approximate)),
    ),
];

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

/// What works out a column's cells; None: there is no such column.
pub fn column(name: &str) -> Option<(Kind, impl Fn(&Connection) -> Cell)> {
    let (place, (_, kind)) = columns()
        .enumerate()
        .find(|(_, (known, _))| known == name)?;
    let cell = move |connection: &Connection| match place.checked_sub(CONNECTION.len()) {
        None => CONNECTION[place].4(connection),
        Some(of_side) => FLOW[of_side % FLOW.len()].4(&side(connection, of_side / FLOW.len())),
    };
    Some((kind, cell))
}

/// The client's side (0) or the server's (1).
fn side(connection: &Connection, direction: usize) -> Side<'_> {
    let from = connection.place_of(direction);
    Side {
        connection,
        flow: &connection.flows[from],
        from,
    }
}

/// One connection's cells, in the order of `columns`.
pub fn row(connection: &Connection) -> impl Iterator<Item = Cell> + '_ {
    let whole = CONNECTION.iter().map(move |(.., cell)| cell(connection));
    let sides = [0, 1].into_iter().flat_map(move |direction| {
        let side = side(connection, direction);
        FLOW.iter().map(move |(.., cell)| cell(&side))
    });
    whole.chain(sides)
}
