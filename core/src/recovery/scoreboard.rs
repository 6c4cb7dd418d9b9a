//! The SACK scoreboard (RFC 6675 section 4), with FACK's reading of it as an alternative.
//!
//! What is SACKed, lost and sent again are three sets of ranges. Each ACK touches only what it changes, so its cost does
//! not grow with the window.

use super::{DUP_THRESH, Intervals};

/// Bytes on the scoreboard, as Linux counts segments: flight = outstanding - SACKed - lost + retransmitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoardCounts {
    pub sacked: u64,
    /// Also if sent again.
    pub lost: u64,
    /// Sent again and neither acknowledged nor SACKed since.
    pub retransmitted: u64,
}

#[derive(Clone, Debug)]
pub struct Scoreboard {
    smss: u64,
    /// FACK: everything below the highest SACK is lost, however little was SACKed above it.
    is_fack: bool,
    /// RACK says what is lost; no rule of this board does.
    is_racks: bool,
    sacked: Intervals,
    /// Lost and not sent again.
    lost: Intervals,
    /// Sent again in this recovery and not acknowledged since.
    retransmitted: Intervals,
    /// Of these, what was not lost when it was sent again: both copies are in flight.
    doubled: Intervals,
    /// Holes below it have been judged.
    judged: u64,
    pub high_rxt: u64,
    /// Section 4 (4): one rescue retransmission per recovery.
    rescue_rxt: Option<u64>,
    /// Bytes taken for lost so far, those of a lost retransmission once more.
    declared_lost: u64,
}

impl Scoreboard {
    pub fn new(smss: u64, is_fack: bool) -> Self {
        Self {
            smss,
            is_fack,
            is_racks: false,
            sacked: Intervals::default(),
            lost: Intervals::default(),
            retransmitted: Intervals::default(),
            doubled: Intervals::default(),
            judged: 0,
            high_rxt: 0,
            rescue_rxt: None,
            declared_lost: 0,
        }
    }

    /// The board of a sender whose losses RACK finds (RFC 8985).
    #[must_use]
    pub fn of_rack(mut self) -> Self {
        self.is_racks = true;
        self
    }

    /// `Update`: takes an ACK and its blocks in; returns the bytes SACKed for the first time.
    pub fn update(&mut self, snd_una: u64, snd_max: u64, blocks: &[(u64, u64)]) -> u64 {
        self.sacked.remove_below(snd_una);
        self.lost.remove_below(snd_una);
        self.retransmitted.remove_below(snd_una);
        self.doubled.remove_below(snd_una);
        let mut new = 0;
        for &(start, end) in blocks {
            let (start, end) = (start.max(snd_una), end.min(snd_max));
            let covered = self.sacked.insert(start, end);
            if covered > 0 {
                new += covered;
                self.lost.remove(start, end);
                self.retransmitted.remove(start, end);
                self.doubled.remove(start, end);
            }
        }
        self.judge(snd_una);
        new
    }

    /// Below this `IsLost` holds: DupThresh ranges, or more than (DupThresh - 1) * SMSS bytes, are SACKed above.
    fn lost_below(&self) -> u64 {
        let mut bytes = 0;
        for (ranges, (start, end)) in self.sacked.iter().rev().enumerate() {
            if self.is_fack {
                return start;
            }
            bytes += end - start;
            if ranges + 1 >= DUP_THRESH as usize || bytes > (u64::from(DUP_THRESH) - 1) * self.smss
            {
                return start;
            }
        }
        0
    }

    fn judge(&mut self, snd_una: u64) {
        if self.is_racks {
            return;
        }
        let below = self.lost_below();
        let mut at = self.judged.max(snd_una);
        while at < below {
            let (hole, next) = self.sacked.gap(at);
            let end = next.min(below);
            self.mark_lost(hole, end);
            at = end.max(hole + 1);
        }
        self.judged = self.judged.max(below);
        // Lost now: only the second copy is in flight.
        self.doubled.remove_below(self.judged);
    }

    /// What was sent again already stays in flight.
    fn mark_lost(&mut self, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let (from, next) = self.retransmitted.gap(at);
            let to = next.min(end);
            self.declared_lost += self.lost.insert(from, to);
            at = to.max(from + 1);
        }
    }

    /// `SetPipe` over `outstanding` bytes: what is neither SACKed nor lost (a), and what was sent again (b).
    pub fn pipe(&self, outstanding: u64) -> u64 {
        let first_copies = outstanding.saturating_sub(self.sacked.covered() + self.lost.covered());
        first_copies + self.doubled.covered()
    }

    pub fn declared_lost(&self) -> u64 {
        self.declared_lost
    }

    pub fn sacked_bytes(&self) -> u64 {
        self.sacked.covered()
    }

    pub fn counts(&self) -> BoardCounts {
        let retransmitted = self.retransmitted.covered();
        BoardCounts {
            sacked: self.sacked.covered(),
            lost: self.lost.covered() + retransmitted - self.doubled.covered(),
            retransmitted,
        }
    }

    pub fn is_lost(&self, offset: u64) -> bool {
        offset < self.judged && !self.sacked.contains(offset)
    }

    /// The first offset from `at` on that is not SACKed, and where the next SACKed range begins.
    pub fn hole_from(&self, at: u64) -> (u64, u64) {
        self.sacked.gap(at)
    }

    /// `HighACK`'s opposite end: just above the highest SACKed byte.
    pub fn snd_fack(&self) -> Option<u64> {
        self.sacked.last().map(|(_, end)| end)
    }

    /// `NextSeg` (1): the first lost range not sent again, at most one segment of it.
    pub fn next_lost(&self) -> Option<(u64, u64)> {
        self.lost
            .first()
            .map(|(start, end)| (start, end.min(start + self.smss)))
    }

    /// `NextSeg` (3): a hole above HighRxt and below the highest SACK that is not (yet) lost.
    pub fn next_suspect(&self, snd_una: u64) -> Option<(u64, u64)> {
        let (hole, end) = self.hole_from(self.high_rxt.max(snd_una));
        (end < u64::MAX).then(|| (hole, end.min(hole + self.smss)))
    }

    /// `NextSeg` (4): once per recovery, the last segment below HighData, to keep the ACK clock going.
    pub fn next_rescue(&self, snd_una: u64, high_data: u64) -> Option<(u64, u64)> {
        if self.rescue_rxt.is_some_and(|rescue| snd_una <= rescue)
            || high_data < snd_una + self.smss
        {
            return None;
        }
        // With the highest number that is not SACKed, if the last segment is a short one as well.
        let start = self.snd_fack().unwrap_or(0).max(high_data - self.smss);
        (start < high_data).then_some((start, high_data))
    }

    /// Whether a retransmission is of neither a lost nor a suspect range: nothing above it is SACKed.
    pub fn is_rescue(&self, start: u64) -> bool {
        self.snd_fack().unwrap_or(0) <= start && !self.lost.contains(start)
    }

    pub fn on_rescued(&mut self, recovery_point: u64) {
        self.rescue_rxt = Some(recovery_point);
    }

    pub fn on_retransmitted(&mut self, start: u64, end: u64) {
        if (self.is_racks || self.judged <= start) && !self.lost.contains(start) {
            self.doubled.insert(start, end);
        }
        self.lost.remove(start, end);
        self.retransmitted.insert(start, end);
        self.high_rxt = self.high_rxt.max(end);
    }

    /// RACK takes a segment for lost, or what was sent of it again.
    pub fn lose(&mut self, start: u64, end: u64) {
        self.retransmitted.remove(start, end);
        self.doubled.remove(start, end);
        self.mark_lost(start, end.min(self.hole_from(start).1));
    }

    /// After a timeout: not lost after all, unless it has arrived. True: it was taken for lost.
    pub fn spare(&mut self, start: u64, end: u64) -> bool {
        let spared = self.lost.remove(start, end);
        self.declared_lost -= spared.min(self.declared_lost);
        spared > 0
    }

    /// Nothing is lost after all.
    pub fn find_all(&mut self) {
        self.lost.clear();
    }

    /// Arrived, or taken for lost and not sent again.
    pub fn has_settled(&self, offset: u64) -> bool {
        self.sacked.contains(offset) || self.lost.contains(offset)
    }

    /// A recovery begins.
    pub fn begin(&mut self, snd_una: u64) {
        self.high_rxt = snd_una;
        self.rescue_rxt = None;
    }

    /// The first segment is taken for lost whatever is SACKed above (three duplicate ACKs have come).
    pub fn mark_first_lost(&mut self, snd_una: u64) {
        let (hole, end) = self.hole_from(snd_una);
        self.mark_lost(hole, end.min(hole + self.smss));
    }

    /// A recovery is over: what is still SACKed, or still on its way again, belongs to the next.
    pub fn end(&mut self) {
        self.rescue_rxt = None;
    }

    pub fn is_sent_again(&self, offset: u64) -> bool {
        self.retransmitted.contains(offset)
    }

    /// After a timeout everything that is not SACKed is lost (section 5.1: the scoreboard itself is kept).
    pub fn mark_all_lost(&mut self, snd_una: u64, snd_max: u64) {
        let known = self.lost.covered();
        self.lost.clear();
        self.retransmitted.clear();
        self.doubled.clear();
        self.rescue_rxt = None;
        self.high_rxt = snd_una;
        let mut at = snd_una;
        while at < snd_max {
            let (hole, next) = self.hole_from(at);
            let end = next.min(snd_max);
            self.lost.insert(hole, end);
            at = end.max(hole + 1);
        }
        self.declared_lost += self.lost.covered().saturating_sub(known);
        self.judged = self.judged.max(snd_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_segments_sacked_above_a_hole_make_it_lost() {
        let mut board = Scoreboard::new(1000, false);
        for (end, is_lost) in [(3000, false), (4000, false), (5000, true)] {
            board.update(1000, 9000, &[(2000, end)]);
            assert_eq!(board.is_lost(1000), is_lost, "{end}");
        }
        assert_eq!(board.next_lost(), Some((1000, 2000)));
        // 8000 outstanding, 3000 SACKed, 1000 lost.
        assert_eq!(board.pipe(8000), 4000);
        board.on_retransmitted(1000, 2000);
        assert_eq!(board.pipe(8000), 5000);
        assert_eq!(board.next_lost(), None);
    }

    #[test]
    fn three_separate_ranges_are_enough_however_small() {
        let mut board = Scoreboard::new(1000, false);
        board.update(0, 9000, &[(1000, 1100), (2000, 2100), (3000, 3100)]);
        assert!(board.is_lost(0));
        assert!(!board.is_lost(1500));
    }

    #[test]
    fn fack_takes_every_hole_below_the_highest_sack_for_lost() {
        let mut board = Scoreboard::new(1000, true);
        board.update(0, 9000, &[(5000, 6000)]);
        assert_eq!(board.pipe(9000), 3000);
        assert_eq!(board.next_lost(), Some((0, 1000)));
    }

    #[test]
    fn a_retransmission_is_not_lost_again_by_the_rule() {
        let mut board = Scoreboard::new(1000, false);
        board.update(0, 9000, &[(1000, 4000)]);
        board.on_retransmitted(0, 1000);
        board.update(0, 9000, &[(6000, 9000)]);
        assert_eq!(board.next_lost(), Some((4000, 5000)));
    }
}
