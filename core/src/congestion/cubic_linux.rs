//! CUBIC as Linux 6 computes it: whole packets, a clock of jiffies, beta 717/1024, its own HyStart on ACK trains and
//! delay.
//!
//! Omitted: pacing's longer train (the kernel's without a pacing queue is meant).

use super::cubic_curve::{CLOCK_BITS, Curve};
use super::module::{Kernel, KernelWindow};
use super::{Ack, Loss, State, Values, Window};

const BETA: u64 = 717;
const BETA_SCALE: u64 = 1024;
/// Packets per packet of Reno's friendly window, in eighths: 8 (1 + beta) / 3 / (1 - beta).
const FRIENDLY_SCALE: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// ACKs per packet at the most while no loss has shown the path.
const FIRST_CNT: u64 = 20;

/// HyStart does not judge smaller windows.
const LOW_WINDOW: u64 = 16;
/// ACKs closer than this are one train.
const ACK_DELTA_US: i64 = 2000;
const MIN_SAMPLES: u32 = 8;
const DELAY_MIN_US: i64 = 4000;
const DELAY_MAX_US: i64 = 16_000;
/// What a train may be longer for segmentation offload: four super-segments at the pacing rate, a millisecond at most.
const OFFLOAD_BYTES: f64 = 4.0 * 65_215.0;
const OFFLOAD_MAX_US: i64 = 1000;

/// Times in jiffies or, where named so, microseconds.
#[derive(Clone, Debug)]
pub struct CubicLinux {
    hz: u64,
    has_hystart: bool,
    packets: KernelWindow,
    cnt: u64,
    last_max_cwnd: u64,
    last_cwnd: u64,
    last_time: u64,
    curve: Curve,
    /// 0: none yet.
    delay_min_us: i64,
    epoch_start: u64,
    ack_cnt: u64,
    tcp_cwnd: u64,
    hystart: Hystart,
    /// The last ACK: when it came, its round trip, and that it left nothing outstanding.
    last_ack: Option<LastAck>,
    /// Window before slow start's own part of an ACK.
    before_slow_start: u64,
}

#[derive(Clone, Copy, Debug)]
struct LastAck {
    now_ns: i64,
    rtt_ns: i64,
    left_nothing: bool,
}

/// One round of slow start.
#[derive(Clone, Copy, Debug)]
struct Hystart {
    has_found: bool,
    round_start_us: i64,
    last_ack_us: i64,
    end_seq: u64,
    curr_rtt_us: i64,
    samples: u32,
}

impl Hystart {
    fn begin(has_found: bool, now_us: i64, snd_nxt: u64) -> Self {
        Self {
            has_found,
            round_start_us: now_us,
            last_ack_us: now_us,
            end_seq: snd_nxt,
            curr_rtt_us: i64::MAX,
            samples: 0,
        }
    }
}

impl CubicLinux {
    /// `hz`: the kernel's ticks per second.
    pub fn new(hz: u64, has_hystart: bool) -> Self {
        Self {
            hz,
            has_hystart,
            packets: KernelWindow::new(Kernel::V6),
            cnt: 0,
            last_max_cwnd: 0,
            last_cwnd: 0,
            last_time: 0,
            curve: Curve::default(),
            delay_min_us: 0,
            epoch_start: 0,
            ack_cnt: 0,
            tcp_cwnd: 0,
            hystart: Hystart::begin(false, 0, 0),
            last_ack: None,
            before_slow_start: 0,
        }
    }

    fn jiffies(&self, ns: i64) -> u64 {
        // One more than 0, which means none.
        (ns as u64) / (1_000_000_000 / self.hz) + 1
    }

    /// A round trip was measured, in whatever state.
    fn measure(&mut self, state: &mut State, ack: &Ack, rtt_ns: i64) {
        let jiffies = self.jiffies(ack.now_ns);
        // Nothing in the first second of an epoch: the queue of the recovery is still there.
        if self.epoch_start > 0 && jiffies < self.epoch_start + self.hz {
            return;
        }
        let delay_us = (rtt_ns / 1000).max(1);
        if self.delay_min_us == 0 || self.delay_min_us > delay_us {
            self.delay_min_us = delay_us;
        }
        if self.has_hystart && !self.hystart.has_found && state.is_slow_start() {
            self.look_for_the_end(state, ack, delay_us);
        }
    }

    /// HyStart: a train of ACKs longer than half the round trip, or a round trip that has grown by an eighth.
    fn look_for_the_end(&mut self, state: &mut State, ack: &Ack, delay_us: i64) {
        let now_us = ack.now_ns / 1000;
        if ack.snd_una > self.hystart.end_seq {
            self.hystart = Hystart::begin(false, now_us, ack.snd_nxt);
        }
        if KernelWindow::cwnd(state) < LOW_WINDOW {
            return;
        }
        let hystart = &mut self.hystart;
        let mut is_over = false;
        if now_us - hystart.last_ack_us <= ACK_DELTA_US {
            hystart.last_ack_us = now_us;
            let train_us = (self.delay_min_us + offload_us(state, ack)) / 2;
            is_over = now_us - hystart.round_start_us > train_us;
        }
        hystart.curr_rtt_us = hystart.curr_rtt_us.min(delay_us);
        if hystart.samples < MIN_SAMPLES {
            hystart.samples += 1;
        } else {
            let threshold_us = (self.delay_min_us / 8).clamp(DELAY_MIN_US, DELAY_MAX_US);
            is_over |= hystart.curr_rtt_us > self.delay_min_us + threshold_us;
        }
        if is_over {
            hystart.has_found = true;
            state.ssthresh = state.cwnd;
        }
    }

    /// The data that is being sent again after a silence was sent so long after the last before it.
    fn skip_silence(&mut self, ack: &Ack) {
        let Some(last) = self.last_ack.filter(|last| last.left_nothing) else {
            return;
        };
        let rtt_ns = ack.rtt_ns.unwrap_or(last.rtt_ns);
        let silent_ns = (ack.now_ns - rtt_ns) - (last.now_ns - last.rtt_ns);
        if self.epoch_start > 0 && silent_ns > 0 {
            let jiffies = self.jiffies(silent_ns) - 1;
            self.epoch_start = (self.epoch_start + jiffies).min(self.jiffies(ack.now_ns));
        }
    }

    fn update(&mut self, cwnd: u64, acked: u64, now: u64) {
        self.ack_cnt += acked;
        if self.last_cwnd == cwnd && now - self.last_time <= self.hz / 32 {
            return;
        }
        // Once per jiffy at the most, but for an epoch's first.
        if self.epoch_start == 0 || now != self.last_time {
            self.last_cwnd = cwnd;
            self.last_time = now;
            if self.epoch_start == 0 {
                self.begin_epoch(cwnd, acked, now);
            }
            self.follow_cubic(cwnd, now);
        }
        self.be_reno_friendly(cwnd);
        self.cnt = self.cnt.max(2);
    }

    fn begin_epoch(&mut self, cwnd: u64, acked: u64, now: u64) {
        self.epoch_start = now;
        self.ack_cnt = acked;
        self.tcp_cwnd = cwnd;
        self.curve = Curve::new(cwnd, self.last_max_cwnd);
    }

    fn follow_cubic(&mut self, cwnd: u64, now: u64) {
        let delay = (self.delay_min_us as u64 * self.hz).div_ceil(1_000_000);
        let t = ((now - self.epoch_start + delay) << CLOCK_BITS) / self.hz;
        self.cnt = self.curve.cnt(cwnd, t);
        if self.last_max_cwnd == 0 {
            self.cnt = self.cnt.min(FIRST_CNT);
        }
    }

    fn be_reno_friendly(&mut self, cwnd: u64) {
        let per_packet = (cwnd * FRIENDLY_SCALE) >> 3;
        if per_packet > 0 && self.ack_cnt > per_packet {
            let packets = (self.ack_cnt - 1) / per_packet;
            self.ack_cnt -= packets * per_packet;
            self.tcp_cwnd += packets;
        }
        if self.tcp_cwnd > cwnd {
            self.cnt = self.cnt.min(cwnd / (self.tcp_cwnd - cwnd));
        }
    }

    fn avoid(&mut self, state: &mut State, ack: &Ack, acked: u64) {
        if acked > 0 {
            let now = self.jiffies(ack.now_ns);
            self.update(KernelWindow::cwnd(state), acked, now);
            let rest = Ack {
                newly_acked: acked as f64 * state.smss,
                ..*ack
            };
            self.packets.increase(state, self.cnt, &rest);
        }
    }
}

/// What the kernel allows a train beyond the round trip, from its own idea of the sending rate.
fn offload_us(state: &State, ack: &Ack) -> i64 {
    let Some(srtt_ns) = ack.srtt_ns.filter(|&ns| ns > 0) else {
        return 0;
    };
    // Twice the window per round trip until half of ssthresh, then six fifths.
    let ratio = if state.cwnd < state.ssthresh / 2.0 {
        2.0
    } else {
        1.2
    };
    let rate = ratio * state.cwnd / (srtt_ns as f64 / 1e6);
    ((OFFLOAD_BYTES / rate * 1000.0) as i64).min(OFFLOAD_MAX_US)
}

impl Window for CubicLinux {
    fn start(&mut self, _state: &mut State, snd_nxt: u64) {
        self.hystart = Hystart::begin(false, 0, snd_nxt);
    }

    fn on_arrival(&mut self, state: &mut State, ack: &Ack) {
        self.skip_silence(ack);
        if let Some(rtt_ns) = ack.rtt_ns {
            self.measure(state, ack, rtt_ns);
        }
        if ack.newly_acked > 0.0 {
            let before_ns = self.last_ack.map_or(0, |last| last.rtt_ns);
            self.last_ack = Some(LastAck {
                now_ns: ack.now_ns,
                rtt_ns: ack.rtt_ns.unwrap_or(before_ns),
                left_nothing: ack.snd_una == ack.snd_nxt,
            });
        }
    }

    fn on_slow_start_ack(&mut self, state: &mut State, _ack: &Ack) {
        self.before_slow_start = KernelWindow::cwnd(state);
    }

    /// What slow start has not used up to ssthresh is avoidance's.
    fn after_slow_start(&mut self, state: &mut State, ack: &Ack) {
        if !state.is_slow_start() {
            let used = KernelWindow::cwnd(state).saturating_sub(self.before_slow_start);
            let left = KernelWindow::acked(state, ack).saturating_sub(used);
            self.avoid(state, ack, left);
        }
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        let acked = KernelWindow::acked(state, ack);
        self.avoid(state, ack, acked);
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        let cwnd = KernelWindow::cwnd(state);
        self.packets.forget();
        self.epoch_start = 0;
        self.last_max_cwnd = if cwnd < self.last_max_cwnd {
            (cwnd * (BETA_SCALE + BETA)) / (2 * BETA_SCALE)
        } else {
            cwnd
        };
        KernelWindow::set_ssthresh(state, cwnd * BETA / BETA_SCALE);
    }

    fn on_expired(&mut self, _state: &mut State, loss: &Loss) {
        let hystart = Hystart::begin(false, loss.now_ns / 1000, loss.snd_nxt);
        *self = Self {
            hystart,
            last_ack: self.last_ack,
            ..Self::new(self.hz, self.has_hystart)
        };
    }

    fn snapshot(&self, values: &mut Values) {
        let in_epoch = |value: f64| {
            if self.epoch_start > 0 {
                value
            } else {
                f64::NAN
            }
        };
        let or_nan = |us: i64| if us == 0 { f64::NAN } else { us as f64 * 1e3 };
        values.extend([
            ("w_max", self.last_max_cwnd as f64),
            ("w_est", in_epoch(self.tcp_cwnd as f64)),
            ("k_s", in_epoch(self.curve.k_s())),
            (
                "epoch_start_ns",
                in_epoch(
                    (self.epoch_start - u64::from(self.epoch_start > 0)) as f64 * 1e9
                        / self.hz as f64,
                ),
            ),
            ("base_rtt_ns", or_nan(self.delay_min_us)),
        ]);
    }
}
