//! The sender as a trace shows it: loss events, flight, round trips, what limited it, windows, cycles (RFC 5681, 6298, 6582, 6675).
//!
//! One pass after another over the same [`Trace`]: `observe` is all of them.

mod answer_lost;
pub mod before;
pub mod begins;
pub mod cause;
pub mod cut;
pub mod cycles;
mod echoed;
pub mod events;
pub mod finder;
pub mod flight;
pub mod held_back;
mod kept;
pub mod limits;
pub mod lost;
mod needless;
pub mod observer;
mod outrun;
mod pipe;
pub mod rack;
pub mod resent;
pub mod restarts;
pub mod rolling;
pub mod room;
pub mod rtt;
pub mod scoreboard;
pub mod sent_again;
pub mod sequence;
pub mod shares;
pub mod short;
pub mod starving;
pub mod stretches;
pub mod trace;
pub mod undone;
pub mod windows;
