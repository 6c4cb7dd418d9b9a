//! Fast retransmit and fast recovery: Tahoe, Reno (RFC 5681 section 3.2), NewReno (RFC 6582), SACK (RFC 6675), FACK.

use super::DUP_THRESH;
use super::DetectedBy;
use super::Prr;
use super::sender::{Recovery, RecoveryPhase, Sender};
use crate::congestion::Ack;

impl Sender {
    /// An ACK of new data; `snd_una` has moved.
    pub(super) fn on_new_ack(&mut self, now_ns: i64, ack: &Ack) {
        self.dupacks = 0;
        self.limited_transmit = 0;
        match self.phase {
            RecoveryPhase::Recovery if self.snd_una < self.recover => {
                self.on_partial_ack(now_ns, ack)
            }
            // Linux, without SACK: until something above is acknowledged, so that duplicates of what was sent again for
            // nothing begin no recovery (RFC 6582 section 3.2 (2)).
            RecoveryPhase::Recovery
                if self.snd_una == self.recover && self.recovers_by_duplicates() =>
            {
                self.restart_timer(now_ns);
            }
            RecoveryPhase::Recovery => {
                self.exit_recovery(now_ns);
                if self.options.is_linux && ack.newly_acked > 0.0 {
                    self.control.on_ack(&mut self.state, ack);
                }
            }
            RecoveryPhase::Loss if self.snd_una >= self.recover => {
                self.phase = RecoveryPhase::Open;
                self.board.end();
                if let Some(rack) = &mut self.rack {
                    rack.on_recovered();
                }
                self.control.on_ack(&mut self.state, ack);
                self.control
                    .on_recovered(&mut self.state, now_ns, self.snd_nxt);
                self.restart_timer(now_ns);
            }
            RecoveryPhase::Open | RecoveryPhase::Disorder | RecoveryPhase::Loss => {
                if self.phase == RecoveryPhase::Disorder {
                    self.phase = RecoveryPhase::Open;
                }
                self.control.on_ack(&mut self.state, ack);
                self.restart_timer(now_ns);
            }
        }
    }

    fn on_partial_ack(&mut self, now_ns: i64, ack: &Ack) {
        match self.options.recovery {
            // Reno knows no partial ACK: any new ACK ends recovery.
            Recovery::Reno => {
                self.exit_recovery(now_ns);
                return;
            }
            Recovery::NewReno => {
                // RFC 6582 section 3.2 (3): the next hole at once; deflate by what was acknowledged, add back one.
                let end = (self.snd_una + self.options.smss).min(self.snd_max);
                self.due = Some((self.snd_una, end));
                self.note_lost(end - self.snd_una);
                if !self.owns_window && !self.recovers_by_duplicates() {
                    self.state.cwnd -= ack.newly_acked;
                    if ack.newly_acked >= self.state.smss {
                        self.state.cwnd += self.state.smss;
                    }
                    self.state.cwnd = self.state.cwnd.max(self.state.smss);
                }
                // Section 4: the slow-but-steady variant restarts the timer each time, the impatient one once only.
                if !(self.options.is_impatient && self.has_had_partial) {
                    self.restart_timer(now_ns);
                }
                self.has_had_partial = true;
                return;
            }
            Recovery::Tahoe | Recovery::Sack | Recovery::Fack => {}
        }
        self.restart_timer(now_ns);
    }

    fn exit_recovery(&mut self, now_ns: i64) {
        self.phase = RecoveryPhase::Open;
        self.board.end();
        if let Some(rack) = &mut self.rack {
            rack.on_recovered();
        }
        self.prr = None;
        let cwnd = match self.options.recovery {
            // RFC 6582 section 3.2 (3), full acknowledgment, option (1): no burst. Linux takes option (2).
            Recovery::NewReno if !self.options.is_linux => {
                let flight_size = self.flight_size() as f64;
                self.state
                    .ssthresh
                    .min(flight_size.max(self.state.smss) + self.state.smss)
            }
            _ => self.state.ssthresh,
        };
        self.set_cwnd(cwnd);
        self.control
            .on_recovered(&mut self.state, now_ns, self.snd_nxt);
        self.restart_timer(now_ns);
    }

    pub(super) fn on_dup_ack(&mut self, now_ns: i64) {
        self.dupacks += 1;
        if self.dupacks == 1 {
            self.limited_from = self.snd_nxt;
        }
        match self.phase {
            RecoveryPhase::Recovery => {
                if self.inflates() {
                    // RFC 5681 section 3.2 (4): a segment has left, another may follow.
                    self.set_cwnd(self.state.cwnd + self.state.smss);
                }
            }
            // RFC 6582 section 3.2 (2): not again for the window that was outstanding at the last reduction.
            RecoveryPhase::Loss if self.snd_una < self.recover => {}
            RecoveryPhase::Open | RecoveryPhase::Disorder | RecoveryPhase::Loss => {
                if self.dupacks == DUP_THRESH && self.rack.is_none() && self.may_enter() {
                    self.enter_recovery(now_ns);
                } else if self.dupacks < DUP_THRESH {
                    self.phase = RecoveryPhase::Disorder;
                    if self.options.limited_transmit {
                        // RFC 3042: one new segment each for the first two.
                        self.limited_transmit += self.options.smss;
                    }
                }
            }
        }
    }

    /// Whether all that was outstanding at the last reduction is out of the way.
    fn may_enter(&self) -> bool {
        if self.has_pipe() {
            // RFC 6675 section 5.1. What the recovery before sent again, from above its recovery point, is under way.
            self.snd_una >= self.recover && !self.board.is_sent_again(self.snd_una)
        } else {
            // RFC 6582 section 3.2 (2): the ACK covers more than recover, so duplicates of what was sent again for
            // nothing cannot start another recovery.
            self.snd_una > self.recover
        }
    }

    /// RFC 6675 section 5 (2): also when the first segment `IsLost` with fewer duplicate ACKs.
    pub(super) fn check_sack_recovery(&mut self, now_ns: i64, newly_sacked: u64) {
        let may = self.has_pipe() && newly_sacked > 0 && self.may_enter();
        if may
            && matches!(self.phase, RecoveryPhase::Open | RecoveryPhase::Disorder)
            && self.board.is_lost(self.snd_una)
        {
            self.enter_recovery(now_ns);
        }
    }

    /// RFC 9937: cwnd is what is on the path and what may be added to it now.
    pub(super) fn reduce_in_proportion(&mut self, delivered: u64, is_safe: bool) {
        let pipe = self.pipe();
        let (ssthresh, smss) = (self.state.ssthresh as u64, self.options.smss);
        let Some(prr) = &mut self.prr else { return };
        if delivered == 0 {
            return;
        }
        let mut may_send = prr.on_ack(delivered, pipe, ssthresh, smss, is_safe);
        if self.options.is_linux {
            // It counts whole segments, and rounds up.
            may_send = may_send.next_multiple_of(smss);
        }
        // The fast retransmission goes out whatever the proportion says.
        self.state.cwnd = (pipe + may_send).max(smss) as f64;
    }

    pub(super) fn enter_recovery(&mut self, now_ns: i64) {
        let detection = if self.has_pipe() {
            DetectedBy::Sack
        } else {
            DetectedBy::DupAck
        };
        let prr_from = if self.options.is_linux {
            self.state.cwnd as u64
        } else {
            self.flight_size()
        };
        self.reduce(now_ns, detection);
        self.recover = self.snd_max;
        self.has_had_partial = false;
        self.limited_transmit = 0;
        if self.options.recovery == Recovery::Tahoe {
            self.phase = RecoveryPhase::Loss;
            self.state.cwnd = self.state.smss;
            self.snd_nxt = self.snd_una;
            self.rto_at_ns = Some(now_ns + self.rto.timeout_ns());
            return;
        }
        self.phase = RecoveryPhase::Recovery;
        let has_prr = (self.has_pipe() && self.options.has_prr) || self.recovers_by_duplicates();
        self.prr = (has_prr && !self.owns_window).then(|| Prr::new(prr_from));
        self.tail.probe_at_ns = None;
        self.board.begin(self.snd_una);
        if self.rack.is_none() {
            self.board.mark_first_lost(self.snd_una);
        }
        self.due = if self.rack.is_some() {
            // It may have found another than the first; all that is lost may be under way again.
            self.board.next_lost()
        } else {
            let (start, next_sacked) = self.board.hole_from(self.snd_una);
            let end = (start + self.options.smss).min(self.snd_max);
            Some((start, end.min(next_sacked)))
        };
        self.note_lost(self.due.map_or(0, |(start, end)| end - start));
        let cwnd = if self.inflates() {
            // RFC 5681 section 3.2 (3): three segments have left.
            self.state.ssthresh + f64::from(DUP_THRESH) * self.state.smss
        } else {
            self.state.ssthresh
        };
        self.set_cwnd(cwnd);
        self.rto_at_ns = Some(now_ns + self.rto.timeout_ns());
    }

    /// RFC 5681 section 3.2 (3) and (4): cwnd stands for what has left the path, where nothing counts that.
    fn inflates(&self) -> bool {
        matches!(self.options.recovery, Recovery::Reno | Recovery::NewReno)
            && !self.recovers_by_duplicates()
    }

    /// Recovery's cwnd, unless the control sets it in recovery as well.
    pub(super) fn set_cwnd(&mut self, cwnd: f64) {
        if !self.owns_window {
            self.state.cwnd = cwnd;
        }
    }
}
