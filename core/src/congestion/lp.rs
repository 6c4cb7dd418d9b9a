//! TCP-LP (Kuzmanovic and Knightly, INFOCOM 2003), as Linux 2.6.22 runs it: what others leave, by the one-way delay.

use super::module::{Clock, Kernel, KernelWindow};
use super::{Ack, Loss, State, Values, Window};

/// The modules' clock and the delays: milliseconds.
const HZ: u64 = 1000;
/// Delays within this share of the range, in hundredths, are no congestion.
const THRESHOLD: u64 = 15;
/// Round trips after an early indication during which it does not grow, and falls to one packet at the next.
const INFERENCE: u64 = 3;

/// Differs: of Linux 6 there is no run to hold it to, so it is 2.6.22's alone.
#[derive(Clone, Debug)]
pub struct Lp {
    packets: KernelWindow,
    /// The receiver's clock and the echo of ours in this ACK.
    stamps: (u64, u64),
    /// Those of the last sample; 0: none.
    reference: (u64, u64),
    /// Ticks of the receiver's clock per second.
    remote_hz: i64,
    /// Eighths.
    smoothed: u64,
    least: u64,
    most: u64,
    /// The largest delay is put aside once: the one below it counts.
    most_reserved: u64,
    last_drop: u64,
    inference: u64,
    is_within_inference: bool,
}

impl Lp {
    pub fn new(kernel: Kernel) -> Self {
        Self {
            packets: KernelWindow::new(kernel),
            stamps: (0, 0),
            reference: (0, 0),
            remote_hz: 0,
            smoothed: 0,
            least: u64::from(u32::MAX),
            most: 0,
            most_reserved: 0,
            last_drop: 0,
            inference: 0,
            is_within_inference: false,
        }
    }

    /// The receiver's ticks per second, 1/64 of each error taken over.
    fn estimate_remote_hz(&mut self) {
        let (remote, local) = self.stamps;
        let (old_remote, old_local) = std::mem::replace(&mut self.reference, self.stamps);
        if old_remote == 0 || old_local == 0 || remote == old_remote || local == old_local {
            return;
        }
        // Unsigned, as the module computes it: a step back is a very large one.
        let passed = remote.wrapping_sub(old_remote).wrapping_mul(HZ);
        let rate = ((passed / local.wrapping_sub(old_local)) as i64).wrapping_abs();
        let scaled = self.remote_hz << 6;
        self.remote_hz = if scaled > 0 {
            (scaled + (rate - self.remote_hz)) >> 6
        } else {
            rate
        };
    }

    fn measure(&mut self) {
        self.estimate_remote_hz();
        if self.remote_hz <= 0 {
            return;
        }
        let (remote, local) = self.stamps;
        // A clock that seems to tick faster than ours reads zero: whole milliseconds per tick.
        let ticks_ms = HZ / self.remote_hz as u64;
        let delay = (remote.wrapping_mul(ticks_ms).wrapping_sub(local) as i64).wrapping_abs();
        if delay <= 0 {
            return;
        }
        let delay = delay as u64;
        self.least = self.least.min(delay);
        if delay > self.most_reserved.max(self.most) {
            self.most = match self.most_reserved {
                0 => delay,
                reserved => reserved,
            };
            self.most_reserved = delay;
        } else if delay > self.most {
            self.most = delay;
        }
        self.smoothed = match self.smoothed {
            0 => delay << 3,
            smoothed => smoothed.wrapping_add(delay).wrapping_sub(smoothed >> 3),
        };
    }

    fn is_within_threshold(&self) -> bool {
        let range = self.most.wrapping_sub(self.least);
        let above = range.wrapping_mul(THRESHOLD) / 100;
        self.smoothed >> 3 < self.least.wrapping_add(above)
    }
}

impl Window for Lp {
    fn wants_timestamps(&self) -> bool {
        true
    }

    fn on_timestamps(&mut self, ts_val: u64, ts_ecr: u64) {
        self.stamps = (ts_val, ts_ecr);
    }

    fn on_arrival(&mut self, state: &mut State, ack: &Ack) {
        self.packets.hear(state, ack);
        if ack.newly_acked == 0.0 {
            return;
        }
        if ack.rtt_ns.is_some() {
            self.measure();
        }
        let (now, local) = (Clock::MILLISECONDS.ticks(ack.now_ns), self.stamps.1);
        if now > local {
            self.inference = INFERENCE * (now - local);
        }
        self.is_within_inference = self.last_drop > 0 && now - self.last_drop < self.inference;
        if self.is_within_threshold() {
            return;
        }
        self.least = self.smoothed >> 3;
        self.most = self.smoothed >> 2;
        self.most_reserved = self.smoothed >> 2;
        let left = if self.is_within_inference {
            1
        } else {
            (KernelWindow::cwnd(state) / 2).max(1)
        };
        KernelWindow::set_cwnd(state, left);
        self.last_drop = now;
    }

    fn is_slow_start(&self, state: &State) -> bool {
        !self.is_within_inference && self.packets.is_slow_start(state)
    }

    fn on_slow_start_ack(&mut self, _state: &mut State, _ack: &Ack) {
        self.packets.begin_again();
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        if !self.is_within_inference {
            self.packets.grow_as_reno(state, ack);
        }
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        self.packets.halve(state);
    }

    fn min_cwnd(&self, state: &State) -> f64 {
        KernelWindow::half_of_ssthresh(state)
    }

    fn snapshot(&self, values: &mut Values) {
        let or_nan = |ms: u64| if ms == 0 { f64::NAN } else { ms as f64 * 1e6 };
        values.push(("one_way_ns", or_nan(self.smoothed >> 3)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{ack, state};
    use super::*;

    /// ACKs 10 ms apart whose data took `delay_ms` there, the receiver's clock a second ahead.
    fn hear(lp: &mut Lp, state: &mut State, from: u64, delays_ms: &[u64]) {
        for (n, delay_ms) in delays_ms.iter().enumerate() {
            let sent = from + 10 * n as u64;
            lp.on_timestamps(1000 + sent + delay_ms, sent);
            let ack = Ack {
                now_ns: (sent + delay_ms + 20) as i64 * 1_000_000,
                rtt_ns: Some(1),
                ..ack(1.0)
            };
            lp.on_arrival(state, &ack);
        }
    }

    #[test]
    fn an_early_indication_halves_the_window_and_a_second_one_soon_after_leaves_a_packet() {
        let (mut lp, mut state) = (Lp::new(Kernel::V2_6), state(40.0, 2.0));
        lp.remote_hz = 1000;
        // The first delay is least and most at once, so it is beyond the threshold; the range is then 1020 to 2040.
        hear(&mut lp, &mut state, 1000, &[20, 20]);
        assert_eq!((state.cwnd, lp.least, lp.most), (20.0, 1020, 2040));
        // 15 % of it: 1173. A mean above, within three round trips.
        lp.smoothed = 8 * 1200;
        hear(&mut lp, &mut state, 1020, &[20]);
        assert_eq!(state.cwnd, 1.0);
    }
}
