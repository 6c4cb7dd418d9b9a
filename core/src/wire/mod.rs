//! Wire formats: a captured record to a TCP segment, and back.

mod bytes;
mod checksum;
mod datagram;
mod decode;
mod encode;
mod fragments;
mod link;
mod network;
mod plain;
mod segment;
mod tcp;
#[cfg(test)]
mod tests;
mod undecoded;

/// LINKTYPE_ETHERNET.
pub const ETHERNET: u16 = 1;
/// LINKTYPE_RAW: IPv4 or IPv6 without a link layer.
pub const RAW: u16 = 101;

pub use checksum::Checker;
pub use datagram::Datagram;
pub use decode::{DecodeCounts, Decoder, decode};
pub use encode::{Unencodable, encode};
pub use link::link_type_name;
pub use plain::Plain;
pub use segment::{Checked, Endpoint, SackBlocks, Segment, TcpFlags, TcpOptions};
pub use undecoded::Undecoded;
