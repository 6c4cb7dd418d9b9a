//! What was sent and heard, row by row: sequence numbers, round trips, what each ACK reports.

pub mod before;
pub(super) mod echoed;
pub mod rtt;
pub mod scoreboard;
pub mod sequence;
pub mod short;
pub mod trace;
