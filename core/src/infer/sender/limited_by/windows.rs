//! The congestion window after each ACK, between bounds, and what limited the sender.
//!
//! A sender limited by its congestion window has as much outstanding as the window allows: value, low and high lie within
//! a segment. Held back by the receiver's window or by its application it has less: then the flight is only the low
//! bound, nothing bounds the window from above, and the value is the last one seen at work (no loss, no long pause since).

use super::held_back::{HeldBack, SoFar};
use super::limits::Limit;
use crate::infer::columns::{ColumnTable, columns};
use crate::infer::given::FEWEST_SAMPLES;
use crate::infer::sender::rows::before::{Begin, Shown, Work};
use crate::infer::sender::rows::trace::Trace;
use crate::infer::sender::slow_starts::stretches::Stretch;

/// Not known; in `cwnd_high`: nothing bounds it.
pub const UNKNOWN: i64 = -1;

columns! {
    /// A row per ACK and per restart; bytes.
    Windows of AtAck {
        time_ns: i64,
        cwnd: i64,
        cwnd_low: i64,
        cwnd_high: i64,
        ssthresh: i64,
        limited_by: Limit,
        /// Limited by its application, whatever the tap's place: its window had been emptied.
        is_starved: bool,
        /// No data was left for it to release.
        is_exhausted: bool,
    }
}

impl Windows {
    pub fn new(known: SoFar<'_>, held_back: &HeldBack) -> Self {
        let SoFar {
            trace,
            seen,
            events,
            parts,
            flight,
            ..
        } = known;
        let mut table = Self::with_capacity(flight.len() + events.len());
        let restarts = events
            .iter()
            .filter(|event| event.restarts)
            .filter_map(|event| {
                let heard = seen.acks_before_send[event.first_send] as usize;
                Some((heard.checked_sub(1)?, event))
            });
        let mut restarts = restarts.peekable();
        let each = parts.iter();
        let mut thresholds = each
            .filter_map(|part| threshold(trace, part, &held_back.exhausted))
            .peekable();
        let mut met = None;
        let mut work = Work::new(trace);
        for (ack, &now) in flight.iter().enumerate() {
            let (cwnd, high) = work.next(known, held_back, ack);
            let limit = held_back.limited[ack];
            while let Some(next) = thresholds.next_if(|&(first, ..)| first <= ack) {
                met = Some(next);
            }
            let ssthresh = met.filter(|&(_, last, _)| ack <= last);
            let row = AtAck {
                time_ns: trace.ack_ns[ack],
                cwnd: cwnd.min(held_back.drained[ack]).max(trace.smss),
                cwnd_low: now
                    .min(held_back.drained[ack])
                    .min(held_back.least[ack])
                    .max(trace.smss),
                cwnd_high: if high == UNKNOWN {
                    high
                } else {
                    high.max(trace.smss)
                },
                ssthresh: ssthresh.map_or(UNKNOWN, |(.., ssthresh)| ssthresh),
                limited_by: limit,
                is_starved: limit == Limit::Application && held_back.starved[ack],
                is_exhausted: held_back.exhausted[ack],
            };
            // The timer moves the window between two ACKs: the ACK before keeps the old one, a row of its own has the
            // new.
            let place = table.time_ns.len();
            table.push(row);
            while let Some((_, event)) = restarts.next_if(|&(before, _)| before == ack) {
                table.cwnd[place] = event.flight.max(trace.smss);
                table.cwnd_low[place] = table.cwnd[place];
                table.cwnd_high[place] = UNKNOWN;
                table.limited_by[place] = Limit::Recovery;
                table.push(AtAck {
                    time_ns: event.time_ns,
                    ..row
                });
            }
        }
        table
    }
}

impl Work {
    fn new(trace: &Trace) -> Self {
        trace.before.map_or(Self::default(), |before| before.work)
    }

    /// After the ACKs before number `until`.
    pub fn until(known: SoFar<'_>, held_back: &HeldBack, until: usize) -> Self {
        let mut work = Self::new(known.trace);
        for ack in 0..until {
            work.next(known, held_back, ack);
        }
        work
    }

    /// The next ACK: the window's value, and its upper bound.
    fn next(&mut self, known: SoFar<'_>, held_back: &HeldBack, ack: usize) -> (i64, i64) {
        let now = known.flight[ack];
        let (limit, is_exhausted) = (held_back.limited[ack], held_back.exhausted[ack]);
        let is_idle = limit == Limit::Application || (limit == Limit::Recovery && is_exhausted);
        if !is_idle {
            self.last = Some((now, limit == Limit::Recovery));
        }
        // The flight, or where the sender was held back that of the last ACK before (of the same recovery).
        let last = self
            .last
            .filter(|last| is_idle && (limit == Limit::Application || last.1));
        let cwnd = last.map_or(now, |last| last.0.max(now));
        // The last segments before a pause may have been fewer than the window allowed.
        let is_bound = matches!(limit, Limit::Cwnd | Limit::Recovery) && !is_exhausted;
        let high = match limit {
            _ if !is_bound => UNKNOWN,
            Limit::Cwnd => self.shown.high(known, held_back, ack),
            _ => now + held_back.unseen(ack),
        };
        if limit != Limit::Cwnd || !is_bound {
            self.shown.last = None;
        }
        (cwnd, high)
    }
}

impl Shown {
    /// A window at work answers each ACK with new segments: where one released nothing, the sender had nothing to send,
    /// and its window is what it was, or larger by what was acknowledged (RFC 5681 section 3.1).
    fn high(&mut self, known: SoFar<'_>, held_back: &HeldBack, ack: usize) -> i64 {
        let (trace, seen, now) = (known.trace, known.seen, known.flight[ack]);
        let room = held_back.unseen(ack);
        // As much is outstanding as the window was seen to allow.
        let is_filled = now + held_back.slack >= held_back.held[ack];
        let sent = seen.sends_before_next_ack[ack] as usize;
        let before = seen.sent_before(ack);
        let newly_acked = seen.newly_acked(ack);
        if sent > before {
            let waited = trace.send_ns[before] - trace.ack_ns[ack];
            if waited as f64 > held_back.silence || held_back.is_late(ack) {
                // It was the application that sent: what it had, not what the window is.
                (self.last, self.is_at_work, self.answers) = (None, false, 0);
                return UNKNOWN;
            }
            self.answers += 1;
            // An application that writes answers the ACK that it happens to write behind; a window at work ACK after ACK.
            self.is_at_work |= is_filled || self.answers >= FEWEST_SAMPLES.get() as i64;
        } else if newly_acked > 0 {
            (self.is_at_work, self.answers) = (false, 0);
        }
        // The last of what there was may be less than the window allowed.
        let goes_on = held_back.limited.get(ack + 1) != Some(&Limit::Application);
        let high = match self.last {
            _ if self.is_at_work && goes_on => now + room,
            Some(last) => (now + room).max(last + newly_acked + held_back.lacking.acked(ack)),
            None => return UNKNOWN,
        };
        self.last = Some(high);
        high
    }
}

/// The threshold that a stretch shows, from its first ACK to its last.
fn threshold(trace: &Trace, part: &Stretch, exhausted: &[bool]) -> Option<(usize, usize, i64)> {
    let before = trace.before.filter(|_| part.first == 0);
    let was_exhausted = before.map_or_else(
        || exhausted[part.first],
        |before| before.stretch.was_exhausted,
    );
    if part.begin == Begin::Recovery && was_exhausted {
        return None;
    }
    Some((part.first, part.last, part.ssthresh()?))
}
