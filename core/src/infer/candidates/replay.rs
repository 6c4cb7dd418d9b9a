//! A candidate's own code driven by what a capture shows: the window it would have had after each event.
//!
//! A tape is a sender's life as a control hears of it: ACKs, round trips, losses, timeouts, ends of recovery. At each
//! loss and at each end of a recovery the window is set to what was observed, so that an error does not outlive its
//! loss cycle; what the control remembers (`w_max`, base RTT, bandwidth) carries on. Before it is set, the control's own
//! answer is kept: that is what reduction and recovery are judged by.

use super::heard::TapeRow;
use super::player::Player;
use crate::congestion::{Control, State};
use crate::recovery::Srtt;

/// What a sender that its window did not hold back is taken to have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// What it showed: the window neither grows nor is larger than what was outstanding when it was taken over.
    AsSeen,
    /// The most that the control could have had.
    AtMost,
}

/// The window after each row as the candidate itself has it, before what was observed is taken over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Played {
    pub cwnd: Vec<f64>,
    pub ssthresh: Vec<f64>,
}

/// Feeds a tape to a control.
pub fn play(
    control: &mut dyn Control,
    start: State,
    rows: impl Iterator<Item = TapeRow>,
    unseen: Unseen,
) -> Played {
    let mut played = Played::with_capacity(rows.size_hint().0);
    play_each(control, start, rows, unseen, |_, own| played.push(own));
    played
}

/// `watch` sees the control, and what it holds in mind, with its window and threshold after each row, or after those
/// asked about, which rise.
pub fn watch(
    control: &mut dyn Control,
    start: State,
    rows: impl Iterator<Item = TapeRow>,
    asked: Option<&[i64]>,
    mut watch: impl FnMut(&dyn Control, (f64, f64)),
) {
    let mut times = asked_about(asked);
    play_each(control, start, rows, Unseen::AsSeen, |control, own| {
        (0..times()).for_each(|_| watch(control, own));
    });
}

/// How often each row is asked about, one after the other.
fn asked_about(asked: Option<&[i64]>) -> impl FnMut() -> usize + '_ {
    let (mut row, mut left) = (0, asked);
    move || {
        let times = left.as_mut().map_or(1, |left| {
            let times = left.iter().take_while(|&&asked| asked <= row).count();
            *left = &left[times..];
            times
        });
        row += 1;
        times
    }
}

/// As `play`, of these rows alone, which rise; there may be more of one. What is asked of a part is kept of no other.
pub fn play_at(
    control: &mut dyn Control,
    start: State,
    rows: impl Iterator<Item = TapeRow>,
    unseen: Unseen,
    asked: &[i64],
) -> Played {
    let mut played = Played::with_capacity(asked.len());
    let mut times = asked_about(Some(asked));
    play_each(control, start, rows, unseen, |_, own| {
        (0..times()).for_each(|_| played.push(own));
    });
    played
}

/// `each` has the control after each row, and its window and threshold.
fn play_each(
    control: &mut dyn Control,
    start: State,
    rows: impl Iterator<Item = TapeRow>,
    unseen: Unseen,
    mut each: impl FnMut(&dyn Control, (f64, f64)),
) {
    let (mut player, mut srtt) = (Player::new(start), Srtt::default());
    for row in rows {
        let row = match unseen {
            Unseen::AsSeen => row,
            Unseen::AtMost => row.at_most(&player.state),
        };
        let own = player.hear(control, &row, srtt.with(row.rtt_ns));
        each(control, own);
    }
}

impl Played {
    fn with_capacity(rows: usize) -> Self {
        Self {
            cwnd: Vec::with_capacity(rows),
            ssthresh: Vec::with_capacity(rows),
        }
    }

    fn push(&mut self, (cwnd, ssthresh): (f64, f64)) {
        self.cwnd.push(cwnd);
        self.ssthresh.push(ssthresh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::{Bic, Kernel, Pair, Reno, Standard, Values, Window};
    use crate::infer::candidates::heard::{Room, TapeEvent};

    const SMSS: f64 = 1000.0;

    fn row(event: TapeEvent, newly_acked: f64) -> TapeRow {
        TapeRow {
            event,
            now_ns: 1,
            newly_acked,
            newly_sacked: 0.0,
            rtt_ns: Some(1_000_000),
            flight_size: 20_000.0,
            snd_una: 1,
            snd_nxt: 20_001,
            is_cwnd_limited: true,
            cwnd: None,
            ssthresh: None,
            room: Room::default(),
        }
    }

    fn reno() -> Pair<Standard, Reno> {
        Pair {
            slow_start: Standard {
                byte_counting: false,
            },
            window: Reno::new(false),
        }
    }

    #[test]
    fn the_window_is_taken_over_only_after_the_candidates_own_answer_is_kept() {
        let start = State {
            cwnd: 4.0 * SMSS,
            ssthresh: f64::INFINITY,
            smss: SMSS,
        };
        let observed = TapeRow {
            cwnd: Some(12.0 * SMSS),
            ..row(TapeEvent::Recovered, 0.0)
        };
        let rows = [
            row(TapeEvent::Ack, SMSS),
            row(TapeEvent::Loss, 0.0),
            observed,
            row(TapeEvent::Ack, SMSS),
        ];
        let played = play(&mut reno(), start, rows.into_iter(), Unseen::AsSeen);
        // Half of 20 outstanding, though 12 was seen; then 12 + 1/12.
        assert_eq!(played.cwnd[..3], [5.0 * SMSS, 10.0 * SMSS, 10.0 * SMSS]);
        assert!((played.cwnd[3] - (12.0 + 1.0 / 12.0) * SMSS).abs() < 1.0);
    }

    #[test]
    fn rows_that_are_asked_for_are_as_among_all() {
        let start = State {
            cwnd: 4.0 * SMSS,
            ssthresh: 6.0 * SMSS,
            smss: SMSS,
        };
        let rows = [row(TapeEvent::Ack, SMSS); 9];
        let all = play(&mut reno(), start, rows.into_iter(), Unseen::AsSeen);
        let asked = [0, 3, 3, 8_i64];
        let some = play_at(&mut reno(), start, rows.into_iter(), Unseen::AsSeen, &asked);
        assert_eq!(some.cwnd, asked.map(|row| all.cwnd[row as usize]));
        assert_eq!(some.ssthresh, asked.map(|row| all.ssthresh[row as usize]));
        for (asked, expected) in [(Some(&asked[..]), some), (None, all)] {
            let mut seen = Played::default();
            watch(&mut reno(), start, rows.into_iter(), asked, |_, own| {
                seen.push(own)
            });
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn a_loss_finds_the_window_that_agrees_with_what_was_seen() {
        let start = State {
            cwnd: 21.5 * SMSS,
            ssthresh: 21.0 * SMSS,
            smss: SMSS,
        };
        // 20 outstanding, or 22 if two arrivals behind the hole were made up for: the candidate's 21.5 is among them.
        let loss = TapeRow {
            cwnd: Some(20.0 * SMSS),
            room: Room {
                more: 2.0 * SMSS,
                flight: 2.0 * SMSS,
                ..Room::default()
            },
            ..row(TapeEvent::Loss, 0.0)
        };
        let played = play(&mut reno(), start, [loss].into_iter(), Unseen::AsSeen);
        // Half of 21.
        assert_eq!(played.ssthresh, [10.5 * SMSS]);
    }

    #[test]
    fn a_sender_that_has_fallen_silent_may_have_had_a_smaller_window() {
        let start = State {
            cwnd: 15.0 * SMSS,
            ssthresh: 5.0 * SMSS,
            smss: SMSS,
        };
        let seen = |less| TapeRow {
            cwnd: Some(20.0 * SMSS),
            room: Room {
                less,
                ..Room::default()
            },
            ..row(TapeEvent::Set, 0.0)
        };
        for (less, kept) in [(0.0, 20.0), (20.0 * SMSS, 15.0)] {
            let rows = [seen(less), row(TapeEvent::Arrival, 0.0)];
            let played = play(&mut reno(), start, rows.into_iter(), Unseen::AsSeen);
            assert_eq!(played.cwnd[1], kept * SMSS);
        }
    }

    #[test]
    fn a_full_acknowledgment_leaves_no_more_than_a_segment_above_the_flight() {
        let start = State {
            cwnd: 20.0 * SMSS,
            ssthresh: 20.0 * SMSS,
            smss: SMSS,
        };
        let over = TapeRow {
            room: Room {
                most_after: 6.0 * SMSS,
                ..Room::default()
            },
            ..row(TapeEvent::Recovered, SMSS)
        };
        let rows = [row(TapeEvent::Loss, 0.0), over, row(TapeEvent::Ack, SMSS)];
        let played = play(&mut reno(), start, rows.into_iter(), Unseen::AsSeen);
        // RFC 6582 section 3.2 (3), option 1; then slow start up to ssthresh.
        assert_eq!(played.cwnd, [10.0 * SMSS, 6.0 * SMSS, 7.0 * SMSS]);
    }

    #[test]
    fn a_timer_within_a_recovery_keeps_its_threshold_and_is_told_of() {
        let start = State {
            cwnd: 20.0 * SMSS,
            ssthresh: f64::INFINITY,
            smss: SMSS,
        };
        let mut bic = Pair {
            slow_start: Standard {
                byte_counting: false,
            },
            window: Bic::new(Kernel::V6),
        };
        let rows = [TapeEvent::Loss, TapeEvent::Expired].map(|event| row(event, 0.0));
        let played = play(&mut bic, start, rows.into_iter(), Unseen::AsSeen);
        assert_eq!(played.ssthresh[0], played.ssthresh[1]);
        assert_eq!(played.cwnd[1], SMSS);
        // Linux's module resets itself.
        let mut values = Values::new();
        bic.window.snapshot(&mut values);
        assert_eq!(values[0], ("w_max", 0.0));
    }

    #[test]
    fn a_round_trip_within_recovery_opens_nothing() {
        let start = State {
            cwnd: 4.0 * SMSS,
            ssthresh: 4.0 * SMSS,
            smss: SMSS,
        };
        let rows = [row(TapeEvent::Arrival, SMSS)];
        let played = play(&mut reno(), start, rows.into_iter(), Unseen::AsSeen);
        assert_eq!(played.cwnd, [4.0 * SMSS]);
    }

    #[test]
    fn a_window_that_was_not_the_limit_may_have_grown_with_every_ack() {
        let start = State {
            cwnd: 4.0 * SMSS,
            ssthresh: f64::INFINITY,
            smss: SMSS,
        };
        let idle = |event, cwnd| TapeRow {
            is_cwnd_limited: false,
            cwnd,
            ..row(event, SMSS)
        };
        // A pause behind which two segments are outstanding, and a loss: 20 outstanding, half of them at least.
        let rows = [
            idle(TapeEvent::Ack, None),
            idle(TapeEvent::Set, Some(2.0 * SMSS)),
            idle(TapeEvent::Loss, None),
        ];
        let [seen, most] = [Unseen::AsSeen, Unseen::AtMost]
            .map(|unseen| play(&mut reno(), start, rows.into_iter(), unseen).cwnd);
        assert_eq!(most[..2], [5.0 * SMSS; 2]);
        assert!(seen[1] <= most[1] && seen[2] <= most[2]);
    }
}
