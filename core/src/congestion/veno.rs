//! Veno (Fu and Liew, IEEE JSAC 21(2), 2003): Reno that asks whether the path's queue is full.

use super::delay::Delay;
use super::module::{Kernel, KernelWindow};
use super::{Ack, Loss, State, Values, Window};

/// Packets queued from which losses are congestion's, in halves.
const BETA_HALVES: u64 = 2 * 3;

#[derive(Clone, Debug)]
pub struct Veno {
    packets: KernelWindow,
    delay: Delay,
    is_open: bool,
    /// With a full queue every second increase is left out.
    is_increase_due: bool,
    /// N = w (1 - baseRTT / RTT), in half packets.
    queued_halves: u64,
}

impl Veno {
    pub fn new(kernel: Kernel) -> Self {
        Self {
            packets: KernelWindow::new(kernel),
            delay: Delay::new(),
            is_open: true,
            is_increase_due: true,
            queued_halves: 0,
        }
    }

    fn is_congested(&self) -> bool {
        self.queued_halves >= BETA_HALVES
    }

    /// By the least round trip since the last ACK that could open the window.
    fn measure(&mut self, state: &State) {
        if self.is_open && self.delay.has_enough() {
            let cwnd = KernelWindow::cwnd(state);
            self.queued_halves = 2 * cwnd - self.delay.target_halves(cwnd);
        }
        if self.is_open {
            self.delay.forget_least();
        }
    }

    fn increase_every_other_round(&mut self, state: &mut State, ack: &Ack) {
        let cwnd = KernelWindow::cwnd(state);
        if self.packets.count >= cwnd {
            self.packets.count = 0;
            if self.is_increase_due {
                KernelWindow::set_cwnd(state, cwnd + 1);
            }
            self.is_increase_due = !self.is_increase_due;
        } else {
            self.packets.count += match self.packets.kernel {
                Kernel::V2_6 => 1,
                Kernel::V6 => KernelWindow::acked(state, ack),
            };
        }
    }
}

impl Window for Veno {
    fn on_arrival(&mut self, state: &mut State, ack: &Ack) {
        self.packets.hear(state, ack);
        self.delay.hear(ack);
    }

    fn is_slow_start(&self, state: &State) -> bool {
        self.packets.is_slow_start(state)
    }

    fn on_slow_start_ack(&mut self, state: &mut State, _ack: &Ack) {
        self.packets.begin_again();
        self.measure(state);
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        self.measure(state);
        if !(self.is_open && self.delay.has_enough()) {
            self.packets.grow_as_reno(state, ack);
        } else if self.is_congested() {
            self.increase_every_other_round(state, ack);
        } else {
            self.packets.increase(state, KernelWindow::cwnd(state), ack);
        }
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        self.is_open = false;
        self.packets.forget();
        let cwnd = KernelWindow::cwnd(state);
        let left = if self.is_congested() {
            cwnd / 2
        } else {
            // A random loss.
            cwnd * 4 / 5
        };
        KernelWindow::set_ssthresh(state, left);
    }

    fn on_recovered(&mut self, _state: &mut State, _now_ns: i64, _snd_nxt: u64) {
        self.is_open = true;
        self.delay.forget_least();
    }

    fn snapshot(&self, values: &mut Values) {
        values.push(("queued", self.queued_halves as f64 / 2.0));
        self.delay.snapshot(values);
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{ack, ssthresh_at, state};
    use super::*;

    /// After ACKs at this round trip, over a base of 100 ms.
    fn after(rtt_ms: i64, acks: usize, state: &mut State) -> Veno {
        let mut veno = Veno::new(Kernel::V6);
        veno.delay.base_us = 100_000;
        for _ in 0..acks {
            let ack = Ack {
                rtt_ns: Some(rtt_ms * 1_000_000 - 1000),
                ..ack(1.0)
            };
            veno.on_arrival(state, &ack);
            veno.on_ack(state, &ack);
        }
        veno
    }

    #[test]
    fn with_three_packets_in_the_queue_every_second_round_grows() {
        // N = 30 (1 - 100/105) = 1.4 and 30 (1 - 100/120) = 5.
        for (rtt_ms, grown) in [(105, 34.0), (120, 32.0)] {
            let mut state = state(30.0, 2.0);
            after(rtt_ms, 130, &mut state);
            assert_eq!(state.cwnd, grown, "{rtt_ms}");
        }
    }

    #[test]
    fn a_loss_with_an_empty_queue_is_a_random_one() {
        for (rtt_ms, left) in [(105, 80.0), (120, 50.0)] {
            let mut veno = after(rtt_ms, 5, &mut state(30.0, 2.0));
            assert_eq!(ssthresh_at(&mut veno, 100.0), left, "{rtt_ms}");
        }
    }
}
