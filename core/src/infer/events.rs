//! Loss events: where a sender began to retransmit, why, and what it did to its window (RFC 5681, 6298, 6582, 6675).
//!
//! An event lasts until everything that was outstanding at its first retransmission is acknowledged. A timeout within
//! it (a retransmission was lost too) begins a new one. Assumes a capture at the sender; at the receiver's side the
//! losses were never captured at all, and what is found here is too few.

use std::collections::BTreeSet;

use super::begins::Start;
use super::rtt::RoundTrips;
use super::sequence::Sequence;
use super::trace::{LossEvent, Trace};
use crate::recovery::DetectedBy;
use crate::threshold::threshold;

// RFC 5681 section 3.2: the third duplicate ACK.
threshold!(DUP_THRESH: usize = 3, Acks);
// A retransmission this long after the last ACK (as a part of the base round trip) was not released by that ACK.
// A capturing machine under load lets ACK and answer stand some milliseconds apart, never a part of the round trip.
threshold!(SILENT_SHARE: f64 = 0.1, Share);
threshold!(SILENT_FLOOR_NS: i64 = 2_000_000, Nanoseconds);
// Outstanding after the first answer to a restart: two segments, or as many as a generous initial window allows.
threshold!(AFTER_RESTART: i64 = 4, Segments);

// New data for what is acknowledged once a timeout was taken back: all of it, between half (a window halved) and more.
threshold!(TAKEN_BACK_SHARE: f64 = 0.75, Share);

/// What leaves so many nanoseconds after an ACK was not released by it.
pub(super) fn silence(base_ns: i64) -> f64 {
    (SILENT_SHARE.get() * base_ns as f64).max(SILENT_FLOOR_NS.get() as f64)
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
    by_habit(trace, &mut found);
    finder.take_back(&mut found);
    found
}

pub(super) struct Finder<'a> {
    pub trace: &'a Trace<'a>,
    pub seen: &'a Sequence,
    repeats: &'a [Option<u32>],
    pub base: i64,
    pub silence: f64,
    end_ns: i64,
}

impl Finder<'_> {
    /// `cuts_again`: an event may begin as the one before ends.
    fn settled(&self, cuts_again: bool) -> Vec<LossEvent> {
        let found = self.merged(&BTreeSet::new(), cuts_again);
        let behind: BTreeSet<usize> = self
            .bounded(&found)
            .flat_map(|(event, bound)| self.steps_back(event, bound))
            .collect();
        if behind.is_empty() {
            return found;
        }
        // RFC 6582 section 4: all that was sent before the timer expired belongs to its restart.
        self.merged(&behind, cuts_again)
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

    /// Each event with the send at which the next begins.
    pub(super) fn bounded<'b>(
        &'b self,
        found: &'b [LossEvent],
    ) -> impl Iterator<Item = (&'b LossEvent, usize)> + 'b {
        let bounds = found.iter().skip(1).map(|event| event.first_send);
        found.iter().zip(bounds.chain([self.trace.send_ns.len()]))
    }

    fn event(&self, start: usize, bound: usize, is_silent: bool) -> LossEvent {
        let (trace, seen) = (self.trace, self.seen);
        let (una, recover) = (seen.una_at(start), seen.snd_max[start - 1]);
        let known = seen.acks_before_send[start] as usize;
        let flight = recover - una;
        let next_ns = trace.send_ns.get(bound).copied().unwrap_or(self.end_ns);
        let end_ns = self.ack_time(seen.acked_at(known, recover)).min(next_ns);
        let since = seen.last_moved(known).map_or(0, |moved| moved + 1);
        let dupacks = seen.dupacks(since, known);
        let has_sack = known > 0 && trace.sacked[known - 1] > 0;
        // Nothing had told of a loss, or long before: the timer did it, and whatever is acknowledged next, be it the first
        // copy, opens the window of one segment.
        let is_timer = (is_silent && dupacks == 0) || self.is_long_since(start, since);
        let answered = if is_timer && !has_sack {
            seen.acked_at(known, una + 1)
        } else {
            self.answer(start)
        };
        // What it sent until its first retransmission was answered: one segment after a restart, half a window otherwise.
        let until_ns = self.ack_time(answered).min(next_ns);
        let until = trace
            .send_ns
            .partition_point(|&time| time < until_ns)
            .max(start);
        let repeated = seen
            .again_within(start, until)
            .filter(|&rank| self.is_repeated_since(rank, start))
            .count();
        let sends = until - start - repeated;
        let during = seen.dupacks(known, answered);
        let mut detected_by = detected_by(
            is_silent,
            dupacks,
            has_sack,
            trace.send_end[start] == recover && trace.send_offset[start] > una,
        );
        let (mut restarts, mut sure);
        if detected_by == DetectedBy::Tlp && sends <= 2 {
            // RFC 8985 section 7: a probe of the last segment; the window stays.
            (restarts, sure) = (false, true);
        } else {
            (restarts, sure) = self::restarts(
                flight.div_euclid(trace.smss.max(1)),
                sends,
                dupacks + during,
                is_silent,
            );
            if restarts
                && !is_silent
                && (self.goes_on(answered, recover) || self.mends_one(answered, recover))
            {
                (restarts, sure) = (false, true);
            }
            // It had no new data to send, or nowhere to: by what others of its events show.
            let is_blind = !is_silent
                && (self.ran_out(known, recover) || self.is_shut(start, answered, recover));
            if restarts && is_blind {
                (restarts, sure) = (false, false);
            }
            if !sure && !is_silent && self.goes_back(answered, recover, flight, is_blind) {
                (restarts, sure) = (true, true);
            }
            if detected_by == DetectedBy::DupAck && restarts && self.is_long_since(start, since) {
                // The duplicate ACK that asks for it had come long before: the timer sent it.
                detected_by = DetectedBy::Rto;
            }
            if detected_by == DetectedBy::Reordering && restarts {
                // A window falls for a loss: one duplicate ACK was not captured, or its place is open.
                detected_by = DetectedBy::DupAck;
            }
            if detected_by == DetectedBy::Rto && !restarts && dupacks > 0 {
                // More was sent than a timeout allows: the ACKs had told of the loss (a reordering timer, a stalled
                // host).
                detected_by = if has_sack {
                    DetectedBy::Sack
                } else {
                    DetectedBy::DupAck
                };
            }
        }
        let again = seen.again_within(start, bound);
        let within =
            seen.again[again].partition_point(|&send| trace.send_ns[send as usize] <= end_ns);
        LossEvent {
            first_send: start,
            time_ns: trace.send_ns[start],
            end_ns,
            una,
            recover,
            flight,
            detected_by,
            dupacks,
            restarts,
            // Near packets that the capture lacks nothing is.
            sure: sure && !seen.has_hole(una, recover.max(una) + flight),
            lost_sent_ns: self.sent_before(start),
            retransmitted: within,
            round_trip_sends: sends,
            follows: false,
        }
    }

    /// An event that begins as the one before ends: what asks for it has been sent again already.
    fn event_that_follows(&self, start: usize, bound: usize, under_way: usize) -> LossEvent {
        let (trace, seen) = (self.trace, self.seen);
        let (una, recover) = (seen.una_at(start), seen.snd_max[start - 1]);
        let known = seen.acks_before_send[start] as usize;
        let next_ns = trace.send_ns.get(bound).copied().unwrap_or(self.end_ns);
        let end_ns = self.ack_time(seen.acked_at(known, recover)).min(next_ns);
        let again = seen.again_within(start, bound);
        let within =
            seen.again[again].partition_point(|&send| trace.send_ns[send as usize] <= end_ns);
        let until_ns = self.ack_time(self.answer(start)).min(next_ns);
        let until = trace
            .send_ns
            .partition_point(|&time| time < until_ns)
            .max(start);
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
            sure: !seen.has_hole(una, recover.max(una) + recover - una),
            lost_sent_ns: self.sent_before(under_way),
            retransmitted: within,
            round_trip_sends: until - start,
            follows: true,
        }
    }

    /// Whether the third duplicate ACK from ACK `since` on lies as far before a send as silence would.
    fn is_long_since(&self, send: usize, since: usize) -> bool {
        let third = self.seen.dupack(since, DUP_THRESH.get());
        third.is_some_and(|ack| {
            (self.trace.send_ns[send] - self.trace.ack_ns[ack]) as f64 > self.silence
        })
    }

    /// When the data of a retransmission was last sent before.
    pub(super) fn sent_before(&self, send: usize) -> i64 {
        let rank = self
            .seen
            .again
            .partition_point(|&again| (again as usize) < send);
        let copy = self
            .repeats
            .get(rank)
            .copied()
            .flatten()
            .map_or(send, |copy| copy as usize);
        self.trace.send_ns[copy]
    }

    /// Whether the retransmission at this place of `again` repeats one not before send `since`.
    pub(super) fn is_repeated_since(&self, rank: usize, since: usize) -> bool {
        self.repeats[rank].is_some_and(|copy| copy as usize >= since)
    }

    /// The ACK that answers a send: the first to move `snd_una`, but not sooner than half a round trip.
    pub(super) fn answer(&self, send: usize) -> usize {
        let known = self.seen.acks_before_send[send] as usize;
        let moved = self.seen.acked_at(known, self.seen.una_at(send) + 1);
        let soonest_ns = self.trace.send_ns[send] + self.base / 2;
        moved.max(self.trace.ack_ns.partition_point(|&time| time < soonest_ns))
    }

    pub(super) fn ack_time(&self, ack: usize) -> i64 {
        self.trace.ack_ns.get(ack).copied().unwrap_or(self.end_ns)
    }

    /// Whether the ACK of everything released a window at once: a restarted sender has two segments to send then.
    fn goes_on(&self, answered: usize, recover: i64) -> bool {
        let Some(outstanding) = self.outstanding_after(answered) else {
            return false;
        };
        self.seen.snd_una[answered] >= recover
            && outstanding > AFTER_RESTART.get() * self.trace.smss
    }

    /// Whether nothing followed the ACK of everything for long: no data was left when the loss was repaired.
    ///
    /// A short segment may have waited for that ACK (RFC 9293 section 3.7.4), and is the end of what there was.
    fn ran_out(&self, known: usize, recover: i64) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let over = seen.acked_at(known, recover);
        let Some(&heard_ns) = trace.ack_ns.get(over) else {
            return false;
        };
        let next = trace.send_ns.partition_point(|&time| time < heard_ns);
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

    /// Whether a partial ACK released the next hole and nothing else: RFC 6582 section 3.2 (5), with no data left.
    ///
    /// A sender that has gone back to one segment sends two then; offload makes them one of their length.
    fn mends_one(&self, answered: usize, recover: i64) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let Some(&una) = seen.snd_una.get(answered).filter(|_| !trace.has_sack) else {
            return false;
        };
        let heard_ns = trace.ack_ns[answered];
        let before = trace.send_ns.partition_point(|&time| time < heard_ns);
        let sent = seen.sends_before_next_ack[answered] as usize;
        una + trace.smss < recover
            && sent == before + 1
            && seen.again_within(before, sent).len() == 1
            && trace.send_offset[before] == una
            && trace.send_end[before] - una <= trace.smss
    }

    /// Timeouts that were taken back, with those before them for which nothing had come either.
    fn take_back(&self, found: &mut [LossEvent]) {
        let mut bound = self.trace.send_ns.len();
        let mut next: Option<(i64, i64)> = None;
        for event in found.iter_mut().rev() {
            let is_timeout = event.restarts && event.detected_by == DetectedBy::Rto;
            let over_ns = match next.filter(|&(una, _)| una == event.una) {
                Some((_, over_ns)) => Some(over_ns),
                None => self.taken_back(event, bound),
            };
            next = None;
            if let Some(over_ns) = over_ns.filter(|_| is_timeout) {
                (event.restarts, event.detected_by) = (false, DetectedBy::Undone);
                event.end_ns = event.end_ns.min(over_ns);
                next = Some((event.una, over_ns));
            }
            bound = event.first_send;
        }
    }

    /// When the sender learnt that nothing was lost; `None`: it did not, or what it did then does not show it.
    ///
    /// From the first answer on it sends again nothing of what the timer took for lost, and as much new data as is
    /// acknowledged: half as much would be a window halved, and two segments one that was begun again.
    fn taken_back(&self, event: &LossEvent, bound: usize) -> Option<i64> {
        let (trace, seen) = (self.trace, self.seen);
        let known = seen.acks_before_send[event.first_send] as usize;
        let answered = seen.acked_at(known, event.una + 1);
        let (&una, &heard_ns) = (seen.snd_una.get(answered)?, trace.ack_ns.get(answered)?);
        let over = seen.acked_at(answered, event.recover);
        let sent_by = |ack: usize| {
            seen.sends_before_next_ack
                .get(ack)
                .map(|&sent| sent as usize)
        };
        let (from, until) = (
            trace.send_ns.partition_point(|&left| left < heard_ns),
            sent_by(over)?,
        );
        let is_whole = until <= bound
            && until > from
            && event.recover - una >= AFTER_RESTART.get() * trace.smss;
        let again = seen.again_within(event.first_send + 1, until);
        let is_again = seen.again[again]
            .iter()
            .any(|&send| trace.send_offset[send as usize] >= event.una);
        let sent = seen.snd_max[until.checked_sub(1)?] - seen.snd_max[from.checked_sub(1)?];
        let acked = seen.snd_una[over] - una;
        (is_whole && !is_again && sent as f64 >= TAKEN_BACK_SHARE.get() * acked as f64)
            .then_some(heard_ns)
    }

    /// Whether the receiver's window had no room for another segment from a retransmission to its answer.
    fn is_shut(&self, start: usize, answered: usize, recover: i64) -> bool {
        let known = (self.seen.acks_before_send[start] as usize).saturating_sub(1);
        let rows = known..answered.min(self.trace.ack_ns.len());
        let edge = rows.map(|ack| self.trace.ack_offset[ack] + self.trace.rwnd[ack]);
        edge.max()
            .is_some_and(|edge| recover + self.trace.smss > edge)
    }

    /// What was outstanding when all that an ACK released had been sent.
    pub(super) fn outstanding_after(&self, ack: usize) -> Option<i64> {
        let sent = *self.seen.sends_before_next_ack.get(ack)? as usize;
        let top = self.seen.snd_max.get(sent.checked_sub(1)?)?;
        Some(top - self.seen.snd_una[ack])
    }

    /// Whether the first answer released what a window of one segment gives, too little or too much for fast recovery.
    ///
    /// RFC 6582: a partial ACK asks for one segment, Tahoe sends two of those sent before. RFC 5681: after the last hole
    /// half the window goes on, Tahoe has two segments to send.
    fn goes_back(&self, answered: usize, recover: i64, flight: i64, is_blind: bool) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let Some(outstanding) = self.outstanding_after(answered) else {
            return false;
        };
        if trace.has_sack {
            return false;
        }
        let sent = seen.sends_before_next_ack[answered] as usize;
        if seen.snd_una[answered] < recover {
            let before = trace
                .send_ns
                .partition_point(|&time| time < trace.ack_ns[answered]);
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

fn detected_by(is_silent: bool, dupacks: usize, has_sack: bool, is_last: bool) -> DetectedBy {
    match (is_silent, is_last) {
        (true, true) => DetectedBy::Tlp,
        (true, false) => DetectedBy::Rto,
        (false, _) if has_sack => DetectedBy::Sack,
        (false, _) if dupacks >= DUP_THRESH.get() => DetectedBy::DupAck,
        (false, _) if dupacks > 0 => DetectedBy::Reordering,
        (false, _) => DetectedBy::Rto,
    }
}

/// Whether the window fell to one segment, and whether that is sure.
///
/// After a timeout one segment is sent and its answer awaited. In fast recovery each duplicate ACK beyond half the window
/// releases one segment more (RFC 5681 section 3.2 step 4; with SACK or PRR earlier), unless there were too few.
fn restarts(window: i64, sends: usize, dupacks: usize, is_silent: bool) -> (bool, bool) {
    if is_silent {
        return (sends <= 3, sends <= 1 || sends > 3);
    }
    let expected = dupacks as i64 - (window + 1).div_euclid(2);
    match sends {
        0 | 1 => (expected >= 4, expected >= 4),
        _ => (false, sends > 2),
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

/// Recoveries without a timer that are sure, and those of them that went back to one segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Votes {
    sure: usize,
    restarts: usize,
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
