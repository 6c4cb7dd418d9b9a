//! The network: drop-tail queue, link, path of several nodes.

mod drop_tail;
mod link;

pub use drop_tail::{Arrival, Counters, DropTail, Limit};
pub use link::Link;
