//! Timeouts that a sender took back when it learnt that nothing was lost (F-RTO, RFC 5682; Eifel, RFC 4015).

use super::finder::Finder;
use super::restarts::AFTER_RESTART;
use crate::infer::ordered::from;
use crate::infer::sender::rows::trace::LossEvent;
use crate::recovery::{DUP_THRESH, DetectedBy};
use crate::threshold::threshold;

// New data for what is acknowledged once a timeout was taken back: all of it, between half (a window halved) and more.
threshold!(TAKEN_BACK_SHARE: f64 = 0.75, Share);

impl Finder<'_> {
    /// Timeouts that were taken back, with those before them for which nothing had come either.
    pub(super) fn take_back(&self, found: &mut [LossEvent]) {
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
            from(trace.send_ns, event.first_send, |left| left < heard_ns),
            sent_by(over)?,
        );
        // A window that is given back lets go at once.
        let goes_on = over < answered + DUP_THRESH as usize
            || sent_by(answered + DUP_THRESH as usize)? > from;
        let is_whole = goes_on
            && until <= bound
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
}
