//! Hybla (Caini and Firrincieli, Int. J. Satellite Communications 22(5), 2004): as fast as a round trip of 25 ms would be.

use super::module::{Clock, Kernel, KernelWindow};
use super::{Ack, Loss, State, Values, Window};

/// RTT0 in milliseconds.
const RTT0_MS: u64 = 25;
/// Increments are kept in 128ths of a packet.
const CENTS: u64 = 128;
/// It takes any other bound of the window away.
const CLAMP: u64 = 65_535;
/// Linux 6 doubles no further; 2.6.22 lets the shift wrap in its 32 bits.
const MOST_DOUBLINGS: u64 = 16;

#[derive(Clone, Debug)]
pub struct Hybla {
    packets: KernelWindow,
    /// 2^rho - 1 per ACK; else another slow start, below this one's avoidance.
    has_own_slow_start: bool,
    /// Else it is Reno.
    is_open: bool,
    /// rho = RTT / RTT0 in eighths, at least 1; 0: not yet measured.
    rho_eighths: u64,
    cents: u64,
    /// Least smoothed round trip in eighths of a tick.
    min_srtt: u64,
}

impl Hybla {
    pub fn new(kernel: Kernel, has_own_slow_start: bool) -> Self {
        Self {
            packets: KernelWindow::new(kernel),
            has_own_slow_start,
            is_open: true,
            rho_eighths: 0,
            cents: 0,
            min_srtt: u64::MAX,
        }
    }

    /// rho by the least smoothed round trip.
    fn measure(&mut self, ack: &Ack) {
        let Some(srtt_ns) = ack.srtt_ns else { return };
        let clock = Clock::of(self.packets.kernel, Clock::MICROSECONDS.hz);
        let eighth_ns = 125_000_000 / clock.hz;
        let srtt = (srtt_ns as u64 + eighth_ns / 2) / eighth_ns;
        if srtt < self.min_srtt {
            self.min_srtt = srtt;
            self.rho_eighths = (srtt / (RTT0_MS * clock.hz / 1000)).max(8);
        }
    }

    fn rho(&self) -> u64 {
        self.rho_eighths >> 3
    }

    /// 2^rho - 1 per ACK.
    fn slow_start_cents(&self) -> u64 {
        let fraction = f64::from((self.rho_eighths & 7) as u32) / 8.0;
        let fraction_cents = (CENTS as f64 * fraction.exp2()) as u64;
        let doubled = match self.packets.kernel {
            Kernel::V2_6 => 1i32.wrapping_shl(self.rho() as u32) as i64 as u64,
            Kernel::V6 => 1 << self.rho().min(MOST_DOUBLINGS),
        };
        doubled.wrapping_mul(fraction_cents).wrapping_sub(CENTS)
    }

    fn is_own_slow_start(state: &State) -> bool {
        state.cwnd < state.ssthresh
    }
}

impl Window for Hybla {
    fn on_arrival(&mut self, state: &mut State, ack: &Ack) {
        self.packets.hear(state, ack);
        if self.rho_eighths == 0 {
            // The window begins with rho as soon as there is a round trip.
            self.measure(ack);
            if self.rho_eighths > 0 {
                KernelWindow::set_cwnd(state, self.rho());
            }
        }
    }

    /// Its own slow start is within its rule for an ACK; after a timeout and in recovery it is Reno.
    fn is_slow_start(&self, state: &State) -> bool {
        !(self.is_open && self.has_own_slow_start) && self.packets.is_slow_start(state)
    }

    fn on_slow_start_ack(&mut self, _state: &mut State, ack: &Ack) {
        self.packets.begin_again();
        self.measure(ack);
    }

    fn on_ack_unused(&mut self, _state: &mut State, ack: &Ack) {
        self.measure(ack);
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        self.measure(ack);
        let cwnd = KernelWindow::cwnd(state);
        if !self.is_open {
            self.packets.grow_as_reno(state, ack);
            return;
        }
        let is_slow_start = Self::is_own_slow_start(state);
        let increment = if is_slow_start {
            self.slow_start_cents()
        } else {
            // rho^2 / w per ACK.
            2 * self.rho_eighths * self.rho_eighths / cwnd
        };
        if !is_slow_start && increment < CENTS {
            self.packets.count += 1;
        }
        self.cents += increment % CENTS;
        let mut grown = cwnd.saturating_add(increment / CENTS);
        if self.cents >= CENTS {
            grown += self.cents / CENTS;
            self.cents %= CENTS;
            self.packets.count = 0;
        }
        if is_slow_start {
            grown = grown.min((state.ssthresh / state.smss) as u64);
        }
        KernelWindow::set_cwnd(state, grown.min(CLAMP));
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        self.is_open = false;
        self.packets.halve(state);
    }

    fn on_recovered(&mut self, _state: &mut State, _now_ns: i64, _snd_nxt: u64) {
        self.is_open = true;
    }

    fn min_cwnd(&self, state: &State) -> f64 {
        KernelWindow::half_of_ssthresh(state)
    }

    fn snapshot(&self, values: &mut Values) {
        let rho = match self.rho_eighths {
            0 => f64::NAN,
            eighths => eighths as f64 / 8.0,
        };
        values.push(("rho", rho));
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{ack, state};
    use super::*;

    /// With a round trip of so many milliseconds, after its first ACK.
    fn hybla(kernel: Kernel, rtt_ms: i64, state: &mut State) -> (Hybla, Ack) {
        let ack = Ack {
            srtt_ns: Some(rtt_ms * 1_000_000),
            ..ack(1.0)
        };
        let mut hybla = Hybla::new(kernel, true);
        hybla.on_arrival(state, &ack);
        (hybla, ack)
    }

    #[test]
    fn the_first_window_is_rho() {
        for kernel in [Kernel::V2_6, Kernel::V6] {
            for (rtt_ms, rho) in [(10, 1.0), (25, 1.0), (100, 4.0), (160, 6.0)] {
                let mut state = state(2.0, 1e5);
                hybla(kernel, rtt_ms, &mut state);
                assert_eq!(state.cwnd, rho, "{rtt_ms} ms");
            }
        }
    }

    #[test]
    fn an_ack_of_slow_start_adds_two_to_the_rho_less_one() {
        // 75 ms: rho = 3, 2^3 - 1 = 7.
        let mut state = state(2.0, 1e5);
        let (mut hybla, ack) = hybla(Kernel::V6, 75, &mut state);
        hybla.on_ack(&mut state, &ack);
        assert_eq!(state.cwnd, 3.0 + 7.0);
    }

    #[test]
    fn a_round_of_avoidance_adds_rho_squared() {
        // 50 ms: rho = 2, 512 128ths per window: 32 ACKs of 512/40 = 12 make three packets, 12 of 512/43 = 11 the fourth.
        let mut state = state(2.0, 1e5);
        let (mut hybla, ack) = hybla(Kernel::V2_6, 50, &mut state);
        state.cwnd = 40.0;
        state.ssthresh = 20.0;
        for _ in 0..44 {
            hybla.on_ack(&mut state, &ack);
        }
        assert_eq!(state.cwnd, 44.0);
    }
}
