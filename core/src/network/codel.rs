//! CoDel (RFC 8289): while even the shortest wait of an interval is too long, packets are lost as their turn comes.
//!
//! Omitted: marking instead of dropping (section 3.1's ECN): no sender here negotiates ECN.

use super::discipline::{Discipline, HeadOfLine, Waiting};

/// The estimator and the control law of section 5, names as there.
#[derive(Clone, Debug)]
pub struct CoDel {
    target_ns: i64,
    interval_ns: i64,
    /// With no more than this behind it a packet is not lost: the link would fall idle.
    max_packet: u64,
    first_above_ns: Option<i64>,
    drop_next_ns: i64,
    count: u32,
    last_count: u32,
    is_dropping: bool,
}

impl CoDel {
    pub fn new(target_ns: i64, interval_ns: i64, max_packet: u32) -> Self {
        Self {
            target_ns,
            interval_ns,
            max_packet: u64::from(max_packet),
            first_above_ns: None,
            drop_next_ns: 0,
            count: 0,
            last_count: 0,
            is_dropping: false,
        }
    }

    /// `dodequeue`'s `ok_to_drop`: waits have been above the target for an interval.
    fn may_drop(&mut self, now_ns: i64, head: Option<HeadOfLine>) -> bool {
        let is_above = head.is_some_and(|head| {
            head.waited_ns >= self.target_ns && head.bytes_behind > self.max_packet
        });
        if !is_above {
            self.first_above_ns = None;
            return false;
        }
        match self.first_above_ns {
            None => {
                self.first_above_ns = Some(now_ns.saturating_add(self.interval_ns));
                false
            }
            Some(first_above_ns) => now_ns >= first_above_ns,
        }
    }

    fn control_law(&self, from_ns: i64) -> i64 {
        let gap = self.interval_ns as f64 / f64::from(self.count).sqrt();
        from_ns.saturating_add(gap.round() as i64)
    }
}

impl Discipline for CoDel {
    fn dequeue(&mut self, now_ns: i64, queue: &mut dyn Waiting) {
        let may_drop = self.may_drop(now_ns, queue.head());
        if self.is_dropping {
            self.is_dropping = may_drop;
            while self.is_dropping && now_ns >= self.drop_next_ns {
                queue.lose();
                self.count = self.count.saturating_add(1);
                self.is_dropping = self.may_drop(now_ns, queue.head());
                if self.is_dropping {
                    self.drop_next_ns = self.control_law(self.drop_next_ns);
                }
            }
        } else if may_drop {
            queue.lose();
            self.may_drop(now_ns, queue.head());
            self.is_dropping = true;
            // What controlled the queue when it was last above is where to begin, unless that is long ago.
            let delta = self.count.saturating_sub(self.last_count);
            let is_recent = now_ns.saturating_sub(self.drop_next_ns) < 16 * self.interval_ns;
            self.count = if delta > 1 && is_recent { delta } else { 1 };
            self.drop_next_ns = self.control_law(now_ns);
            self.last_count = self.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const MS: i64 = 1_000_000;

    /// Packets of 1000 bytes by their times of arrival.
    struct Line {
        now_ns: i64,
        arrived: VecDeque<i64>,
        lost: Vec<i64>,
    }

    impl Waiting for Line {
        fn head(&self) -> Option<HeadOfLine> {
            Some(HeadOfLine {
                waited_ns: self.now_ns - self.arrived.front()?,
                bytes_behind: 1000 * (self.arrived.len() as u64 - 1),
            })
        }

        fn lose(&mut self) {
            self.lost.extend(self.arrived.pop_front());
        }
    }

    /// A turn each millisecond, of packets that all have waited as long, with plenty behind them: the times, in
    /// milliseconds, at which packets were lost.
    fn losses(codel: &mut CoDel, turns: std::ops::Range<i64>, wait_ms: i64) -> Vec<i64> {
        let mut found = Vec::new();
        for turn in turns {
            let now_ns = turn * MS;
            let mut line = Line {
                now_ns,
                arrived: (0..20).map(|_| now_ns - wait_ms * MS).collect(),
                lost: Vec::new(),
            };
            codel.dequeue(now_ns, &mut line);
            found.extend(line.lost.iter().map(|_| turn));
        }
        found
    }

    #[test]
    fn drops_come_closer_with_the_square_root_of_their_number() {
        // Above the target from 0 on: the first drop an interval later, at 100; drop_next = 100 + 100/sqrt(1) = 200.
        // Then count 2: 200 + 70.71 = 270.71; 3: + 57.74 = 328.45; 4: + 50 = 378.45; 5: + 44.72 = 423.17;
        // 6: + 40.82 = 463.99; 7: + 37.80 = 501.79. Turns are at whole milliseconds: the next after each.
        let mut codel = CoDel::new(5 * MS, 100 * MS, 1500);
        let found = losses(&mut codel, 0..500, 20);
        assert_eq!(found, [100, 200, 271, 329, 379, 424, 464]);
    }

    #[test]
    fn a_wait_below_the_target_ends_it_and_begins_a_new_interval() {
        let mut codel = CoDel::new(5 * MS, 100 * MS, 1500);
        assert_eq!(losses(&mut codel, 0..150, 20), [100]);
        assert!(losses(&mut codel, 150..151, 4).is_empty());
        // 151 + 100: the interval begins again. delta = 1 - 1 = 0: count 1, the next 100 ms later.
        assert_eq!(losses(&mut codel, 151..400, 20), [251, 351]);
    }

    #[test]
    fn soon_after_it_goes_on_at_the_rate_that_controlled_the_queue() {
        let mut codel = CoDel::new(5 * MS, 100 * MS, 1500);
        // Drops with counts 1..7 as above; drop_next is 501.79.
        losses(&mut codel, 0..500, 20);
        losses(&mut codel, 500..501, 0);
        // Above again from 501: drop at 601. delta = 7 - 1 = 6 > 1, 601 - 501.79 < 16 intervals: count = 6;
        // 601 + 40.82 = 641.82; count 7: + 37.80 = 679.62; 8: + 35.36 = 714.98; 9: + 33.33 = 748.31.
        assert_eq!(losses(&mut codel, 501..740, 20), [601, 642, 680, 715]);
        losses(&mut codel, 740..741, 0);
        // More than 16 intervals after drop_next: from the beginning.
        let found = losses(&mut codel, 2400..2620, 20);
        assert_eq!(found, [2500, 2600]);
    }

    #[test]
    fn no_more_than_a_packet_waits_and_nothing_is_lost() {
        let mut codel = CoDel::new(5 * MS, 100 * MS, 1500);
        for turn in 0..1000 {
            let now_ns = turn * MS;
            // One of 1000 bytes behind the head: not more than a packet of 1500.
            let mut line = Line {
                now_ns,
                arrived: VecDeque::from([now_ns - 500 * MS; 2]),
                lost: Vec::new(),
            };
            codel.dequeue(now_ns, &mut line);
            assert!(line.lost.is_empty());
        }
    }

    #[test]
    fn several_are_lost_in_one_turn_when_turns_come_late() {
        let mut codel = CoDel::new(5 * MS, 100 * MS, 1500);
        losses(&mut codel, 0..101, 20);
        // drop_next is 200, then 270.71, 328.45, 378.45, 423.17: at 400 four drops are due.
        assert_eq!(losses(&mut codel, 400..401, 20), [400; 4]);
    }
}
