//! BIC (Xu, Harfoush and Rhee, INFOCOM 2004): a binary search for the window of the last loss, then away from it.

use super::module::{Kernel, KernelWindow};
use super::{Ack, Loss, State, Values, Window};

/// beta = 819/1024.
const BETA: u64 = 819;
const BETA_SCALE: u64 = 1024;
/// The search goes a quarter of the way per round trip.
const B: u64 = 4;
/// Packets per round trip at most.
const MAX_INCREMENT: u64 = 16;
/// Up to this window it is Reno.
const LOW_WINDOW: u64 = 14;
/// Round trips for the last `B` packets below the maximum.
const SMOOTH_PART: u64 = 20;
/// Before the first loss: a packet for every 20 acknowledged at least.
const MOST_BEFORE_LOSS: u64 = 20;
/// Between two looks at an unchanged window: 1/32 s in jiffies.
const PATIENCE_MS: i64 = 1000 / 32;
const ACK_RATIO_SHIFT: u32 = 4;

#[derive(Clone, Debug)]
pub struct Bic {
    packets: KernelWindow,
    is_open: bool,
    /// Packets acknowledged for one packet of window.
    per_packet: u64,
    last_max_cwnd: u64,
    has_had_loss: bool,
    last_cwnd: u64,
    last_time_ms: i64,
    /// Packets per ACK in sixteenths.
    delayed_ack: u64,
    /// The last ACK was a duplicate.
    is_disordered: bool,
}

impl Bic {
    pub fn new(kernel: Kernel) -> Self {
        Self {
            packets: KernelWindow::new(kernel),
            is_open: true,
            per_packet: 0,
            last_max_cwnd: 0,
            has_had_loss: false,
            last_cwnd: 0,
            last_time_ms: 0,
            delayed_ack: 2 << ACK_RATIO_SHIFT,
            is_disordered: false,
        }
    }

    fn update(&mut self, cwnd: u64, now_ns: i64) {
        let now_ms = now_ns / 1_000_000;
        if self.last_cwnd == cwnd && now_ms - self.last_time_ms <= PATIENCE_MS {
            return;
        }
        self.last_cwnd = cwnd;
        self.last_time_ms = now_ms;
        if cwnd <= LOW_WINDOW {
            self.per_packet = cwnd;
            return;
        }
        self.per_packet = self.search(cwnd);
        if !self.has_had_loss {
            self.per_packet = self.per_packet.min(MOST_BEFORE_LOSS);
        }
        self.per_packet = ((self.per_packet << ACK_RATIO_SHIFT) / self.delayed_ack).max(1);
    }

    fn search(&self, cwnd: u64) -> u64 {
        let max = self.last_max_cwnd;
        if cwnd < max {
            // Towards the maximum.
            let distance = (max - cwnd) / B;
            if distance > MAX_INCREMENT {
                cwnd / MAX_INCREMENT
            } else if distance <= 1 {
                cwnd * SMOOTH_PART / B
            } else {
                cwnd / distance
            }
        } else if cwnd < max + B {
            // Away from it: slowly first, then as fast as it came.
            cwnd * SMOOTH_PART / B
        } else if cwnd < max + MAX_INCREMENT * (B - 1) {
            cwnd * (B - 1) / (cwnd - max)
        } else {
            cwnd / MAX_INCREMENT
        }
    }
}

impl Window for Bic {
    fn on_arrival(&mut self, state: &mut State, ack: &Ack) {
        let is_dup = ack.newly_acked <= 0.0;
        // Since Linux 4.7 the first duplicate counts too: as an ACK of nothing.
        let counts = !is_dup || (self.packets.kernel == Kernel::V6 && !self.is_disordered);
        if self.is_open && counts {
            let acked = if is_dup {
                0
            } else {
                KernelWindow::acked(state, ack)
            };
            self.delayed_ack = self.delayed_ack + acked - (self.delayed_ack >> ACK_RATIO_SHIFT);
        }
        self.is_disordered = is_dup;
    }

    fn is_slow_start(&self, state: &State) -> bool {
        self.packets.is_slow_start(state)
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        self.update(KernelWindow::cwnd(state), ack.now_ns);
        self.packets.increase(state, self.per_packet, ack);
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        self.is_open = false;
        self.packets.forget();
        let cwnd = KernelWindow::cwnd(state);
        // Fast convergence: a maximum below the last one makes room for others.
        self.last_max_cwnd = if cwnd < self.last_max_cwnd {
            cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE)
        } else {
            cwnd
        };
        self.has_had_loss = true;
        let left = if cwnd <= LOW_WINDOW {
            cwnd / 2
        } else {
            cwnd * BETA / BETA_SCALE
        };
        KernelWindow::set_ssthresh(state, left);
    }

    fn on_expired(&mut self, _state: &mut State, _loss: &Loss) {
        *self = Self {
            is_open: false,
            ..Self::new(self.packets.kernel)
        };
    }

    fn on_recovered(&mut self, _state: &mut State, _now_ns: i64, _snd_nxt: u64) {
        self.is_open = true;
    }

    fn snapshot(&self, values: &mut Values) {
        values.push(("w_max", self.last_max_cwnd as f64));
        values.push(("packets_per_increase", self.per_packet as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{ssthresh_at, state, windows};
    use super::*;

    fn after_a_loss_at(cwnd: f64) -> Bic {
        let mut bic = Bic::new(Kernel::V6);
        bic.delayed_ack = 1 << ACK_RATIO_SHIFT;
        ssthresh_at(&mut bic, cwnd);
        bic
    }

    /// Windows after each round of ACKs of whole windows.
    fn rounds(bic: &mut Bic, cwnd: f64, count: usize) -> Vec<f64> {
        let mut state = state(cwnd, 2.0);
        (0..count)
            .map(|_| {
                let acks = state.cwnd as usize;
                *windows(bic, &mut state, acks).last().expect("a window")
            })
            .collect()
    }

    #[test]
    fn far_below_the_maximum_it_grows_by_sixteen_per_round() {
        // 1000 - 800 is 200, a quarter is 50 > 16: a packet for every 800/16 = 50.
        assert_eq!(rounds(&mut after_a_loss_at(1000.0), 800.0, 1), [816.0]);
    }

    #[test]
    fn near_the_maximum_it_takes_a_quarter_of_the_way() {
        // 100 - 80 = 20, a quarter is 5: 80/5 = 16 packets for one of window, fewer as the distance shrinks.
        let grown = rounds(&mut after_a_loss_at(100.0), 80.0, 1)[0];
        assert!((84.0..=85.0).contains(&grown), "{grown}");
    }

    #[test]
    fn at_the_maximum_it_stands_almost_still() {
        // cwnd 20 / 4: a packet in five rounds.
        assert_eq!(
            rounds(&mut after_a_loss_at(100.0), 100.0, 5),
            [100.0, 100.0, 100.0, 100.0, 101.0]
        );
    }

    #[test]
    fn four_fifths_remain_and_half_of_a_small_window() {
        // 100 * 819 / 1024 = 79.98.
        assert_eq!(ssthresh_at(&mut Bic::new(Kernel::V6), 100.0), 79.0);
        assert_eq!(ssthresh_at(&mut Bic::new(Kernel::V6), 14.0), 7.0);
    }

    #[test]
    fn a_loss_below_the_last_maximum_makes_room() {
        let mut bic = after_a_loss_at(100.0);
        ssthresh_at(&mut bic, 90.0);
        // 90 (1024 + 819) / 2048.
        assert_eq!(bic.last_max_cwnd, 80);
    }
}
