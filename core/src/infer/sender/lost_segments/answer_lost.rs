//! Copies that a timer sent where the answer to the one before may be what got lost, and not that one.
//!
//! Where nothing left between two copies, or one segment that nothing answers either, nothing that arrived behind the
//! first of them tells of a hole: its answer is all that there was to hear. Errs to "heard" where a receiver leaves out as
//! many ACKs as are lost.

use std::cell::OnceCell;

use super::sent_again::Covered;
use crate::infer::given::{DELAYED_ACK_SEGMENTS, FEWEST_SAMPLES};
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::{LossEvent, Trace};
use crate::recovery::DetectedBy;

/// What a trace shows of ACKs that got lost.
pub(super) struct AnswersLost {
    /// Few ask, and it takes all ACKs.
    behind_lost_acks: OnceCell<usize>,
    /// The least round trip: sooner nothing is answered.
    base_ns: i64,
}

impl AnswersLost {
    pub(super) fn new(base_ns: i64) -> Self {
        Self {
            behind_lost_acks: OnceCell::new(),
            base_ns,
        }
    }

    /// Whether the answer to the copy before may be what got lost: a timer tells of neither, and nothing that left behind
    /// that copy of the hole. A D-SACK that tells of it (RFC 2883) would have been lost too, where any is told. `again`:
    /// all that was sent again.
    pub(super) fn may_be(
        &self,
        (trace, seen, again): (&Trace, &Sequence, &Covered),
        event: &LossEvent,
        answer: usize,
        (send, copy): (usize, usize),
    ) -> bool {
        let is_probe = event.detected_by == DetectedBy::Tlp;
        let is_alone = copy + 1 == send || self.is_beside_one(trace, seen, (send, copy));
        if !is_alone || !(event.restarts || is_probe) || !trace.fate.is_empty() {
            return false;
        }
        if answer >= trace.ack_ns.len() {
            // RFC 8985 section 7: a probe is sent before a timer tells of anything.
            return is_probe;
        }
        if trace.has_sack && is_answered_by_later(trace, seen, send, answer) {
            return true;
        }
        // A repair that left alone met no queue that it could overflow: there one lost ACK is as likely as another.
        let is_repair = seen.again.binary_search(&(copy as u32)).is_ok();
        let fewest = if is_repair { 1 } else { FEWEST_SAMPLES.get() };
        let behind = || behind_lost_acks(trace, seen, again);
        trace.dsacks.is_empty() && *self.behind_lost_acks.get_or_init(behind) >= fewest
    }

    /// Whether beside the copy, which fills a hole, one new segment left, as a partial ACK lets go (RFC 6582 section 3.2
    /// (3)), and nothing came that may answer either: as much got lost behind as before the receiver.
    fn is_beside_one(&self, trace: &Trace, seen: &Sequence, (send, copy): (usize, usize)) -> bool {
        let is_again = |send: usize| seen.again.binary_search(&(send as u32)).is_ok();
        if copy + 2 != send || trace.has_sack || !is_again(copy) || is_again(copy + 1) {
            return false;
        }
        let soonest_ns = trace.send_ns[copy] + self.base_ns;
        let heard = trace.ack_ns.partition_point(|&time| time < soonest_ns);
        heard >= seen.acks_before_send[send] as usize
    }
}

/// How many ACKs show that the one before got lost: most tell of no more segments than RFC 9293 section 3.8.6.3 leaves for
/// one, and these, of what was sent once, of more. A receiver that merges segments (receive offload) has another habit.
fn behind_lost_acks(trace: &Trace, seen: &Sequence, again: &Covered) -> usize {
    let most = DELAYED_ACK_SEGMENTS.get() * trace.smss;
    let is_plain =
        |&ack: &usize| !seen.is_dup(ack - 1) && !again.reaches_beyond(seen.snd_una[ack - 1]);
    let (mut long, mut short) = (0usize, 0usize);
    for ack in (1..trace.ack_ns.len()).filter(is_plain) {
        match seen.newly_acked(ack) {
            ..=0 => {}
            bytes if bytes > most => long += 1,
            _ => short += 1,
        }
    }
    if long < short { long } else { 0 }
}

/// Whether the ACK that passes a copy answers what was sent after it: of that an ACK of the copy itself can hold no more
/// than the segments beside it for which one ACK is left.
fn is_answered_by_later(trace: &Trace, seen: &Sequence, send: usize, answer: usize) -> bool {
    let most = (DELAYED_ACK_SEGMENTS.get() - 1) * trace.smss;
    seen.snd_una
        .get(answer)
        .is_some_and(|&una| una - seen.snd_max[send] > most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six segments, the second of them sent again, and two ACKs: up to where the second reaches.
    fn of_answers<T>(last: i64, ask: impl Fn(&Trace, &Sequence) -> T) -> T {
        let trace = Trace {
            send_ns: &[0, 1, 50, 60, 61, 62],
            send_offset: &[0, 1000, 1000, 2000, 3000, 4000],
            send_end: &[1000, 2000, 2000, 3000, 4000, 5000],
            ack_ns: &[10, 15, 20, 80],
            ack_offset: &[300, 600, 1000, last],
            rwnd: &[0; 4],
            is_bare: &[true; 4],
            sack_high: &[0; 4],
            sacked: &[0; 4],
            smss: 1000,
            ..Trace::default()
        };
        let seen = Sequence::new(&trace);
        ask(&trace, &seen)
    }

    #[test]
    fn what_later_segments_are_answered_for_is_no_answer_to_the_copy() {
        for (last, is_later) in [(5000, true), (3000, false)] {
            assert_eq!(
                of_answers(last, |trace, seen| is_answered_by_later(trace, seen, 2, 3)),
                is_later
            );
        }
    }

    #[test]
    fn an_ack_of_more_than_two_segments_sent_once_lies_behind_a_lost_one() {
        let behind = |again: &[(i64, i64)], last| {
            let again = Covered::new(again.to_vec());
            of_answers(last, |trace, seen| behind_lost_acks(trace, seen, &again))
        };
        assert_eq!(behind(&[], 5000), 1);
        assert_eq!(behind(&[], 3000), 0);
        // Where it fills a hole it may pass more.
        assert_eq!(behind(&[(1000, 2000)], 5000), 0);
    }
}
