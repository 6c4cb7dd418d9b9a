//! Which segments were lost, told from those that a restarted sender merely sent again.
//!
//! With SACK, and in NewReno's recovery, a sender retransmits holes only. After a restart it goes back over everything:
//! there a segment counts as lost when the cumulative ACK stopped in front of it, for an ACK jumps over what had
//! arrived. Errs low where a receiver delays ACKs while holes are being filled (RFC 5681 section 4.2 asks for an ACK at
//! once).

use std::ops::Range;

use super::answer_lost::AnswersLost;
use super::needless::{Copies, Empty, lost_needlessly};
use super::outrun::outrun;
use super::sent_again::{Covered, Twice, answered_before, packets_of};
use crate::infer::given::{AT_LEAST, DELAYED_ACK_SEGMENTS};
use crate::infer::sender::rows::echoed::outdated;
use crate::infer::sender::rows::rtt::RoundTrips;
use crate::infer::sender::rows::scoreboard::Scoreboard;
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::{ARRIVED, LOST_ON_WAY, LossEvent, Trace};

/// One lost segment, or one sent again needlessly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// When it was sent before.
    pub time_ns: i64,
    pub offset: i64,
    pub length: i64,
    /// The number of its loss event.
    pub event: usize,
    /// The answer shows that the segment, or an earlier copy, had arrived.
    pub is_spurious: bool,
}

impl Lost {
    /// Whether another is the next packet of one super-segment, with the same fate.
    fn goes_on_in(&self, next: &Self) -> bool {
        let after = Self {
            offset: self.offset + self.length,
            length: next.length,
            ..*self
        };
        after == *next
    }
}

/// Lost segments in order of their retransmissions.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    pub rows: Vec<Lost>,
    /// Segments sent again by a restarted sender without SACK whose answer may be that of either copy: a hole that is
    /// filled before an ACK stands in front of it cannot be told from none. So many more may have been lost.
    pub possible: usize,
}

pub fn lost(
    trace: &Trace,
    seen: &Sequence,
    repeats: &[Option<u32>],
    events: &[LossEvent],
    board: &Scoreboard,
    rtt: &RoundTrips,
) -> Losses {
    let mut found = Losses::default();
    if events.is_empty() {
        return found;
    }
    let twice = Twice::new(trace, seen);
    let again = Covered::new(
        seen.again
            .iter()
            .map(|&send| {
                (
                    trace.send_offset[send as usize],
                    trace.send_end[send as usize],
                )
            })
            .collect(),
    );
    let judge = Judge {
        trace,
        seen,
        twice,
        answers_lost: AnswersLost::new(rtt.base_ns),
        again,
        untold: Covered::new(board.untold(trace)),
        outdated: outdated(trace, seen),
        board,
        sack_high: highest(trace.sack_high),
        base_rtt_ns: rtt.base_ns,
        longest_rtt_ns: rtt.longest_ns,
        last_una: seen.snd_una.last().copied().unwrap_or(0),
    };
    let outrun = outrun(trace, seen, repeats, events, board, rtt.base_ns);
    let needless = lost_needlessly(trace, repeats, judge.last_una);
    let empty = Empty::new(trace, seen);
    for (number, event) in events.iter().enumerate() {
        let bound = events
            .get(number + 1)
            .map_or(trace.send_ns.len(), |event| event.first_send);
        let mut own = judge.event((number, event), bound, repeats, &outrun);
        let within = |send: usize| needless.partition_point(|&each| each < send);
        for &send in &needless[within(event.first_send)..within(bound)] {
            let row = Lost {
                time_ns: trace.send_ns[send],
                offset: trace.send_offset[send],
                length: trace.send_end[send] - trace.send_offset[send],
                event: number,
                is_spurious: false,
            };
            own.rows.push((row, send, true));
        }
        // A sender that sends needlessly may have done so with what the capture's end leaves without an answer.
        if own.rows.iter().any(|(row, ..)| row.is_spurious) {
            let before = own.rows.len();
            own.rows.retain(|&(.., is_answered)| is_answered);
            found.possible += before - own.rows.len();
        }
        found.possible += own.possible + judge.unanswered(&own.copies, &empty);
        found.add(&own.rows);
    }
    found
}

impl Losses {
    /// Rows with their sends: packets of one send with one fate are one row.
    fn add(&mut self, rows: &[(Lost, usize, bool)]) {
        let mut before = None;
        for &(row, send, _) in rows {
            match self.rows.last_mut() {
                Some(last) if before == Some(send) && last.goes_on_in(&row) => {
                    last.length += row.length;
                }
                _ => self.rows.push(row),
            }
            before = Some(send);
        }
    }
}

/// What one loss event sent again.
#[derive(Default)]
struct OfEvent {
    /// Each with its send, and whether an answer to it came.
    rows: Vec<(Lost, usize, bool)>,
    possible: usize,
    copies: Copies,
}

/// The highest byte SACKed up to each ACK: with room for the latest blocks only, one lists those of repairs instead.
fn highest(sack_high: &[i64]) -> Vec<i64> {
    let mut so_far = i64::MIN;
    sack_high
        .iter()
        .map(|&high| {
            so_far = so_far.max(high);
            so_far
        })
        .collect()
}

/// What a tap away from the sender knows of the copy that was sent again: whether it passed.
fn told_by_tap(trace: &Trace, event: &LossEvent, copy: usize) -> Option<State> {
    match trace.fate.get(copy) {
        Some(&LOST_ON_WAY) => Some(State::Lost { is_answered: true }),
        // A restarted sender goes back over everything.
        Some(&ARRIVED) if event.restarts => Some(State::Arrived),
        Some(&ARRIVED) => Some(State::Spurious),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Lost {
        is_answered: bool,
    },
    Spurious,
    /// Either copy may have been answered.
    Possible,
    /// Gone over by a restarted sender.
    Arrived,
}

struct Judge<'a> {
    trace: &'a Trace<'a>,
    seen: &'a Sequence,
    twice: Twice,
    answers_lost: AnswersLost,
    again: Covered,
    untold: Covered,
    outdated: Vec<usize>,
    board: &'a Scoreboard,
    sack_high: Vec<i64>,
    base_rtt_ns: i64,
    longest_rtt_ns: i64,
    last_una: i64,
}

impl Judge<'_> {
    /// What became of everything that an event sent again, up to send `bound`.
    fn event(
        &self,
        (number, event): (usize, &LossEvent),
        bound: usize,
        repeats: &[Option<u32>],
        outrun: &[bool],
    ) -> OfEvent {
        let (trace, seen) = (self.trace, self.seen);
        let heard = |send: usize| {
            seen.acks_before_send
                .get(send)
                .map_or(trace.ack_ns.len(), |&acks| acks as usize)
        };
        let first = heard(event.first_send).saturating_sub(1);
        let stood = &seen.snd_una[first..heard(bound).max(first + 1)];
        let mut own = OfEvent::default();
        for rank in seen.again_within(event.first_send, bound) {
            let send = seen.again[rank] as usize;
            let copy = repeats[rank].map_or(send, |copy| copy as usize);
            // What was merged with the data that followed it is not all there a second time.
            let top = seen.snd_max[send.saturating_sub(1)];
            let again = packets_of(trace, send).take_while(|packet| packet.start < top);
            let goes_back = event.restarts && outrun.get(rank) != Some(&true);
            for packet in again {
                let state = told_by_tap(trace, event, copy).unwrap_or_else(|| {
                    self.packet(event, (send, copy), &packet, (first, goes_back), stood)
                });
                if matches!(state, State::Spurious | State::Arrived)
                    && trace.fate.is_empty()
                    && !self.twice.reports(send, packet.start, packet.end)
                {
                    own.copies.add(trace.send_ns[send]);
                }
                let (is_spurious, is_answered) = match state {
                    State::Lost { is_answered } => (false, is_answered),
                    State::Spurious => (true, true),
                    State::Possible => {
                        own.possible += 1;
                        continue;
                    }
                    State::Arrived => continue,
                };
                let row = Lost {
                    time_ns: trace.send_ns[copy],
                    offset: packet.start,
                    length: packet.end - packet.start,
                    event: number,
                    is_spurious,
                };
                own.rows.push((row, send, is_answered));
            }
        }
        own
    }

    /// What became of a packet that was sent again. `sends`: of this copy, and of the one before; `first`: the ACK known
    /// when its event began; `goes_back`: over what may have arrived; `stood`: what was acknowledged from then on.
    fn packet(
        &self,
        event: &LossEvent,
        (send, copy): (usize, usize),
        packet: &Range<i64>,
        (first, goes_back): (usize, bool),
        stood: &[i64],
    ) -> State {
        let (trace, seen, sent_ns) = (self.trace, self.seen, self.trace.send_ns[send]);
        let (offset, end) = (packet.start, packet.end);
        // RFC 3522: the echo tells which copy was answered.
        if offset == trace.send_offset[send] && self.outdated.binary_search(&send).is_ok() {
            return State::Spurious;
        }
        let is_one = trace.send_end[send] - trace.send_offset[send] <= trace.smss;
        let took = |ack: usize| Some(trace.ack_ns.get(ack)? - sent_ns);
        let (answer, told) = (
            seen.acked_at(first, end),
            self.board.since(offset, end, &mut 0),
        );
        // Sooner than any round trip that was measured, not than any that there may be: either copy's.
        let is_sooner = |ack: usize| {
            took(ack).is_some_and(|ns| (ns as f64) < AT_LEAST.get() * self.base_rtt_ns as f64)
        };
        if goes_back && offset != event.una && stood.binary_search(&offset).is_err() {
            let may_answer = took(answer).is_none_or(|ns| ns >= self.base_rtt_ns / 2);
            // No ACK may have come to stand there before the capture's end.
            let is_answered = took(answer).is_some() || told.is_some();
            if may_answer && !(trace.has_sack && is_one && is_answered) {
                return State::Possible;
            }
            return if !may_answer || told.is_some() || !self.is_unheld(send, answer, packet) {
                State::Arrived
            } else if is_sooner(answer) {
                State::Possible
            } else {
                State::Lost { is_answered: true }
            };
        }
        if trace.hides_blocks && stood.binary_search(&offset).is_err() {
            // It may have arrived, and the sender not have heard of it.
            return State::Possible;
        }
        // RFC 3522 by time alone: an answer sooner than any round trip is the first copy's. That of the first byte
        // tells where a short segment and new data behind it went together.
        let is_early = |ack: usize| took(ack).is_some_and(|ns| ns < self.base_rtt_ns / 2);
        let is_open = event.restarts && !trace.has_sack && offset != event.una;
        if is_open && !is_early(answer) && is_sooner(answer) {
            return State::Possible;
        }
        let is_answered = answer < trace.ack_ns.len() || told.is_some();
        let is_spurious = told.is_some_and(is_early)
            || is_early(seen.acked_at(first, offset + 1))
            || is_early(answer)
            || (answer < trace.ack_ns.len()
                && answered_before(
                    trace,
                    seen,
                    &self.again,
                    send,
                    seen.snd_una[answer],
                    self.last_una,
                ))
            // RFC 3708: what a D-SACK reports had arrived before it was sent again (or both copies did).
            || self.twice.reports(send, offset, end);
        let heard = told.map_or(answer, |ack| ack.min(answer));
        // So is what is answered so soon after a timer sent it: if not this copy's it is the one's before, however late,
        // for nothing is measured in the recovery that this came from (Karn).
        let is_hasty = event.restarts && copy != send && is_sooner(answer);
        // Nor does a timer tell of a repair that others have not outrun, and whose own answer this may be.
        let may_be_repaired = goes_back
            && offset != event.una
            && seen.again.binary_search(&(copy as u32)).is_ok()
            && self.may_answer(heard, copy);
        if is_spurious {
            State::Spurious
        } else if is_hasty
            || may_be_repaired
            || self.is_unasked(heard, (send, copy))
            || self
                .answers_lost
                .may_be((trace, seen, &self.again), event, answer, (send, copy))
            || (offset != event.una
                && (self.untold.by_one(offset, end) || self.is_untold(heard, packet, (send, copy))))
        {
            State::Possible
        } else {
            State::Lost { is_answered }
        }
    }

    /// How many copies of what had arrived no ACK answers, as far as the trace goes on for as long as an answer may take.
    fn unanswered(&self, copies: &Copies, empty: &Empty) -> usize {
        let until_ns = copies.last_ns.saturating_add(self.longest_rtt_ns);
        if copies.count == 0 || self.trace.ack_ns.last().is_none_or(|&last| last < until_ns) {
            return 0;
        }
        let answers = empty.between(copies.first_ns + self.base_rtt_ns / 2, until_ns);
        copies.count.saturating_sub(answers)
    }

    /// Whether a receiver that had held what an ACK jumps over would have told of it in a block (RFC 2018 section 4): the
    /// ACK waited for the second of two segments (RFC 9293 section 3.8.6.3), as it may where nothing is held above.
    fn is_unheld(&self, send: usize, answer: usize, packet: &Range<i64>) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let jumped = answer
            .checked_sub(1)
            .map(|before| seen.snd_una[answer] - seen.snd_una[before]);
        !trace.hides_blocks
            && jumped.is_some_and(|bytes| bytes <= DELAYED_ACK_SEGMENTS.get() * trace.smss)
            && !self.twice.reports(send, packet.start, packet.end)
    }

    /// Whether the copy before was sent so short a time ago that no answer can have told of its loss, and its own came.
    fn is_unasked(&self, answer: usize, (send, copy): (usize, usize)) -> bool {
        let since_ns = self.trace.send_ns[send] - self.trace.send_ns[copy];
        copy != send && since_ns < self.base_rtt_ns / 2 && self.may_answer(answer, copy)
    }

    /// Whether an ACK came as soon after a copy as the answers to others, or the capture ended as soon.
    fn may_answer(&self, answer: usize, copy: usize) -> bool {
        let trace = self.trace;
        let last = || trace.ack_ns.last().max(trace.send_ns.last());
        let heard_ns = trace.ack_ns.get(answer).or_else(last);
        heard_ns.is_some_and(|ns| ns - trace.send_ns[copy] <= self.longest_rtt_ns)
    }

    /// Whether nothing tells which of two copies an ACK answers: no duplicate ACK and no SACK block ever told of a hole
    /// there (RFC 2018 section 4), and the first copy's answer may have come as late as that (a rescue retransmission, RFC
    /// 6675 section 4; a timer that went back over what was on its way), or have waited for the copy that left next.
    fn is_untold(&self, answer: usize, packet: &Range<i64>, (send, copy): (usize, usize)) -> bool {
        let (trace, seen, end) = (self.trace, self.seen, packet.end);
        let Some(before) = answer.checked_sub(1) else {
            return false;
        };
        trace.has_sack
            && !trace.hides_blocks
            && self.sack_high.get(before).is_none_or(|&high| high <= end)
            && seen.dupacks(seen.first_acked(answer, packet.start), answer) == 0
            && (copy + 1 == send || self.may_answer(answer, copy))
    }
}
