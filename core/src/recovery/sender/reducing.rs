//! A window that falls: what the control is asked, the floor, the books; by the timer (RFC 6298) or by ACKs.

use super::{RecoveryPhase, Sender};
use crate::congestion::Loss;
use crate::recovery::DetectedBy;

/// A reduction, for whoever keeps books; `ssthresh_after` is the one before where the timer backs off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    pub detected_by: DetectedBy,
    pub offset: u64,
    pub cwnd_before: f64,
    pub ssthresh_after: f64,
}

impl Sender {
    /// RFC 6298 (5.2) and (5.3).
    pub(in crate::recovery) fn restart_timer(&mut self, now_ns: i64) {
        self.rto_at_ns = (self.snd_una < self.snd_max).then(|| now_ns + self.rto.timeout_ns());
    }

    pub(in crate::recovery) fn loss(&self, now_ns: i64) -> Loss {
        Loss {
            now_ns,
            flight_size: (self.snd_nxt - self.snd_una - self.sent_beyond()) as f64,
            snd_nxt: self.snd_nxt,
        }
    }

    /// RFC 5681 section 3.2 (2): what limited transmit has sent is no part of FlightSize.
    fn sent_beyond(&self) -> u64 {
        if self.phase == RecoveryPhase::Disorder {
            self.snd_nxt.saturating_sub(self.limited_from)
        } else {
            0
        }
    }

    /// Asks the control for ssthresh; RFC 5681 equation (4): at least 2 SMSS.
    pub(in crate::recovery) fn reduce(&mut self, now_ns: i64, detected_by: DetectedBy) {
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
            if self.options.is_linux {
                let loss = self.loss(now_ns);
                self.control.on_expired(&mut self.state, &loss);
            }
            self.book(DetectedBy::Rto, self.state.cwnd);
        }
        self.begin_frto();
        self.state.cwnd = self.state.smss;
        self.phase = RecoveryPhase::Loss;
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
            RecoveryPhase::Open | RecoveryPhase::Disorder => true,
            RecoveryPhase::Recovery | RecoveryPhase::Loss if self.options.is_linux => {
                self.snd_una >= self.recover
                    || (self.phase == RecoveryPhase::Loss
                        && self.timed_out_at != Some(self.snd_una))
            }
            RecoveryPhase::Recovery => true,
            RecoveryPhase::Loss => self.snd_una > self.recover || self.rto_first_for(self.snd_una),
        }
    }

    /// Whether the segment at `offset` has not been retransmitted yet.
    fn rto_first_for(&self, offset: u64) -> bool {
        self.sent
            .front()
            .is_none_or(|sent| sent.end <= offset || !sent.is_retransmitted)
    }
}
