//! Departure times of a sender that paces, as Linux's TCP keeps them for itself.

/// Linux: the first segments of a connection leave as the window lets them.
const UNPACED_SEGMENTS: u64 = 10;

#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// When the next segment may leave.
    departure_ns: i64,
    segments: u64,
}

impl Pacer {
    pub fn departure_ns(&self) -> i64 {
        self.departure_ns
    }

    /// `rate`: bytes per second.
    pub fn on_sent(&mut self, now_ns: i64, bytes: u64, rate: f64) {
        self.segments += 1;
        let late_ns = (now_ns - self.departure_ns).max(0);
        self.departure_ns = self.departure_ns.max(now_ns);
        // A rate of 0 holds nothing back, as in Linux.
        if self.segments < UNPACED_SEGMENTS || rate <= 0.0 {
            return;
        }
        let gap_ns = (bytes as f64 * 1e9 / rate) as i64;
        // A timer that came late is made up for, by half a gap at most.
        // At a rate of next to nothing it never comes.
        self.departure_ns = self
            .departure_ns
            .saturating_add(gap_ns - late_ns.min(gap_ns / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_segments_leave_at_once_and_then_one_per_gap() {
        let mut pacer = Pacer::default();
        for _ in 0..9 {
            pacer.on_sent(1_000_000, 1000, 1e6);
            assert_eq!(pacer.departure_ns(), 1_000_000);
        }
        // 1000 bytes at 1 MB/s: a millisecond after the tenth.
        pacer.on_sent(1_000_000, 1000, 1e6);
        assert_eq!(pacer.departure_ns(), 2_000_000);
        // 0.2 ms late: the next is due a millisecond after this one was.
        pacer.on_sent(2_200_000, 1000, 1e6);
        assert_eq!(pacer.departure_ns(), 3_000_000);
        // After a pause only half a gap is made up for.
        pacer.on_sent(9_000_000, 1000, 1e6);
        assert_eq!(pacer.departure_ns(), 9_500_000);
    }
}
