//! RACK's time-based loss detection (RFC 8985 section 6): what was sent long enough before something that has arrived,
//! and has not arrived itself, is lost.

use std::collections::VecDeque;

use super::Scoreboard;

/// RFC 8985 section 6.2 step 4: DSACK-free recoveries after which the window is as small as before.
const REO_WND_PERSIST: u32 = 16;

/// A segment, or a segment sent again.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    at_ns: i64,
    start: u64,
    end: u64,
    is_again: bool,
}

#[derive(Clone, Debug)]
pub struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: when the newest segment that has arrived was sent, and where it ends.
    newest: (i64, u64),
    /// RACK.rtt: its round trip.
    rtt_ns: i64,
    min_rtt_ns: i64,
    /// RACK.fack: one above the highest byte that has arrived; and before the ACK at hand.
    fack: u64,
    prior_fack: u64,
    has_reordering: bool,
    reo_wnd_mult: i64,
    reo_wnd_persist: u32,
    /// RACK.dsack_round: only one DSACK a round trip widens the window.
    dsack_round: Option<u64>,
    /// In the order in which they were sent; what has arrived or is taken for lost is thrown out when it comes up.
    transmissions: VecDeque<Transmission>,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: (i64::MIN, 0),
            rtt_ns: 0,
            min_rtt_ns: i64::MAX,
            fack: 0,
            prior_fack: 0,
            has_reordering: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: None,
            transmissions: VecDeque::new(),
        }
    }
}

impl Rack {
    /// With the handshake's round trip.
    pub fn new(rtt_ns: Option<i64>) -> Self {
        Self {
            min_rtt_ns: rtt_ns.unwrap_or(i64::MAX),
            ..Self::default()
        }
    }

    /// Step 1.
    pub fn on_sample(&mut self, rtt_ns: i64) {
        self.min_rtt_ns = self.min_rtt_ns.min(rtt_ns);
    }

    /// Section 6.1.
    pub fn on_sent(&mut self, at_ns: i64, start: u64, end: u64, is_again: bool) {
        self.transmissions.push_back(Transmission {
            at_ns,
            start,
            end,
            is_again,
        });
    }

    /// An ACK begins: what it reports arrived in an order of which it says nothing.
    pub fn begin_ack(&mut self) {
        self.prior_fack = self.fack;
    }

    /// Steps 2 and 3: a segment has arrived, last sent at `at_ns`.
    pub fn on_delivered(&mut self, now_ns: i64, at_ns: i64, end: u64, is_retransmitted: bool) {
        // It was sent once, and something above came first.
        self.has_reordering |= end < self.prior_fack && !is_retransmitted;
        self.fack = self.fack.max(end);
        let rtt_ns = now_ns - at_ns;
        // Sooner than any round trip: the first copy has arrived.
        if is_retransmitted && rtt_ns < self.min_rtt_ns {
            return;
        }
        self.rtt_ns = rtt_ns;
        self.newest = self.newest.max((at_ns, end));
    }

    /// Step 4: a DSACK tells of a segment sent again for nothing.
    pub fn on_dsack(&mut self, snd_una: u64, snd_nxt: u64) {
        if self.dsack_round.is_none_or(|round| snd_una >= round) {
            self.dsack_round = Some(snd_nxt);
            self.reo_wnd_mult += 1;
            self.reo_wnd_persist = REO_WND_PERSIST;
        }
    }

    /// Step 4: a recovery, or what followed a timeout, is over.
    pub fn on_recovered(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }

    /// Step 4: how much later than expected a segment may come. `is_certain`: in recovery, or with DupThresh segments
    /// SACKed; without reordering ever seen nothing is waited for then.
    pub fn reo_wnd_ns(&self, srtt_ns: Option<i64>, is_certain: bool) -> i64 {
        if !self.has_reordering && is_certain {
            return 0;
        }
        if self.min_rtt_ns == i64::MAX {
            return 0;
        }
        let window_ns = self.reo_wnd_mult.saturating_mul(self.min_rtt_ns / 4);
        window_ns.min(srtt_ns.unwrap_or(i64::MAX))
    }

    /// Section 6.3: whether what was sent at `at_ns` is still within its time when the retransmission timer expires.
    pub fn is_in_time(&self, now_ns: i64, at_ns: i64, reo_wnd_ns: i64) -> bool {
        at_ns + self.rtt_ns + reo_wnd_ns > now_ns
    }

    /// Everything outstanding is taken for lost: what is sent from here on is followed.
    pub fn on_timeout(&mut self) {
        self.transmissions.clear();
    }

    /// Step 5: marks what is lost on the board; returns how long to wait for the rest that was sent before the newest
    /// arrival.
    pub fn detect(
        &mut self,
        now_ns: i64,
        snd_una: u64,
        reo_wnd_ns: i64,
        board: &mut Scoreboard,
    ) -> Option<i64> {
        let is_over = |one: &Transmission, board: &Scoreboard| {
            let start = one.start.max(snd_una);
            one.end <= snd_una
                || board.has_settled(start)
                // Another copy was sent since.
                || one.is_again != board.is_sent_again(start)
        };
        while let Some(&one) = self.transmissions.front() {
            if !is_over(&one, board) {
                if (one.at_ns, one.end) >= self.newest {
                    return None;
                }
                if one.at_ns + self.rtt_ns + reo_wnd_ns > now_ns {
                    break;
                }
                board.lose(one.start.max(snd_una), one.end);
            }
            self.transmissions.pop_front();
        }
        let waiting = self
            .transmissions
            .iter()
            .take_while(|one| (one.at_ns, one.end) < self.newest)
            .filter(|one| !is_over(one, board));
        let last = waiting.last()?;
        Some(last.at_ns + self.rtt_ns + reo_wnd_ns - now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten segments of 1000 bytes, sent a millisecond after each other from 0 on.
    fn sent() -> (Rack, Scoreboard) {
        let (mut rack, board) = (Rack::default(), Scoreboard::new(1000, false).of_rack());
        rack.on_sample(50);
        for n in 0..10 {
            rack.on_sent(n as i64, 1000 * n, 1000 * (n + 1), false);
        }
        (rack, board)
    }

    #[test]
    fn what_was_sent_before_the_newest_arrival_is_lost_at_once_without_a_window() {
        let (mut rack, mut board) = sent();
        board.update(0, 10_000, &[(3000, 4000)]);
        rack.on_delivered(53, 3, 4000, false);
        assert_eq!(rack.detect(53, 0, 0, &mut board), None);
        assert_eq!(board.counts().lost, 3000);
        assert_eq!(board.next_lost(), Some((0, 1000)));
    }

    #[test]
    fn within_the_window_it_is_waited_for_until_the_last_could_have_come() {
        let (mut rack, mut board) = sent();
        board.update(0, 10_000, &[(3000, 4000)]);
        rack.on_delivered(53, 3, 4000, false);
        // A quarter of 50 is 12. The first is lost at 0 + 50 + 12, the third at 2 + 50 + 12.
        assert_eq!(rack.reo_wnd_ns(None, false), 12);
        assert_eq!(rack.detect(53, 0, 12, &mut board), Some(11));
        assert_eq!(board.counts().lost, 0);
        assert_eq!(rack.detect(64, 0, 12, &mut board), None);
        assert_eq!(board.counts().lost, 3000);
    }

    #[test]
    fn a_retransmission_is_lost_when_something_sent_later_has_arrived() {
        let (mut rack, mut board) = sent();
        board.update(0, 10_000, &[(1000, 10_000)]);
        rack.on_delivered(59, 9, 10_000, false);
        rack.detect(59, 0, 0, &mut board);
        for (at_ns, start) in [(60, 0), (61, 10_000)] {
            board.on_retransmitted(start, start + 1000);
            rack.on_sent(at_ns, start, start + 1000, start == 0);
        }
        assert_eq!(board.next_lost(), None);
        board.update(0, 11_000, &[(1000, 11_000)]);
        rack.on_delivered(111, 61, 11_000, false);
        rack.detect(111, 0, 0, &mut board);
        assert_eq!(board.next_lost(), Some((0, 1000)));
    }

    #[test]
    fn an_ack_sooner_than_any_round_trip_is_of_the_first_copy() {
        let (mut rack, mut board) = sent();
        board.on_retransmitted(5000, 6000);
        rack.on_sent(110, 5000, 6000, true);
        rack.on_delivered(120, 110, 6000, true);
        assert_eq!(rack.detect(120, 0, 0, &mut board), None);
        assert_eq!(board.counts().lost, 0);
    }

    #[test]
    fn seen_reordering_keeps_the_window_open_also_with_three_sacked() {
        let (mut rack, _) = sent();
        assert_eq!(rack.reo_wnd_ns(None, true), 0);
        rack.on_delivered(53, 3, 4000, false);
        rack.on_delivered(53, 2, 3000, false);
        assert_eq!(rack.reo_wnd_ns(None, true), 0);
        rack.begin_ack();
        rack.on_delivered(54, 1, 2000, false);
        assert_eq!(rack.reo_wnd_ns(None, true), 12);
        assert_eq!(rack.reo_wnd_ns(Some(7), true), 7);
    }

    #[test]
    fn each_round_trip_with_a_dsack_widens_the_window_by_a_quarter_for_sixteen_recoveries() {
        let (mut rack, _) = sent();
        rack.on_dsack(1000, 5000);
        rack.on_dsack(2000, 6000);
        assert_eq!(rack.reo_wnd_ns(None, false), 24);
        rack.on_dsack(5000, 9000);
        assert_eq!(rack.reo_wnd_ns(None, false), 36);
        for _ in 0..15 {
            rack.on_recovered();
        }
        assert_eq!(rack.reo_wnd_ns(None, false), 36);
        rack.on_recovered();
        assert_eq!(rack.reo_wnd_ns(None, false), 12);
    }
}
