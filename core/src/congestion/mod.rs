//! Congestion controls as pure state machines: (state, event) -> state.
//!
//! A control is a slow start and a window. It knows no clock, no packets and no engine: the simulator drives it, and a
//! capture's ACKs and losses can be replayed through it. Windows are real numbers of bytes, so that one formula serves
//! both arithmetics: with `smss` = 1 they are ns-2's packets.

mod bbr;
mod bic;
mod compound;
mod compound_draft;
mod compound_packets;
mod cubic;
mod cubic_2_6;
mod cubic_curve;
mod cubic_linux;
mod delay;
mod delivery;
mod highspeed;
mod htcp;
mod hybla;
mod hystart;
mod illinois;
mod lp;
mod module;
mod named;
mod parameters;
mod reno;
mod reno_linux;
mod row;
mod scalable;
mod slow_start;
mod table;
mod vegas;
mod veno;
mod westwood;
#[cfg(test)]
mod worked;
mod yeah;

pub use bbr::{
    Bbr, CYCLE as BBR_CYCLE, MIN_CWND_SEGMENTS as BBR_MIN_CWND_SEGMENTS,
    MIN_RTT_WINDOW_NS as BBR_MIN_RTT_WINDOW_NS, MaxFilter, Mode as BbrMode,
    PROBE_RTT_NS as BBR_PROBE_RTT_NS,
};
pub use bic::Bic;
pub use compound::Compound;
pub use compound_draft::CompoundDraft;
pub use compound_packets::CompoundPackets;
pub use cubic::Cubic;
pub use cubic_2_6::Cubic26;
pub use cubic_linux::CubicLinux;
pub use delivery::{Delivery, RateSample};
pub use highspeed::HighSpeed;
pub use htcp::Htcp;
pub use hybla::Hybla;
pub use hystart::HystartPlusPlus;
pub use illinois::Illinois;
pub use lp::Lp;
pub use module::{Clock, Kernel};
pub use named::controls;
pub use parameters::{ControlParameter, Parameters, Profile};
pub use reno::Reno;
pub use reno_linux::RenoLinux;
pub use row::{Counting, Setting, SlowStartRow, WindowRow};
pub use scalable::Scalable;
pub use slow_start::{LimitedSlowStart, MStart, SlowStart, Standard};
pub use table::{SLOW_STARTS, WINDOWS, parameters, slow_start, window};
pub use vegas::Vegas;
pub use veno::Veno;
pub use westwood::Westwood;
pub use yeah::Yeah;

use std::fmt::Debug;

/// The two variables of RFC 5681, and the unit in which they move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    pub cwnd: f64,
    pub ssthresh: f64,
    pub smss: f64,
}

impl State {
    /// RFC 5681 section 3.1: slow start while cwnd < ssthresh.
    pub fn is_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether so much outstanding uses the window: a sender short of data does not grow. In slow start a window used to
    /// half is still being used (RFC 9438 section 5.8 asks for such a rule).
    pub fn is_used(&self, flight_size: f64) -> bool {
        let share = if self.is_slow_start() { 2.0 } else { 1.0 };
        share * flight_size + self.smss > self.cwnd
    }
}

/// An ACK of new data that may open the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ack {
    pub now_ns: i64,
    /// Bytes acknowledged for the first time.
    pub newly_acked: f64,
    /// Bytes beyond it that its SACK blocks report for the first time.
    pub newly_sacked: f64,
    /// Round trip of a segment it acknowledges, if the sender could tell (RFC 6298 section 3).
    pub rtt_ns: Option<i64>,
    pub srtt_ns: Option<i64>,
    /// Outstanding before the ACK came.
    pub flight_size: f64,
    /// After the ACK.
    pub snd_una: u64,
    pub snd_nxt: u64,
    /// The window, not the application or the receiver, held the sender back (RFC 9438 section 5.8).
    pub is_cwnd_limited: bool,
}

/// An ACK outside of losses and recoveries' ends; `opens`: it is one of new data that may open the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heard {
    pub ack: Ack,
    pub opens: bool,
}

/// A loss: found by duplicate ACKs or SACK (`on_loss`), or by the timer (`on_timeout`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    pub now_ns: i64,
    pub flight_size: f64,
    pub snd_nxt: u64,
}

/// A control's own variables by name, NaN where there is none yet. Windows are in segments, times end in their unit.
pub type Values = Vec<(&'static str, f64)>;

/// A whole control: what a sender asks, and what may be written outside the core.
///
/// A hypothesis about a capture is a control, so it forks at the cost of a copy and says what it holds in mind.
/// `on_loss` and `on_timeout` set `state.ssthresh`; recovery sets cwnd from it. Events come in order of time.
pub trait Control: CloneControl + Debug + Send {
    /// The connection is established; nothing has been acknowledged.
    fn start(&mut self, _state: &mut State, _snd_nxt: u64) {}
    /// Every round-trip sample, also those of ACKs that do not open the window.
    fn on_rtt(&mut self, _now_ns: i64, _rtt_ns: i64) {}
    fn wants_timestamps(&self) -> bool {
        false
    }
    /// TSval and TSecr of the ACK that comes next (RFC 7323), in milliseconds; only to a control that wants them.
    fn on_timestamps(&mut self, _ts_val: u64, _ts_ecr: u64) {}
    /// Every ACK as it comes in, duplicates and those of a recovery too, before it may open the window.
    fn on_arrival(&mut self, _state: &mut State, _ack: &Ack) {}
    fn on_ack(&mut self, state: &mut State, ack: &Ack);
    /// All that a control is told of an ACK, every time of which is `later_ns` later; the window and the threshold behind
    /// it. One call: with each control its own rules are compiled into it.
    fn hear(&mut self, state: &mut State, heard: &Heard, later_ns: i64) -> (f64, f64) {
        let ack = Ack {
            now_ns: heard.ack.now_ns.saturating_add(later_ns),
            // What is seen of the window, or that all of this one is used.
            is_cwnd_limited: heard.ack.is_cwnd_limited || state.is_used(heard.ack.flight_size),
            ..heard.ack
        };
        self.hear_at(state, &ack, heard.opens)
    }
    /// The same of an ACK as it is.
    fn hear_at(&mut self, state: &mut State, ack: &Ack, opens: bool) -> (f64, f64) {
        if let Some(rtt_ns) = ack.rtt_ns {
            self.on_rtt(ack.now_ns, rtt_ns);
        }
        self.on_arrival(state, ack);
        if opens {
            self.on_ack(state, ack);
        }
        state.cwnd = state.cwnd.max(state.smss);
        (state.cwnd, state.ssthresh)
    }
    fn on_loss(&mut self, state: &mut State, loss: &Loss);
    fn on_timeout(&mut self, state: &mut State, loss: &Loss);
    /// The timer has expired within a recovery, which in Linux keeps the threshold of that.
    fn on_expired(&mut self, _state: &mut State, _loss: &Loss) {}
    /// Recovery is over: everything outstanding at its start is acknowledged.
    fn on_recovered(&mut self, _state: &mut State, _now_ns: i64, _snd_nxt: u64) {}
    /// The last reduction was needless: cwnd and ssthresh are what they were before it, and recovery is over.
    fn on_undone(&mut self, state: &mut State, now_ns: i64, snd_nxt: u64) {
        self.on_recovered(state, now_ns, snd_nxt);
    }
    /// Where ns-2's Linux agent lets cwnd fall to in recovery, while it halves its rate.
    fn min_cwnd(&self, state: &State) -> f64 {
        state.ssthresh
    }
    /// The handshake is done and took `rtt_ns`, if one round trip of it was measured; after `start`.
    fn on_established(&mut self, _state: &mut State, _now_ns: i64, _rtt_ns: Option<i64>) {}
    /// Every ACK, also in recovery, when all else has been done; only to a control that wants it.
    fn on_delivery(&mut self, _state: &mut State, _delivery: &Delivery) {}
    fn wants_delivery(&self) -> bool {
        false
    }
    /// The application was idle or short of data, nothing is outstanding, and it begins again.
    fn on_restart(&mut self, _state: &mut State, _now_ns: i64) {}
    /// Bytes per second at which segments leave; `None`: as soon as the window lets them.
    fn pacing_rate(&self) -> Option<f64> {
        None
    }
    /// cwnd is the control's in recovery as well: no rule of recovery changes it.
    fn owns_window(&self) -> bool {
        false
    }
    /// Bytes of its window that bridge the time between ACKs that come in lumps.
    fn bridging(&self) -> f64 {
        0.0
    }
    /// It sends less than the path carries, on purpose: samples taken now are no measure of the path.
    fn limits_itself(&self) -> bool {
        false
    }
    /// Adds what it holds in mind: always the same names in the same order.
    fn snapshot(&self, _values: &mut Values) {}
}

impl dyn Control + '_ {
    pub fn values(&self) -> Values {
        let mut values = Values::new();
        self.snapshot(&mut values);
        values
    }
}

/// Copies of a control whose type is not known.
pub trait CloneControl {
    fn clone_box(&self) -> Box<dyn Control>;
}

impl<T: Control + Clone + 'static> CloneControl for T {
    fn clone_box(&self) -> Box<dyn Control> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Control> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

/// Congestion avoidance and reduction.
pub trait Window: Debug + Send {
    fn start(&mut self, _state: &mut State, _snd_nxt: u64) {}
    fn on_rtt(&mut self, _now_ns: i64, _rtt_ns: i64) {}
    fn wants_timestamps(&self) -> bool {
        false
    }
    fn on_timestamps(&mut self, _ts_val: u64, _ts_ecr: u64) {}
    /// Every ACK as it comes in, in any state: for what a window measures throughout.
    fn on_arrival(&mut self, _state: &mut State, _ack: &Ack) {}
    /// Whether this ACK is slow start's. Only a window that keeps its own books says otherwise.
    fn is_slow_start(&self, state: &State) -> bool {
        state.is_slow_start()
    }
    /// An ACK of slow start, which opens the window by its own rule afterwards, unless slow start ends here.
    fn on_slow_start_ack(&mut self, _state: &mut State, _ack: &Ack) {}
    /// Slow start has opened the window.
    fn after_slow_start(&mut self, _state: &mut State, _ack: &Ack) {}
    fn on_ack(&mut self, state: &mut State, ack: &Ack);
    /// An ACK that may not open the window, as something else than the window held the sender back.
    fn on_ack_unused(&mut self, _state: &mut State, _ack: &Ack) {}
    /// Sets ssthresh; rounding and the floor of 2 SMSS are the sender's.
    fn on_loss(&mut self, state: &mut State, loss: &Loss);
    fn on_timeout(&mut self, state: &mut State, loss: &Loss) {
        self.on_loss(state, loss);
        self.on_expired(state, loss);
    }
    /// What a timer changes besides ssthresh: all that one does within a recovery, of which Linux keeps the threshold.
    fn on_expired(&mut self, _state: &mut State, _loss: &Loss) {}
    fn on_recovered(&mut self, _state: &mut State, _now_ns: i64, _snd_nxt: u64) {}
    /// As `Control`'s.
    fn on_undone(&mut self, state: &mut State, now_ns: i64, snd_nxt: u64) {
        self.on_recovered(state, now_ns, snd_nxt);
    }
    /// Where ns-2's Linux agent lets cwnd fall to in recovery (the modules' `min_cwnd`).
    fn min_cwnd(&self, state: &State) -> f64 {
        state.ssthresh
    }
    fn snapshot(&self, _values: &mut Values) {}
}

/// Slow start x window.
#[derive(Clone, Debug)]
pub struct Pair<S, W> {
    pub slow_start: S,
    pub window: W,
}

impl<S: SlowStart + Clone + 'static, W: Window + Clone + 'static> Control for Pair<S, W> {
    fn start(&mut self, state: &mut State, snd_nxt: u64) {
        self.window.start(state, snd_nxt);
    }

    fn on_rtt(&mut self, now_ns: i64, rtt_ns: i64) {
        self.window.on_rtt(now_ns, rtt_ns);
    }

    fn wants_timestamps(&self) -> bool {
        self.window.wants_timestamps()
    }

    fn on_timestamps(&mut self, ts_val: u64, ts_ecr: u64) {
        self.window.on_timestamps(ts_val, ts_ecr);
    }

    fn on_arrival(&mut self, state: &mut State, ack: &Ack) {
        self.window.on_arrival(state, ack);
    }

    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        if !ack.is_cwnd_limited {
            self.window.on_ack_unused(state, ack);
        } else if self.window.is_slow_start(state) {
            self.window.on_slow_start_ack(state, ack);
            if self.window.is_slow_start(state) {
                self.slow_start.on_ack(state, ack);
                self.window.after_slow_start(state, ack);
            }
        } else {
            self.window.on_ack(state, ack);
        }
    }

    fn on_loss(&mut self, state: &mut State, loss: &Loss) {
        self.window.on_loss(state, loss);
        self.slow_start.on_loss();
    }

    fn on_timeout(&mut self, state: &mut State, loss: &Loss) {
        self.window.on_timeout(state, loss);
        self.slow_start.on_loss();
    }

    fn on_expired(&mut self, state: &mut State, loss: &Loss) {
        self.window.on_expired(state, loss);
    }

    fn on_recovered(&mut self, state: &mut State, now_ns: i64, snd_nxt: u64) {
        self.window.on_recovered(state, now_ns, snd_nxt);
    }

    fn on_undone(&mut self, state: &mut State, now_ns: i64, snd_nxt: u64) {
        self.window.on_undone(state, now_ns, snd_nxt);
    }

    fn min_cwnd(&self, state: &State) -> f64 {
        self.window.min_cwnd(state)
    }

    fn snapshot(&self, values: &mut Values) {
        self.window.snapshot(values);
        self.slow_start.snapshot(values);
    }
}
