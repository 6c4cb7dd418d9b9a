//! A run described: the one schema of path, control, receiver, application and taps.
//!
//! Names, types, defaults, ranges, the profiles that read a key and its words stand in the structs below and nowhere
//! else. From them come the JSON Schema that editors complete TOML by (`schema`), the checks that a file or a table of
//! Python's goes through (`fit`), and what `simulate` and `emulate` run. Rules over several keys are in `check`.

mod application;
mod check;
mod error;
mod fit;
mod path;
mod read;
mod schema;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::congestion::Profile;
use crate::congestion::{Parameters, SlowStartRow, WindowRow};
use crate::recovery::Recovery;

pub use application::{Application, ApplicationKind, ApplicationSpec};
pub use error::ScenarioError;
pub use path::{BufferUnit, NodeSpec, PathSpec, Queue};
pub use read::check_part;
pub use schema::schema;

/// One run: who sends over which path for how long, and where it is tapped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub path: PathSpec,
    /// Each sender with its receiver.
    #[schemars(length(min = 1))]
    pub connections: Vec<ConnectionSpec>,
    /// How long the run lasts.
    #[schemars(extend("minimum" = 1e-9, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub duration_s: f64,
    /// ns2 counts packets as ns-2.35 does (no SYN, fixed packet size); rfc is a modern byte-counting stack.
    #[serde(default)]
    pub profile: Profile,
    /// Draws every random number of the run.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub seed: u64,
    /// Where packets are captured: sender, receiver, nodeN.in or nodeN.out with N the place in path.nodes.
    #[serde(default = "at_the_sender")]
    #[schemars(extend("uniqueItems" = true))]
    pub taps: Vec<String>,
    /// IPv6 headers instead of IPv4's.
    #[serde(default)]
    pub ipv6: bool,
    /// What the run shows, in a few words.
    #[serde(default)]
    pub title: String,
}

/// One sender and its receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionSpec {
    pub control: ControlSpec,
    pub receiver: ReceiverSpec,
    pub application: ApplicationSpec,
    /// When it begins.
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub start_s: f64,
    /// Lengthens the way back of this connection alone: unequal round trips over shared nodes.
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub extra_delay_s: f64,
    /// The sender's host takes up to this long over each ACK (uniform, in order), as real ones do: without it, whether a
    /// packet finds the place that is just becoming free is the same every time.
    #[schemars(range(min = 0, max = 1), extend("x-unit" = "s", "x-profiles" = ["rfc"]))]
    pub jitter_s: f64,
    /// The sender's host stands still: pairs of seconds after the connection's start and how long, in order of time. ACKs
    /// that come in meanwhile wait for its end, and what they release leaves at once.
    #[schemars(extend("x-profiles" = ["rfc"]))]
    pub pauses: Vec<(f64, f64)>,
    /// The data runs along path.reverse, as cross traffic for the ACKs.
    pub reverse: bool,
}

/// Whose rules a host keeps where the documents leave a choice or Linux 6 is not as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Stack {
    #[default]
    Auto,
    Rfc,
    Linux,
}

/// A sender as a row of three parts (slow start, window, recovery), and the parameters that the papers vary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ControlSpec {
    /// How cwnd grows below ssthresh: a row of the table of slow starts.
    pub slow_start: &'static SlowStartRow,
    /// How cwnd grows above ssthresh, and what a loss makes of it: a row of the table of windows.
    pub window: &'static WindowRow,
    /// What is sent next after a loss.
    pub recovery: Recovery,
    /// At the start of the connection only (RFC 2416, RFC 6928).
    #[schemars(range(min = 1, max = 1_073_741_824), extend("x-unit" = "segments"))]
    pub initial_window: u32,
    /// 1: an ACK for every segment; 2: for every second (RFC 1122 section 4.2.3.2). The receiver's, and may stand there.
    #[schemars(range(min = 1, max = 2), extend("x-unit" = "segments"))]
    pub delayed_ack_segments: u32,
    /// Infinite: as high as the window can go (RFC 5681 section 3.1).
    #[schemars(range(min = 2), extend("x-unit" = "segments"))]
    pub initial_ssthresh: f64,
    /// What the sender never exceeds (ns-2's window_).
    #[schemars(range(min = 1, max = 1_073_741_824), extend("x-unit" = "segments"))]
    pub max_window: u64,
    /// New segments for the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// RFC 7323's option, an RTT sample for every ACK.
    pub timestamps: bool,
    /// Back to the restart window after an idle time of one RTO (RFC 5681 section 4.1).
    #[schemars(extend("x-profiles" = ["rfc"]))]
    pub slow_start_after_idle: bool,
    /// With SACK: proportional rate reduction (RFC 9937).
    #[schemars(extend("x-profiles" = ["rfc"]))]
    pub prr: bool,
    /// With SACK: retransmissions overtaken by later segments are lost again (RFC 8985).
    #[schemars(extend("x-profiles" = ["rfc"]))]
    pub rack: bool,
    /// NewReno restarts the timer for the first partial ACK only (RFC 6582 section 4); Linux does so for each.
    #[schemars(extend("x-profiles" = ["rfc"]))]
    pub impatient: bool,
    /// A linux sender has limited_transmit and rack as Linux 6 has, counts PRR from cwnd, and opens its window on the ACK
    /// that ends a recovery; auto is that with a window of Linux's, else rfc.
    #[schemars(extend("x-profiles" = ["rfc"]))]
    pub stack: Stack,
    /// A 40-byte packet 0 is sent first (ns-2's syn_).
    #[schemars(extend("x-profiles" = ["ns2"]))]
    pub syn: bool,
    pub rto: RtoSpec,
    /// All other keys: parameters of the slow start and the window, as their table has them.
    #[serde(flatten)]
    #[schemars(skip)]
    pub parameters: Parameters,
}

/// The retransmission timer (RFC 6298).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RtoSpec {
    /// The least timeout.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub min_s: f64,
    /// The greatest timeout, backed off.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub max_s: f64,
    /// The timeout before the first sample.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub initial_s: f64,
    /// The clock tick G (ns-2's tcpTick_).
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub granularity_s: f64,
    /// The timer doubles on each timeout (RFC 6298 section 5.5); off for experiments.
    pub backoff: bool,
    /// Phase of the sender's tick clock, as a share of a tick.
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1, "x-unit" = "ticks", "x-profiles" = ["ns2"]))]
    pub tick_phase: f64,
}

/// Who answers: how it delays ACKs, the window it offers, how fast its application reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReceiverSpec {
    /// An ACK must not wait longer than 0.5 s (RFC 1122 section 4.2.3.2).
    #[schemars(range(max = 0.5), extend("exclusiveMinimum" = 0, "x-unit" = "s"))]
    pub delayed_ack_timer_s: f64,
    /// A linux receiver acknowledges at once the first 16 segments, those by which its window opens, and 16 after data that
    /// comes twice and after a silence; it reports what comes twice, and behind a gap it acknowledges every 1.1 ms from the
    /// fourth segment on. An rfc one keeps RFC 1122 section 4.2.3.2 and RFC 5681 section 4.2; auto is the sender's.
    #[schemars(extend("x-profiles" = ["rfc"]))]
    pub stack: Stack,
    /// What a linux receiver offers at first: with each segment it opens by two, towards rwnd, as far as its application
    /// is fast enough.
    #[schemars(range(min = 1, max = 1_073_741_824), extend("x-unit" = "bytes", "x-profiles" = ["rfc"]))]
    pub initial_rwnd: u64,
    /// Acknowledged at once by an rfc receiver at the start of a connection, before delaying begins.
    #[schemars(range(min = 0, max = 1_073_741_824), extend("x-unit" = "segments", "x-profiles" = ["rfc"]))]
    pub quickack_segments: u32,
    /// Agrees to a sender's offer of SACK (RFC 2018).
    pub sack: bool,
    /// With SACK: what arrives twice is reported (RFC 2883).
    #[schemars(extend("x-profiles" = ["rfc"]))]
    pub dsack: bool,
    /// The window offered when all has been read; a scale of 14 can say 2^30 (RFC 7323 section 2.3).
    #[schemars(range(min = 1, max = 1_073_741_824), extend("x-unit" = "bytes", "x-profiles" = ["rfc"]))]
    pub rwnd: u64,
    /// How fast the application reads.
    #[schemars(extend("exclusiveMinimum" = 0, "x-unit" = "bit/s", "x-profiles" = ["rfc"]))]
    pub reader_bps: f64,
}

impl Scenario {
    pub fn duration_ns(&self) -> i64 {
        ns(self.duration_s)
    }

    /// Whether a queue decides over packets that wait in it.
    pub fn is_managed(&self) -> bool {
        let mut nodes = self.path.nodes.iter().chain(&self.path.reverse);
        nodes.any(|node| node.queue != Queue::DropTail)
    }
}

impl ConnectionSpec {
    pub fn start_ns(&self) -> i64 {
        ns(self.start_s)
    }

    /// Fractions of a nanosecond count in profile ns2.
    pub fn extra_delay_ns(&self) -> f64 {
        self.extra_delay_s * 1e9
    }

    pub fn jitter_ns(&self) -> i64 {
        ns(self.jitter_s)
    }

    /// When the sender's host begins to stand still, and when it goes on.
    pub fn pauses_ns(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.pauses.iter().map(|&(at_s, lasts_s)| {
            let begin = self.start_ns() + ns(at_s);
            (begin, begin + ns(lasts_s))
        })
    }

    pub fn has_linux_receiver(&self) -> bool {
        match self.receiver.stack {
            Stack::Auto => self.control.is_linux(),
            stack => stack == Stack::Linux,
        }
    }

    /// Whether the receiver sends blocks to a sender that asks for them.
    pub fn has_sack(&self) -> bool {
        self.receiver.sack && matches!(self.control.recovery, Recovery::Sack | Recovery::Fack)
    }
}

impl ControlSpec {
    pub fn is_linux(&self) -> bool {
        match self.stack {
            Stack::Auto => self.window.is_linux_module,
            stack => stack == Stack::Linux,
        }
    }
}

impl RtoSpec {
    pub fn initial_ns(&self) -> i64 {
        ns(self.initial_s)
    }

    pub fn min_ns(&self) -> i64 {
        ns(self.min_s)
    }

    pub fn max_ns(&self) -> i64 {
        ns(self.max_s)
    }

    pub fn granularity_ns(&self) -> i64 {
        ns(self.granularity_s)
    }
}

impl ReceiverSpec {
    pub fn delayed_ack_timer_ns(&self) -> i64 {
        ns(self.delayed_ack_timer_s)
    }
}

/// The nearest nanosecond; the schema keeps seconds below 1e9.
fn ns(seconds: f64) -> i64 {
    (seconds * 1e9).round_ties_even() as i64
}

fn one() -> u64 {
    1
}

fn at_the_sender() -> Vec<String> {
    vec!["sender".to_owned()]
}

impl Default for ControlSpec {
    fn default() -> Self {
        Self {
            slow_start: &crate::congestion::SLOW_STARTS[0],
            window: &crate::congestion::WINDOWS[0],
            recovery: Recovery::NewReno,
            initial_window: 1,
            delayed_ack_segments: 1,
            initial_ssthresh: f64::INFINITY,
            max_window: 100_000,
            limited_transmit: false,
            timestamps: false,
            slow_start_after_idle: true,
            prr: true,
            rack: false,
            impatient: false,
            stack: Stack::Auto,
            syn: false,
            rto: RtoSpec::default(),
            parameters: Parameters::default(),
        }
    }
}

impl Default for RtoSpec {
    fn default() -> Self {
        Self {
            min_s: 0.2,
            max_s: 60.0,
            initial_s: 1.0,
            granularity_s: 0.001,
            backoff: true,
            // ns-2's default random seed gives this phase to the first agent of a run.
            tick_phase: 0.5558,
        }
    }
}

impl Default for ReceiverSpec {
    fn default() -> Self {
        Self {
            delayed_ack_timer_s: 0.1,
            stack: Stack::Auto,
            initial_rwnd: 65_535,
            quickack_segments: 0,
            sack: true,
            dsack: false,
            rwnd: 1 << 30,
            reader_bps: f64::INFINITY,
        }
    }
}
