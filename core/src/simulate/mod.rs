//! The reference simulator: sender, receiver and taps over a path, event by event.

pub mod packet_counting;
mod spec;
pub mod taps;
pub mod truth;

pub use spec::*;
