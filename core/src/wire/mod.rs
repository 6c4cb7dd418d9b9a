//! Wire formats: a captured record to a TCP segment, and back.

mod bytes;
mod decode;
mod fragments;
mod link;
mod network;
mod segment;
mod tcp;

pub use decode::{Counts, Decoder, Undecoded, decode};
pub use link::link_type_name;
pub use segment::{Endpoint, SackBlocks, Segment, TcpFlags, TcpOptions};
