//! What a sender with SACK has in the network while it recovers, and behind that (RFC 6675 `pipe`).

use std::ops::Range;

use super::flight::{View, begins_at};
use crate::infer::sender::rows::scoreboard::enough;
use crate::infer::sender::rows::trace::LossEvent;

impl View<'_> {
    /// Up to which ACK blocks still tell of holes behind the end of a recovery, which are lost already, and of which some
    /// were sent again in it; `following`: the send that begins the next loss event.
    pub(super) fn mends_until(&self, over: usize, following: Option<usize>) -> usize {
        let (trace, seen) = (self.trace, self.seen);
        let until = following.map_or(trace.ack_ns.len(), |send| begins_at(seen, send));
        let has_holes =
            |&ack: &usize| trace.sacked[ack] > 0 && self.lost_up_to[ack] > seen.snd_una[ack];
        over + (over..until).take_while(has_holes).count()
    }

    /// In fast recovery, ACKs `first` to before `over`, and up to before `behind`: without what has reached the receiver
    /// or is lost, as the sender can know it.
    pub(super) fn pipe(
        &self,
        event: &LossEvent,
        chosen: Range<usize>,
        (first, over, behind): (usize, usize, usize),
        flight: &mut [i64],
    ) {
        let (trace, seen, part) = (self.trace, self.seen, first..behind);
        let (again, gone) = self.sent_again(&chosen);
        let mut change = vec![0; part.len() + 1];
        for (&send, gone_at) in again.iter().zip(gone) {
            let send = send as usize;
            let size = trace.send_end[send] - trace.send_offset[send];
            self.count(&mut change, &part, (send, size), gone_at);
        }
        // Retransmissions that were lost too are counted until they are repeated: never more than before the loss.
        let most = event.flight.max(trace.smss);
        // Below the highest SACKed byte everything is received or lost, but for what was retransmitted since.
        let led = self.first_dupack(first)..first;
        let mut known = trace.sack_high[led].iter().copied().max().unwrap_or(0);
        let mut resent = 0;
        for (ack, changed) in part.zip(change) {
            known = known.max(trace.sack_high[ack]);
            resent += changed;
            let una = seen.snd_una[ack];
            let top = una + flight[ack];
            flight[ack] = if ack < over {
                ((top - known.max(una)).max(0) + resent).min(most)
            } else {
                // A sender that does not recover waits for what the last blocks do not yet tell to be lost.
                let lost = self.lost_up_to[ack].max(una);
                (top - lost - enough(trace)).max(0) + resent
            };
        }
    }
}
