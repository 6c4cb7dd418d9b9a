//! What our own sender knew, in the rows in which the kernel's recordings tell it.

use crate::recovery::{DetectedBy, RecoveryPhase, Sender};

/// The kernel's numbers of its congestion states.
const OPEN: u8 = 0;
const DISORDER: u8 = 1;
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;

/// What a row tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// An ACK has come; the state before it is processed.
    Ack,
    /// Window, threshold or state have changed; the state after.
    Changed,
    Retransmission,
    /// The congestion state is another one: 3 by duplicate ACKs or SACK, 4 by the timer.
    State,
}

impl RowKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ack => "A",
            Self::Changed => "S",
            Self::Retransmission => "R",
            Self::State => "C",
        }
    }
}

/// One row; windows in segments, sequence numbers as on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelRow {
    pub time_ns: i64,
    pub event: RowKind,
    pub cwnd: u32,
    /// `None`: never set.
    pub ssthresh: Option<u32>,
    pub srtt_us: i64,
    pub snd_una: u32,
    pub snd_nxt: u32,
    pub packets_out: u64,
    pub ca_state: u8,
    pub snd_wnd: u64,
    /// Ack: bytes newly acknowledged. Retransmission: its sequence number.
    pub arg: i64,
}

/// The rows so far.
#[derive(Debug)]
pub struct TruthRows {
    smss: f64,
    rows: Vec<KernelRow>,
    state: u8,
    shown: (u32, Option<u32>),
}

impl TruthRows {
    pub fn new(smss: f64) -> Self {
        Self {
            smss,
            rows: Vec::new(),
            state: OPEN,
            shown: (0, None),
        }
    }

    pub fn ack(&mut self, now_ns: i64, sender: &Sender, isn: u32, newly_acked: i64) {
        self.push(now_ns, RowKind::Ack, sender, isn, newly_acked);
    }

    pub fn retransmission(&mut self, now_ns: i64, sender: &Sender, isn: u32, seq: u32) {
        self.push(now_ns, RowKind::Retransmission, sender, isn, i64::from(seq));
    }

    /// After everything that an event has brought: reductions, another phase, another window.
    pub fn changes(&mut self, now_ns: i64, sender: &mut Sender, isn: u32) {
        let reductions: Vec<_> = sender.take_reductions().collect();
        for reduction in &reductions {
            self.state = match reduction.detected_by {
                DetectedBy::DupAck | DetectedBy::Sack | DetectedBy::Reordering => RECOVERY,
                DetectedBy::Rto => LOSS,
                // Linux's CWR for an instant: the state afterwards is what it was.
                DetectedBy::Tlp | DetectedBy::Undone => continue,
            };
            self.push(now_ns, RowKind::State, sender, isn, 0);
        }
        let now = match sender.phase() {
            RecoveryPhase::Open => OPEN,
            RecoveryPhase::Disorder => DISORDER,
            // A loss keeps the name of how it was found until it is over.
            RecoveryPhase::Recovery | RecoveryPhase::Loss => self.state,
        };
        if now != self.state {
            self.state = now;
            self.push(now_ns, RowKind::State, sender, isn, 0);
        }
        let shown = (self.segments(sender.state().cwnd), self.ssthresh(sender));
        if shown != self.shown {
            self.shown = shown;
            self.push(now_ns, RowKind::Changed, sender, isn, 0);
        }
    }

    fn push(&mut self, time_ns: i64, event: RowKind, sender: &Sender, isn: u32, arg: i64) {
        let flight_size = sender.flight_size();
        self.rows.push(KernelRow {
            time_ns,
            event,
            cwnd: self.segments(sender.state().cwnd),
            ssthresh: self.ssthresh(sender),
            srtt_us: sender.srtt_ns().unwrap_or(0) / 1000,
            snd_una: isn.wrapping_add(sender.snd_una() as u32),
            snd_nxt: isn.wrapping_add(sender.snd_nxt() as u32),
            packets_out: flight_size.div_ceil(sender.options().smss),
            ca_state: self.state,
            snd_wnd: sender.rwnd(),
            arg,
        });
    }

    fn segments(&self, bytes: f64) -> u32 {
        (bytes / self.smss) as u32
    }

    fn ssthresh(&self, sender: &Sender) -> Option<u32> {
        let ssthresh = sender.state().ssthresh;
        ssthresh.is_finite().then(|| self.segments(ssthresh))
    }

    pub fn rows(&self) -> &[KernelRow] {
        &self.rows
    }
}
