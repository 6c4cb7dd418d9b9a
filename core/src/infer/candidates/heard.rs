//! What a control hears of a sender's life, row by row: ACKs, round trips, losses, timeouts, ends of recovery.

use crate::congestion::{Ack, State};

/// A whole segment more would have been sent.
const LESS_THAN_ONE: f64 = 1.0 - 1e-6;

/// What a row of a tape tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapeEvent {
    /// New data acknowledged while the window may open.
    Ack,
    /// An ACK that does not open the window: in recovery, or of nothing new.
    Arrival,
    /// Found by duplicate ACKs or SACK. The window is set to the observed one first.
    Loss,
    /// As `Loss`, and the sender goes back to one segment (Tahoe).
    Restart,
    /// As `Restart`, by the timer.
    Timeout,
    /// As `Timeout`, within a recovery whose threshold stays (Linux).
    Expired,
    /// All that was outstanding at the loss is acknowledged.
    Recovered,
    /// Only sets the window: where a slow start was seen to end.
    Set,
    /// The last reduction was needless, and is taken back.
    Undone,
    /// The ACK that has ended a recovery opens the window by what it delivered, as in Linux.
    Opening,
}

impl TapeEvent {
    pub const ALL: [Self; 10] = [
        Self::Ack,
        Self::Arrival,
        Self::Loss,
        Self::Restart,
        Self::Timeout,
        Self::Expired,
        Self::Recovered,
        Self::Set,
        Self::Opening,
        Self::Undone,
    ];

    /// As the classification calls it.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    pub(super) fn is_arrival(self) -> bool {
        matches!(self, Self::Ack | Self::Arrival | Self::Recovered)
    }
}

/// One event; bytes and nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct TapeRow {
    pub event: TapeEvent,
    pub now_ns: i64,
    pub newly_acked: f64,
    pub newly_sacked: f64,
    pub rtt_ns: Option<i64>,
    /// Outstanding before the event; at a loss, `room.flight` more may have been.
    pub flight_size: f64,
    /// After it.
    pub snd_una: u64,
    pub snd_nxt: u64,
    pub is_cwnd_limited: bool,
    /// What is observed, to be taken over; `None`: the candidate's own goes on.
    pub cwnd: Option<f64>,
    pub ssthresh: Option<f64>,
    pub room: Room,
}

/// How far what was observed leaves the window open, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// It may have been so much larger: whether what arrived behind a hole was made up for by new segments (RFC 3042) is
    /// not always seen.
    pub more: f64,
    /// So much more may have counted as outstanding at a loss (RFC 5681 section 3.2 (2) leaves limited transmit out).
    pub flight: f64,
    /// It may have been so much smaller: a sender that falls silent has more outstanding than its window.
    pub less: f64,
    /// The most that a recovery is left with; infinite but for RFC 6582's full acknowledgment (3.2 (3), option 1).
    pub most_after: f64,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            more: 0.0,
            flight: 0.0,
            less: 0.0,
            most_after: f64::INFINITY,
        }
    }
}

impl TapeRow {
    pub fn later(&self, later_ns: i64) -> Self {
        Self {
            now_ns: self.now_ns.saturating_add(later_ns),
            ..*self
        }
    }

    /// What it tells a control as an ACK.
    pub(super) fn ack(&self, srtt_ns: Option<i64>) -> Ack {
        Ack {
            now_ns: self.now_ns,
            newly_acked: self.newly_acked,
            newly_sacked: self.newly_sacked,
            rtt_ns: self.rtt_ns,
            srtt_ns,
            flight_size: self.flight_size,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            is_cwnd_limited: self.is_cwnd_limited,
        }
    }

    /// The window nearest to the candidate's own among those that would have been seen like this: what is outstanding
    /// tells whole segments, and a real-valued law remembers the fraction.
    pub(super) fn agreed(&self, own: f64, smss: f64) -> f64 {
        self.cwnd.map_or(own, |seen| {
            // With a hole open, what this very ACK gave the window need not have been sent.
            let unsent = if self.room.more > 0.0 { smss } else { 0.0 };
            let most = seen + self.room.more + unsent + smss * LESS_THAN_ONE;
            own.clamp(seen - self.room.less, most).max(smss)
        })
    }

    /// What was observed, where the candidate is not there by itself.
    pub(super) fn take_over(&self, state: &mut State) {
        let is_loss = matches!(
            self.event,
            TapeEvent::Loss | TapeEvent::Restart | TapeEvent::Timeout | TapeEvent::Expired
        );
        let own = state.cwnd;
        if !is_loss {
            state.cwnd = self.agreed(own, state.smss);
        }
        let Some(seen) = self.ssthresh else { return };
        let is_own = if is_loss {
            // Slow start ends within a segment of it.
            (state.ssthresh - seen).abs() < state.smss
        } else {
            state.cwnd == own && state.ssthresh <= own
        };
        if !is_own {
            state.ssthresh = seen;
        }
    }

    /// What was outstanding at a loss: what this window allowed, in whole segments.
    pub(super) fn flight_under(&self, cwnd: f64, smss: f64) -> f64 {
        let more = ((cwnd - self.flight_size) / smss).floor() * smss;
        self.flight_size + more.clamp(0.0, self.room.flight)
    }

    /// The same event for a sender that had as much window as can be: held back by something else than its window it has
    /// at least what is outstanding, and grows with every ACK.
    pub(super) fn at_most(self, state: &State) -> Self {
        if self.is_cwnd_limited {
            return self;
        }
        Self {
            is_cwnd_limited: true,
            flight_size: self.flight_size.max(state.cwnd),
            cwnd: self.cwnd.map(|seen| seen.max(state.cwnd)),
            ssthresh: self.ssthresh.map(|seen| seen.max(state.ssthresh)),
            ..self
        }
    }
}
