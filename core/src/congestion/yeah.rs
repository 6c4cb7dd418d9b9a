//! YeAH (Baiocchi, Castellani and Vacirca, PFLDnet 2007): Scalable while the queue is short, Reno while it is long.

use super::delay::Rounds;
use super::module::{Kernel, KernelWindow};
use super::{Ack, Loss, State, Values, Window};

/// Packets of ours that may stand in the queue.
const ALPHA: u64 = 80;
/// At most half the window leaves at once to empty it.
const EPSILON_SHIFT: u32 = 1;
/// At least an eighth of the window goes with a loss.
const DELTA_SHIFT: u32 = 3;
/// A queue of an eighth of the base round trip is congestion.
const PHI: u64 = 8;
/// Round trips of Reno from which others must be Reno too.
const RHO: u32 = 16;
/// Fast round trips after which they are forgotten.
const ZETA: u32 = 50;
/// As Scalable: packets acknowledged for a packet of window.
const AI_COUNT: u64 = 100;

#[derive(Clone, Debug)]
pub struct Yeah {
    packets: KernelWindow,
    rounds: Rounds,
    /// Packets that the ACK being looked at acknowledges.
    acked: u64,
    last_queue: u64,
    /// Round trips of Reno in a row.
    reno_rounds: u32,
    /// What a Reno beside us would have for a window.
    reno_count: u64,
    fast_count: u32,
}

impl Yeah {
    pub fn new(kernel: Kernel) -> Self {
        Self {
            packets: KernelWindow::new(kernel),
            rounds: Rounds::new(),
            acked: 0,
            last_queue: 0,
            reno_rounds: 0,
            reno_count: 2,
            fast_count: 0,
        }
    }

    fn increase(&mut self, state: &mut State, ack: &Ack) {
        let cwnd = KernelWindow::cwnd(state);
        let is_reno = self.reno_rounds > 0;
        if self.packets.kernel == Kernel::V6 {
            let w = if is_reno { cwnd } else { cwnd.min(AI_COUNT) };
            self.packets.increase(state, w, ack);
            return;
        }
        let is_due = if is_reno {
            self.packets.count = (self.packets.count + 1).min(cwnd.max(self.packets.count));
            self.packets.count >= cwnd
        } else {
            self.packets.count += std::mem::replace(&mut self.acked, 1);
            self.packets.count > cwnd.min(AI_COUNT)
        };
        if is_due {
            self.packets.count = 0;
            KernelWindow::set_cwnd(state, cwnd + 1);
        }
    }

    /// Once per round trip: what stands in the queue, and what to do about it.
    fn end_round(&mut self, state: &mut State, ack: &Ack) {
        if ack.snd_una <= self.rounds.end {
            return;
        }
        if self.rounds.delay.has_enough() {
            let queueing_us = self.rounds.delay.queueing_us();
            let queue = KernelWindow::cwnd(state) * queueing_us / self.rounds.delay.least_us;
            if queue > ALPHA || queueing_us > self.rounds.delay.base_us / PHI {
                self.empty_queue(state, queue);
            } else {
                self.fast_count += 1;
                if self.fast_count > ZETA {
                    self.reno_count = 2;
                    self.fast_count = 0;
                }
                self.reno_rounds = 0;
            }
            self.last_queue = queue;
        }
        self.rounds.begin(ack.snd_nxt);
    }

    fn empty_queue(&mut self, state: &mut State, queue: u64) {
        let mut cwnd = KernelWindow::cwnd(state);
        if queue > ALPHA && cwnd > self.reno_count {
            cwnd = (cwnd - queue.min(cwnd >> EPSILON_SHIFT)).max(self.reno_count);
            KernelWindow::set_cwnd(state, cwnd);
            state.ssthresh = state.cwnd;
        }
        if self.reno_count <= 2 {
            self.reno_count = (cwnd / 2).max(2);
        } else {
            self.reno_count += 1;
        }
        self.reno_rounds = self.reno_rounds.saturating_add(1);
    }
}

impl Window for Yeah {
    fn start(&mut self, _state: &mut State, snd_nxt: u64) {
        self.rounds.begin(snd_nxt);
    }

    fn on_arrival(&mut self, state: &mut State, ack: &Ack) {
        if self.rounds.is_open && ack.newly_acked > 0.0 {
            self.acked = KernelWindow::acked(state, ack);
        }
        self.rounds.delay.hear(ack);
    }

    fn is_slow_start(&self, state: &State) -> bool {
        self.packets.is_slow_start(state)
    }

    fn on_slow_start_ack(&mut self, state: &mut State, _ack: &Ack) {
        self.packets.spend_in_slow_start(state);
    }

    fn after_slow_start(&mut self, state: &mut State, ack: &Ack) {
        self.end_round(state, ack);
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        self.increase(state, ack);
        self.end_round(state, ack);
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        self.rounds.is_open = false;
        self.packets.forget();
        let cwnd = KernelWindow::cwnd(state);
        let half = (cwnd / 2).max(2);
        let reduction = if self.reno_rounds < RHO {
            self.last_queue.min(half).max(cwnd >> DELTA_SHIFT)
        } else {
            half
        };
        self.fast_count = 0;
        self.reno_count = (self.reno_count / 2).max(2);
        match self.packets.kernel {
            // No floor of two packets; a difference below zero begins again from above.
            Kernel::V2_6 => state.ssthresh = cwnd.wrapping_sub(reduction) as f64 * state.smss,
            Kernel::V6 => KernelWindow::set_ssthresh(state, cwnd.saturating_sub(reduction)),
        }
    }

    fn on_recovered(&mut self, _state: &mut State, _now_ns: i64, snd_nxt: u64) {
        self.rounds.begin_open(snd_nxt);
    }

    fn min_cwnd(&self, state: &State) -> f64 {
        KernelWindow::half_of_ssthresh(state)
    }

    fn snapshot(&self, values: &mut Values) {
        values.push(("queued", self.last_queue as f64));
        values.push(("reno_rounds", f64::from(self.reno_rounds)));
        self.rounds.delay.snapshot(values);
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{ack, ssthresh_at, state, windows};
    use super::*;

    fn yeah(least_ms: u64) -> Yeah {
        let mut yeah = Yeah::new(Kernel::V6);
        yeah.rounds.delay.base_us = 100_000;
        for _ in 0..3 {
            yeah.rounds.delay.hear(&Ack {
                rtt_ns: Some(least_ms as i64 * 1_000_000 - 1000),
                ..ack(1.0)
            });
        }
        yeah
    }

    fn end_round(yeah: &mut Yeah, state: &mut State) {
        let ack = Ack {
            snd_una: yeah.rounds.end + 1,
            snd_nxt: yeah.rounds.end + 1,
            ..ack(1.0)
        };
        yeah.end_round(state, &ack);
    }

    #[test]
    fn while_the_queue_is_short_it_grows_as_scalable() {
        assert_eq!(
            windows(&mut yeah(101), &mut state(400.0, 2.0), 400)[399],
            404.0
        );
    }

    #[test]
    fn a_queue_of_more_than_80_packets_leaves_at_once() {
        // 500 * 25/125 = 100 in the queue.
        let (mut yeah, mut state) = (yeah(125), state(500.0, 2.0));
        end_round(&mut yeah, &mut state);
        assert_eq!(
            (state.cwnd, state.ssthresh, yeah.reno_count),
            (400.0, 400.0, 200)
        );
        assert_eq!(windows(&mut yeah, &mut state, 400)[399], 401.0);
    }

    #[test]
    fn a_loss_takes_the_queue_or_half_when_others_are_reno() {
        let (mut yeah, mut state) = (yeah(125), state(500.0, 2.0));
        end_round(&mut yeah, &mut state);
        assert_eq!(ssthresh_at(&mut yeah.clone(), 400.0), 300.0);
        yeah.reno_rounds = RHO;
        assert_eq!(ssthresh_at(&mut yeah, 400.0), 200.0);
    }
}
