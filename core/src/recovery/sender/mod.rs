//! A TCP sender without clock, packets or engine: ACKs, timeouts and writes in; segments to send out.
//!
//! The simulator gives it events as they happen and asks what may be sent; a replay gives it a capture's, what was sent
//! among them. Each keeps to these methods: `on_ack`, `on_timeout`, `on_write`, `on_sent` tell, `may_send` asks and
//! changes nothing, `next_send` asks and tells. What differs between Tahoe, Reno,
//! NewReno, SACK and FACK stands in `fast.rs`; the timer in `rto.rs`; growth and reduction in `congestion`.

mod arriving;
mod delivering;
mod duplicates;
mod next;
mod options;
mod pacer;
mod reducing;
mod tail;
mod undo;

use std::collections::VecDeque;

use super::{BoardCounts, DeliveryStamp, Prr, Rack, Rto, Scoreboard};
use crate::congestion::{Control, State};
use delivering::Delivering;
pub use options::{Options, Recovery};
use pacer::Pacer;
pub use reducing::Reduction;
pub use tail::Expired;
use tail::Tail;
use undo::{Frto, UndoState};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecoveryPhase {
    #[default]
    Open,
    /// Duplicate ACKs have come, fewer than it takes.
    Disorder,
    Recovery,
    /// After a timeout or Tahoe's return, until everything outstanding then is acknowledged.
    Loss,
}

/// An ACK as it arrives, in unwrapped offsets.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    pub ack: u64,
    /// Bytes offered, scaled.
    pub window: u64,
    pub blocks: &'a [(u64, u64)],
    /// Round trip by timestamps (RFC 7323), for an ACK of retransmitted data.
    pub echo_rtt_ns: Option<i64>,
}

impl Arrived<'_> {
    /// RFC 2883 section 4: the first block, below the ACK or within the second, tells of what came twice.
    fn dsack(&self) -> Option<(u64, u64)> {
        match *self.blocks {
            [(start, end), ..] if end <= self.ack => Some((start, end)),
            [(start, end), (left, right), ..] if left <= start && end <= right => {
                Some((start, end))
            }
            _ => None,
        }
    }
}

/// A range that goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub start: u64,
    pub end: u64,
    pub is_retransmission: bool,
}

/// When a range was last sent, for round-trip samples.
#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    at_ns: i64,
    is_retransmitted: bool,
    /// Of a control that wants delivery rates.
    stamp: DeliveryStamp,
}

#[derive(Clone, Debug)]
pub struct Sender {
    pub(super) options: Options,
    pub(super) control: Box<dyn Control>,
    pub(super) state: State,
    pub(super) rto: Rto,
    pub(super) phase: RecoveryPhase,
    pub(super) snd_una: u64,
    pub(super) snd_nxt: u64,
    /// One above the highest byte ever sent.
    pub(super) snd_max: u64,
    /// One above the last byte the application has written.
    pub(super) written: u64,
    /// No more will be written: a short last segment need not wait.
    pub(super) is_closing: bool,
    pub(super) rwnd: u64,
    pub(super) dupacks: u32,
    /// RFC 6582's recover, RFC 6675's RecoveryPoint.
    pub(super) recover: u64,
    pub(super) board: Scoreboard,
    /// When the timer expires; `None`: it is off.
    pub(super) rto_at_ns: Option<i64>,
    pub(super) reductions: Vec<Reduction>,
    /// A retransmission to send now, whatever the window says.
    pub(super) due: Option<(u64, u64)>,
    pub(super) has_had_partial: bool,
    pub(super) prr: Option<Prr>,
    pub(super) rack: Option<Rack>,
    pub(super) tail: Tail,
    /// What the last reduction can be taken back to.
    before: Option<UndoState>,
    frto: Frto,
    /// `snd_una` when the timer expired last.
    timed_out_at: Option<u64>,
    /// RFC 3042: bytes that may go beyond cwnd.
    pub(super) limited_transmit: u64,
    /// `snd_nxt` at the first duplicate ACK: what is sent from there on is limited transmit's.
    pub(super) limited_from: u64,
    /// A probe of a closed window may go out.
    probes: bool,
    pub(super) delivery: Option<Delivering>,
    /// Without SACK: what duplicate ACKs have told of, until the hole is filled.
    by_duplicates: u64,
    /// The control sets cwnd in recovery too.
    pub(super) owns_window: bool,
    pacer: Pacer,
    sent: VecDeque<Sent>,
    /// When the newest segment was sent that the ACK at hand SACKs, of those sent once.
    sacked_sent_ns: Option<i64>,
    last_sent_ns: i64,
}

impl Sender {
    /// `first`: offset of the first byte; the connection is established.
    pub fn new(
        options: Options,
        control: Box<dyn Control>,
        mut state: State,
        rto: Rto,
        first: u64,
        rwnd: u64,
        now_ns: i64,
    ) -> Self {
        let mut control = control;
        control.start(&mut state, first);
        control.on_established(&mut state, now_ns, rto.srtt_ns());
        let is_fack = options.recovery == Recovery::Fack;
        let has_board = is_fack || options.recovery == Recovery::Sack;
        let rack = (options.has_rack && has_board).then(|| Rack::new(rto.srtt_ns()));
        Self {
            delivery: control.wants_delivery().then(Delivering::default),
            owns_window: control.owns_window(),
            pacer: Pacer::default(),
            board: if rack.is_some() {
                Scoreboard::new(options.smss, is_fack).of_rack()
            } else {
                Scoreboard::new(options.smss, is_fack)
            },
            tail: Tail::default(),
            before: None,
            frto: Frto::Off,
            timed_out_at: None,
            control,
            state,
            rto,
            phase: RecoveryPhase::Open,
            snd_una: first,
            snd_nxt: first,
            snd_max: first,
            written: first,
            is_closing: false,
            rwnd,
            dupacks: 0,
            recover: first.saturating_sub(1),
            rto_at_ns: None,
            reductions: Vec::new(),
            due: None,
            has_had_partial: false,
            prr: None,
            rack,
            limited_transmit: 0,
            limited_from: first,
            options,
            probes: false,
            by_duplicates: 0,
            sent: VecDeque::new(),
            sacked_sent_ns: None,
            last_sent_ns: i64::MIN,
        }
    }

    /// FlightSize (RFC 5681 section 2): outstanding, whether or not it has left the path.
    pub fn flight_size(&self) -> u64 {
        self.snd_nxt - self.snd_una
    }

    /// What is believed to be on the path.
    pub fn pipe(&self) -> u64 {
        match self.options.recovery {
            Recovery::Sack | Recovery::Fack => self.board.pipe(self.flight_size()),
            _ => {
                let arrived = self.arrived_by_duplicates();
                // The hole found last has left the path, and is not on it again yet.
                let lost = self.due.filter(|_| self.recovers_by_duplicates());
                let lost = lost.map_or(0, |(start, end)| end - start);
                self.flight_size().saturating_sub(arrived + lost)
            }
        }
    }

    /// `None` for a recovery that keeps no scoreboard.
    pub fn board_counts(&self) -> Option<BoardCounts> {
        self.has_pipe().then(|| self.board.counts())
    }

    pub fn cwnd(&self) -> u64 {
        (self.state.cwnd as u64).min(self.options.max_window)
    }

    /// The application has written up to `written`.
    pub fn on_write(&mut self, now_ns: i64, written: u64) {
        let idle_ns = now_ns.saturating_sub(self.last_sent_ns);
        self.note_application_limit();
        if self.options.restarts_after_idle
            && !self.owns_window
            && self.snd_una == self.snd_max
            && self.last_sent_ns > i64::MIN
            && idle_ns > self.rto.timeout_ns()
        {
            // RFC 5681 section 4.1: back to the restart window.
            self.state.cwnd = self.state.cwnd.min(self.options.initial_window as f64);
        }
        self.written = self.written.max(written);
    }

    /// Nothing more will be written: a short last segment need not wait.
    pub fn on_close(&mut self) {
        self.is_closing = true;
    }

    /// The application takes back what has not been sent: its end, one for the FIN, is what is returned.
    pub fn close_here(&mut self) -> u64 {
        self.is_closing = true;
        self.written = self.snd_max + 1;
        self.written
    }

    pub fn is_done(&self) -> bool {
        self.is_closing && self.snd_una == self.written
    }
}

/// What it knows, for whoever keeps books.
impl Sender {
    /// Whether recovery is by a pipe.
    pub(super) fn has_pipe(&self) -> bool {
        matches!(self.options.recovery, Recovery::Sack | Recovery::Fack)
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn control(&self) -> &dyn Control {
        &*self.control
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn phase(&self) -> RecoveryPhase {
        self.phase
    }

    pub fn snd_una(&self) -> u64 {
        self.snd_una
    }

    pub fn snd_nxt(&self) -> u64 {
        self.snd_nxt
    }

    pub fn snd_max(&self) -> u64 {
        self.snd_max
    }

    /// Bytes the receiver offers.
    pub fn rwnd(&self) -> u64 {
        self.rwnd
    }

    /// Whether anything waits for an ACK.
    pub fn has_outstanding(&self) -> bool {
        self.snd_una < self.snd_max
    }

    /// When the next timer expires; `None`: all are off.
    pub fn timer_ns(&self) -> Option<i64> {
        let both = self.rto_at_ns.into_iter().chain(self.tail.earliest());
        both.min()
    }

    pub fn srtt_ns(&self) -> Option<i64> {
        self.rto.srtt_ns()
    }

    /// The reductions since the last time.
    pub fn take_reductions(&mut self) -> std::vec::Drain<'_, Reduction> {
        self.reductions.drain(..)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod undo_tests;
