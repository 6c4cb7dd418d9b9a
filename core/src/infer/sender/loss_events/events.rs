//! Loss events: where a sender began to retransmit, why, and what it did to its window (RFC 5681, 6298, 6582, 6675).
//!
//! An event lasts until everything that was outstanding at its first retransmission is acknowledged. A timeout within
//! it (a retransmission was lost too) begins a new one. Assumes a capture at the sender; at the receiver's side the
//! losses were never captured at all, and what is found here is too few.

use std::collections::BTreeSet;

use super::begins::Start;
use super::finder::Finder;
use super::restarts::{AFTER_RESTART, restarts_by_count};
use crate::infer::given::HOST_NS;
use crate::infer::ordered::from;
use crate::infer::sender::rows::before::Votes;
use crate::infer::sender::rows::rtt::RoundTrips;
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::{LossEvent, Trace};
use crate::recovery::{DUP_THRESH, DetectedBy};
use crate::threshold::threshold;

// A retransmission this long after the last ACK (as a part of the base round trip) was not released by that ACK.
// A capturing machine under load lets ACK and answer stand some milliseconds apart, never a part of the round trip.
threshold!(SILENT_SHARE: f64 = 0.1, Share);

/// How often events are looked through for timers that expired within: a limit of work.
const MOST_PASSES: usize = 8;

/// What leaves so many nanoseconds after an ACK was not released by it.
pub(in crate::infer::sender) fn silence(base_ns: i64) -> f64 {
    (SILENT_SHARE.get() * base_ns as f64).max(HOST_NS.get() as f64)
}

/// Every loss event in order of time. `repeats`: for each retransmission the earlier send that it repeats.
pub fn loss_events(
    trace: &Trace,
    seen: &Sequence,
    rtt: &RoundTrips,
    repeats: &[Option<u32>],
) -> Vec<LossEvent> {
    if seen.again.is_empty() || trace.ack_ns.is_empty() {
        return Vec::new();
    }
    let base = rtt.base_ns;
    let finder = Finder {
        trace,
        seen,
        repeats,
        base,
        silence: silence(base),
        end_ns: trace.end_ns(),
    };
    let mut found = finder.settled(true);
    if found.iter().any(|event| event.follows) && !finder.cuts_again(&found) {
        found = finder.settled(false);
    }
    doubt_behind_recoveries(trace, &mut found);
    by_habit(trace, &mut found);
    finder.take_back(&mut found);
    found
}

impl Finder<'_> {
    /// `cuts_again`: an event may begin as the one before ends.
    fn settled(&self, cuts_again: bool) -> Vec<LossEvent> {
        let mut behind = BTreeSet::new();
        let mut found = self.merged(&behind, cuts_again);
        for _ in 0..MOST_PASSES {
            let known = behind.len();
            for (event, bound) in self.bounded(&found) {
                behind.extend(self.steps_back(event, bound));
            }
            if behind.len() == known {
                break;
            }
            // RFC 6582 section 4: all that was sent before the timer expired belongs to its restart, in which it may
            // expire once more.
            found = self.merged(&behind, cuts_again);
        }
        found
    }

    /// The events with those that only go on with a restart joined to it. `forced`: the sends at which a timer is known
    /// to have expired, silent or not.
    fn merged(&self, forced: &BTreeSet<usize>, cuts_again: bool) -> Vec<LossEvent> {
        let mut starts = self.starts(forced, cuts_again);
        let found = self.events(&starts, forced);
        let merged: BTreeSet<usize> = found
            .windows(2)
            .filter(|pair| self.carries_on(&pair[0], &pair[1]))
            .map(|pair| pair[1].first_send)
            .filter(|start| !forced.contains(start))
            .collect();
        if merged.is_empty() {
            return found;
        }
        starts.retain(|start| !merged.contains(&start.send));
        self.events(&starts, forced)
    }

    fn events(&self, starts: &[Start], forced: &BTreeSet<usize>) -> Vec<LossEvent> {
        let bounds = starts
            .iter()
            .skip(1)
            .map(|start| start.send)
            .chain([self.trace.send_ns.len()]);
        let each = starts.iter().zip(bounds).map(|(start, bound)| {
            if let Some(under_way) = start.under_way {
                return self.event_that_follows(start.send, bound, under_way);
            }
            let is_forced = forced.contains(&start.send);
            let is_silent = is_forced || self.is_silent(start.send);
            let mut event = self.event(start.send, bound, is_silent);
            if is_forced {
                event.restarts = true;
                event.detected_by = DetectedBy::Rto;
            }
            event
        });
        each.collect()
    }

    fn event(&self, start: usize, bound: usize, is_silent: bool) -> LossEvent {
        let (trace, seen) = (self.trace, self.seen);
        let known = seen.acks_before_send[start] as usize;
        let begun = self.begun(start, bound);
        let (una, recover) = (begun.una, begun.recover);
        let since = seen.last_moved(known).map_or(0, |moved| moved + 1);
        let dupacks = seen.dupacks(since, known);
        let is_told_by_ack = || since == known && self.is_outrun(start, known - 1);
        let has_sack = known > 0 && (trace.sacked[known - 1] > 0 || is_told_by_ack());
        // Nothing had told of a loss, or long before: the timer did it, and whatever is acknowledged next, be it the first
        // copy, opens the window of one segment.
        let is_timer = (is_silent && dupacks == 0) || self.is_long_since(start, since);
        let answered = if is_timer && !has_sack {
            seen.acked_at(known, una + 1)
        } else {
            self.answer(start)
        };
        // What it sent until its first retransmission was answered: one segment after a restart, half a window otherwise.
        let until = self.sent_until(answered, start, bound);
        let repeated = seen
            .again_within(start, until)
            .filter(|&rank| self.is_repeated_since(rank, start))
            .count();
        let sends = until - start - repeated;
        // RFC 6675: with SACK a duplicate that tells of nothing new lets nothing go. It answers what was sent needlessly.
        let lets_go = !trace.has_sack || has_sack || trace.hides_blocks;
        let released_by = usize::from(lets_go) * (dupacks + seen.dupacks(known, answered));
        let detected_by = detected_by(
            is_silent,
            dupacks,
            has_sack,
            trace.send_end[start] == recover && trace.send_offset[start] > una,
        );
        // RFC 8985 section 7: a probe of the only segment leaves alone, too.
        let is_alone = is_silent && dupacks == 0 && sends == 1 && begun.flight <= trace.smss;
        let is_probe = detected_by == DetectedBy::Rto && is_alone;
        let detected_by = if is_probe && self.is_wide_after(answered, una) {
            DetectedBy::Tlp
        } else {
            detected_by
        };
        let (restarts, sure) = if detected_by == DetectedBy::Tlp && sends <= 2 {
            // RFC 8985 section 7: a probe of the last segment; the window stays.
            (false, true)
        } else if self.expires_among_duplicates(start, since) {
            (true, true)
        } else {
            let (restarts, sure) = self.restarts(&begun, answered, sends, released_by, is_silent);
            (restarts, sure && !self.fills_unasked(start, bound))
        };
        let has_asked = || dupacks > 0 || self.may_be_asked_before(known);
        let detected_by = match detected_by {
            // The duplicate ACK that asks for it had come long before: the timer sent it.
            DetectedBy::DupAck if restarts && self.is_long_since(start, since) => DetectedBy::Rto,
            // A window falls for a loss: one duplicate ACK was not captured, or its place is open.
            DetectedBy::Reordering if restarts => DetectedBy::DupAck,
            // More was sent than a timeout allows: the ACKs had told of the loss (a reordering timer, a stalled host).
            DetectedBy::Rto if !restarts && has_asked() => {
                if has_sack || (known == 0 && trace.has_sack) {
                    DetectedBy::Sack
                } else {
                    DetectedBy::DupAck
                }
            }
            shown => shown,
        };
        LossEvent {
            detected_by,
            dupacks,
            restarts,
            // What the capture lacks was sent beside what it has: a window of one segment is not behind so many.
            sure: sure && (begun.sure || (!restarts && sends as i64 > AFTER_RESTART.get())),
            round_trip_sends: sends,
            ..begun
        }
    }

    /// Whether the sender went back to a window of about one segment, and whether nothing speaks for the other answer: by
    /// how much it sent until its first retransmission was `answered`, `released_by` so many ACKs.
    fn restarts(
        &self,
        begun: &LossEvent,
        answered: usize,
        sends: usize,
        released_by: usize,
        is_silent: bool,
    ) -> (bool, bool) {
        let (start, recover, flight) = (begun.first_send, begun.recover, begun.flight);
        let known = self.seen.acks_before_send[start] as usize;
        let (mut restarts, mut sure) = restarts_by_count(
            flight.div_euclid(self.trace.smss.max(1)),
            sends,
            released_by,
            is_silent,
            self.is_told_of(start, known),
        );
        if is_silent {
            return (restarts, sure);
        }
        if restarts && (self.goes_on(answered, recover) || self.mends_one(answered, recover)) {
            (restarts, sure) = (false, true);
        }
        if restarts && self.is_mute_after(answered, recover) {
            (restarts, sure) = (false, false);
        }
        // It had no new data to send, or nowhere to: by what others of its events show.
        let is_blind = self.ran_out(known, recover) || self.is_shut(start, answered, recover);
        if restarts && is_blind {
            (restarts, sure) = (false, false);
        }
        // Duplicate ACKs release nothing at a window of one segment: who sent on meanwhile has not gone back to it.
        if !sure && sends <= 1 && self.goes_back(answered, recover, flight, is_blind) {
            (restarts, sure) = (true, true);
        }
        (restarts, sure)
    }

    /// Whether another hole was filled before an ACK of the first one's was captured, without SACK: nothing else asks for it
    /// (RFC 6582), so that ACK is missing, and what left until the next one shows no window.
    fn fills_unasked(&self, start: usize, bound: usize) -> bool {
        let seen = self.seen;
        let moved = seen.acked_at(
            seen.acks_before_send[start] as usize,
            seen.una_at(start) + 1,
        );
        let mut filled = seen.again_within(start + 1, self.sent_until(moved, start, bound));
        !self.trace.has_sack && filled.any(|rank| !self.is_repeated_since(rank, start))
    }

    /// An event that begins as the one before ends: what asks for it has been sent again already.
    fn event_that_follows(&self, start: usize, bound: usize, under_way: usize) -> LossEvent {
        LossEvent {
            lost_sent_ns: self.sent_before(under_way),
            round_trip_sends: self.sent_until(self.answer(start), start, bound) - start,
            follows: true,
            ..self.begun(start, bound)
        }
    }

    /// What lies between an event's first send and the next event's, whatever the sender made of it.
    fn begun(&self, start: usize, bound: usize) -> LossEvent {
        let (trace, seen) = (self.trace, self.seen);
        let (una, recover) = (seen.una_at(start), seen.snd_max[start - 1]);
        let known = seen.acks_before_send[start] as usize;
        let over_ns = self.ack_time(seen.acked_at(known, recover));
        let end_ns = over_ns.min(self.send_time(bound));
        let again = seen.again_within(start, bound);
        let is_within = |&send: &u32| trace.send_ns[send as usize] <= end_ns;
        LossEvent {
            first_send: start,
            time_ns: trace.send_ns[start],
            end_ns,
            una,
            recover,
            flight: recover - una,
            detected_by: DetectedBy::Sack,
            dupacks: 0,
            restarts: false,
            // Near packets that the capture lacks nothing is.
            sure: !seen.has_hole(una, recover.max(una) + recover - una),
            lost_sent_ns: self.sent_before(start),
            retransmitted: seen.again[again].partition_point(is_within),
            round_trip_sends: 0,
            follows: false,
        }
    }

    /// The first send behind an event's answer, or the one with which the next event begins.
    fn sent_until(&self, answered: usize, start: usize, bound: usize) -> usize {
        let until_ns = self.ack_time(answered).min(self.send_time(bound));
        from(self.trace.send_ns, start, |time| time < until_ns).max(start)
    }

    /// Whether what told of a loss may have come before a capture that begins amid a recovery: it has no ACK yet.
    fn may_be_asked_before(&self, known: usize) -> bool {
        known == 0 && !self.trace.has_start && self.trace.before.is_none()
    }

    /// Whether the third duplicate ACK from ACK `since` on lies as far before a send as silence would.
    pub(super) fn is_long_since(&self, send: usize, since: usize) -> bool {
        let third = self.seen.dupack(since, DUP_THRESH as usize);
        third.is_some_and(|ack| {
            (self.trace.send_ns[send] - self.trace.ack_ns[ack]) as f64 > self.silence
        })
    }
}

fn detected_by(is_silent: bool, dupacks: usize, has_sack: bool, is_last: bool) -> DetectedBy {
    match (is_silent, is_last) {
        (true, true) => DetectedBy::Tlp,
        (true, false) => DetectedBy::Rto,
        (false, _) if has_sack => DetectedBy::Sack,
        (false, _) if dupacks >= DUP_THRESH as usize => DetectedBy::DupAck,
        (false, _) if dupacks > 0 => DetectedBy::Reordering,
        (false, _) => DetectedBy::Rto,
    }
}

/// Without SACK a recovery may leave more outstanding than its window (RFC 6582 section 3.2): how many duplicate ACKs
/// would release anything, where some of that is lost, is not known.
fn doubt_behind_recoveries(trace: &Trace, found: &mut [LossEvent]) {
    if trace.has_sack {
        return;
    }
    for at in 1..found.len() {
        let (before, event) = (found[at - 1], &mut found[at]);
        let is_within = is_fast(&before) && !before.restarts && event.lost_sent_ns < before.end_ns;
        event.sure &= !(is_within && is_fast(event) && event.round_trip_sends <= 1);
    }
}

/// A sender has one algorithm: an unsure event (too few duplicate ACKs to tell) is taken as its sure ones are.
fn by_habit(trace: &Trace, found: &mut [LossEvent]) {
    let before = trace.before.map_or(Votes::default(), |before| before.votes);
    let votes = before.with(found);
    let habit = votes.restarts * 2 > votes.sure;
    for event in found
        .iter_mut()
        .filter(|event| is_fast(event) && !event.sure)
    {
        event.restarts = habit;
    }
}

fn is_fast(event: &LossEvent) -> bool {
    matches!(event.detected_by, DetectedBy::DupAck | DetectedBy::Sack)
}

impl Votes {
    pub fn with(self, found: &[LossEvent]) -> Self {
        let sure = found.iter().filter(|event| is_fast(event) && event.sure);
        sure.fold(self, |votes, event| Self {
            sure: votes.sure + 1,
            restarts: votes.restarts + usize::from(event.restarts),
        })
    }
}
