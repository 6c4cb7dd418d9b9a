//! The sender as a trace shows it: loss events, flight, round trips, what limited it, windows, cycles (RFC 5681, 6298, 6582, 6675).
//!
//! One pass after another over the same trace: `observer` is all of them.

pub mod cut;
pub mod in_flight;
pub mod limited_by;
pub mod loss_events;
pub mod lost_segments;
pub mod observer;
pub mod rolling;
pub mod rows;
pub mod slow_starts;
