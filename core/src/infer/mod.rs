//! What a capture shows of a sender, in passes over its segments and the ACKs it received.
//!
//! Assumes what [`Trace`] assumes: the sender's own view. Nothing here knows a file or Python.

pub mod candidates;
mod columns;
mod duplicate;
mod given;
pub mod ordered;
pub mod path;
pub mod quantile;
mod samples;
pub mod sender;
pub mod tap;

pub use duplicate::{AckContent, above, received_twice};
pub use given::{DELAYED_ACK_SEGMENTS, FEWEST_SAMPLES, HOST_NS};
pub use samples::Samples;
pub use sender::before::{Before, Begin};
pub use sender::cause::{Cause, causes};
pub use sender::cycles::{Cycle, Cycles, InCycle, Moment};
pub use sender::limits::{BURST_NS, Limit, PAUSE_PARTS, PROMPT_PARTS};
pub use sender::lost::{Losses, Lost};
pub use sender::observer::{Observed, followed, observe};
pub use sender::rolling::{Heard, Known, Now, Rolling, SendRow};
pub use sender::rtt::RoundTrips;
pub use sender::scoreboard::reported;
pub use sender::sequence::Sequence;
pub use sender::stretches::Stretch;
pub use sender::trace::{FATES, LossEvent, Trace, TraceError};
pub use sender::windows::{UNKNOWN, Windows};
