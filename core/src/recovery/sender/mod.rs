//! A TCP sender without clock, packets or engine: ACKs, timeouts and writes in; segments to send out.
//!
//! The simulator gives it events as they happen and asks what may be sent; a replay gives it a capture's, what was sent
//! among them. Each keeps to these methods: `on_ack`, `on_timeout`, `on_write`, `on_sent` tell, `may_send` asks and
//! changes nothing, `next_send` asks and tells. What differs between Tahoe, Reno,
//! NewReno, SACK and FACK stands in `fast.rs`; the timer in `rto.rs`; growth and reduction in `congestion`.

mod delivering;
mod duplicates;
mod next;
mod pacer;
mod tail;
mod undo;

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BoardCounts, DeliveryStamp, DetectedBy, Prr, Rack, Rto, Scoreboard};
use crate::congestion::{Ack, Control, Loss, State};
use delivering::Delivering;
use pacer::Pacer;
pub use tail::Expired;
use tail::Tail;
use undo::{Before, Frto};

/// What happens after the third duplicate ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Recovery {
    /// Slow start from one segment, everything above the ACK sent again.
    Tahoe,
    /// RFC 5681 section 3.2.
    Reno,
    /// RFC 6582.
    NewReno,
    /// RFC 6675.
    Sack,
    /// Mathis and Mahdavi 1996.
    Fack,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Open,
    /// Duplicate ACKs have come, fewer than it takes.
    Disorder,
    Recovery,
    /// After a timeout or Tahoe's return, until everything outstanding then is acknowledged.
    Loss,
}

/// A reduction, for whoever keeps books; `ssthresh_after` is the one before where the timer backs off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    pub detected_by: DetectedBy,
    pub offset: u64,
    pub cwnd_before: f64,
    pub ssthresh_after: f64,
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

#[derive(Clone, Debug)]
pub struct Options {
    /// Differs: as Linux 6 where it is not as the documents. It counts PRR from cwnd, the ACK that ends a recovery opens
    /// the window, and a needless reduction is taken back.
    pub is_linux: bool,
    pub recovery: Recovery,
    pub smss: u64,
    /// Bytes.
    pub initial_window: u64,
    pub limited_transmit: bool,
    /// RFC 6582 section 4: only the first partial ACK restarts the timer, so many losses end in a timeout.
    pub is_impatient: bool,
    /// RFC 9937, with SACK: cwnd follows the ACKs down to ssthresh instead of jumping there.
    pub has_prr: bool,
    /// RFC 8985, with SACK: losses are found by time, and the end of a flight is probed.
    pub has_rack: bool,
    /// RFC 5681 section 4.1.
    pub restarts_after_idle: bool,
    /// Bytes the sender never exceeds, whatever cwnd says.
    pub max_window: u64,
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
    pub(super) phase: Phase,
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
    before: Option<Before>,
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
            phase: Phase::Open,
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

    /// An ACK has come.
    pub fn on_ack(&mut self, now_ns: i64, arrived: &Arrived<'_>) {
        if arrived.ack > self.snd_max || arrived.ack < self.snd_una {
            return;
        }
        let (flight_size, pipe) = (self.flight_size(), self.pipe());
        let opens_window = arrived.window != self.rwnd;
        self.rwnd = arrived.window;
        let newly_acked = arrived.ack - self.snd_una;
        let sacked_before = self.board.sacked_bytes();
        let lost_before = self.board.declared_lost();
        let has_board = self.has_pipe();
        let unheard = if has_board {
            newly_acked
        } else {
            self.take_counted(newly_acked)
        };
        let has_original = self.hear_of_arrivals(now_ns, arrived, newly_acked - unheard);
        let newly_sacked = self.board.update(arrived.ack, self.snd_max, arrived.blocks);
        let rtt_ns = self.take_sample(now_ns, arrived);
        let ack = Ack {
            now_ns,
            newly_acked: newly_acked as f64,
            newly_sacked: newly_sacked as f64,
            rtt_ns,
            srtt_ns: self.rto.srtt_ns(),
            flight_size: pipe as f64,
            snd_una: arrived.ack,
            snd_nxt: self.snd_nxt.max(arrived.ack),
            is_cwnd_limited: self.state.is_used(flight_size as f64),
        };
        self.control.on_arrival(&mut self.state, &ack);
        // DeliveredData (RFC 9937 section 5): what the ACK covers had partly been delivered when it was SACKed.
        let sacked_now = self.board.sacked_bytes();
        let mut delivered = (unheard + sacked_now)
            .saturating_sub(sacked_before)
            .max(newly_sacked);
        if newly_acked > 0 {
            self.snd_una = arrived.ack;
            self.snd_nxt = self.snd_nxt.max(arrived.ack);
        }
        self.reconsider(now_ns, arrived, newly_acked, has_original);
        if newly_acked > 0 {
            let counted = if self.options.is_linux {
                delivered
            } else {
                newly_acked
            };
            let newly_acked = counted as f64;
            self.on_new_ack(now_ns, &Ack { newly_acked, ..ack });
        }
        let is_dup = if self.has_pipe() && newly_sacked > 0 {
            // RFC 6675 section 2: also when it moves the cumulative point.
            true
        } else {
            // RFC 5681 section 2.
            newly_acked == 0 && flight_size > 0 && arrived.blocks.is_empty() && !opens_window
        };
        if is_dup {
            self.on_dup_ack(now_ns);
        }
        self.follow_frto(newly_acked, is_dup);
        let is_arrival = is_dup && !has_board && self.count_duplicate();
        if is_arrival {
            delivered += self.options.smss;
        }
        if newly_acked > 0 && self.phase != Phase::Recovery {
            self.by_duplicates = 0;
        }
        if self.rack.is_some() {
            let has_dsack = arrived.dsack().is_some();
            if let Some(rack) = self.rack.as_mut().filter(|_| has_dsack) {
                // RFC 8985 section 6.2 step 4.
                rack.on_dsack(arrived.ack, self.snd_nxt);
            }
            self.hear_of_probe(now_ns, arrived, newly_acked, has_dsack);
            self.detect_losses(now_ns);
            self.recover_what_rack_found(now_ns);
            if newly_acked > 0 {
                self.schedule_probe(now_ns);
            }
        } else {
            self.check_sack_recovery(now_ns, newly_sacked);
        }
        let finds_hole = self.recovers_by_duplicates() && self.due.is_some();
        let has_lost = finds_hole || self.board.declared_lost() > lost_before;
        self.reduce_in_proportion(delivered, newly_acked > 0 && !has_lost);
        self.tell_delivery(now_ns, newly_acked, is_arrival, pipe);
    }

    /// RFC 8985 section 6.2 step 2, and the delivery rate: when what arrives now was sent. `counted`: of the bytes
    /// acknowledged, those that duplicate ACKs had told of. True: some of it was sent once, before the last reduction.
    fn hear_of_arrivals(&mut self, now_ns: i64, arrived: &Arrived<'_>, mut counted: u64) -> bool {
        self.sacked_sent_ns = None;
        if self.rack.is_none() && self.delivery.is_none() && !self.options.is_linux {
            return false;
        }
        if let Some(rack) = &mut self.rack {
            rack.begin_ack();
        }
        let (snd_una, recover) = (self.snd_una, self.recover);
        let (mut has_original, mut has_again) = (false, false);
        let mut hear = |start: u64, end: u64| {
            let first = self.sent.partition_point(|sent| sent.end <= start);
            let segments = self.sent.iter().skip(first);
            let mut from = start;
            for sent in segments.take_while(|sent| sent.end <= end) {
                if let Some(rack) = &mut self.rack {
                    rack.on_delivered(now_ns, sent.at_ns, sent.end, sent.is_retransmitted);
                }
                if let Some(delivery) = &mut self.delivery {
                    let bytes = sent.end - from;
                    let heard = if from == snd_una {
                        0
                    } else {
                        counted.min(bytes)
                    };
                    counted -= heard;
                    delivery.on_delivered(now_ns, bytes - heard, sent);
                }
                has_original |= sent.end <= recover && !sent.is_retransmitted;
                has_again |= sent.is_retransmitted;
                if sent.end > arrived.ack && !sent.is_retransmitted {
                    self.sacked_sent_ns = self.sacked_sent_ns.max(Some(sent.at_ns));
                }
                from = sent.end;
            }
        };
        for &(start, end) in arrived.blocks.iter().chain([&(self.snd_una, arrived.ack)]) {
            // Only what was not SACKed before: the rest arrived earlier.
            let (mut at, end) = (start.max(self.snd_una), end.min(self.snd_max));
            while at < end {
                let (hole, next) = self.board.hole_from(at);
                hear(hole, next.min(end));
                at = next;
            }
        }
        // Without SACK what lies behind a segment sent again may have come before it, and says nothing.
        has_original && (self.has_pipe() || !has_again)
    }

    /// Reads the clock off the newest segment acknowledged; Karn: not off one sent twice, unless timestamps tell.
    fn take_sample(&mut self, now_ns: i64, arrived: &Arrived<'_>) -> Option<i64> {
        let mut newest: Option<Sent> = None;
        let mut fills_hole = false;
        while let Some(sent) = self.sent.front().filter(|sent| sent.end <= arrived.ack) {
            fills_hole |= sent.is_retransmitted;
            newest = Some(*sent);
            self.sent.pop_front();
        }
        let of_sacked = self.sacked_sent_ns.filter(|_| self.options.is_linux);
        let sample = match newest {
            // Linux: what is SACKed came without waiting, at a hole too.
            _ if of_sacked.is_some() => of_sacked.map(|at_ns| now_ns - at_ns),
            // What came in behind a hole has waited at the receiver until the hole was filled: no round trip.
            Some(sent) if !(sent.is_retransmitted || fills_hole) => Some(now_ns - sent.at_ns),
            Some(_) if self.options.is_linux => arrived
                .echo_rtt_ns
                .map(|rtt_ns| undo::in_ticks(now_ns, rtt_ns)),
            Some(_) => arrived.echo_rtt_ns,
            None => None,
        };
        if let Some(rtt_ns) = sample {
            self.rto.on_sample(rtt_ns);
            self.rto.on_acked(arrived.ack, self.snd_nxt);
            if let Some(rack) = &mut self.rack {
                rack.on_sample(rtt_ns);
            }
            self.control.on_rtt(now_ns, rtt_ns);
        }
        sample
    }

    /// RFC 6298 (5.2) and (5.3).
    pub(super) fn restart_timer(&mut self, now_ns: i64) {
        self.rto_at_ns = (self.snd_una < self.snd_max).then(|| now_ns + self.rto.timeout_ns());
    }

    pub(super) fn loss(&self, now_ns: i64) -> Loss {
        Loss {
            now_ns,
            flight_size: (self.snd_nxt - self.snd_una - self.sent_beyond()) as f64,
            snd_nxt: self.snd_nxt,
        }
    }

    /// RFC 5681 section 3.2 (2): what limited transmit has sent is no part of FlightSize.
    fn sent_beyond(&self) -> u64 {
        if self.phase == Phase::Disorder {
            self.snd_nxt.saturating_sub(self.limited_from)
        } else {
            0
        }
    }

    /// Asks the control for ssthresh; RFC 5681 equation (4): at least 2 SMSS.
    pub(super) fn reduce(&mut self, now_ns: i64, detected_by: DetectedBy) {
        self.remember();
        let cwnd_before = self.state.cwnd;
        let loss = self.loss(now_ns);
        if detected_by == DetectedBy::Rto {
            self.control.on_timeout(&mut self.state, &loss);
        } else {
            self.control.on_loss(&mut self.state, &loss);
        }
        self.state.ssthresh = self.state.ssthresh.max(2.0 * self.state.smss);
        self.book(detected_by, cwnd_before);
    }

    fn book(&mut self, detected_by: DetectedBy, cwnd_before: f64) {
        self.reductions.push(Reduction {
            detected_by,
            offset: self.snd_una,
            cwnd_before,
            ssthresh_after: self.state.ssthresh,
        });
    }

    /// The timer has expired, or a capture shows that it has (RFC 6298 (5.4) to (5.7), RFC 5681 section 3.1).
    pub fn on_timeout(&mut self, now_ns: i64) {
        self.rto.back_off();
        if self.snd_una == self.snd_max {
            // Nothing outstanding: the receiver's window is closed and is probed (RFC 9293 section 3.8.6.1).
            self.probes = self.written > self.snd_una;
            self.rto_at_ns = self.probes.then(|| now_ns + self.rto.timeout_ns());
            return;
        }
        if self.reduces_at_timeout() {
            self.reduce(now_ns, DetectedBy::Rto);
        } else {
            self.book(DetectedBy::Rto, self.state.cwnd);
        }
        self.begin_frto();
        self.state.cwnd = self.state.smss;
        self.phase = Phase::Loss;
        self.recover = self.snd_max;
        self.dupacks = 0;
        self.note_lost(self.flight_size());
        self.by_duplicates = 0;
        self.due = None;
        self.prr = None;
        self.limited_transmit = 0;
        if self.has_pipe() {
            self.board.mark_all_lost(self.snd_una, self.snd_max);
            self.spare_the_recent(now_ns);
            // RFC 6298 (5.4): the earliest segment, whatever is still counted as under way.
            self.due = self.board.next_lost();
            if self.options.is_linux {
                // What was spared is on its way: one segment more.
                self.set_cwnd((self.pipe() + self.options.smss) as f64);
            }
        } else {
            // Everything is sent again from the ACK on.
            self.snd_nxt = self.snd_una;
        }
        self.rto_at_ns = Some(now_ns + self.rto.timeout_ns());
    }

    /// RFC 5681 equation (4) is not applied again to a segment retransmitted by the timer before. Linux: nor within the
    /// window of a recovery, but again once the timer's retransmission was acknowledged.
    fn reduces_at_timeout(&self) -> bool {
        match self.phase {
            Phase::Open | Phase::Disorder => true,
            Phase::Recovery | Phase::Loss if self.options.is_linux => {
                self.snd_una >= self.recover
                    || (self.phase == Phase::Loss && self.timed_out_at != Some(self.snd_una))
            }
            Phase::Recovery => true,
            Phase::Loss => self.snd_una > self.recover || self.rto_first_for(self.snd_una),
        }
    }

    /// Whether the segment at `offset` has not been retransmitted yet.
    fn rto_first_for(&self, offset: u64) -> bool {
        self.sent
            .front()
            .is_none_or(|sent| sent.end <= offset || !sent.is_retransmitted)
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

    /// Whether recovery is by a pipe.
    pub(super) fn has_pipe(&self) -> bool {
        matches!(self.options.recovery, Recovery::Sack | Recovery::Fack)
    }
}

/// What it knows, for whoever keeps books.
impl Sender {
    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn control(&self) -> &dyn Control {
        &*self.control
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn phase(&self) -> Phase {
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
