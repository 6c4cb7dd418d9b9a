//! What a run leaves behind: truth, losses, drops, queues and, if asked for, every event.

use crate::congestion::Values;
use crate::infer::{Cycles, Moment};
use crate::network::{DropReason, Instant, Stamp};
use crate::recovery::{BoardCounts, DetectedBy};
use crate::scenario::Scenario;

/// What a sender is doing, as in Linux's and this project's truth files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SenderState {
    #[default]
    Open = 0,
    Disorder = 1,
    Recovery = 3,
    /// After a timeout, or Tahoe's return to slow start, until all that was outstanding is acknowledged.
    Loss = 4,
}

impl SenderState {
    pub const ALL: [Self; 4] = [Self::Open, Self::Disorder, Self::Recovery, Self::Loss];

    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Disorder => "disorder",
            Self::Recovery => "recovery",
            Self::Loss => "loss",
        }
    }
}

/// Sender variables after an event that changed one of them. Packets in the `ns2` profile, bytes in `rfc`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TruthRow {
    pub time_ns: i64,
    pub connection: u32,
    pub cwnd: f64,
    /// What cwnd and duplicate ACKs together allow; cwnd but for ns-2's Reno and NewReno, which keep the two apart.
    pub usable_window: f64,
    pub ssthresh: f64,
    pub flight_size: f64,
    pub state: SenderState,
    pub snd_una: u64,
    pub snd_nxt: u64,
    pub rwnd: f64,
    pub known: OwnState,
}

/// What else the sender knows of itself; nothing where no truth is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnState {
    /// `None` before the first sample.
    pub srtt_ns: Option<i64>,
    /// `None`: it keeps no scoreboard.
    pub board: Option<BoardCounts>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossRow {
    pub time_ns: i64,
    pub connection: u32,
    /// First number or byte taken for lost.
    pub offset: u64,
    pub detected_by: DetectedBy,
    pub cwnd_before: f64,
    pub ssthresh_after: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropRow {
    pub time_ns: i64,
    pub node: u32,
    /// On the way back (`path.reverse`).
    pub is_reverse: bool,
    pub reason: DropReason,
    pub connection: u32,
    pub is_data: bool,
    /// Packet number (`ns2`) or offset of the first byte (`rfc`); for an ACK what it acknowledges.
    pub offset: u64,
    pub bytes: u32,
    pub waiting: u32,
    /// As a capture shows it.
    pub tcp_seq: u32,
    pub payload_len: u32,
    pub ip_id: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    Send = 0,
    Arrive = 1,
    Drop = 2,
    StartTx = 3,
    Recv = 4,
    SendAck = 5,
    RecvAck = 6,
}

impl EventKind {
    /// As in ns's traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Arrive => "arrive",
            Self::Drop => "drop",
            Self::StartTx => "start_tx",
            Self::Recv => "recv",
            Self::SendAck => "send_ack",
            Self::RecvAck => "recv_ack",
        }
    }
}

/// Where an event is: a data sender, a receiver, or a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    Sender,
    Receiver,
    Node { number: u32, is_reverse: bool },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventRow<I> {
    pub at: Stamp<I>,
    pub place: Site,
    pub kind: EventKind,
    pub connection: u32,
    pub is_data: bool,
    pub offset: u64,
    pub bytes: u32,
}

/// Totals of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub packets_sent: u64,
    pub retransmissions: u64,
    pub timeouts: u64,
    /// New packets (`ns2`) or bytes (`rfc`) acknowledged.
    pub acked: u64,
    /// Delivered in order to the receiving application.
    pub delivered: u64,
    pub acks_sent: u64,
}

/// What one connection's control held in mind, a value of each name per row of truth.
#[derive(Clone, Debug, Default)]
pub struct ControlValues {
    pub names: Vec<&'static str>,
    /// Row after row.
    pub values: Vec<f64>,
}

impl ControlValues {
    /// The first rows' part.
    fn take(&mut self, rows: usize) -> Self {
        Self {
            names: self.names.clone(),
            values: self.values.drain(..rows * self.names.len()).collect(),
        }
    }
}

/// The rows that are passed on together.
#[derive(Debug)]
pub struct Taken {
    pub truth: Vec<TruthRow>,
    pub control_values: Vec<ControlValues>,
    pub losses: Vec<LossRow>,
    pub drops: Vec<DropRow>,
}

/// What a run writes down besides its totals, losses and drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logs {
    /// ns-style rows (send, arrive, drop, `start_tx`, recv): large.
    pub events: bool,
    /// cwnd, ssthresh, flight and state at every change; the queues in bins.
    pub truth: bool,
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            events: false,
            truth: true,
        }
    }
}

impl Logs {
    /// Whether packets are kept on their way, not only counted.
    pub fn is_watched(self, scenario: &Scenario) -> bool {
        self.events || !scenario.taps.is_empty()
    }
}

/// Columns in order of time, except drops and events, which are sorted at the end: a packet's way is worked out when
/// it enters the path.
#[derive(Debug)]
pub struct Recorder<I> {
    pub keeps_truth: bool,
    pub keeps_events: bool,
    /// By connection; always kept.
    pub cycles: Vec<Cycles>,
    pub truth: Vec<TruthRow>,
    /// By connection, beside its rows of truth.
    pub control_values: Vec<ControlValues>,
    /// By node of the way there: drops that were passed on.
    pub drops_passed_on: Vec<u64>,
    /// The last row's, so that a row costs no allocation.
    last_values: Values,
    pub losses: Vec<LossRow>,
    pub drops: Vec<DropRow>,
    pub events: Vec<EventRow<I>>,
}

impl<I: Instant> Recorder<I> {
    /// `names`: by connection, of what its control holds in mind.
    pub fn new(names: Vec<Vec<&'static str>>, logs: Logs) -> Self {
        let with_names = |names| ControlValues {
            names,
            values: Vec::new(),
        };
        Self {
            keeps_truth: logs.truth,
            keeps_events: logs.events,
            cycles: vec![Cycles::default(); names.len()],
            truth: Vec::new(),
            control_values: names.into_iter().map(with_names).collect(),
            drops_passed_on: Vec::new(),
            last_values: Values::new(),
            losses: Vec::new(),
            drops: Vec::new(),
            events: Vec::new(),
        }
    }

    /// A connection's sender variables have changed. The row, with what its control holds in mind, is asked for only
    /// where truth is kept.
    #[inline]
    pub fn window(
        &mut self,
        connection: u32,
        moment: Moment,
        row: impl FnOnce(&mut Values) -> TruthRow,
    ) {
        self.cycles[connection as usize].window(moment);
        if self.keeps_truth {
            self.last_values.clear();
            self.truth.push(row(&mut self.last_values));
            let kept = &mut self.control_values[connection as usize];
            let values = self.last_values.iter().map(|(_, value)| *value);
            kept.values.extend(values);
        }
    }

    /// A sender has noticed a loss; its new window follows.
    pub fn loss(&mut self, row: LossRow) {
        // A hole found later belongs to the loss event that found the first; a probe is no loss.
        if row.detected_by != DetectedBy::Tlp {
            self.cycles[row.connection as usize].loss(row.time_ns, row.offset);
        }
        self.losses.push(row);
    }

    pub fn event(&mut self, row: EventRow<I>) {
        if self.keeps_events {
            self.events.push(row);
        }
    }

    /// Takes out what lies before this time of the event loop: nothing earlier is told any more.
    pub fn take_before(&mut self, now_ns: i64) -> Taken {
        let truth = self.truth.partition_point(|row| row.time_ns < now_ns);
        let truth: Vec<TruthRow> = self.truth.drain(..truth).collect();
        let mut rows = vec![0; self.control_values.len()];
        for row in &truth {
            rows[row.connection as usize] += 1;
        }
        let kept = self.control_values.iter_mut().zip(rows);
        let control_values = kept.map(|(kept, rows)| kept.take(rows)).collect();
        let losses = self.losses.partition_point(|row| row.time_ns < now_ns);
        self.drops.sort_by_key(|row| row.time_ns);
        let drops = self.drops.partition_point(|row| row.time_ns < now_ns);
        let drops: Vec<DropRow> = self.drops.drain(..drops).collect();
        count_drops(&mut self.drops_passed_on, &drops);
        Taken {
            truth,
            control_values,
            losses: self.losses.drain(..losses).collect(),
            drops,
        }
    }

    /// Puts drops and events into order of time and cuts what lies behind the end of the run.
    pub fn finish(&mut self, end: I) {
        self.drops.sort_by_key(|row| row.time_ns);
        let end_ns = end.to_ns();
        self.drops.retain(|row| row.time_ns <= end_ns);
        self.events.retain(|row| row.at.time <= end);
        self.events
            .sort_by(|a, b| a.at.partial_cmp(&b.at).expect("no time is NaN"));
    }
}

/// Adds to each node's count what it lost of the way there.
pub fn count_drops(by_node: &mut Vec<u64>, drops: &[DropRow]) {
    for row in drops.iter().filter(|row| !row.is_reverse) {
        let node = row.node as usize;
        if by_node.len() <= node {
            by_node.resize(node + 1, 0);
        }
        by_node[node] += 1;
    }
}
