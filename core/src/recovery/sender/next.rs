//! Which range goes out next: a retransmission that is due, a hole, new data, as the windows allow.

use super::{DeliveryStamp, Phase, Send, Sender, Sent};

impl Sender {
    /// The next range to send now, if any; call until `None`. What is returned counts as sent.
    pub fn next_send(&mut self, now_ns: i64) -> Option<Send> {
        if self.wake_at_ns().is_some_and(|at_ns| at_ns > now_ns) {
            return None;
        }
        let in_flight = self.pipe();
        let send = self.choose()?;
        let is_new = send.end > self.snd_max;
        let stamp = self.stamp(now_ns, in_flight);
        if is_new {
            self.sent.push_back(Sent {
                end: send.end,
                at_ns: now_ns,
                is_retransmitted: false,
                stamp,
            });
            self.snd_max = send.end;
        }
        if send.is_retransmission {
            if let Some(rack) = &mut self.rack {
                rack.on_resent(now_ns, send.start, send.end);
                if send.start == self.snd_una {
                    // The first hole is under way again: it has a whole timeout from here, as in Linux.
                    self.rto_at_ns = None;
                }
            }
            let first = self.sent.partition_point(|sent| sent.end <= send.start);
            for sent in self
                .sent
                .iter_mut()
                .skip(first)
                .take_while(|sent| sent.end <= send.end)
            {
                sent.is_retransmitted = true;
                sent.at_ns = now_ns;
                sent.stamp = stamp;
            }
        }
        if let Some(rate) = self.control.pacing_rate() {
            self.pacer.on_sent(now_ns, send.end - send.start, rate);
        }
        if let Some(prr) = &mut self.prr {
            prr.on_sent(send.end - send.start);
        }
        self.last_sent_ns = now_ns;
        if self.rto_at_ns.is_none() {
            self.restart_timer(now_ns);
        }
        Some(send)
    }

    /// When pacing lets the next segment leave; `None`: whenever the window does.
    pub fn wake_at_ns(&self) -> Option<i64> {
        self.control
            .pacing_rate()
            .map(|_| self.pacer.departure_ns())
    }

    /// What the segment takes along for its delivery rate, with `in_flight` bytes on the path before it.
    fn stamp(&mut self, now_ns: i64, in_flight: u64) -> DeliveryStamp {
        let Some(delivery) = &mut self.delivery else {
            return DeliveryStamp::default();
        };
        if in_flight == 0 && delivery.rate.is_app_limited() {
            self.control.on_restart(&mut self.state, now_ns);
        }
        let is_first = self.snd_una == self.snd_max;
        delivery.rate.on_sent(now_ns, is_first)
    }

    fn choose(&mut self) -> Option<Send> {
        if let Some((start, end)) = self.due.take() {
            self.snd_nxt = self.snd_nxt.max(end);
            self.board.on_retransmitted(start, end);
            return Some(Send {
                start,
                end,
                is_retransmission: true,
            });
        }
        if std::mem::take(&mut self.probes) {
            let end = (self.snd_nxt + 1).min(self.written);
            let start = self.snd_nxt;
            self.snd_nxt = end;
            return Some(Send {
                start,
                end,
                is_retransmission: false,
            });
        }
        if self.has_pipe() && matches!(self.phase, Phase::Recovery | Phase::Loss) {
            return self.choose_by_pipe();
        }
        let (start, end) = self.next_segment()?;
        let is_new = start >= self.snd_max;
        let (outstanding, window) =
            if self.owns_window || (self.has_pipe() && self.options.limited_transmit) {
                // RFC 6675 section 5 (3): what is SACKed has left the path.
                (self.pipe(), self.cwnd())
            } else {
                // RFC 3042 section 2: outstanding data stays within cwnd plus two segments.
                (self.flight_size(), self.cwnd() + self.limited_transmit)
            };
        if outstanding + (end - start) > window || end > self.right_edge() {
            self.arm_persist();
            return None;
        }
        self.snd_nxt = end;
        Some(Send {
            start,
            end,
            is_retransmission: !is_new,
        })
    }

    /// RFC 6675 section 5 (C): while cwnd - pipe >= 1 SMSS.
    fn choose_by_pipe(&mut self) -> Option<Send> {
        if self.pipe() + self.options.smss > self.cwnd() {
            return None;
        }
        // Rules (1), (2), (3), (4) of NextSeg.
        if let Some((start, end)) = self.board.next_lost() {
            self.board.on_retransmitted(start, end);
            return Some(Send {
                start,
                end,
                is_retransmission: true,
            });
        }
        if let Some((start, end)) = self
            .next_segment()
            .filter(|&(_, end)| end <= self.right_edge())
        {
            self.snd_nxt = end;
            return Some(Send {
                start,
                end,
                is_retransmission: false,
            });
        }
        if self.phase == Phase::Loss {
            return None;
        }
        let (start, end) = if let Some((start, end)) = self.board.next_suspect(self.snd_una) {
            self.board.on_retransmitted(start, end);
            (start, end)
        } else {
            // (4): HighRxt stays where it is.
            self.board
                .next_rescue(self.snd_una, self.snd_max, self.recover)?
        };
        Some(Send {
            start,
            end,
            is_retransmission: true,
        })
    }

    /// The segment at `snd_nxt`: new, or again after a timeout.
    fn next_segment(&self) -> Option<(u64, u64)> {
        let start = self.snd_nxt;
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

    fn right_edge(&self) -> u64 {
        self.snd_una + self.rwnd
    }

    /// A closed window with nothing outstanding: the timer probes it.
    fn arm_persist(&mut self) {
        if self.snd_una == self.snd_max && self.rto_at_ns.is_none() && self.last_sent_ns > i64::MIN
        {
            self.rto_at_ns = Some(self.last_sent_ns.max(0) + self.rto.timeout_ns());
        }
    }
}
