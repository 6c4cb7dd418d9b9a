//! What the controls of Linux's modules share: whole packets, and the count towards the next one.

use super::{Ack, State};

/// Whose arithmetic. The rules are the same papers'; clocks, counts and some constants are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Linux 2.6.22, which ns-2.35 runs: it counts ACKs and measures in jiffies of 1 ms.
    V2_6,
    /// Linux 6: it counts packets and measures in microseconds.
    V6,
}

/// The clock that a module counts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Ticks per second.
    pub(super) hz: u64,
}

impl Clock {
    /// ns-2.35's jiffies.
    pub(super) const MILLISECONDS: Self = Self { hz: 1000 };
    /// Linux 6's round trips, and whatever it times by itself.
    pub(super) const MICROSECONDS: Self = Self { hz: 1_000_000 };

    /// `hz`: Linux 6's.
    pub(super) fn of(kernel: Kernel, hz: u64) -> Self {
        Self {
            hz: match kernel {
                Kernel::V2_6 => Self::MILLISECONDS.hz,
                Kernel::V6 => hz,
            },
        }
    }

    /// A length of time in nanoseconds; NaN where there is none (0).
    pub(super) fn ns_or_nan(self, ticks: u64) -> f64 {
        if ticks == 0 {
            f64::NAN
        } else {
            ticks as f64 * 1e9 / self.hz as f64
        }
    }

    /// A time, which is cut.
    pub(super) fn ticks(self, ns: i64) -> u64 {
        ns as u64 / self.tick_ns()
    }

    /// A round trip, measured in microseconds, of which a part of a tick counts as one (`usecs_to_jiffies`).
    pub(super) fn ticks_of_sample(self, rtt_ns: i64) -> u64 {
        (rtt_ns as u64 / 1000 * 1000).div_ceil(self.tick_ns())
    }

    fn tick_ns(self) -> u64 {
        1_000_000_000 / self.hz
    }
}

/// A kernel counts packets in 32 bits.
fn counted(packets: f64) -> u64 {
    (packets as u32).into()
}

/// The window in packets and Linux's `snd_cwnd_cnt`.
#[derive(Clone, Debug)]
pub(super) struct KernelWindow {
    pub kernel: Kernel,
    /// ACKs or packets since the window last grew.
    pub count: u64,
    /// RFC 3465's count, which ns-2.35 turns on for Reno alone: packets acknowledged, those of a recovery too.
    acked: u64,
}

impl KernelWindow {
    pub fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            count: 0,
            acked: 0,
        }
    }

    pub fn cwnd(state: &State) -> u64 {
        counted(state.cwnd / state.smss)
    }

    pub fn set_cwnd(state: &mut State, packets: u64) {
        state.cwnd = packets as f64 * state.smss;
    }

    /// At least two packets.
    pub fn set_ssthresh(state: &mut State, packets: u64) {
        state.ssthresh = packets.max(2) as f64 * state.smss;
    }

    /// 2.6.22's slow start goes one packet past ssthresh.
    pub fn is_slow_start(&self, state: &State) -> bool {
        match self.kernel {
            Kernel::V2_6 => state.cwnd <= state.ssthresh,
            Kernel::V6 => state.cwnd < state.ssthresh,
        }
    }

    /// Packets acknowledged by this ACK.
    pub fn acked(state: &State, ack: &Ack) -> u64 {
        // Rounded; a processor of the first x86-64 has no instruction for that.
        let packets = ack.newly_acked / state.smss;
        let whole = counted(packets);
        (whole + u64::from(packets - whole as f64 >= 0.5)).min(u32::MAX.into())
    }

    /// Every ACK, in any state. Linux 6 counts none of them.
    pub fn hear(&mut self, state: &State, ack: &Ack) {
        if self.kernel == Kernel::V2_6 {
            self.acked += Self::acked(state, ack);
        }
    }

    /// Slow start has used what was acknowledged.
    pub fn begin_again(&mut self) {
        self.acked = 0;
    }

    /// After a loss nothing counted before matters.
    pub fn forget(&mut self) {
        self.count = 0;
        self.acked = 0;
    }

    /// Reno's reduction, the modules' `tcp_reno_ssthresh`.
    pub fn halve(&mut self, state: &mut State) {
        self.forget();
        Self::set_ssthresh(state, Self::cwnd(state) / 2);
    }

    /// Reno's increase: a packet more for every window of packets.
    pub fn grow_as_reno(&mut self, state: &mut State, ack: &Ack) {
        let cwnd = Self::cwnd(state);
        if self.kernel == Kernel::V6 {
            self.increase(state, cwnd, ack);
        } else if self.acked >= cwnd {
            self.acked -= cwnd;
            Self::set_cwnd(state, cwnd + 1);
        }
    }

    /// The modules' increase: a packet more for every `w` ACKs (2.6.22: after one more) or packets.
    pub fn increase(&mut self, state: &mut State, w: u64, ack: &Ack) {
        let cwnd = Self::cwnd(state);
        match self.kernel {
            Kernel::V2_6 if self.count >= w => {
                self.count = 0;
                Self::set_cwnd(state, cwnd + 1);
            }
            Kernel::V2_6 => self.count += 1,
            Kernel::V6 => {
                let mut grown = 0;
                // What was counted for a larger w is spent on one packet.
                if self.count >= w {
                    self.count = 0;
                    grown = 1;
                }
                self.count += Self::acked(state, ack);
                if self.count >= w {
                    grown += self.count / w.max(1);
                    self.count %= w.max(1);
                }
                Self::set_cwnd(state, cwnd + grown);
            }
        }
    }

    /// 2.6.22's slow start adds a window to the count and takes packets of the growing window from it: what was counted
    /// before the window shrank gives packets beyond the one that slow start itself adds.
    pub fn spend_in_slow_start(&mut self, state: &mut State) {
        if self.kernel == Kernel::V6 {
            return;
        }
        let mut cwnd = Self::cwnd(state);
        while self.count > cwnd {
            cwnd += 1;
            self.count -= cwnd;
        }
        Self::set_cwnd(state, cwnd);
    }

    /// The modules' `tcp_reno_min_cwnd`.
    pub fn half_of_ssthresh(state: &State) -> f64 {
        (state.ssthresh / state.smss / 2.0).floor() * state.smss
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{ack, state};
    use super::*;

    #[test]
    fn a_part_of_a_tick_of_a_round_trip_counts_as_one() {
        let jiffies = Clock::of(Kernel::V6, 250);
        // 20 ms and 20.001 ms; a time is cut.
        assert_eq!(
            [20_000_999, 20_001_000].map(|ns| jiffies.ticks_of_sample(ns)),
            [5, 6]
        );
        assert_eq!(jiffies.ticks(23_999_999), 5);
    }

    #[test]
    fn an_increase_takes_one_ack_more_in_2_6_22() {
        for (kernel, windows) in [
            (Kernel::V2_6, [4.0, 4.0, 4.0, 4.0, 5.0]),
            (Kernel::V6, [4.0, 4.0, 4.0, 5.0, 5.0]),
        ] {
            let mut packets = KernelWindow::new(kernel);
            let mut state = state(4.0, 2.0);
            let got = windows.map(|_| {
                packets.increase(&mut state, 4, &ack(1.0));
                state.cwnd
            });
            assert_eq!(got, windows);
        }
    }

    #[test]
    fn a_delayed_ack_counts_two_packets_in_linux_6() {
        let mut packets = KernelWindow::new(Kernel::V6);
        let mut state = state(5.0, 2.0);
        for _ in 0..3 {
            packets.increase(&mut state, 5, &ack(2.0));
        }
        assert_eq!((state.cwnd, packets.count), (6.0, 1));
    }

    #[test]
    fn an_old_count_opens_a_window_that_was_cut_to_one() {
        // 30 counted, window 1: 30 + 1 are taken as 1, 2, ..., 7 (28 in all); the first is slow start's own.
        let mut packets = KernelWindow {
            count: 30,
            ..KernelWindow::new(Kernel::V2_6)
        };
        let mut state = state(1.0, 50.0);
        packets.spend_in_slow_start(&mut state);
        assert_eq!((state.cwnd + 1.0, packets.count), (8.0, 3));
    }
}
