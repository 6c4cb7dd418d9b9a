//! ns-2's retransmission timer: Jacobson's integers in clock ticks.

/// Smoothed round trip in eighths and deviation in quarters of a tick.
#[derive(Debug)]
pub struct TickRto {
    tick: f64,
    /// Phase of the tick clock.
    boot: f64,
    min: f64,
    max: f64,
    rtt: i32,
    srtt: i32,
    rttvar: i32,
    current: f64,
    backoff: i32,
    backs_off: bool,
}

/// How a sample becomes ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// A packet was timed on a clock that ticks: the sample counts the ticks passed.
    Timed,
    /// A timestamp came back: rounded to ticks.
    Timestamp,
    /// The same in the Linux agent, whose deviation shrinks slowly when the round trip does.
    LinuxTimestamp,
}

impl TickRto {
    pub fn new(tick: f64, phase: f64, initial: f64, min: f64, max: f64, backs_off: bool) -> Self {
        Self {
            tick,
            boot: phase * tick,
            min,
            max,
            rtt: 0,
            srtt: 0,
            rttvar: 0,
            current: initial,
            backoff: 1,
            backs_off,
        }
    }

    #[inline]
    pub fn update(&mut self, now: f64, sample: f64, kind: Sample) {
        let ticks = match kind {
            Sample::Timed => {
                let sent = now - sample + self.boot;
                (sample + sent % self.tick) / self.tick
            }
            Sample::Timestamp | Sample::LinuxTimestamp => sample / self.tick + 0.5,
        };
        self.rtt = (ticks as i32).max(1);
        if self.srtt == 0 {
            self.srtt = self.rtt << 3;
            self.rttvar = self.rtt << 1;
        } else {
            // C's int, as the program has it: round trips of months wrap there, too.
            let mut delta = self.rtt.wrapping_sub(self.srtt >> 3);
            self.srtt = self.srtt.wrapping_add(delta).max(1);
            let shrinks = delta < 0;
            delta = delta.wrapping_abs().wrapping_sub(self.rttvar >> 2);
            if kind == Sample::LinuxTimestamp {
                if shrinks && delta > 0 {
                    delta >>= 3;
                }
                self.rttvar = self.rttvar.wrapping_add(delta);
            } else {
                self.rttvar = self.rttvar.wrapping_add(delta).max(1);
            }
        }
        self.current = f64::from((self.rttvar << 3).wrapping_add(self.srtt) >> 3) * self.tick;
    }

    /// In whole ticks; `None` before the first sample and while it is backed off beyond belief.
    pub fn srtt_ns(&self) -> Option<i64> {
        (self.srtt > 0).then(|| (f64::from(self.srtt) / 8.0 * self.tick * 1e9) as i64)
    }

    /// The time to wait, with minimum, back-off and maximum in ns-2's order.
    #[inline]
    pub fn timeout(&self) -> f64 {
        // Plain comparisons: no term is ever NaN, for which `max` and `min` would look on every ACK.
        let larger = |a: f64, b: f64| if a > b { a } else { b };
        let timeout = larger(self.current, self.min) * f64::from(self.backoff);
        let timeout = if timeout < self.max {
            timeout
        } else {
            self.max
        };
        larger(timeout, 2.0 * self.tick)
    }

    pub fn back_off(&mut self) {
        if self.backs_off && (self.backoff < 64 || self.timeout() < self.max) {
            self.backoff = self.backoff.saturating_mul(2);
        }
        if self.backoff > 8 {
            // So far backed off, the estimate is worthless: keep it as deviation only.
            self.rttvar += self.srtt >> 3;
            self.srtt = 0;
        }
    }

    pub fn end_back_off(&mut self) {
        self.backoff = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_counts_ticks_from_the_phase_of_the_clock() {
        // 0.563 s at 10 ms ticks, sent at phase 5.558 ms: (0.563 + 0.005558) / 0.01 = 56 ticks; RTO = 56 + 4 * 28 = 168.
        let mut rto = TickRto::new(0.01, 0.5558, 3.0, 0.2, 60.0, true);
        rto.update(0.563, 0.563, Sample::Timed);
        assert_eq!((rto.rtt, rto.srtt, rto.rttvar), (56, 448, 112));
        assert!((rto.timeout() - 1.68).abs() < 1e-9);
    }

    #[test]
    fn back_off_doubles_up_to_the_maximum() {
        let mut rto = TickRto::new(0.01, 0.0, 3.0, 0.2, 60.0, true);
        let mut waits = Vec::new();
        for _ in 0..7 {
            waits.push(rto.timeout());
            rto.back_off();
        }
        assert_eq!(waits, [3.0, 6.0, 12.0, 24.0, 48.0, 60.0, 60.0]);
    }
}
