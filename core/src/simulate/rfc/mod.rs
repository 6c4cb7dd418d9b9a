//! The `rfc` profile: bytes, a handshake, options, RFC behaviour on integer nanoseconds.

mod connection;
mod linux_acks;
mod packet;
mod receiver;

pub use connection::{RfcConnection, initial_state, options, rto};

use packet::RfcPacket;

use crate::network::Nanos;

pub type Io = super::io::Io<Nanos, RfcPacket>;
