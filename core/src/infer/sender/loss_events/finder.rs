//! What is asked again and again of a sender's sends while loss events are looked for.

use crate::infer::given::AT_LEAST;
use crate::infer::ordered::from;
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::{LossEvent, Trace};
use crate::recovery::LEAST_RTO_NS;

pub(super) struct Finder<'a> {
    pub trace: &'a Trace<'a>,
    pub seen: &'a Sequence,
    pub repeats: &'a [Option<u32>],
    pub base: i64,
    pub silence: f64,
    pub end_ns: i64,
}

impl Finder<'_> {
    /// Each event with the send at which the next begins.
    pub fn bounded<'b>(
        &'b self,
        found: &'b [LossEvent],
    ) -> impl Iterator<Item = (&'b LossEvent, usize)> + 'b {
        let bounds = found.iter().skip(1).map(|event| event.first_send);
        found.iter().zip(bounds.chain([self.trace.send_ns.len()]))
    }

    /// When the data of a retransmission was last sent before.
    pub fn sent_before(&self, send: usize) -> i64 {
        self.trace.send_ns[self.copy_before(send).unwrap_or(send)]
    }

    /// The send that a retransmission repeats.
    pub fn copy_before(&self, send: usize) -> Option<usize> {
        let rank = self.seen.again_before(send);
        self.repeats.get(rank)?.map(|copy| copy as usize)
    }

    /// Whether the retransmission at this place of `again` repeats one not before send `since`.
    pub fn is_repeated_since(&self, rank: usize, since: usize) -> bool {
        self.repeats[rank].is_some_and(|copy| copy as usize >= since)
    }

    /// The ACK that answers a send: the first to move `snd_una`, but not sooner than half a round trip.
    pub fn answer(&self, send: usize) -> usize {
        let known = self.seen.acks_before_send[send] as usize;
        let moved = self.seen.acked_at(known, self.seen.una_at(send) + 1);
        let soonest_ns = self.trace.send_ns[send] + self.base / 2;
        moved.max(from(self.trace.ack_ns, known, |time| time < soonest_ns))
    }

    pub fn ack_time(&self, ack: usize) -> i64 {
        self.trace.ack_ns.get(ack).copied().unwrap_or(self.end_ns)
    }

    pub fn send_time(&self, send: usize) -> i64 {
        self.trace.send_ns.get(send).copied().unwrap_or(self.end_ns)
    }

    /// Whether nothing had been received for long before a send, and the timer may have expired.
    pub fn is_silent(&self, send: usize) -> bool {
        let known = self.seen.acks_before_send[send] as usize;
        known.checked_sub(1).is_none_or(|last| {
            (self.trace.send_ns[send] - self.trace.ack_ns[last]) as f64 > self.silence
                && self.can_expire(send, known)
                && !self.is_reordering_timer(send, last)
        })
    }

    /// Whether the retransmission timer, started by the last ACK of new data or by the segment itself, may be over.
    fn can_expire(&self, send: usize, known: usize) -> bool {
        let now_ns = self.trace.send_ns[send];
        let Some(moved) = self.seen.last_moved(known) else {
            return true;
        };
        // RFC 6298 section 2: a timer is never set to less than the smoothed round trip, which is no shorter than the least
        // one seen, and starts anew with new data acknowledged; sooner it is a reordering timer (RFC 8985 section 6.2: a
        // quarter of the least round trip).
        (now_ns - self.trace.ack_ns[moved]) as f64 > AT_LEAST.get() * self.base as f64
            || (!self.answers(send, moved) && now_ns - self.sent_before(send) > LEAST_RTO_NS.get())
    }

    /// Whether a retransmission is the first thing sent since the newest ACK, which asks for it: a partial ACK's answer,
    /// however late a host or the way back makes it.
    fn answers(&self, send: usize, moved: usize) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        seen.acks_before_send[send] as usize == moved + 1
            && trace.send_offset[send] == seen.snd_una[moved]
            && (send == 0 || seen.acks_before_send[send - 1] as usize <= moved)
    }

    /// Whether SACK blocks told of the hole that a retransmission fills, sooner after new data than a timer expires: a
    /// reordering timer (RFC 8985 section 6.2) or a tail loss probe's answer sends it as silently.
    pub fn is_told_of(&self, send: usize, known: usize) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        known > 0
            && trace.sacked[known - 1] > 0
            && trace.send_offset[send] == seen.una_at(send)
            && seen
                .last_moved(known)
                .is_some_and(|moved| trace.send_ns[send] - trace.ack_ns[moved] < LEAST_RTO_NS.get())
    }

    /// What was outstanding when all that an ACK released had been sent.
    pub fn outstanding_after(&self, ack: usize) -> Option<i64> {
        let sent = *self.seen.sends_before_next_ack.get(ack)? as usize;
        let top = self.seen.snd_max.get(sent.checked_sub(1)?)?;
        Some(top - self.seen.snd_una[ack])
    }
}
