//! Wire formats: a captured record to a TCP segment, and back.

mod segment;

pub use segment::{Endpoint, SackBlocks, Segment, TcpFlags, TcpOptions};
