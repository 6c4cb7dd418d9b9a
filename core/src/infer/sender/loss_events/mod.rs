//! Loss events: where they begin, what asked for the repair, what the sender did (RFC 5681, 5682, 6298, 8985).

pub mod begins;
pub mod events;
pub mod finder;
pub mod rack;
pub mod restarts;
pub mod undone;
