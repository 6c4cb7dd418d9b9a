//! When a candidate's own window would have let each byte leave: round trips where the capture does not show them.
//!
//! Of what stands in a queue before the tap the order is seen, not when it left. A sender that its window holds back
//! sends as soon as that allows, so a candidate's window says when each byte left, and what its round trip was; within a
//! recovery too, where what has arrived behind the hole makes room. Assumes that nothing but the window held it back.

use std::collections::VecDeque;

use super::heard::{TapeEvent, TapeRow};
use super::replay::{Player, smoothed};
use crate::congestion::{Control, State};
use crate::recovery::DUP_THRESH;

/// What has left and is not acknowledged yet, and when.
#[derive(Debug)]
pub struct OwnTimes {
    /// The byte behind the last one that left, and the time.
    left: VecDeque<(u64, i64)>,
    una: u64,
    recovery: Option<InRecovery>,
    /// When the first window left.
    begins_ns: i64,
    /// From when on it is known what was outstanding, in what begins in the middle: its first loss. Before that it
    /// tells no round trip.
    since_ns: Option<i64>,
    smss: f64,
    /// The first round trip, or the least that is remembered: none is shorter, whatever was taken for the time of a
    /// segment.
    least_ns: Option<i64>,
}

/// What was sent at a loss, how much of it was outstanding, and what has arrived of that; `has_more_holes`: behind a
/// partial ACK every stack has its own rule, so what left is taken from the capture.
#[derive(Debug)]
struct InRecovery {
    top: u64,
    flight_size: f64,
    arrived: f64,
    has_more_holes: bool,
}

impl OwnTimes {
    /// `begins_ns`: when a first window of `cwnd` bytes left.
    pub fn new(begins_ns: i64, cwnd: f64, smss: f64) -> Self {
        let una = 1;
        Self {
            left: VecDeque::from([((cwnd as u64).saturating_add(una), begins_ns)]),
            una,
            recovery: None,
            begins_ns,
            since_ns: None,
            smss,
            least_ns: None,
        }
    }

    /// The row with what it told this sender; a loss is heard of where the capture shows what was outstanding.
    pub fn heard(&mut self, row: TapeRow) -> TapeRow {
        if row.now_ns <= self.begins_ns {
            // Of a handshake, or from before the capture: then the least is among them.
            if self.since_ns.is_some() {
                self.least_ns = self.least_ns.into_iter().chain(row.rtt_ns).min();
            }
            return row;
        }
        if self.since_ns.is_some_and(|since_ns| row.now_ns < since_ns) {
            return TapeRow {
                rtt_ns: None,
                ..row
            };
        }
        let before = self.una;
        self.una = row.snd_una.max(before);
        while self.left.front().is_some_and(|&(top, _)| top < self.una) {
            self.left.pop_front();
        }
        match row.event {
            TapeEvent::Loss => {
                self.left.retain(|&(top, _)| top <= row.snd_nxt);
                self.recovery = Some(InRecovery {
                    top: row.snd_nxt,
                    flight_size: row.snd_nxt.saturating_sub(row.snd_una) as f64,
                    arrived: f64::from(DUP_THRESH) * self.smss,
                    has_more_holes: false,
                });
            }
            TapeEvent::Recovered | TapeEvent::Restart | TapeEvent::Timeout | TapeEvent::Expired => {
                self.recovery = None;
            }
            TapeEvent::Arrival => {
                if let Some(recovery) = &mut self.recovery {
                    recovery.arrived += row.newly_sacked.max(self.smss);
                    recovery.has_more_holes |= self.una > before;
                }
            }
            _ => {}
        }
        if self.recovery.is_some() {
            self.leaves(row.snd_nxt, row.now_ns);
        }
        if !row.event.is_arrival() {
            return row;
        }
        let answered = self
            .left
            .front()
            .filter(|_| row.event == TapeEvent::Ack && self.una > before);
        let rtt_ns = answered.map(|&(_, left_ns)| row.now_ns - left_ns);
        if self.since_ns.is_none() {
            self.least_ns = self.least_ns.or(rtt_ns);
        }
        let top = self.top();
        TapeRow {
            rtt_ns: rtt_ns.max(self.least_ns.filter(|_| rtt_ns.is_some())),
            flight_size: top.saturating_sub(before) as f64,
            snd_nxt: top.max(row.snd_una),
            ..row
        }
    }

    /// Behind it, what the window lets leave.
    pub fn sends(&mut self, cwnd: f64, now_ns: i64) {
        let top = match &self.recovery {
            None => self.una.saturating_add(cwnd as u64),
            Some(loss) if loss.has_more_holes => return,
            // RFC 6675 section 5 (C), RFC 6582: what has arrived, and what is sent again, is not in the pipe.
            Some(loss) => loss
                .top
                .saturating_add((cwnd + loss.arrived - loss.flight_size).max(0.0) as u64),
        };
        self.leaves(top, now_ns);
    }

    fn top(&self) -> u64 {
        self.left.back().map_or(self.una, |&(top, _)| top)
    }

    fn leaves(&mut self, top: u64, now_ns: i64) {
        if top > self.top() {
            self.left.push_back((top, now_ns));
        }
    }
}

/// The window after each row of a sender whose round trips are those of its own window, the first of which left at
/// `begins_ns`; `since_ns`: of one that is seen from a loss on, when that was.
pub fn play_by_itself(
    control: &mut dyn Control,
    start: State,
    rows: impl Iterator<Item = TapeRow>,
    begins_ns: i64,
    since_ns: Option<i64>,
) -> Vec<f64> {
    let (mut player, mut rto) = (Player::new(start), smoothed());
    let mut own = OwnTimes {
        since_ns,
        ..OwnTimes::new(begins_ns, start.cwnd, start.smss)
    };
    rows.map(|row| {
        let row = own.heard(row);
        if let Some(rtt_ns) = row.rtt_ns {
            rto.on_sample(rtt_ns);
        }
        let (cwnd, _) = player.hear(control, &row, rto.srtt_ns());
        own.sends(player.state.cwnd, row.now_ns);
        cwnd
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::candidates::heard::Room;

    const SMSS: u64 = 1000;

    /// An event at `now_ns`; `top`: what the capture takes for sent.
    fn row(event: TapeEvent, now_ns: i64, una: u64, top: u64) -> TapeRow {
        TapeRow {
            event,
            now_ns,
            newly_acked: SMSS as f64,
            newly_sacked: 0.0,
            rtt_ns: Some(7),
            flight_size: 0.0,
            snd_una: 1 + una * SMSS,
            snd_nxt: 1 + top * SMSS,
            is_cwnd_limited: true,
            cwnd: None,
            ssthresh: None,
            room: Room::default(),
        }
    }

    fn told(own: &mut OwnTimes, event: TapeEvent, now_ns: i64, una: u64) -> (Option<i64>, f64) {
        let heard = own.heard(row(event, now_ns, una, 0));
        (heard.rtt_ns, heard.flight_size)
    }

    #[test]
    fn a_round_trip_begins_when_the_window_let_the_segment_leave() {
        let mut own = OwnTimes::new(0, 2.0 * SMSS as f64, SMSS as f64);
        assert_eq!(told(&mut own, TapeEvent::Ack, 100, 1), (Some(100), 2000.0));
        // Two more leave: a window of three behind one.
        own.sends(3.0 * SMSS as f64, 100);
        assert_eq!(told(&mut own, TapeEvent::Ack, 110, 2), (Some(110), 3000.0));
        own.sends(3.0 * SMSS as f64, 110);
        assert_eq!(told(&mut own, TapeEvent::Ack, 250, 3).0, Some(150));
    }

    #[test]
    fn no_round_trip_is_shorter_than_the_first() {
        let mut own = OwnTimes::new(0, 1.0 * SMSS as f64, SMSS as f64);
        told(&mut own, TapeEvent::Ack, 100, 1);
        own.sends(1.0 * SMSS as f64, 100);
        assert_eq!(told(&mut own, TapeEvent::Ack, 120, 2).0, Some(100));
    }

    #[test]
    fn seen_from_a_loss_on_no_round_trip_is_told_before_it_and_none_is_shorter_than_what_is_remembered()
     {
        let mut own = OwnTimes {
            since_ns: Some(200),
            ..OwnTimes::new(0, 4.0 * SMSS as f64, SMSS as f64)
        };
        assert_eq!(told(&mut own, TapeEvent::Arrival, 0, 0).0, Some(7));
        assert_eq!(told(&mut own, TapeEvent::Ack, 100, 1).0, None);
        own.sends(4.0 * SMSS as f64, 100);
        own.heard(row(TapeEvent::Loss, 200, 1, 9));
        told(&mut own, TapeEvent::Recovered, 300, 9);
        own.sends(4.0 * SMSS as f64, 300);
        assert_eq!(told(&mut own, TapeEvent::Ack, 360, 12).0, Some(60));
        own.sends(4.0 * SMSS as f64, 360);
        assert_eq!(told(&mut own, TapeEvent::Ack, 365, 15).0, Some(7));
    }

    #[test]
    fn within_a_recovery_arrivals_make_room_and_tell_no_round_trip_until_it_is_over() {
        let mut own = OwnTimes::new(0, 4.0 * SMSS as f64, SMSS as f64);
        told(&mut own, TapeEvent::Ack, 100, 1);
        // The candidate's own 20 segments were never sent.
        own.sends(20.0 * SMSS as f64, 100);
        own.heard(row(TapeEvent::Loss, 200, 1, 9));
        let half = 4.0 * SMSS as f64;
        own.sends(half, 200);
        // Of eight outstanding four have arrived, then five: of four that may be, one leaves.
        assert_eq!(
            told(&mut own, TapeEvent::Arrival, 210, 1),
            (None, 8.0 * SMSS as f64)
        );
        own.sends(half, 210);
        told(&mut own, TapeEvent::Arrival, 220, 1);
        own.sends(half, 220);
        assert_eq!(
            told(&mut own, TapeEvent::Recovered, 300, 9),
            (None, 9.0 * SMSS as f64)
        );
        own.sends(half, 300);
        assert_eq!(told(&mut own, TapeEvent::Ack, 330, 10).0, Some(110));
    }

    #[test]
    fn a_handshakes_round_trip_is_told_as_it_is() {
        let mut own = OwnTimes::new(50, 4.0 * SMSS as f64, SMSS as f64);
        assert_eq!(told(&mut own, TapeEvent::Arrival, 50, 0).0, Some(7));
        assert_eq!(told(&mut own, TapeEvent::Ack, 150, 1).0, Some(100));
    }
}
