//! Whether a sender went back to one segment (Tahoe, and everybody after a timeout), by what it sent when it was answered.

use super::finder::Finder;
use crate::infer::ordered::from;
use crate::recovery::LEAST_RTO_NS;
use crate::threshold::threshold;

// Outstanding after the first answer to a restart: two segments, or as many as a generous initial window allows.
threshold!(pub(super) AFTER_RESTART: i64 = 4, Segments);

/// Whether the window fell to one segment, and whether that is sure.
///
/// After a timeout one segment is sent and its answer awaited. In fast recovery each duplicate ACK beyond half the window
/// releases one segment more (RFC 5681 section 3.2 step 4; with SACK or PRR earlier), unless there were too few.
/// `is_told`: SACK blocks told of the hole before, so that only its retransmission moves the window of one segment.
pub(super) fn restarts_by_count(
    window: i64,
    sends: usize,
    dupacks: usize,
    is_silent: bool,
    is_told: bool,
) -> (bool, bool) {
    if is_silent {
        let most = if is_told { 1 } else { 3 };
        return (sends <= most, sends <= 1 || sends > 3);
    }
    let expected = dupacks as i64 - (window + 1).div_euclid(2);
    match sends {
        0 | 1 => (expected >= 4, expected >= 4),
        _ => (false, sends > 2),
    }
}

impl Finder<'_> {
    /// Whether the ACK of everything released a window at once: a restarted sender has two segments to send then.
    pub(super) fn goes_on(&self, answered: usize, recover: i64) -> bool {
        let Some(outstanding) = self.outstanding_after(answered) else {
            return false;
        };
        self.seen.snd_una[answered] >= recover
            && outstanding > AFTER_RESTART.get() * self.trace.smss
    }

    /// Whether soon behind the answer more was outstanding than a restart has: each segment acknowledged opens its window
    /// by one (RFC 5681 section 3.1), however long its application waits.
    pub(super) fn is_wide_after(&self, answered: usize, una: i64) -> bool {
        let few = AFTER_RESTART.get() * self.trace.smss;
        let opened = |ack: usize| self.seen.snd_una[ack] - una;
        (answered..self.seen.snd_una.len())
            .take_while(|&ack| opened(ack) <= few)
            .any(|ack| {
                let outstanding = self.outstanding_after(ack);
                outstanding.is_some_and(|outstanding| outstanding > few + opened(ack))
            })
    }

    /// Whether the ACK of a part released nothing until a timer expired: a restarted sender's window of one segment is
    /// free then, and the hole is its next segment. Reno waits there for three more duplicates (RFC 5681), or its timer.
    pub(super) fn is_mute_after(&self, answered: usize, recover: i64) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let Some(&heard_ns) = trace.ack_ns.get(answered) else {
            return false;
        };
        let next = from(trace.send_ns, seen.sent_before(answered), |time| {
            time <= heard_ns
        });
        seen.snd_una[answered] < recover
            && trace
                .send_ns
                .get(next)
                .is_some_and(|&next_ns| next_ns - heard_ns >= LEAST_RTO_NS.get())
    }

    /// Whether nothing followed the ACK of everything for long: no data was left when the loss was repaired.
    ///
    /// A short segment may have waited for that ACK (RFC 9293 section 3.7.4), and is the end of what there was.
    pub(super) fn ran_out(&self, known: usize, recover: i64) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let over = seen.acked_at(known, recover);
        let Some(&heard_ns) = trace.ack_ns.get(over) else {
            return false;
        };
        let next = from(trace.send_ns, seen.sent_before(over), |time| {
            time < heard_ns
        });
        if self.ends_soon(next, recover) {
            return true;
        }
        if next > 0 && seen.snd_max[next - 1] > recover {
            return false;
        }
        let is_late = |&time: &i64| (time - heard_ns) as f64 > self.silence;
        let is_short = next < trace.send_ns.len()
            && trace.send_end[next] - trace.send_offset[next] < trace.smss;
        trace
            .send_ns
            .get(next + usize::from(is_short))
            .is_none_or(is_late)
    }

    /// Whether no more than a restarted sender's first segments were sent beyond the recovery before a pause that no ACK
    /// ended: they were the last that there were, and show no window.
    fn ends_soon(&self, next: usize, recover: i64) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let most = recover + AFTER_RESTART.get() * trace.smss;
        if next > 0 && seen.snd_max[next - 1] > most {
            return false;
        }
        for send in next..trace.send_ns.len() {
            let heard = (seen.acks_before_send[send] as usize).saturating_sub(1);
            if (trace.send_ns[send] - trace.ack_ns[heard]) as f64 > self.silence {
                return send > next;
            }
            if seen.snd_max[send] > most {
                return false;
            }
        }
        next < trace.send_ns.len()
    }

    /// Whether a partial ACK released the next hole and nothing else: RFC 6582 section 3.2 (5), with no data left.
    ///
    /// A sender that has gone back to one segment sends two then; offload makes them one of their length.
    pub(super) fn mends_one(&self, answered: usize, recover: i64) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let Some(&una) = seen.snd_una.get(answered).filter(|_| !trace.has_sack) else {
            return false;
        };
        let heard_ns = trace.ack_ns[answered];
        let before = from(trace.send_ns, seen.sent_before(answered), |time| {
            time < heard_ns
        });
        let sent = seen.sends_before_next_ack[answered] as usize;
        una + trace.smss < recover
            && sent == before + 1
            && seen.again_within(before, sent).len() == 1
            && trace.send_offset[before] == una
            && trace.send_end[before] - una <= trace.smss
    }

    /// Whether the receiver's window had no room for another segment from a retransmission to its answer.
    pub(super) fn is_shut(&self, start: usize, answered: usize, recover: i64) -> bool {
        let known = (self.seen.acks_before_send[start] as usize).saturating_sub(1);
        let rows = known..answered.min(self.trace.ack_ns.len());
        let edge = rows.map(|ack| self.trace.ack_offset[ack] + self.trace.rwnd[ack]);
        edge.max()
            .is_some_and(|edge| recover + self.trace.smss > edge)
    }

    /// Whether the first answer released what a window of one segment gives, too little or too much for fast recovery.
    ///
    /// RFC 6582: a partial ACK asks for one segment, Tahoe sends two of those sent before. RFC 5681: after the last hole
    /// half the window goes on, Tahoe has two segments to send.
    pub(super) fn goes_back(
        &self,
        answered: usize,
        recover: i64,
        flight: i64,
        is_blind: bool,
    ) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let Some(outstanding) = self.outstanding_after(answered) else {
            return false;
        };
        if trace.has_sack {
            return false;
        }
        let sent = seen.sends_before_next_ack[answered] as usize;
        if seen.snd_una[answered] < recover {
            let heard_ns = trace.ack_ns[answered];
            let before = from(trace.send_ns, seen.sent_before(answered), |time| {
                time < heard_ns
            });
            return seen.again_within(before, sent).len() >= 2;
        }
        let has_more = sent < trace.send_ns.len();
        has_more
            && !is_blind
            && 0 < outstanding
            && outstanding <= 2 * trace.smss
            && flight / 2 >= AFTER_RESTART.get() * trace.smss
    }
}
