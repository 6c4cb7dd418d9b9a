//! Scalable TCP (Kelly, ACM CCR 33(2), 2003): a hundredth of the window more per round trip, an eighth less after a loss.

use super::module::{Kernel, KernelWindow};
use super::{Ack, Loss, State, Window};

/// b = 1/8.
const MD_SHIFT: u32 = 3;

#[derive(Clone, Debug)]
pub struct Scalable {
    packets: KernelWindow,
    /// 1/a: ACKs (2.6.22, where one stands for two delayed) or packets to the next packet of window.
    ai_count: u64,
}

impl Scalable {
    pub fn new(kernel: Kernel) -> Self {
        Self {
            packets: KernelWindow::new(kernel),
            ai_count: match kernel {
                Kernel::V2_6 => 50,
                Kernel::V6 => 100,
            },
        }
    }
}

impl Window for Scalable {
    fn is_slow_start(&self, state: &State) -> bool {
        self.packets.is_slow_start(state)
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        // Never slower than Reno.
        let w = KernelWindow::cwnd(state).min(self.ai_count);
        self.packets.increase(state, w, ack);
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        self.packets.forget();
        let cwnd = KernelWindow::cwnd(state);
        KernelWindow::set_ssthresh(state, cwnd - (cwnd >> MD_SHIFT));
    }

    fn min_cwnd(&self, state: &State) -> f64 {
        KernelWindow::half_of_ssthresh(state)
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{ssthresh_at, state, windows};
    use super::*;

    #[test]
    fn a_large_window_grows_by_a_hundredth_of_the_packets_acknowledged() {
        let mut scalable = Scalable::new(Kernel::V6);
        assert_eq!(
            windows(&mut scalable, &mut state(400.0, 2.0), 400)[399],
            404.0
        );
        // 2.6.22: every 51st ACK; 400 = 7 * 51 + 43.
        let mut scalable = Scalable::new(Kernel::V2_6);
        assert_eq!(
            windows(&mut scalable, &mut state(400.0, 2.0), 400)[399],
            407.0
        );
    }

    #[test]
    fn a_small_window_grows_as_reno_s() {
        let mut scalable = Scalable::new(Kernel::V6);
        assert_eq!(windows(&mut scalable, &mut state(20.0, 2.0), 20)[19], 21.0);
    }

    #[test]
    fn seven_eighths_remain() {
        // 111 / 8 = 13.
        assert_eq!(ssthresh_at(&mut Scalable::new(Kernel::V6), 111.0), 98.0);
    }
}
