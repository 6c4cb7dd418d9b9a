//! Loss recovery: what is sent next after a loss, and when (tahoe, reno, newreno, sack, fack; RTO).

mod intervals;

pub use intervals::Intervals;
