//! A run as it crosses the seam: one JSON object, every default spelled out here.

mod validate;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::congestion::{self, Parameters, SLOW_STARTS, SlowStartRow, WINDOWS, WindowRow};

pub use crate::congestion::Profile;

/// A value that cannot be run: the key as a path (`path.nodes.0.buffer`), what stood there, what may stand there.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{key} = {found}: must be {wanted}")]
pub struct SpecError {
    pub key: String,
    pub found: String,
    pub wanted: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub profile: Profile,
    pub duration_ns: i64,
    #[serde(default)]
    pub seed: u64,
    pub path: PathSpec,
    pub connections: Vec<ConnectionSpec>,
    /// "sender", "receiver", "node0.in", "node0.out", ...: the segments kept for captures.
    #[serde(default)]
    pub taps: Vec<String>,
    /// Keep ns-style rows (send, arrive, drop, `start_tx`, recv): large.
    #[serde(default)]
    pub record_events: bool,
    /// Keep cwnd, ssthresh, flight and state at every change.
    #[serde(default = "yes")]
    pub record_truth: bool,
    #[serde(default)]
    pub ipv6: bool,
}

impl Spec {
    /// Whether packets are kept on their way, not only counted.
    pub fn is_watched(&self) -> bool {
        self.record_events || !self.taps.is_empty()
    }

    /// Whether a queue decides over packets that wait in it.
    pub fn is_managed(&self) -> bool {
        let nodes = self.path.nodes.iter().chain(&self.path.reverse);
        nodes.into_iter().any(|node| node.queue != Queue::DropTail)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// From the senders' side to the receivers'.
    pub nodes: Vec<NodeSpec>,
    /// The way back, in the order in which an ACK meets the nodes. Empty: a pure delay of `return_delay_ns`.
    #[serde(default)]
    pub reverse: Vec<NodeSpec>,
    #[serde(default)]
    pub return_delay_ns: f64,
    /// Bytes a full data packet and a bare ACK occupy on the wire in the `ns2` profile; the MTU in `rfc`.
    #[serde(default = "packet_bytes")]
    pub packet_bytes: u32,
    #[serde(default = "ack_bytes")]
    pub ack_bytes: u32,
    /// Probability that an ACK is lost at the end of the way back.
    #[serde(default)]
    pub ack_loss: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BufferUnit {
    Packets,
    Bytes,
}

/// How a node's queue is managed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queue {
    #[default]
    DropTail,
    /// RFC 8289.
    Codel,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// `null`: packets take no time to be sent.
    pub rate_bps: Option<f64>,
    /// `null`: unlimited.
    pub buffer: Option<u64>,
    #[serde(default = "packets")]
    pub buffer_unit: BufferUnit,
    #[serde(default)]
    pub counts_in_service: bool,
    #[serde(default)]
    pub queue: Queue,
    /// `codel`: the wait that is short enough, and for how long none has to be.
    #[serde(default = "target_ns")]
    pub target_ns: i64,
    #[serde(default = "interval_ns")]
    pub interval_ns: i64,
    /// Propagation behind the node; fractions of a nanosecond count in the `ns2` profile only.
    #[serde(default)]
    pub delay_ns: f64,
    /// Probability that a data packet is lost after service (independent).
    #[serde(default)]
    pub loss: f64,
    /// Data packets lost after service, by number of service at this node from 1.
    #[serde(default)]
    pub drop_packets: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionSpec {
    #[serde(default)]
    pub start_ns: i64,
    #[serde(default)]
    pub sender: SenderSpec,
    #[serde(default)]
    pub receiver: ReceiverSpec,
    #[serde(default)]
    pub application: Application,
    /// Data flows along `path.reverse`, its ACKs along `path.nodes`.
    #[serde(default)]
    pub reverse: bool,
    /// Added to the way back of this connection: unequal round trips over shared nodes.
    #[serde(default)]
    pub extra_delay_ns: f64,
    /// `rfc`: an ACK waits up to this long in the sender's host (uniform, in order). Whether a packet finds the place that
    /// is just becoming free depends on such microseconds.
    #[serde(default)]
    pub jitter_ns: i64,
}

/// The window of a control that is written outside the core.
const EXTERNAL: &str = "external";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecoveryKind {
    Tahoe,
    Reno,
    Newreno,
    Sack,
    Fack,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct SenderSpec {
    #[serde(deserialize_with = "known_slow_start")]
    pub slow_start: &'static SlowStartRow,
    /// `None` ("external"): answers come from outside the core: slow start, growth and reduction.
    #[serde(deserialize_with = "known_window")]
    pub window: Option<&'static WindowRow>,
    pub recovery: RecoveryKind,
    /// Segments, at the start of the connection only (RFC 2416, RFC 6928).
    pub initial_window: u32,
    /// Segments; `null`: as high as the window can go (RFC 5681 section 3.1).
    pub initial_ssthresh: Option<f64>,
    /// Segments the sender never exceeds (ns-2's `window_`).
    pub max_window: u64,
    pub limited_transmit: bool,
    pub timestamps: bool,
    pub rto: RtoSpec,
    /// Back to the restart window after an idle time of one RTO (RFC 5681 section 4.1).
    pub slow_start_after_idle: bool,
    /// `rfc`: segment size; `null`: what `packet_bytes` leaves after the headers.
    pub mss: Option<u32>,
    /// `rfc`: NewReno restarts the timer for the first partial ACK only (RFC 6582 section 4); Linux does so for each.
    pub impatient: bool,
    /// `rfc`, with SACK: proportional rate reduction (RFC 9937).
    pub prr: bool,
    /// `rfc`, with SACK: retransmissions overtaken by later segments are lost again (RFC 8985).
    pub rack: bool,
    /// `ns2`: a 40-byte packet 0 is sent first (`syn_`).
    pub syn: bool,
    /// All other keys: parameters of the slow start and the window, as their table has them.
    #[serde(flatten)]
    pub parameters: Parameters,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RtoSpec {
    pub initial_ns: i64,
    pub min_ns: i64,
    pub max_ns: i64,
    /// The clock tick G (ns-2's `tcpTick_`).
    pub granularity_ns: i64,
    /// Doubled on each timeout (RFC 6298 section 5.5); off for experiments.
    pub backoff: bool,
    /// `ns2`: phase of the sender's tick clock, as a fraction of a tick.
    pub tick_phase: f64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReceiverSpec {
    /// 1: an ACK for every segment; 2: for every second (RFC 1122 section 4.2.3.2).
    pub delayed_ack_segments: u32,
    pub delayed_ack_timer_ns: i64,
    /// Full segments acknowledged at once at the start of a connection, before delaying begins.
    pub quickack_segments: u32,
    pub sack: bool,
    /// `rfc`, with SACK: what arrives twice is reported (RFC 2883).
    pub dsack: bool,
    /// Bytes; the window offered when all has been read.
    pub rwnd: u64,
    /// Rate at which the application reads; `null`: at once.
    pub reader_bps: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "kind")]
pub enum Application {
    /// Always has data.
    #[default]
    Bulk,
    Bytes {
        bytes: u64,
    },
    /// Writes `on_bytes`, then waits `off_ns` after the write, again and again (`repeats`: how often; `null`: for ever).
    OnOff {
        on_bytes: u64,
        off_ns: i64,
        #[serde(default)]
        repeats: Option<u64>,
    },
    /// (time since the start in nanoseconds, bytes) in order of time.
    Schedule {
        writes: Vec<(i64, u64)>,
    },
    /// `rfc`: (wait in nanoseconds, bytes): each write comes its wait after everything before was acknowledged, the
    /// first after the start. Answers to requests: the other side asks when it has the last one.
    Turns {
        turns: Vec<(i64, u64)>,
    },
}

fn known_slow_start<'de, D: Deserializer<'de>>(from: D) -> Result<&'static SlowStartRow, D::Error> {
    let name = String::deserialize(from)?;
    congestion::slow_start(&name).ok_or_else(|| {
        let known = SLOW_STARTS.iter().map(|row| row.name);
        unknown("slow start", &name, known)
    })
}

fn known_window<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<&'static WindowRow>, D::Error> {
    let name = String::deserialize(from)?;
    if name == EXTERNAL {
        return Ok(None);
    }
    let known = || WINDOWS.iter().map(|row| row.name).chain([EXTERNAL]);
    let row = congestion::window(&name).ok_or_else(|| unknown("window", &name, known()))?;
    Ok(Some(row))
}

fn unknown<E: Error>(what: &str, name: &str, known: impl Iterator<Item = &'static str>) -> E {
    let known = known.collect::<Vec<_>>().join(", ");
    E::custom(format!("unknown {what} `{name}`: must be one of {known}"))
}

fn yes() -> bool {
    true
}

fn packets() -> BufferUnit {
    BufferUnit::Packets
}

/// RFC 8289 section 4.4.
fn target_ns() -> i64 {
    5_000_000
}

fn interval_ns() -> i64 {
    100_000_000
}

fn packet_bytes() -> u32 {
    1500
}

fn ack_bytes() -> u32 {
    40
}

impl Default for SenderSpec {
    fn default() -> Self {
        Self {
            slow_start: &SLOW_STARTS[0],
            window: Some(&WINDOWS[0]),
            recovery: RecoveryKind::Newreno,
            initial_window: 1,
            initial_ssthresh: None,
            max_window: 100_000,
            limited_transmit: false,
            timestamps: false,
            rto: RtoSpec::default(),
            slow_start_after_idle: true,
            mss: None,
            impatient: false,
            prr: true,
            rack: false,
            syn: false,
            parameters: Parameters::default(),
        }
    }
}

impl Default for RtoSpec {
    fn default() -> Self {
        Self {
            initial_ns: 1_000_000_000,
            min_ns: 200_000_000,
            max_ns: 60_000_000_000,
            granularity_ns: 1_000_000,
            backoff: true,
            // ns-2's default random seed gives this phase to the first agent of a run.
            tick_phase: 0.5558,
        }
    }
}

impl Default for ReceiverSpec {
    fn default() -> Self {
        Self {
            delayed_ack_segments: 1,
            delayed_ack_timer_ns: 100_000_000,
            quickack_segments: 0,
            sack: true,
            dsack: false,
            rwnd: 1 << 30,
            reader_bps: None,
        }
    }
}
