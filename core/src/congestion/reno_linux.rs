//! Reno as Linux computes it: whole packets, and half of cwnd, not of the flight, after a loss.

use super::module::{Kernel, KernelWindow};
use super::{Ack, Loss, State, Window};

#[derive(Clone, Debug)]
pub struct RenoLinux {
    packets: KernelWindow,
}

impl RenoLinux {
    pub fn new(kernel: Kernel) -> Self {
        Self {
            packets: KernelWindow::new(kernel),
        }
    }
}

impl Window for RenoLinux {
    fn on_arrival(&mut self, state: &mut State, ack: &Ack) {
        self.packets.hear(state, ack);
    }

    fn is_slow_start(&self, state: &State) -> bool {
        self.packets.is_slow_start(state)
    }

    fn on_slow_start_ack(&mut self, _state: &mut State, _ack: &Ack) {
        self.packets.begin_again();
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        self.packets.grow_as_reno(state, ack);
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        self.packets.halve(state);
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
    fn a_window_of_packets_adds_one() {
        let mut reno = RenoLinux::new(Kernel::V6);
        let grown = windows(&mut reno, &mut state(10.0, 2.0), 21);
        assert_eq!(
            (grown[8], grown[9], grown[19], grown[20]),
            (10.0, 11.0, 11.0, 12.0)
        );
    }

    #[test]
    fn half_of_an_odd_window_is_cut() {
        assert_eq!(ssthresh_at(&mut RenoLinux::new(Kernel::V6), 97.0), 48.0);
        assert_eq!(ssthresh_at(&mut RenoLinux::new(Kernel::V2_6), 3.0), 2.0);
    }
}
