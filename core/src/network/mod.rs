//! The network: drop-tail queue, link, path of several nodes.

mod drop_tail;
mod instant;
mod link;
mod path;
mod random;
mod schedule;

pub use drop_tail::{Arrival, Counters, DropTail, Limit};
pub use instant::{Instant, Nanos, Seconds, Stamp};
pub use link::Link;
pub use path::{Blind, DropReason, Node, Observer, Path, QueueBin, Traveller};
pub use random::Random;
pub use schedule::Schedule;
