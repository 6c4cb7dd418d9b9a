//! Vegas (Brakmo and Peterson, IEEE JSAC 13(8), 1995), as Linux runs it: over Reno's recovery, slow start every round.

use super::delay::Rounds;
use super::module::{Kernel, KernelWindow};
use super::{Ack, Loss, State, Values, Window};

/// Packets that the path's queues shall hold: at least, at most, and at the end of slow start.
const ALPHA: u64 = 2;
const BETA: u64 = 4;
const GAMMA: u64 = 1;

#[derive(Clone, Debug)]
pub struct Vegas {
    packets: KernelWindow,
    /// In recovery and after a timeout it is Reno.
    rounds: Rounds,
    /// Where the round began, and the window then.
    round_start: u64,
    round_cwnd: u64,
}

/// What a round has shown.
enum Verdict {
    TooFewSamples,
    /// Packets in the queue in units of the kernel's, and the window without them.
    Queued {
        diff: u64,
        target: u64,
        unit: u64,
    },
}

impl Vegas {
    pub fn new(kernel: Kernel) -> Self {
        Self {
            packets: KernelWindow::new(kernel),
            rounds: Rounds::new(),
            round_start: 0,
            round_cwnd: 0,
        }
    }

    fn is_round_over(&self, ack: &Ack) -> bool {
        self.rounds.is_open && ack.snd_una > self.rounds.end
    }

    /// Ends the round: its verdict, and the window it began with.
    fn end_round(&mut self, state: &State, ack: &Ack) -> (Verdict, u64) {
        let cwnd = KernelWindow::cwnd(state);
        let sent = ((self.rounds.end - self.round_start) as f64 / state.smss) as u64;
        let began_with = self.round_cwnd;
        let (base, rtt) = (self.rounds.delay.base_us, self.rounds.delay.least_us);
        let verdict = match self.packets.kernel {
            _ if !self.rounds.delay.has_enough() => Verdict::TooFewSamples,
            // Half packets of what was sent.
            Kernel::V2_6 => {
                let target = self.rounds.delay.target_halves(sent);
                Verdict::Queued {
                    diff: 2 * sent - target,
                    target: target / 2,
                    unit: 2,
                }
            }
            // Whole packets of the window, over the base round trip.
            Kernel::V6 => Verdict::Queued {
                diff: cwnd * (rtt - base) / base,
                target: cwnd * base / rtt,
                unit: 1,
            },
        };
        self.round_start = self.rounds.end;
        self.round_cwnd = cwnd;
        self.rounds.begin(ack.snd_nxt);
        (verdict, began_with)
    }

    /// The round's adjustment in avoidance.
    fn adjust(&mut self, state: &mut State, ack: &Ack) {
        let (verdict, began_with) = self.end_round(state, ack);
        let Verdict::Queued { diff, unit, .. } = verdict else {
            if ack.is_cwnd_limited {
                self.packets.grow_as_reno(state, ack);
            }
            return;
        };
        let cwnd = KernelWindow::cwnd(state);
        // 2.6.22 moves the window towards the round's, one packet up or down.
        let from = match self.packets.kernel {
            Kernel::V2_6 => began_with,
            Kernel::V6 => cwnd,
        };
        let wanted = if diff > BETA * unit {
            from.wrapping_sub(1)
        } else if diff < ALPHA * unit {
            from + 1
        } else {
            from
        };
        let moved = match wanted.cmp(&cwnd) {
            std::cmp::Ordering::Greater => cwnd + 1,
            std::cmp::Ordering::Less => cwnd - 1,
            std::cmp::Ordering::Equal => cwnd,
        };
        KernelWindow::set_cwnd(state, moved.max(2));
        self.follow(state);
    }

    /// Linux 6 keeps ssthresh at three quarters of the window at least, so that slow start does not come back.
    fn follow(&self, state: &mut State) {
        if self.packets.kernel == Kernel::V6 {
            let cwnd = KernelWindow::cwnd(state);
            let ssthresh = state.ssthresh.min(state.cwnd);
            state.ssthresh = ssthresh.max((cwnd / 2 + cwnd / 4) as f64 * state.smss);
        }
    }
}

impl Window for Vegas {
    fn start(&mut self, _state: &mut State, snd_nxt: u64) {
        self.rounds.begin(snd_nxt);
    }

    fn on_arrival(&mut self, state: &mut State, ack: &Ack) {
        self.packets.hear(state, ack);
        self.rounds.delay.hear(ack);
    }

    fn is_slow_start(&self, state: &State) -> bool {
        self.packets.is_slow_start(state)
    }

    fn on_slow_start_ack(&mut self, state: &mut State, ack: &Ack) {
        self.packets.begin_again();
        if !self.is_round_over(ack) {
            return;
        }
        let (verdict, _) = self.end_round(state, ack);
        let Verdict::Queued { diff, target, unit } = verdict else {
            return;
        };
        if diff > GAMMA * unit {
            // The rate at which ACKs come, times the base round trip; one for what the division lost.
            let left = KernelWindow::cwnd(state).min(target + 1);
            match self.packets.kernel {
                // Its slow start still has this ACK.
                Kernel::V2_6 => {
                    KernelWindow::set_cwnd(state, left + 1);
                    state.ssthresh = 2.0 * state.smss;
                }
                Kernel::V6 => {
                    KernelWindow::set_cwnd(state, left.max(2));
                    self.follow(state);
                }
            }
        }
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        if self.is_round_over(ack) {
            self.adjust(state, ack);
        } else if !self.rounds.is_open {
            self.packets.grow_as_reno(state, ack);
        }
    }

    /// Rounds are rounds, whether or not the window is used.
    fn on_ack_unused(&mut self, state: &mut State, ack: &Ack) {
        if !self.rounds.is_open {
            return;
        }
        if !self.is_slow_start(state) {
            self.on_ack(state, ack);
            return;
        }
        self.on_slow_start_ack(state, ack);
        if self.is_slow_start(state) {
            let grown = match self.packets.kernel {
                Kernel::V2_6 => 1,
                Kernel::V6 => KernelWindow::acked(state, ack),
            };
            KernelWindow::set_cwnd(state, KernelWindow::cwnd(state) + grown);
        }
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        self.rounds.is_open = false;
        self.packets.halve(state);
    }

    fn on_recovered(&mut self, _state: &mut State, _now_ns: i64, snd_nxt: u64) {
        self.rounds.begin_open(snd_nxt);
    }

    fn min_cwnd(&self, state: &State) -> f64 {
        KernelWindow::half_of_ssthresh(state)
    }

    fn snapshot(&self, values: &mut Values) {
        self.rounds.delay.snapshot(values);
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{ack, state};
    use super::*;

    /// A round of the window's ACKs with this round trip, over a base of 100 ms.
    fn round(vegas: &mut Vegas, state: &mut State, sent: &mut u64, rtt_ms: i64) -> f64 {
        let acks = state.cwnd as u64;
        for _ in 0..acks {
            *sent += 1;
            let ack = Ack {
                snd_una: *sent,
                snd_nxt: *sent + acks,
                rtt_ns: Some(rtt_ms * 1_000_000 - 1000),
                ..ack(1.0)
            };
            vegas.on_arrival(state, &ack);
            if vegas.is_slow_start(state) {
                vegas.on_slow_start_ack(state, &ack);
            } else {
                vegas.on_ack(state, &ack);
            }
        }
        state.cwnd
    }

    fn vegas(kernel: Kernel) -> Vegas {
        let mut vegas = Vegas::new(kernel);
        vegas.rounds.delay.base_us = 100_000;
        vegas
    }

    #[test]
    fn two_to_four_packets_in_the_queue_are_kept() {
        // Linux 6: 50 (RTT - 100) / 100 at 103, 106 and 110 ms: 1, 3, 5.
        for (rtt_ms, then) in [(103, 51.0), (106, 50.0), (110, 49.0)] {
            let (mut vegas, mut state) = (vegas(Kernel::V6), state(50.0, 2.0));
            let mut sent = 0;
            vegas.rounds.end = 1;
            round(&mut vegas, &mut state, &mut sent, rtt_ms);
            assert_eq!(
                round(&mut vegas, &mut state, &mut sent, rtt_ms),
                then,
                "{rtt_ms}"
            );
        }
    }

    #[test]
    fn a_queue_of_more_than_a_packet_ends_slow_start_at_the_rate_of_the_acks() {
        // 60 * 100/106 = 56, and one.
        let (mut vegas, mut state) = (vegas(Kernel::V6), state(60.0, 1e9));
        let mut sent = 0;
        vegas.rounds.end = 3;
        round(&mut vegas, &mut state, &mut sent, 106);
        assert_eq!((state.cwnd, state.ssthresh), (57.0, 57.0));
    }

    #[test]
    fn two_samples_in_a_round_prove_nothing() {
        let (mut vegas, mut state) = (vegas(Kernel::V6), state(60.0, 1e9));
        let mut sent = 0;
        vegas.rounds.end = 1;
        round(&mut vegas, &mut state, &mut sent, 106);
        assert!(vegas.is_slow_start(&state));
    }
}
