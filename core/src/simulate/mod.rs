//! The reference simulator: sender, receiver and taps over a path, event by event.

pub mod capture_file;
pub mod packet_counting;
mod spec;
pub mod taps;

pub use spec::*;
