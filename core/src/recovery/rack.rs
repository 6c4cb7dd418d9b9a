//! RACK's detection of lost retransmissions (RFC 8985 section 6.2): what was sent before something that has arrived, and
//! has not arrived itself, is lost.
//!
//! Omitted: the reordering window. Paths here keep the order, and without reordering it is 0 in recovery (section 6.2
//! step 4). Omitted: tail loss probes (section 7).

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Resent {
    at_ns: i64,
    start: u64,
    end: u64,
}

#[derive(Clone, Debug)]
pub struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: when the newest segment that has arrived was sent, and where it ends.
    newest: (i64, u64),
    min_rtt_ns: i64,
    /// Retransmissions in the order in which they were sent.
    resent: VecDeque<Resent>,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: (i64::MIN, 0),
            min_rtt_ns: i64::MAX,
            resent: VecDeque::new(),
        }
    }
}

impl Rack {
    pub fn on_sample(&mut self, rtt_ns: i64) {
        self.min_rtt_ns = self.min_rtt_ns.min(rtt_ns);
    }

    pub fn on_resent(&mut self, at_ns: i64, start: u64, end: u64) {
        self.resent.push_back(Resent { at_ns, start, end });
    }

    /// A segment has arrived, last sent at `at_ns` (step 2).
    pub fn on_delivered(&mut self, now_ns: i64, at_ns: i64, end: u64, is_retransmitted: bool) {
        // Sooner than any round trip: the first copy has arrived.
        if is_retransmitted && now_ns - at_ns < self.min_rtt_ns {
            return;
        }
        self.newest = self.newest.max((at_ns, end));
    }

    /// The next retransmission sent before the newest segment that has arrived (step 5).
    pub fn next_overtaken(&mut self) -> Option<(u64, u64)> {
        let Resent { at_ns, start, end } = *self.resent.front()?;
        if (at_ns, end) >= self.newest {
            return None;
        }
        self.resent.pop_front();
        Some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retransmission_is_lost_when_something_sent_later_has_arrived() {
        let mut rack = Rack::default();
        rack.on_sample(50);
        rack.on_resent(100, 0, 1000);
        rack.on_resent(101, 3000, 4000);
        rack.on_delivered(150, 99, 9000, false);
        assert_eq!(rack.next_overtaken(), None);
        rack.on_delivered(152, 101, 4000, true);
        // The first was sent before it; it itself is no loss.
        assert_eq!(rack.next_overtaken(), Some((0, 1000)));
        assert_eq!(rack.next_overtaken(), None);
    }

    #[test]
    fn an_ack_sooner_than_any_round_trip_is_of_the_first_copy() {
        let mut rack = Rack::default();
        rack.on_sample(50);
        rack.on_resent(100, 0, 1000);
        rack.on_delivered(120, 110, 5000, true);
        assert_eq!(rack.next_overtaken(), None);
    }
}
