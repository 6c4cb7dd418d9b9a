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
pub use given::{DELAYED_ACK_SEGMENTS, FEWEST_SAMPLES, HOST_NS, PROMPT_PARTS};
pub use samples::Samples;
pub use sender::limited_by::limits::{BURST_NS, Limit, PAUSE_PARTS};
pub use sender::limited_by::windows::{UNKNOWN, Windows};
pub use sender::lost_segments::cause::{Cause, causes};
pub use sender::lost_segments::lost::{Losses, Lost};
pub use sender::observer::{Observed, followed, observe};
pub use sender::rolling::{Heard, Known, Now, Rolling, SendRow};
pub use sender::rows::before::{Before, Begin};
pub use sender::rows::rtt::RoundTrips;
pub use sender::rows::scoreboard::reported;
pub use sender::rows::sequence::Sequence;
pub use sender::rows::trace::{FATES, LossEvent, Trace, TraceError};
pub use sender::slow_starts::cycles::{Cycle, Cycles, InCycle, Moment};
pub use sender::slow_starts::stretches::Stretch;
