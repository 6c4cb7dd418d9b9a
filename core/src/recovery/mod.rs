//! Loss recovery: what is sent next after a loss, and when (tahoe, reno, newreno, sack, fack; RTO).

mod delivery_rate;
mod detected_by;
mod fast;
mod intervals;
mod prr;
mod rack;
mod rto;
mod scoreboard;
mod sender;

/// RFC 5681 section 3.2, RFC 6675 section 2: the third duplicate ACK, or so many segments SACKed, tell a loss.
pub const DUP_THRESH: u32 = 3;

pub use delivery_rate::{DeliveryRate, DeliveryStamp};
pub use detected_by::DetectedBy;
pub use intervals::Intervals;
pub use prr::Prr;
pub use rack::Rack;
pub use rto::{LEAST_RTO_NS, Rto, Srtt};
pub use scoreboard::{BoardCounts, Scoreboard};
pub use sender::{Arrived, Expired, Options, Outgoing, Recovery, RecoveryPhase, Reduction, Sender};
