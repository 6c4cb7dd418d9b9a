//! Westwood+ (Grieco and Mascolo, ACM CCR 34(2), 2004): after a loss the window is the bandwidth times the least RTT.

use super::module::{Clock, Kernel, KernelWindow};
use super::{Ack, Loss, State, Values, Window};

/// In milliseconds: bandwidth is sampled no more often, and the round trip before the first sample.
const LEAST_SAMPLE_MS: u64 = 50;
const FIRST_RTT_MS: u64 = 20_000;

/// What bandwidth is counted in: so many of a byte, 2^-shift, in so many ticks.
#[derive(Clone, Copy)]
struct Unit {
    shift: u32,
    ticks: u64,
}

#[derive(Clone, Debug)]
pub struct Westwood {
    packets: KernelWindow,
    clock: Clock,
    /// Bytes in a packet; the ns-2 profile counts packets.
    packet_bytes: f64,
    is_open: bool,
    /// In `Unit`s, through one filter and through both.
    filtered_once: u64,
    bandwidth: u64,
    /// Bytes acknowledged since `sampled_at`.
    acked_bytes: u64,
    sampled_at: Option<u64>,
    /// Bytes of duplicate ACKs, which a later ACK will cover again.
    accounted: u64,
    snd_una: u64,
    /// In ticks.
    rtt: u64,
    min_rtt: u64,
    forgets_min_rtt: bool,
}

impl Westwood {
    pub fn new(kernel: Kernel, clock: Clock, packet_bytes: u32) -> Self {
        let first_rtt = FIRST_RTT_MS * clock.hz / 1000;
        Self {
            packets: KernelWindow::new(kernel),
            clock,
            packet_bytes: f64::from(packet_bytes),
            is_open: true,
            filtered_once: 0,
            bandwidth: 0,
            acked_bytes: 0,
            sampled_at: None,
            accounted: 0,
            snd_una: 0,
            rtt: first_rtt,
            min_rtt: first_rtt,
            forgets_min_rtt: true,
        }
    }

    /// Bandwidth in bytes per tick; where a tick is a microsecond in sixteenths of a byte per millisecond.
    fn unit(&self) -> Unit {
        let is_fine = self.clock == Clock::MICROSECONDS;
        Unit {
            shift: if is_fine { 4 } else { 0 },
            ticks: if is_fine { 1000 } else { 1 },
        }
    }

    fn sample(&mut self, now: u64) {
        let time = now - *self.sampled_at.get_or_insert(now);
        if self.rtt == 0 || time <= self.rtt.max(LEAST_SAMPLE_MS * self.clock.hz / 1000) {
            return;
        }
        let unit = self.unit();
        let rate = (self.acked_bytes << unit.shift) * unit.ticks / time;
        if self.filtered_once == 0 && self.bandwidth == 0 {
            self.filtered_once = rate;
            self.bandwidth = rate;
        } else {
            let filter = |old: u64, new: u64| (7 * old + new) >> 3;
            self.filtered_once = filter(self.filtered_once, rate);
            self.bandwidth = filter(self.bandwidth, self.filtered_once);
        }
        self.acked_bytes = 0;
        self.sampled_at = Some(now);
    }

    /// What this ACK says has left the path. A duplicate stands for a segment, which is not counted again when the
    /// ACK that covers it comes.
    fn delivered(&mut self, snd_una: u64, segment: u64, is_plain: bool) -> u64 {
        let covered = snd_una - self.snd_una;
        self.snd_una = snd_una;
        if is_plain {
            return covered;
        }
        if covered == 0 {
            self.accounted += segment;
            return segment;
        }
        if covered <= segment {
            return covered;
        }
        if self.accounted >= covered {
            self.accounted -= covered;
            return segment;
        }
        covered - std::mem::take(&mut self.accounted)
    }

    /// Bandwidth times the least round trip, in packets.
    fn pipe(&self, state: &State) -> u64 {
        let per_packet = self.segment_bytes(state);
        // A burst read at one stamp over a round trip of days: more than 64 bits.
        let product = u128::from(self.bandwidth) * u128::from(self.min_rtt);
        let unit = self.unit();
        let bytes = (product / u128::from(unit.ticks)) >> unit.shift;
        u64::try_from(bytes / u128::from(per_packet)).map_or(u64::MAX, |packets| packets.max(2))
    }

    fn segment_bytes(&self, state: &State) -> u64 {
        match self.packets.kernel {
            Kernel::V2_6 => self.packet_bytes as u64,
            Kernel::V6 => state.smss as u64,
        }
    }
}

impl Window for Westwood {
    fn on_arrival(&mut self, state: &mut State, ack: &Ack) {
        self.packets.hear(state, ack);
        let segment = self.segment_bytes(state);
        let snd_una = (ack.snd_una as f64 / state.smss * segment as f64) as u64;
        if ack.newly_acked > 0.0 {
            let sample = match self.packets.kernel {
                Kernel::V2_6 => ack.srtt_ns.map(|rtt_ns| self.clock.ticks(rtt_ns)),
                Kernel::V6 => ack.rtt_ns.map(|rtt_ns| self.clock.ticks_of_sample(rtt_ns)),
            };
            self.rtt = sample.unwrap_or(self.rtt);
        }
        if self.sampled_at.is_none() {
            self.snd_una = snd_una;
        }
        self.sample(self.clock.ticks(ack.now_ns));
        let is_plain = self.is_open && ack.newly_acked > 0.0 && ack.newly_sacked == 0.0;
        self.acked_bytes += self.delivered(snd_una, segment, is_plain);
        self.min_rtt = if self.forgets_min_rtt {
            self.rtt
        } else {
            self.min_rtt.min(self.rtt)
        };
        self.forgets_min_rtt = false;
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
        self.is_open = false;
        self.packets.halve(state);
    }

    fn on_timeout(&mut self, state: &mut State, loss: &Loss) {
        self.on_loss(state, loss);
        if self.packets.kernel == Kernel::V6 {
            KernelWindow::set_ssthresh(state, self.pipe(state));
            self.forgets_min_rtt = true;
        }
    }

    /// Linux ends its recovery with the estimate; ns-2's agent does not tell the module.
    fn on_recovered(&mut self, state: &mut State, _now_ns: i64, _snd_nxt: u64) {
        self.is_open = true;
        if self.packets.kernel == Kernel::V6 {
            KernelWindow::set_ssthresh(state, self.pipe(state));
            state.cwnd = state.ssthresh;
        }
    }

    fn min_cwnd(&self, state: &State) -> f64 {
        self.pipe(state) as f64 * state.smss
    }

    fn snapshot(&self, values: &mut Values) {
        let unit = self.unit();
        let per_second = self.clock.hz as f64 / unit.ticks as f64;
        let bytes = self.bandwidth as f64 / f64::from(1u32 << unit.shift);
        values.push(("bandwidth_bps", 8.0 * bytes * per_second));
        let has_one = self.sampled_at.is_some();
        values.push((
            "base_rtt_ns",
            if has_one {
                self.clock.ns_or_nan(self.min_rtt)
            } else {
                f64::NAN
            },
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{ack, state};
    use super::*;

    /// ACKs of 1000 bytes every 2 ms for a second, round trip 60 ms: 30 segments on the path.
    fn after_a_second(kernel: Kernel, hz: u64) -> (Westwood, State) {
        let mut westwood = Westwood::new(kernel, Clock::of(kernel, hz), 1000);
        let unit = match kernel {
            Kernel::V2_6 => 1.0,
            Kernel::V6 => 1000.0,
        };
        let mut state = State {
            smss: unit,
            ..state(100.0 * unit, 2.0)
        };
        for number in 1..=500 {
            let ack = Ack {
                now_ns: number * 2_000_000,
                snd_una: number as u64 * unit as u64,
                rtt_ns: Some(60_000_000),
                srtt_ns: Some(60_000_000),
                ..ack(unit)
            };
            westwood.on_arrival(&mut state, &ack);
        }
        (westwood, state)
    }

    #[test]
    fn the_window_after_a_loss_is_the_bandwidth_times_the_least_round_trip() {
        for (kernel, hz) in [
            (Kernel::V2_6, 1000),
            (Kernel::V6, 250),
            (Kernel::V6, 1_000_000),
        ] {
            let (westwood, state) = after_a_second(kernel, hz);
            assert!(
                (28..=30).contains(&westwood.pipe(&state)),
                "{}",
                westwood.pipe(&state)
            );
        }
    }

    #[test]
    fn duplicate_acks_are_not_counted_twice() {
        let mut westwood = Westwood::new(Kernel::V6, Clock::MICROSECONDS, 1000);
        westwood.snd_una = 10_000;
        // Three duplicates, then an ACK of five segments: the two that no duplicate stood for.
        let counted =
            [10_000, 10_000, 10_000, 15_000].map(|una| westwood.delivered(una, 1000, false));
        assert_eq!(counted, [1000, 1000, 1000, 2000]);
    }
}
