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

    /// A duplicate ACK: whether it tells of a segment that arrived. After a timeout everything goes out again, and only
    /// what was never sent before makes news; and one segment of the flight is the hole.
    pub(super) fn count_duplicate(&mut self) -> bool {
        let smss = self.options.smss;
        let is_news = self.phase != RecoveryPhase::Loss || self.snd_nxt > self.recover;
        let is_arrival = is_news && self.by_duplicates + 2 * smss <= self.flight_size();
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
