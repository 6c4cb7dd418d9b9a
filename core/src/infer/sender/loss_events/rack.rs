//! What a sender with RACK (RFC 8985) sends again without its retransmission timer, though as late or as little as if that
//! had expired.

use super::finder::Finder;
use crate::infer::given::PROMPT_PARTS;
use crate::recovery::LEAST_RTO_NS;
use crate::threshold::threshold;

// RFC 8985 section 6.2 step 4: the reordering window is a quarter of the least round trip.
pub(in crate::infer::sender) const REORDERING_PARTS: i64 = 4;
// How late its timer may be: Linux adds 2 ms, and rounds up to its ticks, of 4 ms at most on servers.
threshold!(REORDERING_LATE_NS: i64 = 10_000_000, Nanoseconds);
// Sends that are looked at behind a copy: the next are the first to arrive, and a limit of work.
const MOST_BEHIND: usize = 1 << 12;

impl Finder<'_> {
    /// Whether a segment is sent once more at once with the first ACK that SACKs what left behind the copy before: it
    /// tells that the copy is lost (RFC 8985 section 5), and no timer has to.
    pub(super) fn is_told_lost_again(&self, rank: usize) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        let send = seen.again[rank] as usize;
        let known = seen.acks_before_send[send] as usize;
        let (Some(copy), Some(newest)) = (self.repeats[rank], known.checked_sub(1)) else {
            return false;
        };
        let first = copy as usize + 1;
        let behind = first..send.min(first + MOST_BEHIND);
        let (heard, next) = (trace.ack_ns[newest], self.ack_time(known));
        trace.send_ns[send] - heard <= (next - heard) / PROMPT_PARTS.get()
            && self.sacks_any(newest, behind.clone())
            && newest
                .checked_sub(1)
                .is_none_or(|before| !self.sacks_any(before, behind))
    }

    /// Whether an ACK SACKs any of these sends.
    fn sacks_any(&self, ack: usize, sends: std::ops::Range<usize>) -> bool {
        let (offsets, ends) = (self.trace.send_offset, self.trace.send_end);
        self.trace.blocks(ack).any(|(left, right)| {
            sends
                .clone()
                .any(|send| left <= offsets[send] && ends[send] <= right)
        })
    }

    /// Whether a retransmission leaves when the reordering timer expires: a quarter of the least round trip behind the ACK
    /// that SACKed what was sent beside its segment, or later; and sooner than the timer of RFC 6298 may.
    pub(super) fn is_reordering_timer(&self, send: usize, newest: usize) -> bool {
        let (trace, seen) = (self.trace, self.seen);
        if trace.sacked[newest] == 0 {
            return false;
        }
        let (now_ns, copy_ns) = (trace.send_ns[send], self.sent_before(send));
        let moved = seen.last_moved(newest + 1);
        let begun_ns = moved.map_or(copy_ns, |ack| trace.ack_ns[ack]);
        let behind = seen
            .snd_max
            .partition_point(|&top| top < trace.sack_high[newest]);
        let later_ns = self.send_time(behind) - copy_ns;
        let window_ns = self.base / REORDERING_PARTS;
        let late_ns = now_ns - trace.ack_ns[newest] - (window_ns - later_ns);
        now_ns - begun_ns < self.base + LEAST_RTO_NS.get()
            && later_ns >= 0
            && (-window_ns / PROMPT_PARTS.get()..REORDERING_LATE_NS.get()).contains(&late_ns)
    }
}
