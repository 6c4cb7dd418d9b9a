//! Where loss events begin: a first retransmission, a timer that expires within an event, or the ACK that ends an event
//! while more is known to be lost.

use std::collections::BTreeSet;

use super::finder::Finder;
use super::restarts::AFTER_RESTART;
use crate::infer::given::{AT_LEAST, FEWEST_SAMPLES, HOST_NS};
use crate::infer::ordered::from;
use crate::infer::sender::rows::trace::LossEvent;
use crate::recovery::{DUP_THRESH, DetectedBy, LEAST_RTO_NS};
use crate::threshold::threshold;

// The mildest reduction takes an eighth of the window (Scalable, YeAH, Illinois): what has fallen by half of that was cut.
threshold!(CUT_SHARE: f64 = 1.0 / 16.0, Share);

/// A send with which an event begins: a retransmission, or the first send behind the ACK that ended the event before.
#[derive(Clone, Copy)]
pub(super) struct Start {
    pub send: usize,
    /// The retransmission, within the event before, of what this one asks for.
    pub under_way: Option<usize>,
}

impl Finder<'_> {
    /// The sends at which events begin.
    pub(super) fn starts(&self, forced: &BTreeSet<usize>, cuts_again: bool) -> Vec<Start> {
        let (trace, seen) = (self.trace, self.seen);
        let mut starts: Vec<Start> = Vec::new();
        let (mut recover, mut last_ns) = (i64::MIN, 0);
        let follow = |starts: &mut Vec<Start>, recover: &mut i64, bound| {
            while let Some(start) = starts
                .last()
                .filter(|_| cuts_again)
                .and_then(|before| self.following(before.send, *recover, bound))
            {
                starts.push(start);
                *recover = seen.snd_max[start.send - 1];
            }
        };
        let mut before = None;
        for &send in &seen.again {
            let send = send as usize;
            let goes_on = before
                .replace(send)
                .is_some_and(|before| self.goes_further_back(before, send));
            follow(&mut starts, &mut recover, send);
            let una = seen.una_at(send);
            // RFC 6298 section 5: the timer fired within the event.
            let expires = || {
                self.is_silent(send)
                    && trace.send_offset[send] <= una
                    && trace.send_ns[send] > last_ns
            };
            if una >= recover && (goes_on || self.comes_late(send, recover)) {
                continue;
            }
            if una >= recover && self.ends_late(send, recover) {
                recover = trace.send_end[send];
            } else if una >= recover || forced.contains(&send) || expires() {
                let under_way = None;
                starts.push(Start { send, under_way });
                recover = seen.snd_max[send - 1];
                last_ns = trace.send_ns[send];
            }
        }
        follow(&mut starts, &mut recover, trace.send_ns.len());
        starts
    }

    /// An event that begins with the ACK that ends the one before: what that ACK asks for was found lost, and sent again,
    /// within it (RFC 6675 section 5 (2); Linux). Not one whose first send is `bound` or behind it.
    fn following(&self, begun: usize, recover: i64, bound: usize) -> Option<Start> {
        let (trace, seen) = (self.trace, self.seen);
        let over = seen.first_acked(seen.acks_before_send[begun] as usize, recover);
        trace.sacked.get(over).filter(|&&sacked| sacked > 0)?;
        let known = |&acks: &u32| acks as usize <= over;
        let send = seen.acks_before_send.partition_point(known);
        if send >= bound {
            return None;
        }
        let una = seen.snd_una[over];
        let again = seen.again[seen.again_within(begun, send)].iter();
        let under_way = again
            .map(|&again| again as usize)
            .find(|&again| (trace.send_offset[again]..trace.send_end[again]).contains(&una));
        under_way.map(|_| Start { send, under_way })
    }

    /// Whether the window falls in most of the events that begin as another ends, where that is seen; or is never seen.
    pub(super) fn cuts_again(&self, found: &[LossEvent]) -> bool {
        let votes = self.bounded(found).filter(|(event, _)| event.follows);
        let (falls, stays): (Vec<bool>, Vec<bool>) = votes
            .filter_map(|(event, bound)| {
                let first =
                    (self.seen.acks_before_send[event.first_send] as usize).checked_sub(1)?;
                let over = self.seen.acked_at(first, event.recover);
                let is_whole = self.trace.sacked.get(over) == Some(&0)
                    && self.ack_time(over)
                        <= self.trace.send_ns.get(bound).map_or(i64::MAX, |&next| next);
                let before = self.outstanding_after(first)? - self.trace.sacked[first];
                let after = self.outstanding_after(over).filter(|_| is_whole)?;
                // Where as much is open as was outstanding neither is seen.
                let is_open = |ack| {
                    self.trace
                        .slack
                        .get(ack)
                        .is_some_and(|&open| open >= before)
                };
                let falls = (before - after) as f64 >= CUT_SHARE.get() * before as f64;
                (!is_open(first) && !is_open(over)).then_some(falls)
            })
            .partition(|&falls| falls);
        falls.len() >= stays.len()
    }

    /// Whether a retransmission without SACK goes on where the one before it ended, above `snd_una`: with what a timer went
    /// back over, also beyond what was outstanding as it expired (RFC 5682: new data was sent to see whether it was
    /// spurious). A loss asks for the segment at `snd_una` (RFC 5681, 6298).
    fn goes_further_back(&self, before: usize, send: usize) -> bool {
        let trace = self.trace;
        !trace.has_sack
            && trace.send_offset[send] == trace.send_end[before]
            && trace.send_offset[send] > self.seen.una_at(send)
            && !self.is_silent(send)
    }

    /// Whether a recovery goes on at the ACK that seems to end it: nothing but a partial ACK asks for a segment at once.
    ///
    /// What was last sent before the recovery was not captured then, or its place is open.
    fn ends_late(&self, send: usize, recover: i64) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let known = seen.acks_before_send[send] as usize;
        let Some(moved) = seen.last_moved(known) else {
            return false;
        };
        let before = moved
            .checked_sub(1)
            .map_or(i64::MIN, |ack| seen.snd_una[ack]);
        before < recover
            && trace.sacked[moved] == 0
            && trace.send_offset[send] == seen.snd_una[moved]
            // Cut or overwritten options hide which of the ACKs behind it are duplicates.
            && known == moved + 1
            && !self.is_silent(send)
            && !self.is_outrun(send, moved)
    }

    /// Whether an ACK that moves covers what was sent again behind the copy before: with SACK that tells that the copy is
    /// lost, whether a recovery goes on or not (RFC 8985 section 5).
    pub(super) fn is_outrun(&self, send: usize, moved: usize) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let Some(copy) = self.copy_before(send).filter(|_| trace.has_sack) else {
            return false;
        };
        let since = moved
            .checked_sub(1)
            .map_or(i64::MIN, |ack| seen.snd_una[ack]);
        seen.again_within(copy + 1, send).any(|rank| {
            let again = seen.again[rank] as usize;
            trace.send_offset[again] >= since && trace.send_end[again] <= seen.snd_una[moved]
        })
    }

    /// Whether a retransmission repairs what the event before began with, as the ACK of all that passes: its sender had not
    /// heard of that, and no timer expires in the middle of a repair. Where times were inferred it shows that they err.
    fn comes_late(&self, send: usize, recover: i64) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let known = seen.acks_before_send[send] as usize;
        let over_ns = self.ack_time(seen.first_acked(known, recover));
        trace.fate.is_empty()
            && trace.send_end[send] <= recover
            && trace.send_ns[send] - over_ns <= HOST_NS.get()
    }

    /// Sends of the segment at `snd_una` a second time: the retransmission was lost too, and the timer expired. So it was
    /// where duplicate ACKs had asked for the segment long before, and it is sent again for the first time.
    ///
    /// A timer may expire while duplicate ACKs still come (RFC 6298 section 5.3 restarts it for new data only). With
    /// SACK a sender may notice by itself (RFC 8985 section 5) and go on: then more than one segment is sent in the
    /// round trip.
    pub(super) fn steps_back(&self, event: &LossEvent, bound: usize) -> Vec<usize> {
        let (trace, seen) = (self.trace, self.seen);
        let repeated = seen
            .again_within(event.first_send, bound + 1)
            .filter(|&rank| {
                let send = seen.again[rank] as usize;
                trace.send_ns[send] <= event.end_ns
                    && (self.is_repeated_since(rank, event.first_send)
                        || self.is_sent_late(event, send))
                    && trace.send_offset[send] <= seen.una_at(send)
                    && !self.is_told_lost_again(rank)
            });
        // With SACK two may be one recovery's.
        let few = match (trace.has_sack, event.restarts) {
            // RFC 5681, 6582: by duplicate or partial ACKs a segment is retransmitted once.
            (false, _) => usize::MAX,
            (true, true) => 1,
            (true, false) => 2,
        };
        let mut expired: Vec<usize> = Vec::new();
        for rank in repeated {
            let send = seen.again[rank] as usize;
            // Once the timer has expired the sender goes through what is lost from its window of one segment on: only
            // what has been sent again since then, and is sent once more, is a second expiry. Without SACK it may have
            // sent again what had arrived: then silence tells as well.
            let goes_on = expired
                .last()
                .is_some_and(|&last| !self.is_repeated_since(rank, last))
                && (trace.has_sack || !self.is_silent(send));
            let is_alone = || self.sends_until_answer(send) <= few;
            let expires =
                || is_alone() || self.goes_over_repairs(rank, event) || self.falls_silent(send);
            if !goes_on && self.can_have_expired(send) && expires() {
                expired.push(send);
            }
        }
        expired
    }

    /// Whether the timer may be over as a segment is sent again among ACKs with blocks: with SACK less than the least one
    /// tells of a copy that was lost by itself (RFC 8985 section 5).
    fn can_have_expired(&self, send: usize) -> bool {
        let known = self.seen.acks_before_send[send] as usize;
        let begun_ns = self
            .seen
            .last_moved(known)
            .map(|ack| self.trace.ack_ns[ack]);
        !self.trace.has_sack
            || self.is_silent(send)
            || begun_ns.is_none_or(|begun_ns| {
                (self.trace.send_ns[send] - begun_ns) as f64
                    >= AT_LEAST.get() * LEAST_RTO_NS.get() as f64
            })
    }

    /// Whether the copy before is answered sooner than this one can be, and nothing leaves behind it for many ACKs, where
    /// as many had let segments go before: the timer was too short, and has set the window to one segment.
    fn falls_silent(&self, send: usize) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let heard = |send: usize| seen.acks_before_send[send] as usize;
        let Some(next) = Some(send + 1).filter(|&next| next < trace.send_ns.len()) else {
            return false;
        };
        let (known, until) = (heard(send), heard(next));
        let moved = seen.acked_at(known, seen.una_at(send) + 1);
        let acks = until - known;
        let first = seen.acks_before_send[..send]
            .partition_point(|&earlier| earlier as usize + acks <= known);
        let before = (send - first) as i64;
        trace.has_sack
            && moved < until
            && trace.ack_ns[moved] - trace.send_ns[send] < self.base / 2
            && acks >= FEWEST_SAMPLES.get()
            && before >= AFTER_RESTART.get()
    }

    /// Whether a repair of the copy before moves `snd_una` so soon after a send that it cannot be this one's answer, and the
    /// sender goes on with what it had repaired as well, of which nothing has told that it was lost again: its timer was
    /// too short.
    fn goes_over_repairs(&self, rank: usize, event: &LossEvent) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let send = seen.again[rank] as usize;
        let known = seen.acks_before_send[send] as usize;
        let moved = seen.acked_at(known, seen.una_at(send) + 1);
        let until = from(trace.send_ns, send, |time| time < self.ack_time(moved));
        let (Some(&next), Some(&una)) = (seen.again.get(rank + 1), seen.snd_una.get(moved)) else {
            return false;
        };
        until == send + 1
            && next as usize == until
            && trace.send_offset[until] == una
            && self.is_repeated_since(rank + 1, event.first_send)
            && !self.is_told_lost_again(rank + 1)
    }

    /// Whether a retransmission, alone until it is answered, is too late for a recovery without SACK: RFC 6582 sends it at
    /// the partial ACK, and no duplicate ACK within the recovery asks for one.
    fn is_sent_late(&self, event: &LossEvent, send: usize) -> bool {
        let known = self.seen.acks_before_send[send] as usize;
        let since = self.seen.last_moved(known).map_or(0, |moved| moved + 1);
        !self.trace.has_sack
            && !event.restarts
            && send > event.first_send
            && self.is_long_since(send, since)
            && self.sends_until_answer(send) <= 1
    }

    /// Whether a timer sends a segment for the first time again while duplicate ACKs of it still come. Without SACK the
    /// third asks for it at once, or, of all that had been sent when the recovery before began, none does (RFC 6582
    /// section 3.2 (2)); a sender that sent on meanwhile had not stood still.
    pub(super) fn expires_among_duplicates(&self, send: usize, since: usize) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let heard = (seen.acks_before_send[send] as usize).checked_sub(1);
        let third = seen.dupack(since, DUP_THRESH as usize);
        let (Some(third), Some(heard), Some(before)) = (third, heard, send.checked_sub(1)) else {
            return false;
        };
        let now_ns = trace.send_ns[send];
        !trace.has_sack
            && trace.fate.is_empty()
            && now_ns - trace.ack_ns[heard] > HOST_NS.get()
            && trace.send_ns[before] - trace.ack_ns[third] > HOST_NS.get()
            && (now_ns - trace.ack_ns[third]) as f64 >= AT_LEAST.get() * LEAST_RTO_NS.get() as f64
    }

    /// Whether a silent retransmission only goes on with what came before: its segment had not been sent again yet, nor
    /// had one above it, as holes are mended from the lowest up (RFC 6675 `NextSeg`).
    ///
    /// With a restart, or with a recovery that is not over and after which the window is not one segment (RFC 6582: a
    /// partial ACK may come late).
    pub(super) fn carries_on(&self, before: &LossEvent, event: &LossEvent) -> bool {
        let rank = self.seen.again_before(event.first_send);
        let is_probe = [before, event].map(|each| each.detected_by == DetectedBy::Tlp);
        (before.restarts || !(event.restarts || is_probe[0] || is_probe[1]))
            && event.una < before.recover
            && !self.is_repeated_since(rank, before.first_send)
            && !(before.restarts
                && (self.is_passed_since(rank, before.first_send)
                    || self.is_muted(before.recover, event.first_send)))
    }

    /// Whether new data was the last that left, and nothing answered it for as long as a timer waits: a restarted sender
    /// had sent it to see whether its timeout was spurious (RFC 5682 section 2.1), and only the timer goes on then.
    fn is_muted(&self, recover: i64, send: usize) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let heard = (seen.acks_before_send[send] as usize).checked_sub(1);
        let (Some(last), Some(heard)) = (send.checked_sub(1), heard) else {
            return false;
        };
        let since_ns = trace.send_ns[last].max(trace.ack_ns[heard]);
        trace.fate.is_empty()
            && trace.send_offset[last] >= recover
            && trace.send_ns[send] - since_ns >= LEAST_RTO_NS.get()
    }

    /// Whether something above a retransmission had been sent again before it, from a send on.
    fn is_passed_since(&self, rank: usize, since: usize) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let offset = |rank: usize| trace.send_offset[seen.again[rank] as usize];
        (seen.again_before(since)..rank).any(|before| offset(before) > offset(rank))
    }

    /// Segments sent from one on, until it is answered.
    fn sends_until_answer(&self, send: usize) -> usize {
        let until_ns = self.ack_time(self.answer(send));
        let until = from(self.trace.send_ns, send, |time| time < until_ns);
        until.saturating_sub(send)
    }
}
