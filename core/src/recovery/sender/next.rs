//! Which range goes out next: a retransmission that is due, a hole, new data, as the windows allow; and what is known
//! of it once it has gone out.

use super::{DeliveryStamp, Frto, Outgoing, RecoveryPhase, Sender, Sent};

impl Sender {
    /// The next range to send now, if any; call until `None`. What is returned counts as sent.
    pub fn next_send(&mut self, now_ns: i64) -> Option<Outgoing> {
        if self.wake_at_ns().is_some_and(|at_ns| at_ns > now_ns) {
            return None;
        }
        let Some(next) = self.may_send() else {
            self.arm_persist();
            return None;
        };
        self.on_sent(now_ns, next);
        Some(next)
    }

    /// When pacing lets the next segment leave; `None`: whenever the window does.
    pub fn wake_at_ns(&self) -> Option<i64> {
        self.control
            .pacing_rate()
            .map(|_| self.pacer.departure_ns())
    }

    /// What goes out next as things stand, pacing apart; nothing changes.
    pub fn may_send(&self) -> Option<Outgoing> {
        if let Some((start, end)) = self.due.filter(|&(start, _)| start >= self.snd_una) {
            return Some(again(start, end));
        }
        if self.probes {
            let end = (self.snd_nxt + 1).min(self.written);
            return Some(new(self.snd_nxt, end));
        }
        if self.tail.probes_with_new {
            return self.next_segment().map(|(start, end)| new(start, end));
        }
        if self.has_pipe() && matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss) {
            return self.may_send_by_pipe();
        }
        let probe = (self.frto == Frto::Probing).then(|| self.next_of_frto());
        if let Some((start, end)) = probe.flatten() {
            return Some(new(start, end));
        }
        let (start, end) = self.next_segment()?;
        let (outstanding, window) = if self.owns_window
            || self.recovers_by_duplicates()
            || (self.has_pipe() && self.options.limited_transmit)
        {
            // RFC 6675 section 5 (3): what is SACKed has left the path.
            (self.pipe(), self.cwnd())
        } else {
            // RFC 3042 section 2: outstanding data stays within cwnd plus two segments.
            (self.flight_size(), self.cwnd() + self.limited_transmit)
        };
        if outstanding + (end - start) > window || end > self.right_edge() {
            return None;
        }
        Some(Outgoing {
            start,
            end,
            is_retransmission: start < self.snd_max,
        })
    }

    /// RFC 6675 section 5 (C): while cwnd - pipe >= 1 SMSS.
    fn may_send_by_pipe(&self) -> Option<Outgoing> {
        if self.pipe() + self.options.smss > self.cwnd() {
            return None;
        }
        // Rules (1), (2), (3), (4) of NextSeg; RFC 5682 section 3.1 step 2b has (2) before (1).
        let lost = self.board.next_lost().map(|(start, end)| again(start, end));
        let new_data = self.next_segment();
        let new_data = new_data.filter(|&(_, end)| end <= self.right_edge());
        let new_data = new_data.map(|(start, end)| new(start, end));
        let (first, second) = if self.frto == Frto::Probing {
            (new_data, lost)
        } else {
            (lost, new_data)
        };
        if let Some(next) = first.or(second) {
            return Some(next);
        }
        if self.phase == RecoveryPhase::Loss || self.rack.is_some() {
            // RACK sends again what is lost, and no more; its probes take the place of (3) and (4).
            return None;
        }
        let (start, end) = self
            .board
            .next_suspect(self.snd_una)
            .or_else(|| self.board.next_rescue(self.snd_una, self.snd_max))?;
        Some(again(start, end))
    }

    /// A range has gone out: the one that `may_send` chose, or one that a capture shows.
    pub fn on_sent(&mut self, now_ns: i64, sent: Outgoing) {
        let Outgoing { start, end, .. } = sent;
        let stamp = self.stamp(now_ns);
        self.due = self.due.filter(|&(due, _)| due != start);
        self.probes = false;
        let is_probe = std::mem::take(&mut self.tail.probes_with_new);
        self.snd_nxt = self.snd_nxt.max(end);
        if end > self.snd_max {
            self.sent.push_back(Sent {
                end,
                at_ns: now_ns,
                is_retransmitted: false,
                stamp,
            });
            self.snd_max = end;
            if let Some(rack) = &mut self.rack {
                rack.on_sent(now_ns, start, end, false);
            }
        }
        if sent.is_retransmission {
            self.on_sent_again(now_ns, start, end, stamp);
        }
        if let Some(rate) = self.control.pacing_rate() {
            self.pacer.on_sent(now_ns, end - start, rate);
        }
        if let Some(prr) = &mut self.prr {
            prr.on_sent(end - start);
        }
        self.last_sent_ns = now_ns;
        if self.rto_at_ns.is_none() {
            self.restart_timer(now_ns);
        }
        if self.rack.is_some() && !sent.is_retransmission && !is_probe {
            self.schedule_probe_behind(now_ns);
        }
    }

    fn on_sent_again(&mut self, now_ns: i64, start: u64, end: u64, stamp: DeliveryStamp) {
        self.note_sent_again(now_ns, end - start);
        if self.has_pipe() {
            if self.phase == RecoveryPhase::Recovery && self.board.is_rescue(start) {
                // RFC 6675 section 4 NextSeg (4): HighRxt stays where it is.
                self.board.on_rescued(self.recover);
            } else {
                self.board.on_retransmitted(start, end);
            }
        }
        if let Some(rack) = &mut self.rack {
            rack.on_sent(now_ns, start, end, true);
            if start == self.snd_una {
                // The first hole is under way again: it has a whole timeout from here, as in Linux.
                self.rto_at_ns = None;
            }
        }
        let first = self.sent.partition_point(|sent| sent.end <= start);
        let again = self.sent.iter_mut().skip(first);
        for sent in again.take_while(|sent| sent.end <= end) {
            sent.is_retransmitted = true;
            sent.at_ns = now_ns;
            sent.stamp = stamp;
        }
    }

    /// What the segment takes along for its delivery rate.
    fn stamp(&mut self, now_ns: i64) -> DeliveryStamp {
        if self.delivery.is_none() {
            return DeliveryStamp::default();
        }
        let is_idle = self.pipe() == 0;
        let Some(delivery) = &mut self.delivery else {
            return DeliveryStamp::default();
        };
        if is_idle && delivery.rate.is_app_limited() {
            self.control.on_restart(&mut self.state, now_ns);
        }
        let is_first = self.snd_una == self.snd_max;
        delivery.rate.on_sent(now_ns, is_first)
    }

    /// The segment at `snd_nxt`: new, or again after a timeout.
    pub(super) fn next_segment(&self) -> Option<(u64, u64)> {
        self.segment_from(self.snd_nxt)
    }

    pub(super) fn segment_from(&self, start: u64) -> Option<(u64, u64)> {
        let mut end = self.written.min(start + self.options.smss);
        if start < self.snd_max {
            end = end.min(self.snd_max);
        } else if end < start + self.options.smss && self.snd_una < self.snd_max && !self.is_closing
        {
            // Nagle (RFC 9293 section 3.7.4): a short segment waits for what is outstanding.
            return None;
        }
        (end > start).then_some((start, end))
    }

    pub(super) fn right_edge(&self) -> u64 {
        self.snd_una + self.rwnd
    }

    /// There is data and a closed window, and nothing is outstanding: the timer probes it.
    fn arm_persist(&mut self) {
        if self.snd_una == self.snd_max
            && self.rto_at_ns.is_none()
            && self.last_sent_ns > i64::MIN
            && self.next_segment().is_some()
        {
            self.rto_at_ns = Some(self.last_sent_ns.max(0) + self.rto.timeout_ns());
        }
    }
}

fn new(start: u64, end: u64) -> Outgoing {
    Outgoing {
        start,
        end,
        is_retransmission: false,
    }
}

fn again(start: u64, end: u64) -> Outgoing {
    Outgoing {
        start,
        end,
        is_retransmission: true,
    }
}
