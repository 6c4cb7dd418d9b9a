//! Round trips as Vegas, Veno and YeAH sample them, in microseconds.

use super::{Ack, Values};

/// The modules' "none yet".
const NONE_US: u64 = 0x7fff_ffff;
/// Two samples may both be of delayed ACKs; with three one is not.
const FEWEST: u32 = 3;

/// Round trip by round trip, outside of recovery.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    pub delay: Delay,
    /// Not in recovery, nor after a timeout.
    pub is_open: bool,
    /// The round is over with an ACK beyond it.
    pub end: u64,
}

impl Rounds {
    pub fn new() -> Self {
        Self {
            delay: Delay::new(),
            is_open: true,
            end: 0,
        }
    }

    pub fn begin(&mut self, snd_nxt: u64) {
        self.end = snd_nxt;
        self.delay.begin_round();
    }

    pub fn begin_open(&mut self, snd_nxt: u64) {
        self.is_open = true;
        self.begin(snd_nxt);
    }
}

#[derive(Clone, Debug)]
pub(super) struct Delay {
    /// The least ever: the propagation.
    pub base_us: u64,
    /// The least since it was last forgotten: propagation and queue.
    pub least_us: u64,
    count: u32,
}

impl Delay {
    pub fn new() -> Self {
        Self {
            base_us: NONE_US,
            least_us: NONE_US,
            count: 0,
        }
    }

    pub fn hear(&mut self, ack: &Ack) {
        let Some(rtt_ns) = ack.rtt_ns.filter(|_| ack.newly_acked > 0.0) else {
            return;
        };
        // Never zero.
        let rtt_us = rtt_ns as u64 / 1000 + 1;
        self.base_us = self.base_us.min(rtt_us);
        self.least_us = self.least_us.min(rtt_us);
        self.count += 1;
    }

    pub fn has_enough(&self) -> bool {
        self.count >= FEWEST
    }

    pub fn forget_least(&mut self) {
        self.least_us = NONE_US;
    }

    pub fn begin_round(&mut self) {
        self.forget_least();
        self.count = 0;
    }

    /// w baseRTT / RTT in half packets: what the path itself holds.
    pub fn target_halves(&self, w: u64) -> u64 {
        2 * w * self.base_us / self.least_us
    }

    /// The queueing part of the round trip.
    pub fn queueing_us(&self) -> u64 {
        self.least_us - self.base_us
    }

    pub fn snapshot(&self, values: &mut Values) {
        let or_nan = |us: u64| {
            if us == NONE_US {
                f64::NAN
            } else {
                us as f64 * 1e3
            }
        };
        values.push(("base_rtt_ns", or_nan(self.base_us)));
        values.push(("round_min_rtt_ns", or_nan(self.least_us)));
    }
}
