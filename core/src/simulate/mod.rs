//! The reference simulator: sender, receiver and taps over a path, event by event.

mod spec;

pub use spec::*;
