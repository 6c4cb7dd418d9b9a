//! The same path in real time, between two TUN devices.
//!
//! `chain` is arithmetic on a virtual clock (the queue is `network::DropTail`), `clock` stops it while the machine
//! stands still, `tunnel` reads and writes the devices (Linux only), `log` keeps what happened.

mod chain;
mod clock;
mod log;
mod packet;
#[cfg(target_os = "linux")]
mod tunnel;

pub use chain::{Chain, Item, Loss, Reason};
pub use clock::{Freeze, VirtualClock};
pub use log::{Drop, Journal, QueueBin};
pub use packet::Packet;
#[cfg(target_os = "linux")]
pub use tunnel::{Report, Stop, Tunnel};
