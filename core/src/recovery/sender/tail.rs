//! RACK in the sender (RFC 8985 section 6), and tail loss probes (section 7): losses that no third duplicate ACK tells of.

use super::{Arrived, RecoveryPhase, Sender};
use crate::recovery::{DUP_THRESH, DetectedBy};

/// TLP.max_ack_delay: a receiver may keep the ACK of a lone segment for so long.
const MAX_ACK_DELAY_NS: i64 = 200_000_000;
/// Section 7.2: without a round trip.
const UNKNOWN_PTO_NS: i64 = 1_000_000_000;

/// Timers and the probe that is on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tail {
    /// When what has been overtaken is lost.
    pub reordering_at_ns: Option<i64>,
    /// PTO: when the end of the flight is probed.
    pub probe_at_ns: Option<i64>,
    /// TLP.end_seq and TLP.is_retrans: what acknowledges the probe, and whether it was data sent again.
    probe: Option<(u64, bool)>,
    /// New data may go out as a probe, whatever cwnd says.
    pub probes_with_new: bool,
}

impl Tail {
    pub fn earliest(&self) -> Option<i64> {
        let both = self.reordering_at_ns.into_iter().chain(self.probe_at_ns);
        both.min()
    }
}

/// Which timer has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// RFC 6298's, or the persist timer.
    Retransmission,
    Reordering,
    Probe,
}

impl Sender {
    /// A timer has expired.
    pub fn on_timer(&mut self, now_ns: i64) -> Expired {
        if self.on_reordering_timer(now_ns) {
            return Expired::Reordering;
        }
        if self.tail.probe_at_ns.is_some_and(|at| at <= now_ns) {
            self.tail.probe_at_ns = None;
            self.send_probe(now_ns);
            return Expired::Probe;
        }
        self.on_timeout(now_ns);
        Expired::Retransmission
    }

    /// What was overtaken has been given its time, or not yet: the one timer that no packet of a capture tells of.
    pub fn on_reordering_timer(&mut self, now_ns: i64) -> bool {
        let has_expired = self.tail.reordering_at_ns.is_some_and(|at| at <= now_ns);
        if has_expired {
            self.tail.reordering_at_ns = None;
            self.detect_losses(now_ns);
            let was_in_recovery = self.phase == RecoveryPhase::Recovery;
            self.recover_what_rack_found(now_ns);
            if !was_in_recovery {
                // As if one segment had been delivered (Linux's tcp_rack_reo_timeout).
                self.reduce_in_proportion(self.options.smss, false);
            }
        }
        has_expired
    }

    fn reo_wnd_ns(&self) -> i64 {
        let in_recovery = matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss);
        let sacked = self.board.sacked_bytes().div_ceil(self.options.smss);
        // RFC 8985 section 6.2 step 4: then reordering that was never seen is not waited for.
        let is_certain = in_recovery || sacked >= u64::from(DUP_THRESH);
        let rack = self.rack.as_ref();
        rack.map_or(0, |rack| rack.reo_wnd_ns(self.rto.srtt_ns(), is_certain))
    }

    /// Section 6.2 step 5.
    pub(in crate::recovery) fn detect_losses(&mut self, now_ns: i64) {
        let reo_wnd_ns = self.reo_wnd_ns();
        let Some(rack) = &mut self.rack else { return };
        let wait_ns = rack.detect(now_ns, self.snd_una, reo_wnd_ns, &mut self.board);
        self.tail.reordering_at_ns = wait_ns.map(|ns| now_ns + ns);
        if wait_ns.is_some() {
            // One timer: what was overtaken comes before the end of the flight.
            self.tail.probe_at_ns = None;
        }
    }

    /// RACK's losses begin a recovery; Linux's also those that a recovery before has sent again and not seen arrive.
    pub(in crate::recovery) fn recover_what_rack_found(&mut self, now_ns: i64) {
        let is_open = matches!(self.phase, RecoveryPhase::Open | RecoveryPhase::Disorder);
        let has_lost = self.board.next_lost().is_some()
            || (self.options.is_linux && self.board.counts().lost > 0);
        if self.rack.is_some() && is_open && has_lost {
            self.enter_recovery(now_ns);
        }
    }

    /// Section 6.3: what was sent less than a round trip ago is not lost yet when the timer expires.
    pub(super) fn spare_the_recent(&mut self, now_ns: i64) {
        let reo_wnd_ns = self.reo_wnd_ns();
        let Some(rack) = &mut self.rack else { return };
        rack.on_timeout();
        let mut start = self.snd_una;
        for (number, sent) in self.sent.iter().enumerate() {
            let is_spared = number > 0 && rack.is_in_time(now_ns, sent.at_ns, reo_wnd_ns);
            if is_spared && self.board.spare(start, sent.end) {
                rack.on_sent(sent.at_ns, start, sent.end, false);
            }
            start = sent.end.max(start);
        }
        self.tail = Tail::default();
    }

    /// Section 7.2: sets the probe's timer after new data, or after an ACK that moves the cumulative point.
    pub(super) fn schedule_probe(&mut self, now_ns: i64) {
        self.tail.probe_at_ns = None;
        let is_waiting = self.rack.is_some()
            && self.phase == RecoveryPhase::Open
            && self.snd_una < self.snd_max
            && self.tail.reordering_at_ns.is_none();
        if !is_waiting {
            return;
        }
        let pto_ns = match self.rto.srtt_ns() {
            Some(srtt_ns) if self.flight_size() <= self.options.smss => {
                2 * srtt_ns + MAX_ACK_DELAY_NS
            }
            Some(srtt_ns) => 2 * srtt_ns,
            None => UNKNOWN_PTO_NS,
        };
        let at_ns = now_ns + pto_ns;
        self.tail.probe_at_ns = Some(self.rto_at_ns.map_or(at_ns, |rto_at| at_ns.min(rto_at)));
    }

    /// As `schedule_probe`, for new data sent. Linux waits for no longer than a timeout from the first segment's sending.
    pub(super) fn schedule_probe_behind(&mut self, now_ns: i64) {
        self.schedule_probe(now_ns);
        let first = self.sent.front().filter(|_| self.options.is_linux);
        if let (Some(first), Some(at_ns)) = (first, &mut self.tail.probe_at_ns) {
            let timeout_ns = first.at_ns + self.rto.timeout_ns();
            *at_ns = (*at_ns).min(timeout_ns.max(now_ns + 1));
        }
    }

    /// Section 7.3: new data if there is any, else the last segment again; one probe at a time.
    fn send_probe(&mut self, now_ns: i64) {
        self.rto_at_ns = Some(now_ns + self.rto.timeout_ns());
        if self.tail.probe.is_some() || self.snd_una == self.snd_max {
            return;
        }
        let new_data = self.next_segment();
        if let Some((_, end)) = new_data.filter(|&(_, end)| end <= self.right_edge()) {
            self.tail.probes_with_new = true;
            self.tail.probe = Some((end, false));
            return;
        }
        let last = self.sent.len().checked_sub(1);
        let start = last.and_then(|last| last.checked_sub(1));
        let start = start.map_or(self.snd_una, |before| self.sent[before].end);
        self.due = Some((start.max(self.snd_una), self.snd_max));
        self.tail.probe = Some((self.snd_max, true));
    }

    /// Section 7.4: what an ACK of the probe says.
    pub(super) fn hear_of_probe(
        &mut self,
        now_ns: i64,
        arrived: &Arrived<'_>,
        newly_acked: u64,
        has_dsack: bool,
    ) {
        let Some((end, is_again)) = self.tail.probe.filter(|&(end, _)| arrived.ack >= end) else {
            return;
        };
        // Case 1: both copies have arrived, nothing was lost.
        let both = has_dsack || (newly_acked == 0 && arrived.blocks.is_empty());
        if !is_again || both {
            self.tail.probe = None;
        } else if arrived.ack > end {
            // Case 2: the probe has repaired a loss that nobody else will see.
            self.tail.probe = None;
            if self.phase == RecoveryPhase::Open {
                self.reduce(now_ns, DetectedBy::Tlp);
                self.set_cwnd(self.state.ssthresh.min(self.state.cwnd));
                self.control
                    .on_recovered(&mut self.state, now_ns, self.snd_nxt);
            }
        }
    }
}
