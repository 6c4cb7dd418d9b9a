//! Watching: connections as they go, packet by packet on the capture's own clock, from a file, a pipe, or files that grow.
//!
//! The table is the one that reads whole captures: at the end there is nothing that a second reading would say otherwise.
//! Beside it a glance at each sender's window, of constant size; what it was is the verdict's to say.

mod glance;
mod live;
mod source;
mod stream;
mod watcher;

pub use glance::{Doing, EndState, Glance, News, NewsKind};
pub use live::Live;
pub use source::{Sources, Stop};
pub use watcher::{Progress, Watcher};
