//! When a candidate's own window would have let each byte leave: round trips where the capture does not show them.
//!
//! Of what stands in a queue before the tap the order is seen, not when it left. A sender that its window holds back
//! sends as soon as that allows, so a candidate's window says when each byte left, and what its round trip was; within a
//! recovery too, where what has arrived behind the hole makes room. Assumes that nothing but the window held it back.

use std::collections::VecDeque;

use super::heard::{TapeEvent, TapeRow};
use super::player::Player;
use crate::congestion::{Ack, Control, Heard, State};
use crate::recovery::{DUP_THRESH, Srtt};

/// Where a sender that goes by itself begins, on its control's clock.
#[derive(Clone, Copy, Debug)]
pub struct Begins {
    /// When the first window left.
    pub begins_ns: i64,
    /// From when on it is known what was outstanding, in what begins in the middle: its first loss. Before that it
    /// tells no round trip.
    pub since_ns: Option<i64>,
}

impl Begins {
    pub fn later(self, later_ns: i64) -> Self {
        Self {
            begins_ns: self.begins_ns.saturating_add(later_ns),
            since_ns: self
                .since_ns
                .map(|since_ns| since_ns.saturating_add(later_ns)),
        }
    }
}

/// What has left and is not acknowledged yet, and when.
#[derive(Debug)]
struct OwnTimes {
    /// The byte behind the last one that left, and the time.
    left: VecDeque<(u64, i64)>,
    una: u64,
    recovery: Option<InRecovery>,
    begins: Begins,
    smss: f64,
    /// Whether what is SACKed is timed (Linux), and how much is above `una`.
    times_sacked: bool,
    sacked: f64,
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
    /// `cwnd`: bytes of the first window.
    fn new(begins: Begins, cwnd: f64, smss: f64, times_sacked: bool) -> Self {
        let una = 1;
        Self {
            left: VecDeque::from([((cwnd as u64).saturating_add(una), begins.begins_ns)]),
            una,
            recovery: None,
            begins,
            smss,
            times_sacked,
            sacked: 0.0,
            least_ns: None,
        }
    }

    /// What an event tells this sender; a loss is heard of where the capture shows what was outstanding.
    #[inline(always)]
    fn heard(&mut self, event: TapeEvent, ack: &mut Ack) {
        let Begins {
            begins_ns,
            since_ns,
        } = self.begins;
        if ack.now_ns <= begins_ns {
            // Of a handshake, or from before the capture: then the least is among them.
            if since_ns.is_some() {
                self.least_ns = self.least_ns.into_iter().chain(ack.rtt_ns).min();
            }
            return;
        }
        if since_ns.is_some_and(|since_ns| ack.now_ns < since_ns) {
            ack.rtt_ns = None;
            return;
        }
        let before = self.una;
        self.una = ack.snd_una.max(before);
        while self.left.front().is_some_and(|&(top, _)| top < self.una) {
            self.left.pop_front();
        }
        if self.recovery.is_some() || !matches!(event, TapeEvent::Ack | TapeEvent::Arrival) {
            self.recovers(event, ack, before);
        }
        if !event.is_arrival() {
            return;
        }
        let is_moved = self.una > before;
        self.sacked = ack.newly_sacked + if is_moved { 0.0 } else { self.sacked };
        let answered = if self.times_sacked && ack.newly_sacked > 0.0 {
            self.sacked_last().filter(|_| self.recovery.is_none())
        } else {
            self.left
                .front()
                .filter(|_| event == TapeEvent::Ack && is_moved)
        };
        let rtt_ns = answered.map(|&(_, left_ns)| ack.now_ns - left_ns);
        if since_ns.is_none() {
            self.least_ns = self.least_ns.or(rtt_ns);
        }
        let top = self.top();
        ack.rtt_ns = rtt_ns.max(self.least_ns.filter(|_| rtt_ns.is_some()));
        ack.flight_size = top.saturating_sub(before) as f64;
        ack.snd_nxt = top.max(ack.snd_una);
    }

    /// The same within a recovery, and of what begins or ends one; `before`: what was acknowledged before. Apart from
    /// `heard`, which every candidate calls for every ACK.
    #[inline(never)]
    fn recovers(&mut self, event: TapeEvent, ack: &Ack, before: u64) {
        match event {
            TapeEvent::Loss => {
                self.left.retain(|&(top, _)| top <= ack.snd_nxt);
                self.recovery = Some(InRecovery {
                    top: ack.snd_nxt,
                    flight_size: ack.snd_nxt.saturating_sub(ack.snd_una) as f64,
                    arrived: f64::from(DUP_THRESH) * self.smss,
                    has_more_holes: false,
                });
            }
            TapeEvent::Recovered | TapeEvent::Restart | TapeEvent::Timeout | TapeEvent::Expired => {
                self.recovery = None;
            }
            TapeEvent::Arrival => {
                if let Some(recovery) = &mut self.recovery {
                    recovery.arrived += ack.newly_sacked.max(self.smss);
                    recovery.has_more_holes |= self.una > before;
                }
            }
            _ => {}
        }
        if self.recovery.is_some() {
            self.leaves(ack.snd_nxt, ack.now_ns);
        }
    }

    /// What holds the highest byte SACKed, above a hole of one segment: it came without waiting for that.
    fn sacked_last(&self) -> Option<&(u64, i64)> {
        let high = self.una.saturating_add((self.smss + self.sacked) as u64);
        self.left
            .get(self.left.partition_point(|&(top, _)| top < high))
    }

    /// Behind it, what the window lets leave.
    fn sends(&mut self, cwnd: f64, now_ns: i64) {
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

/// A sender whose round trips are those of its own window.
#[derive(Debug)]
pub struct ByItself {
    own: OwnTimes,
    srtt: Srtt,
}

impl ByItself {
    /// `start`: its first window; `times_sacked`: as Linux does.
    pub fn new(begins: Begins, start: State, times_sacked: bool) -> Self {
        Self {
            own: OwnTimes::new(begins, start.cwnd, start.smss, times_sacked),
            srtt: Srtt::default(),
        }
    }

    /// As `Player::hear`.
    pub fn hear(
        &mut self,
        player: &mut Player,
        control: &mut dyn Control,
        row: &TapeRow,
    ) -> (f64, f64) {
        let mut ack = row.ack(None);
        self.own.heard(row.event, &mut ack);
        let row = TapeRow {
            rtt_ns: ack.rtt_ns,
            flight_size: ack.flight_size,
            snd_nxt: ack.snd_nxt,
            ..*row
        };
        let own = player.hear(control, &row, self.srtt.with(row.rtt_ns));
        self.own.sends(player.state.cwnd, row.now_ns);
        own
    }

    /// As `Player::hear_alone`.
    pub fn hear_alone(
        &mut self,
        player: &mut Player,
        control: &mut dyn Control,
        heard: &Heard,
        later_ns: i64,
    ) -> (f64, f64) {
        let event = if heard.opens {
            TapeEvent::Ack
        } else {
            TapeEvent::Arrival
        };
        // In place: each copy would wait for what was just written.
        let mut ack = heard.ack;
        ack.now_ns = ack.now_ns.saturating_add(later_ns);
        self.own.heard(event, &mut ack);
        ack.srtt_ns = self.srtt.with(ack.rtt_ns);
        let own = player.hear_at(control, &mut ack, heard.opens);
        self.own.sends(player.state.cwnd, ack.now_ns);
        own
    }
}

/// The window after each row of such a sender.
pub fn play_by_itself(
    control: &mut dyn Control,
    start: State,
    rows: impl Iterator<Item = TapeRow>,
    begins: Begins,
    times_sacked: bool,
) -> Vec<f64> {
    let mut player = Player::new(start);
    let mut by_itself = ByItself::new(begins, start, times_sacked);
    rows.map(|row| by_itself.hear(&mut player, control, &row).0)
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
        let mut ack = row(event, now_ns, una, 0).ack(None);
        own.heard(event, &mut ack);
        (ack.rtt_ns, ack.flight_size)
    }

    fn begin(begins_ns: i64, since_ns: Option<i64>, cwnd: u64) -> OwnTimes {
        let begins = Begins {
            begins_ns,
            since_ns,
        };
        OwnTimes::new(begins, (cwnd * SMSS) as f64, SMSS as f64, true)
    }

    #[test]
    fn a_round_trip_begins_when_the_window_let_the_segment_leave() {
        let mut own = begin(0, None, 2);
        assert_eq!(told(&mut own, TapeEvent::Ack, 100, 1), (Some(100), 2000.0));
        // Two more leave: a window of three behind one.
        own.sends(3.0 * SMSS as f64, 100);
        assert_eq!(told(&mut own, TapeEvent::Ack, 110, 2), (Some(110), 3000.0));
        own.sends(3.0 * SMSS as f64, 110);
        assert_eq!(told(&mut own, TapeEvent::Ack, 250, 3).0, Some(150));
    }

    #[test]
    fn an_ack_that_sacks_too_times_what_is_sacked_and_not_what_waited() {
        let mut own = begin(0, None, 1);
        told(&mut own, TapeEvent::Ack, 100, 1);
        own.sends(2.0 * SMSS as f64, 150);
        own.sends(4.0 * SMSS as f64, 160);
        // Of four the first is acknowledged, the second lost, and the third SACKed.
        let mut ack = Ack {
            newly_sacked: SMSS as f64,
            ..row(TapeEvent::Ack, 300, 2, 0).ack(None)
        };
        own.heard(TapeEvent::Ack, &mut ack);
        assert_eq!(ack.rtt_ns, Some(140));
        own.times_sacked = false;
        let mut ack = row(TapeEvent::Ack, 310, 3, 0).ack(None);
        own.heard(TapeEvent::Ack, &mut ack);
        assert_eq!(ack.rtt_ns, Some(160));
    }

    #[test]
    fn no_round_trip_is_shorter_than_the_first() {
        let mut own = begin(0, None, 1);
        told(&mut own, TapeEvent::Ack, 100, 1);
        own.sends(1.0 * SMSS as f64, 100);
        assert_eq!(told(&mut own, TapeEvent::Ack, 120, 2).0, Some(100));
    }

    #[test]
    fn seen_from_a_loss_on_no_round_trip_is_told_before_it_and_none_is_shorter_than_what_is_remembered()
     {
        let mut own = begin(0, Some(200), 4);
        assert_eq!(told(&mut own, TapeEvent::Arrival, 0, 0).0, Some(7));
        assert_eq!(told(&mut own, TapeEvent::Ack, 100, 1).0, None);
        own.sends(4.0 * SMSS as f64, 100);
        own.heard(
            TapeEvent::Loss,
            &mut row(TapeEvent::Loss, 200, 1, 9).ack(None),
        );
        told(&mut own, TapeEvent::Recovered, 300, 9);
        own.sends(4.0 * SMSS as f64, 300);
        assert_eq!(told(&mut own, TapeEvent::Ack, 360, 12).0, Some(60));
        own.sends(4.0 * SMSS as f64, 360);
        assert_eq!(told(&mut own, TapeEvent::Ack, 365, 15).0, Some(7));
    }

    #[test]
    fn within_a_recovery_arrivals_make_room_and_tell_no_round_trip_until_it_is_over() {
        let mut own = begin(0, None, 4);
        told(&mut own, TapeEvent::Ack, 100, 1);
        // The candidate's own 20 segments were never sent.
        own.sends(20.0 * SMSS as f64, 100);
        own.heard(
            TapeEvent::Loss,
            &mut row(TapeEvent::Loss, 200, 1, 9).ack(None),
        );
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
        let mut own = begin(50, None, 4);
        assert_eq!(told(&mut own, TapeEvent::Arrival, 50, 0).0, Some(7));
        assert_eq!(told(&mut own, TapeEvent::Ack, 150, 1).0, Some(100));
    }
}
