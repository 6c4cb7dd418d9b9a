//! One flow at a glance: what is outstanding, its round trip, its rate, and what happened last. Constant size, one step
//! for each packet; errs where only hindsight helps (which loss it was, which window): reconstruction has that.

use crate::connection::{TcpPacket, is_later};
use crate::infer::Now;
use crate::recovery::DUP_THRESH;

/// What the sender seems to be doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// Nothing sent, or all of it acknowledged.
    #[default]
    Idle,
    /// The flight grows, and no loss has bounded it yet; or it is below half of what it was at the last loss.
    SlowStart,
    Avoidance,
    /// Until everything outstanding at the loss is acknowledged (RFC 6582).
    Recovery,
}

impl Doing {
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::SlowStart => "slow start",
            Self::Avoidance => "avoidance",
            Self::Recovery => "recovery",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewsKind {
    Syn,
    Established,
    /// A first retransmission after duplicate ACKs or SACK blocks.
    Loss,
    /// One after silence: the timer, or a probe of the tail.
    Timeout,
    Recovered,
    ZeroWindow,
    WindowOpen,
    Fin,
    Reset,
}

impl NewsKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Syn => "syn",
            Self::Established => "established",
            Self::Loss => "loss",
            Self::Timeout => "timeout",
            Self::Recovered => "recovered",
            Self::ZeroWindow => "zero_window",
            Self::WindowOpen => "window_open",
            Self::Fin => "fin",
            Self::Reset => "reset",
        }
    }
}

/// Something that a person would want to know of.
#[derive(Clone, Debug)]
pub struct News {
    pub time_ns: i64,
    pub connection: u32,
    /// Which end's: of the connection's first packet's sender (0) or the other.
    pub from: u8,
    pub kind: NewsKind,
    pub flight: u32,
    /// Where senders are observed: that end then.
    pub state: Option<Box<EndState>>,
}

/// An end after the packet that made the news; what the observer says of it, if it knows.
#[derive(Clone, Copy, Debug)]
pub struct EndState {
    pub glance: Glance,
    pub now: Option<Now>,
}

/// Rates are over bins of this length.
const RATE_BIN_NS: i64 = 200_000_000;

/// What one end sent, and what came back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Glance {
    pub bytes: u64,
    pub retransmissions: u64,
    pub losses: u32,
    pub srtt_ns: i64,
    pub min_rtt_ns: i64,
    pub rate_bps: f64,
    /// The most outstanding since the last loss: the window, as far as it was used.
    pub window: u32,
    /// Half of the flight at the last loss; `None` before.
    pub ssthresh: Option<u32>,
    pub rwnd: Option<u64>,
    pub mss: u32,
    pub last_event: Option<(NewsKind, i64)>,
    pub phase: Doing,
    is_begun: bool,
    has_fin: bool,
    is_established: bool,
    snd_max: u32,
    snd_una: u32,
    dup_acks: u32,
    /// Outstanding at the loss: recovery is over when it is acknowledged.
    recover: u32,
    last_ack_ns: i64,
    /// The end of a segment sent once, and when: one is timed at a time (RFC 6298 section 3).
    timed: Option<(u32, i64)>,
    bin_ns: i64,
    bin_bytes: u64,
    shift: u8,
}

impl Glance {
    pub fn flight(&self) -> u32 {
        if is_later(self.snd_max, self.snd_una) {
            self.snd_max.wrapping_sub(self.snd_una)
        } else {
            0
        }
    }

    /// The limit as it looks now: recovery, the receiver's window, the sender's own, or nothing to send.
    pub fn limited_by(&self) -> &'static str {
        let room = u64::from(self.flight()) + u64::from(self.mss);
        match self.phase {
            Doing::Idle => "application",
            Doing::Recovery => "recovery",
            _ if self.rwnd.is_some_and(|rwnd| room > rwnd) => "rwnd",
            _ if self.flight() + 2 * self.mss < self.window => "application",
            _ => "cwnd",
        }
    }

    pub fn set_shift(&mut self, shift: u8) {
        self.shift = shift;
    }

    /// A packet that this end sent.
    #[inline]
    pub fn on_sent(&mut self, packet: &TcpPacket<'_>) -> Option<NewsKind> {
        let mut kind = None;
        if packet.has_sequence_space() {
            let len = packet.len + u32::from(packet.is_syn()) + u32::from(packet.is_fin());
            let end = packet.seq.wrapping_add(len);
            if !self.is_begun {
                self.is_begun = true;
                self.snd_una = packet.seq;
                self.snd_max = packet.seq;
            }
            self.mss = self.mss.max(packet.len);
            if is_later(end, self.snd_max) {
                self.snd_max = end;
                self.bytes += u64::from(packet.len);
                if self.timed.is_none() {
                    self.timed = Some((end, packet.time));
                }
                self.grow();
            } else if packet.len > 0 && !packet.is_rst() {
                kind = self.on_again(packet);
            }
        }
        if packet.is_rst() {
            kind = Some(NewsKind::Reset);
        } else if packet.is_fin() && !self.has_fin {
            self.has_fin = true;
            kind = kind.or(Some(NewsKind::Fin));
        } else if packet.is_syn() {
            kind = Some(NewsKind::Syn);
        }
        self.noted(kind, packet.time)
    }

    fn on_again(&mut self, packet: &TcpPacket<'_>) -> Option<NewsKind> {
        self.retransmissions += 1;
        self.timed = None;
        if self.phase == Doing::Recovery && is_later(self.recover, self.snd_una) {
            return None;
        }
        let flight = self.flight();
        if flight == 0 {
            // A keep-alive, or the copy of something acknowledged.
            return None;
        }
        self.losses += 1;
        self.ssthresh = Some(flight / 2);
        self.window = flight;
        self.recover = self.snd_max;
        self.phase = Doing::Recovery;
        let silent = packet.time - self.last_ack_ns > self.srtt_ns.max(1_000_000);
        Some(if self.dup_acks >= DUP_THRESH || !silent {
            NewsKind::Loss
        } else {
            NewsKind::Timeout
        })
    }

    fn grow(&mut self) {
        let flight = self.flight();
        if self.phase != Doing::Recovery {
            self.window = self.window.max(flight);
            let below = self.ssthresh.is_none_or(|ssthresh| flight < ssthresh);
            self.phase = if below {
                Doing::SlowStart
            } else {
                Doing::Avoidance
            };
        }
    }

    /// A packet that the other end sent.
    #[inline]
    pub fn on_heard(&mut self, packet: &TcpPacket<'_>) -> Option<NewsKind> {
        if !packet.is_ack() || packet.is_rst() {
            return None;
        }
        let mut kind = None;
        let shift = if packet.is_syn() { 0 } else { self.shift };
        let rwnd = u64::from(packet.window) << shift;
        let was_closed = self.rwnd == Some(0);
        self.rwnd = Some(rwnd);
        if !self.is_begun {
            return None;
        }
        if rwnd == 0 && !was_closed {
            kind = Some(NewsKind::ZeroWindow);
        } else if rwnd > 0 && was_closed {
            kind = Some(NewsKind::WindowOpen);
        }
        if is_later(packet.ack, self.snd_una) && !is_later(packet.ack, self.snd_max) {
            kind = self.on_new_ack(packet).or(kind);
        } else if packet.ack == self.snd_una && packet.is_pure_ack() && self.flight() > 0 {
            self.dup_acks += 1;
        }
        self.last_ack_ns = packet.time;
        self.noted(kind, packet.time)
    }

    fn on_new_ack(&mut self, packet: &TcpPacket<'_>) -> Option<NewsKind> {
        let newly = packet.ack.wrapping_sub(self.snd_una);
        self.snd_una = packet.ack;
        self.dup_acks = 0;
        if let Some((end, sent_ns)) = self.timed.filter(|(end, _)| !is_later(*end, packet.ack)) {
            let rtt_ns = packet.time - sent_ns;
            // A sample of a delayed ACK that covers more is as good as the sender's own.
            debug_assert!(!is_later(end, packet.ack));
            self.srtt_ns = if self.srtt_ns == 0 {
                rtt_ns
            } else {
                self.srtt_ns + (rtt_ns - self.srtt_ns) / 8
            };
            self.min_rtt_ns = if self.min_rtt_ns == 0 {
                rtt_ns
            } else {
                self.min_rtt_ns.min(rtt_ns)
            };
            self.timed = None;
        }
        self.count(packet.time, newly);
        let mut kind = None;
        if !self.is_established {
            self.is_established = true;
            kind = Some(NewsKind::Established);
        }
        if self.phase == Doing::Recovery && !is_later(self.recover, self.snd_una) {
            self.phase = Doing::Avoidance;
            self.window = self.flight();
            kind = Some(NewsKind::Recovered);
        }
        if self.flight() == 0 {
            self.phase = Doing::Idle;
        }
        kind
    }

    /// The rate at which data is acknowledged, bin by bin.
    fn count(&mut self, now: i64, newly: u32) {
        if self.bin_ns == 0 {
            self.bin_ns = now;
        }
        let length = now.saturating_sub(self.bin_ns);
        if length >= RATE_BIN_NS {
            self.rate_bps = self.bin_bytes as f64 * 8e9 / length as f64;
            self.bin_ns = now;
            self.bin_bytes = 0;
        }
        self.bin_bytes += u64::from(newly);
    }

    fn noted(&mut self, kind: Option<NewsKind>, now: i64) -> Option<NewsKind> {
        if let Some(kind) = kind {
            self.last_event = Some((kind, now));
        }
        kind
    }
}
