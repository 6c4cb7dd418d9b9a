//! The network: policer, queues (drop-tail; CoDel at its head), link, path of several nodes.

mod codel;
mod discipline;
mod drop_tail;
mod instant;
mod link;
mod managed;
mod node;
mod path;
mod policer;
mod random;
mod schedule;

pub use codel::CoDel;
pub use discipline::{Discipline, HeadOfLine, Waiting};
pub use drop_tail::{Capacity, Counters, DropTail};
pub use instant::{Instant, Nanos, Seconds, Stamp};
pub use link::Link;
pub use node::{Blind, DropReason, Node, Observer, QueueBin, Traveller};
pub use path::Path;
pub use policer::Policer;
pub use random::Random;
pub use schedule::Schedule;
