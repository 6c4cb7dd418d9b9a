//! What a capture shows of a sender, in passes over its segments and the ACKs it received.
//!
//! Assumes what [`Trace`] assumes: the sender's own view. Nothing here knows a file or Python.

pub mod at_work;
mod before;
mod begins;
mod cause;
mod columns;
pub mod contest;
mod cut;
mod cycles;
mod duplicate;
pub mod echoes;
mod events;
pub mod evidence;
mod finder;
mod flight;
mod given;
pub mod heard;
mod held_back;
pub mod leaving;
mod limits;
mod lost;
mod observer;
pub mod ordered;
pub mod replay;
mod resent;
mod restarts;
mod rolling;
mod rtt;
mod samples;
mod scoreboard;
mod sequence;
mod shares;
mod short;
pub mod stamped;
mod stretches;
pub mod tape;
mod trace;
mod undone;
mod windows;

pub use before::{Before, Begin};
pub use cause::{Cause, causes};
pub use cycles::{Cycle, Cycles, InCycle, Moment};
pub use duplicate::{AckContent, above, received_twice};
pub use given::{DELAYED_ACK_SEGMENTS, FEWEST_SAMPLES, HOST_NS};
pub use limits::{BURST_NS, Limit, PAUSE_PARTS, PROMPT_PARTS};
pub use lost::{Losses, Lost};
pub use observer::{Observed, observe};
pub use rolling::{Heard, Known, Now, Rolling, SendRow};
pub use rtt::RoundTrips;
pub use samples::Samples;
pub use scoreboard::Scoreboard;
pub use sequence::Sequence;
pub use stretches::Stretch;
pub use trace::{FATES, LossEvent, Trace, TraceError};
pub use windows::{UNKNOWN, Windows};
