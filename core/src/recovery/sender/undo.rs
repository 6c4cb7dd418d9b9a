//! Linux takes a reduction back when it learns that nothing was lost: by an echoed timestamp from before the first
//! retransmission (Eifel, RFC 3522 and RFC 4015), by D-SACKs for all that was sent again (RFC 3708), by the arrival of
//! what a timeout took for lost and nobody sent again (F-RTO, RFC 5682 sections 2.1 and 3.1).

use super::{Arrived, RecoveryPhase, Sender};

/// Linux's timestamps count milliseconds: two of one tick tell no order.
const TICK_NS: i64 = 1_000_000;

/// A round trip that ends now, by those timestamps: the ticks begun meanwhile, one at least.
pub(super) fn in_ticks(now_ns: i64, rtt_ns: i64) -> i64 {
    let begun = now_ns.div_euclid(TICK_NS) - (now_ns - rtt_ns).div_euclid(TICK_NS);
    begun.max(1) * TICK_NS
}

/// What a reduction found, and what was sent again since.
#[derive(Clone, Copy, Debug)]
pub(super) struct UndoState {
    cwnd: f64,
    ssthresh: f64,
    snd_una: u64,
    /// When the first retransmission left.
    again_ns: Option<i64>,
    /// Bytes sent again of which no D-SACK has told; `None`: nothing was.
    untold: Option<u64>,
}

/// RFC 5682 sections 2.1 (without SACK) and 3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Frto {
    #[default]
    Off,
    /// Step 1: the first segment was sent again.
    Waiting,
    /// Step 2b: it was acknowledged; new data go out before anything is sent again.
    Probing,
}

impl Sender {
    /// A reduction is about to be made.
    pub(super) fn remember(&mut self) {
        if !self.options.is_linux {
            return;
        }
        let is_begun = matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss);
        let again_ns = self.before.filter(|_| is_begun).and_then(|it| it.again_ns);
        let on_its_way = self.board.counts().retransmitted;
        // Three quarters, from whole halves and quarters.
        let segments = (self.state.cwnd / self.state.smss).floor();
        let most = ((segments / 2.0).floor() + (segments / 4.0).floor()) * self.state.smss;
        self.before = Some(UndoState {
            cwnd: self.state.cwnd,
            ssthresh: if self.phase == RecoveryPhase::Recovery {
                self.state.ssthresh
            } else {
                self.state.ssthresh.max(most)
            },
            snd_una: self.snd_una,
            again_ns,
            untold: (on_its_way > 0).then_some(on_its_way),
        });
    }

    pub(super) fn note_sent_again(&mut self, now_ns: i64, bytes: u64) {
        let Some(before) = &mut self.before else {
            return;
        };
        if matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss) {
            before.again_ns = before.again_ns.or(Some(now_ns));
            before.untold = Some(before.untold.unwrap_or(0) + bytes);
        }
    }

    /// After an ACK has been taken in, before it may open the window. `has_original`: it tells of a segment that was
    /// sent once, before the timer expired.
    pub(super) fn reconsider(
        &mut self,
        now_ns: i64,
        arrived: &Arrived<'_>,
        newly_acked: u64,
        has_original: bool,
    ) {
        let told = arrived.dsack();
        let Some(before) = &mut self.before else {
            return;
        };
        if let Some((start, end)) = told.filter(|&(_, end)| end > before.snd_una) {
            before.untold = before.untold.map(|left| left.saturating_sub(end - start));
        }
        let before = *before;
        let is_told = before.untold == Some(0);
        let echo_ns = arrived.echo_rtt_ns.map(|rtt_ns| now_ns - rtt_ns);
        let is_delayed = newly_acked > 0
            && (echo_ns.zip(before.again_ns)).is_some_and(|(echo, again)| echo + TICK_NS < again);
        let is_over = self.snd_una >= self.recover;
        match self.phase {
            RecoveryPhase::Loss if self.frto != Frto::Off && has_original => {
                self.take_back(now_ns, before)
            }
            RecoveryPhase::Loss if newly_acked > 0 && (is_delayed || is_told) => {
                self.take_back(now_ns, before);
            }
            RecoveryPhase::Recovery if is_told => self.take_back(now_ns, before),
            // Within a recovery only once nothing that was sent again is on its way.
            RecoveryPhase::Recovery
                if is_delayed && (is_over || self.board.counts().retransmitted == 0) =>
            {
                self.take_back(now_ns, before);
            }
            RecoveryPhase::Open | RecoveryPhase::Disorder if is_told => self.restore(before),
            _ => {}
        }
    }

    /// The timer has expired: within a recovery only where its own retransmission was not answered is anything to be
    /// learnt from what comes next.
    pub(super) fn begin_frto(&mut self) {
        let is_again = matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss);
        let is_unanswered = self.timed_out_at.replace(self.snd_una) == Some(self.snd_una);
        let is_asked = self.options.is_linux && (!is_again || is_unanswered);
        self.frto = if is_asked { Frto::Waiting } else { Frto::Off };
    }

    /// RFC 5682 steps 2 and 3, for an ACK that takes nothing back.
    pub(super) fn follow_frto(&mut self, newly_acked: u64, is_news: bool) {
        let has_sent_new = self.snd_nxt > self.recover;
        let was_probing = self.frto == Frto::Probing;
        self.frto = match self.frto {
            Frto::Waiting if self.phase != RecoveryPhase::Loss => Frto::Off,
            Frto::Waiting if newly_acked > 0 && !has_sent_new => Frto::Probing,
            Frto::Waiting if !(has_sent_new && is_news) => Frto::Waiting,
            _ => Frto::Off,
        };
        if was_probing && self.phase == RecoveryPhase::Loss && !self.has_pipe() {
            // Step 3a: the loss was one. What is sent again begins at the ACK, as before the probe.
            self.snd_nxt = self.snd_una;
        }
    }

    /// Section 2.1 step 2b: new data above all that was sent, as many as the window after the first ACK holds.
    pub(super) fn next_of_frto(&self) -> Option<(u64, u64)> {
        let next = self.segment_from(self.snd_max)?;
        let probes = self.snd_max - self.recover + (next.1 - next.0);
        (probes <= self.cwnd() && next.1 <= self.right_edge()).then_some(next)
    }

    /// The windows as they were, or as they have become (RFC 4015 section 3.2).
    fn restore(&mut self, before: UndoState) {
        self.set_cwnd(self.state.cwnd.max(before.cwnd));
        self.state.ssthresh = self.state.ssthresh.max(before.ssthresh);
        self.before = None;
    }

    /// Nothing was lost: what was taken for lost is on its way, and the recovery is over.
    fn take_back(&mut self, now_ns: i64, before: UndoState) {
        self.restore(before);
        self.frto = Frto::Off;
        self.prr = None;
        self.due = None;
        self.snd_nxt = self.snd_max;
        self.board.find_all();
        if self.has_pipe() {
            self.recover = self.snd_una;
        }
        self.phase = RecoveryPhase::Open;
        self.control
            .on_undone(&mut self.state, now_ns, self.snd_nxt);
        self.restart_timer(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_by_stamps_is_the_ticks_begun_meanwhile() {
        // From 0.9 ms to 52.2 ms 52 ticks begin, from 1.0 ms to 52.3 ms 51; one at least is told.
        assert_eq!(in_ticks(52_200_000, 51_300_000), 52_000_000);
        assert_eq!(in_ticks(52_300_000, 51_300_000), 51_000_000);
        assert_eq!(in_ticks(900_000, 200_000), 1_000_000);
    }
}
