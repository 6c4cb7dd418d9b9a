//! The same path in real time, between two TUN devices.
//!
//! `lane` is one direction of `network::Path` with the packets in it, on a virtual clock; `clock` stops that clock
//! while the machine stands still; `tunnel` reads and writes the devices (Linux only); `journal` keeps what happened.
//! `own_sender` is a sender that no kernel has, against a real receiver.

mod clock;
#[cfg(target_os = "linux")]
mod device;
mod journal;
mod lane;
#[cfg(target_os = "linux")]
mod own_device;
mod own_sender;
mod own_truth;
mod packet;
#[cfg(target_os = "linux")]
mod tunnel;

pub use clock::{Freeze, VirtualClock};
#[cfg(target_os = "linux")]
pub use device::Stop;
pub use journal::{Bin, Dropped, Journal};
pub use lane::Lane;
#[cfg(target_os = "linux")]
pub use own_device::{SendReport, send};
pub use own_sender::{NotSendable, OwnSender};
pub use own_truth::{KernelRow, RowKind, TruthRows};
pub use packet::{Label, LabelledPacket, Way};
#[cfg(target_os = "linux")]
pub use tunnel::{Carried, Report, Tunnel};
