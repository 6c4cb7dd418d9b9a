//! Without SACK: how many segments duplicate ACKs say have arrived, as Linux counts them (its emulated `sacked_out`).

use super::{Recovery, RecoveryPhase, Sender};

impl Sender {
    /// Whether recovery rests on the count: Linux's NewReno reduces in proportion to what arrives (RFC 9937), too.
    pub(in crate::recovery) fn recovers_by_duplicates(&self) -> bool {
        self.options.is_linux && self.options.recovery == Recovery::NewReno
    }

    /// Bytes that duplicate ACKs say have left the path, for a sender whose window counts the path.
    pub(super) fn arrived_by_duplicates(&self) -> u64 {
        if self.owns_window || self.recovers_by_duplicates() {
            self.by_duplicates
        } else {
            0
        }
    }

    /// Behind a timer: what was sent again, and what is new. What the timer took for lost and was not sent again is off
    /// the path, though new data were sent beyond it (Linux's `lost_out` without `retrans_out`). `None`: not there.
    ///
    /// Omitted: of a control that does not set its window in recovery too.
    pub(in crate::recovery) fn sent_behind_timer(&self) -> Option<u64> {
        let is_behind =
            self.owns_window && self.recovers_by_duplicates() && self.phase == RecoveryPhase::Loss;
        is_behind.then(|| {
            let again = self.sent_again_to.min(self.recover);
            again.saturating_sub(self.snd_una) + self.snd_max - self.recover.max(self.snd_una)
        })
    }

    /// Whether a timer took for lost, without SACK, what was not sent again yet: its sender waits for no application.
    pub(super) fn has_to_send_again(&self) -> bool {
        self.sent_behind_timer().is_some() && self.sent_again_to.max(self.snd_una) < self.recover
    }

    /// A duplicate ACK: whether it tells of a segment that arrived. After a timeout everything goes out again, and only
    /// what was never sent before makes news; else one segment of the flight is the hole.
    pub(super) fn count_duplicate(&mut self) -> bool {
        let smss = self.options.smss;
        let most = if self.sent_behind_timer().is_some() {
            self.snd_max.saturating_sub(self.recover)
        } else if self.phase == RecoveryPhase::Loss && self.snd_nxt <= self.recover {
            0
        } else {
            self.flight_size().saturating_sub(smss)
        };
        let is_arrival = self.by_duplicates + smss <= most;
        if is_arrival {
            self.by_duplicates += smss;
        }
        is_arrival
    }

    /// Bytes that an ACK delivers of those that it covers. The segment at the cumulative point arrives now, so no ACK
    /// of new data delivers nothing, and no sample of one is a rate of 0; what lies behind has been counted.
    pub(super) fn take_counted(&mut self, newly_acked: u64) -> u64 {
        let behind = newly_acked.saturating_sub(self.options.smss);
        let counted = self.by_duplicates.min(behind);
        self.by_duplicates -= counted;
        newly_acked - counted
    }
}
