//! A sender that had less to send than its window allowed: what was outstanding ran low without a loss.

use super::limits::{BURST_NS, told};
use crate::infer::given::DELAYED_ACK_SEGMENTS;
use crate::infer::ordered::from;
use crate::infer::sender::rows::before::{Round, Starving};
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::Trace;
use crate::infer::sender::slow_starts::stretches::Stretch;
use crate::threshold::threshold;

// A window that has more to empty than what a delayed ACK leaves outstanding.
threshold!(FULL_SEGMENTS: i64 = 6, Segments);
// What an application writes meets so many ACKs in a row by chance less than once in 500 rounds (one in eight each).
threshold!(ROUND_ACKS: usize = 3, Count);

/// The ACKs at which the sender is known to have had less to send than its window allowed.
///
/// All but what a delayed ACK leaves is acknowledged, and nothing was sent for a round trip: no control empties its
/// window without a loss (BBR keeps four segments when it probes the round trip). From then on whatever is less than
/// what was outstanding before is the application's, until as much is outstanding again; or until a round of ACKs behind
/// a pause shows a window at work that the pause had set back (RFC 5681 section 4.1).
pub fn starved(
    trace: &Trace,
    seen: &Sequence,
    parts: &[Stretch],
    flight: &[i64],
    told: &[u8],
) -> Vec<bool> {
    let mut found = vec![false; flight.len()];
    for part in parts {
        let mut state = Starving::of(trace, part);
        for ack in part.first..=part.last {
            if let Some(since) = state.next(trace, seen, ack, flight[ack]) {
                found[since..ack].fill(true);
            }
            if let Some(since) = state.is_released(seen, ack, flight[ack], told[ack], trace.smss) {
                found[since..ack].fill(false);
            }
            found[ack] = state.is_short;
        }
    }
    found
}

impl Starving {
    fn of(trace: &Trace, part: &Stretch) -> Self {
        let before = trace.before.filter(|_| part.first == 0);
        before.map_or(
            Self {
                held: part.resumed,
                released: part.first as isize,
                closed: isize::MIN,
                is_short: false,
                was_short: false,
                round: None,
            },
            |before| before.starving,
        )
    }

    /// After the ACKs of a stretch before number `until`, which are kept no more.
    pub fn until(
        trace: &Trace,
        seen: &Sequence,
        part: &Stretch,
        flight: &[i64],
        until: usize,
    ) -> Self {
        let mut state = Self::of(trace, part);
        let told = told(trace, seen);
        for (ack, &now) in flight.iter().enumerate().take(until).skip(part.first) {
            state.next(trace, seen, ack, now);
            state.is_released(seen, ack, now, told[ack], trace.smss);
        }
        state.closed = if state.closed < state.released {
            isize::MIN
        } else {
            -1
        };
        state.released = -1;
        if let Some(round) = &mut state.round {
            round.since = -1;
        }
        state
    }

    /// The next ACK; the first of those before it that turn out to have been short of data.
    fn next(&mut self, trace: &Trace, seen: &Sequence, ack: usize, now: i64) -> Option<usize> {
        if now + trace.smss > trace.rwnd[ack] {
            self.closed = ack as isize;
        }
        if !seen.released(ack).is_empty() {
            self.released = ack as isize;
        }
        let mut since = None;
        if now + DELAYED_ACK_SEGMENTS.get() * trace.smss >= self.held {
            self.is_short = false;
        } else if now <= DELAYED_ACK_SEGMENTS.get() * trace.smss
            && self.held >= FULL_SEGMENTS.get() * trace.smss
            && self.released < ack as isize
            && self.closed < self.released
            && is_followed_late(trace, seen, ack)
        {
            self.is_short = true;
            since = Some((self.released + 1) as usize);
        }
        self.was_short |= self.is_short;
        self.held = self.held.max(now);
        since
    }

    /// Whether, behind a pause, a round of ACKs has kept outstanding what left first, each at once: from its first ACK on
    /// (the answer) that was a window at work, and data for more of it was there.
    fn is_released(
        &mut self,
        seen: &Sequence,
        ack: usize,
        now: i64,
        told: u8,
        smss: i64,
    ) -> Option<usize> {
        let sent = seen.sent_before(ack);
        let is_all = sent > 0 && seen.snd_max[sent - 1] <= seen.snd_una[ack];
        if !self.is_short {
            self.round = None;
        } else if is_all {
            let left = seen.sends_before_next_ack[ack] as usize;
            self.round = (left > sent).then(|| Round {
                since: ack as isize + 1,
                met: now,
                top: seen.snd_max[left - 1],
                prompt: 0,
            });
        } else if let Some(round) = &mut self.round {
            round.prompt += usize::from(told > 1);
            if told == 1 || now + smss <= round.met {
                self.round = None;
            } else if seen.snd_una[ack] > round.top && round.prompt >= ROUND_ACKS.get() {
                let since = round.since.max(0) as usize;
                self.is_short = false;
                self.round = None;
                self.held = now;
                return Some(since);
            }
        }
        None
    }
}

/// Whether nothing leaves so soon after an ACK as a host goes on with a burst, or within the round trip of what it
/// acknowledges: what comes next, and what it lets go, may have been stamped in another order.
fn is_followed_late(trace: &Trace, seen: &Sequence, ack: usize) -> bool {
    let heard_ns = trace.ack_ns[ack];
    let sent = seen.sends_before_next_ack[ack] as usize;
    let answers = from(&seen.snd_max, sent, |top| top < seen.snd_una[ack]);
    let left_ns = trace.send_ns.get(answers).copied().unwrap_or(i64::MIN);
    let wait = heard_ns.saturating_sub(left_ns).min(BURST_NS.get());
    let following = trace.send_ns.get(sent);
    following.is_none_or(|&left| left - heard_ns > wait)
}
