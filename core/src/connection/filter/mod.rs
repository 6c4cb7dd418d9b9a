//! A condition on a row of the connections table: `port == 443 and bytes > 1e6`.
//!
//! `or`, `and`, `not`, comparisons, `in {..}`, `+ - * /`, parentheses; column names (`duration` for `duration_ns`) and
//! Wireshark's for the common fields (`tcp.port`, `ip.addr`), numbers with or without a unit (`1s`, `10MB`), addresses
//! and networks, quoted texts, true and false. A comparison with a missing value is false.

mod evaluate;
mod parse;
mod tokens;

use std::net::IpAddr;

use super::connection::Connection;
use super::summary::{self, Cell};

/// What is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter: {reason} at column {column} of {text:?}")]
pub struct FilterError {
    pub reason: String,
    pub column: usize,
    pub text: String,
}

#[derive(Clone, Debug)]
enum Node {
    Column(usize),
    Constant(Cell),
    /// Columns of which one must compare as wanted, as in Wireshark: `tcp.port` is either side's.
    Either([usize; 2]),
    Network(IpAddr, u8),
    /// Whether a value is one of several, or within one of several ranges (both ends count).
    In(Box<Node>, Vec<(Node, Option<Node>)>),
    Not(Box<Node>),
    Binary(&'static str, Box<Node>, Box<Node>),
}

/// A checked expression.
#[derive(Clone, Debug)]
pub struct Filter {
    root: Node,
}

const COMPARISONS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];
impl Filter {
    pub fn new(text: &str) -> Result<Self, FilterError> {
        Ok(Self {
            root: parse::parse(text)?,
        })
    }

    pub fn accepts(&self, connection: &Connection) -> bool {
        let row: Vec<Cell> = summary::row(connection).collect();
        evaluate::is_true(&evaluate::evaluate(&self.root, &row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Keep;
    use crate::wire::Endpoint;
    use std::net::{IpAddr, Ipv4Addr};

    fn accepts(text: &str) -> bool {
        let end = |port| Endpoint {
            addr: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port,
        };
        let mut connection = Connection::new(3, [end(5000), end(443)], [Keep::Nothing; 2]);
        connection.flows[0].counts.pure_acks = 1000;
        Filter::new(text).unwrap().accepts(&connection)
    }

    #[test]
    fn conditions_read_as_they_are_written() {
        assert!(accepts("port==443 and packets>=1e3"));
        assert!(accepts("port == 80 or client_port == 5_000"));
        assert!(!accepts("not (id == 3)"));
        assert!(accepts("server == '127.0.0.1' and end != \"fin\""));
        assert!(accepts("packets / 2 - 1 > 498.5 && packets*2 == 2000"));
        assert!(accepts("packets > -1"));
        assert!(!accepts("sack"));
    }

    #[test]
    fn comparison_with_a_missing_value_is_false() {
        assert!(!accepts("rtt_min_ns_client > 0"));
        assert!(!accepts("rtt_min_ns_client <= 0"));
    }

    #[test]
    fn wiresharks_words_sets_units_and_networks() {
        assert!(accepts("tcp.port == 443 and tcp.port == 5000"));
        assert!(accepts(
            "tcp.dstport == 443 && tcp.srcport == 5000 && tcp.stream == 3"
        ));
        // As in Wireshark: no side's port may be it.
        assert!(!accepts("tcp.port != 443"));
        assert!(accepts("tcp.port != 80"));
        assert!(accepts("port in {80, 443}") && !accepts("port in {80, 8000..9000}"));
        assert!(accepts("tcp.port in {4000..5000}"));
        assert!(accepts("ip.addr == 127.0.0.0/8") && !accepts("ip.addr == 10.0.0.0/8"));
        assert!(accepts(
            "server == 127.0.0.1 and ip.src in {10.0.0.0/8, 127.0.0.1}"
        ));
        assert!(!accepts("ipv6.addr == fe80::/10") && !accepts("client == ::1"));
        assert!(accepts("duration < 1s and duration_ns < 20ms"));
        assert!(accepts("bytes < 1.5MB and not bytes > 1kB"));
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        fn error(text: &str) -> String {
            Filter::new(text).unwrap_err().to_string()
        }
        assert!(error("prot == 443").contains("no column \"prot\""));
        assert!(error("port = 443").contains("written =="));
        assert!(error("port == ").contains("missing"));
        assert!(error("(port == 1").contains("parenthesis"));
        assert!(error("port == 'x").contains("quote"));
        assert!(error("port ; 1").contains("at column 6"));
        assert!(error("1 2").contains("unexpected"));
        assert!(error(&"(".repeat(10_000)).contains("deeply"));
        assert!(error(&"-".repeat(10_000)).contains("deeply"));
        assert!(error("1.2.3 > 0").contains("not a number"));
        assert!(error("é").contains("unexpected character"));
        assert!(error("port in 443").contains("{"));
        assert!(error("port in {443").contains("}"));
        assert!(error("bytes > 3 parsecs").contains("unexpected"));
        assert!(error("ip.adr == 10.0.0.1").contains("ip.addr"));
    }
}
