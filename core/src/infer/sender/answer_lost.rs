//! Copies that a timer sent where the answer to the one before may be what got lost, and not that one.
//!
//! Where nothing left between two copies, nothing that arrived behind the first of them tells of a hole: its answer is all
//! that there was to hear. Errs to "heard" where a receiver leaves out as many ACKs as are lost.

use super::sent_again::Covered;
use super::sequence::Sequence;
use super::trace::Trace;
use crate::infer::given::DELAYED_ACK_SEGMENTS;

/// How many ACKs show that the one before got lost: most tell of no more segments than RFC 9293 section 3.8.6.3 leaves for
/// one, and these, of what was sent once, of more. A receiver that merges segments (receive offload) has another habit.
pub(super) fn behind_lost_acks(trace: &Trace, seen: &Sequence, again: &Covered) -> usize {
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
pub(super) fn is_answered_by_later(
    trace: &Trace,
    seen: &Sequence,
    send: usize,
    answer: usize,
) -> bool {
    let most = (DELAYED_ACK_SEGMENTS.get() - 1) * trace.smss;
    seen.snd_una
        .get(answer)
        .is_some_and(|&una| una - seen.snd_max[send] > most)
}
