//! What a capture shows of a sender, in passes over its segments and the ACKs it received.
//!
//! Assumes what [`Trace`] assumes: the sender's own view. Nothing here knows a file or Python.

mod trace;

pub use trace::{DetectedBy, LossEvent, Trace, TraceError};
