//! The same path in real time, between two TUN devices.
//!
//! `lane` is one direction of `network::Path` with the packets in it, on a virtual clock; `clock` stops that clock
//! while the machine stands still; `tunnel` reads and writes the devices (Linux only); `journal` keeps what happened.

mod clock;
mod journal;
mod lane;
mod packet;
#[cfg(target_os = "linux")]
mod tunnel;

pub use clock::{Freeze, VirtualClock};
pub use journal::{Bin, Drop, Journal};
pub use lane::{Lane, Way};
pub use packet::{Label, Packet};
#[cfg(target_os = "linux")]
pub use tunnel::{Counts, Report, Stop, Tunnel};
