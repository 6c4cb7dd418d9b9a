//! tcptrace-core: what tcptrace_lab does once per packet.
//!
//! Imports point downward: python -> replay -> {emulate, simulate} -> {infer, connection, network, recovery,
//! congestion} -> wire -> capture; scenario is what simulate and emulate are told, models what they are held against. Nothing
//! below `python` knows Python.

pub mod capture;
pub mod congestion;
pub mod connection;
pub mod emulate;
pub mod infer;
pub mod models;
pub mod network;
pub mod recovery;
pub mod replay;
pub mod scenario;
pub mod simulate;
pub mod threshold;
pub mod watch;
pub mod wire;

#[cfg(feature = "python")]
mod python;
