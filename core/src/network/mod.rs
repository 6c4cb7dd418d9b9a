//! The network: drop-tail queue, link, path of several nodes.

mod drop_tail;
mod instant;
mod link;
mod node;
mod path;
mod random;
mod schedule;

pub use drop_tail::{Counters, DropTail, Limit};
pub use instant::{Instant, Nanos, Seconds, Stamp};
pub use link::Link;
pub use node::{Blind, DropReason, Node, Observer, QueueBin, Traveller};
pub use path::Path;
pub use random::Random;
pub use schedule::Schedule;
