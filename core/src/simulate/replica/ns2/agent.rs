//! What ns-2's senders share: numbers, window, timing of one packet, output.

use super::deliveries::Deliveries;
use super::packet::Ns2Packet;
use super::rto::{Sample, TickRto};
use crate::congestion::{Ack, Control, Loss, State};
use crate::network::{Instant, Seconds, Stamp};
use crate::recovery::DetectedBy;
use crate::simulate::record::{EventKind, LossRow, SenderState, Site, Totals};
use crate::simulate::timer::Timer;

/// What an agent may touch besides itself.
pub type Io = crate::simulate::io::Io<Seconds, Ns2Packet>;

/// Why the window was last cut (ns-2's `last_cwnd_action_`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastCut {
    None,
    DupAck,
    Timeout,
    /// Recovery from duplicate ACKs has ended.
    Exited,
}

/// Where cwnd goes after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutTo {
    Half,
    One,
}

/// ns-2's `Agent/TCP`, without what its children differ in.
pub struct Base {
    pub connection: u32,
    /// Direction of the data: 0 forward, 1 reverse.
    pub direction: usize,
    pub packet_bytes: u32,
    /// A 40-byte packet 0 first.
    pub has_syn: bool,
    pub control: Box<dyn Control>,
    /// In packets: smss is 1.
    pub state: State,
    /// ns-2's `window_`.
    pub max_window: f64,
    pub initial_window: f64,
    pub limited_transmit: bool,
    pub has_timestamps: bool,
    pub t_seqno: i64,
    pub max_seq: i64,
    pub highest_ack: i64,
    pub last_ack: i64,
    pub dupacks: i64,
    pub recover: i64,
    /// One past the last packet the application has written.
    pub cur_seq: i64,
    pub last_cut: LastCut,
    pub rto: TickRto,
    pub timer: Timer<Seconds>,
    rtt_active: bool,
    rtt_seq: i64,
    rtt_ts: f64,
    /// The sample that the ACK at hand gave.
    told_rtt_ns: Option<i64>,
    /// Of a control that wants delivery rates.
    pub deliveries: Option<Box<Deliveries>>,
    pub totals: Totals,
    pub phase: SenderState,
}

/// Packets ns-2's agents take for a duplicate ACK's proof.
pub const NUM_DUPACKS: i64 = 3;

/// Everything a bulk transfer will ever send.
pub const ENDLESS: i64 = 1 << 30;

impl Base {
    #[expect(
        clippy::too_many_arguments,
        reason = "one call, from the engine's table of connections"
    )]
    pub fn new(
        connection: u32,
        direction: usize,
        packet_bytes: u32,
        has_syn: bool,
        control: Box<dyn Control>,
        state: State,
        max_window: f64,
        rto: TickRto,
        timer: Timer<Seconds>,
    ) -> Self {
        Self {
            connection,
            direction,
            packet_bytes,
            has_syn,
            control,
            state,
            max_window,
            initial_window: state.cwnd,
            limited_transmit: false,
            has_timestamps: false,
            t_seqno: 0,
            max_seq: -1,
            highest_ack: -1,
            last_ack: -1,
            dupacks: 0,
            recover: 0,
            cur_seq: 0,
            last_cut: LastCut::None,
            rto,
            timer,
            rtt_active: false,
            rtt_seq: -1,
            rtt_ts: 0.0,
            told_rtt_ns: None,
            deliveries: None,
            totals: Totals::default(),
            phase: SenderState::Open,
        }
    }

    /// floor(min(cwnd, window_)).
    pub fn window(&self) -> i64 {
        self.state.cwnd.min(self.max_window) as i64
    }

    /// Sends one packet; a packet never sent before may be timed.
    #[inline(always)]
    pub fn output(&mut self, io: &mut Io, number: i64) {
        let is_syn = self.has_syn && number == 0;
        let bytes = if is_syn { 40 } else { self.packet_bytes };
        let packet = Ns2Packet::data(self.connection, number, bytes, io.now.0);
        let nothing_outstanding = self.highest_ack == self.max_seq;
        self.totals.packets_sent += 1;
        let at = Stamp {
            time: io.now,
            scheduled: io.now,
        };
        io.event(at, Site::Sender, EventKind::Send, &packet);
        io.send(self.direction, packet);
        if let Some(deliveries) = &mut self.deliveries {
            deliveries.on_sent(io.now.to_ns(), number);
        }
        if number > self.max_seq {
            self.max_seq = number;
            if !self.rtt_active {
                self.rtt_active = true;
                if number > self.rtt_seq {
                    self.rtt_seq = number;
                    self.rtt_ts = io.now.0;
                }
            }
        } else {
            self.totals.retransmissions += 1;
        }
        if !self.timer.is_pending() || nothing_outstanding {
            self.set_timer(io);
        }
    }

    #[inline(never)]
    pub fn set_timer(&mut self, io: &mut Io) {
        self.timer
            .set(&mut io.schedule, io.now, Seconds(self.rto.timeout()));
    }

    /// After an ACK numbered `ack`: wait on for what is outstanding, or stop.
    pub fn new_timer(&mut self, io: &mut Io, ack: i64) {
        if self.t_seqno > ack || ack < self.max_seq || self.state.cwnd < 1.0 {
            self.set_timer(io);
        } else {
            self.timer.cancel();
        }
    }

    /// After a loss. `goes_back`: everything above the ACK will be sent again.
    pub fn reset_timer(&mut self, io: &mut Io, goes_back: bool, backs_off: bool) {
        if backs_off {
            self.rto.back_off();
        }
        self.set_timer(io);
        if goes_back {
            self.t_seqno = self.highest_ack + 1;
        }
        self.rtt_active = false;
    }

    /// The timed packet is acknowledged: end back-off, and take the sample unless timestamps do.
    pub fn end_timing(&mut self, now: f64, ack: i64, takes_sample: bool) {
        if self.rtt_active && ack >= self.rtt_seq {
            self.rto.end_back_off();
            self.rtt_active = false;
            if takes_sample {
                self.rto.update(now, now - self.rtt_ts, Sample::Timed);
                self.tell_rtt(now, now - self.rtt_ts);
            }
        }
    }

    /// The control hears what the timer hears, before the timer's ticks round it.
    pub fn tell_rtt(&mut self, now: f64, sample: f64) {
        let rtt_ns = Seconds(sample).to_ns();
        self.told_rtt_ns = Some(rtt_ns);
        self.control.on_rtt(Seconds(now).to_ns(), rtt_ns);
    }

    /// The agent has done with an ACK: what it delivered.
    #[cold]
    pub fn tell_delivery(&mut self, now: Seconds, packet: &Ns2Packet) {
        let srtt_ns = self.rto.srtt_ns();
        let Some(deliveries) = &mut self.deliveries else {
            return;
        };
        let told = deliveries.on_ack(now.to_ns(), packet, self.phase, srtt_ns);
        self.control.on_delivery(&mut self.state, &told);
    }

    /// Bookkeeping of an ACK of new data; the window is opened apart.
    pub fn new_ack(&mut self, io: &mut Io, packet: &Ns2Packet) {
        self.dupacks = 0;
        self.last_ack = packet.number();
        self.highest_ack = packet.number();
        self.t_seqno = self.t_seqno.max(packet.number() + 1);
        if self.has_timestamps {
            self.rto
                .update(io.now.0, io.now.0 - packet.ts, Sample::Timestamp);
            self.tell_rtt(io.now.0, io.now.0 - packet.ts);
        }
        self.end_timing(io.now.0, packet.number(), !self.has_timestamps);
        self.new_timer(io, packet.number());
    }

    /// One increment per ACK, however much it acknowledges.
    pub fn open_cwnd(&mut self, now: f64) {
        let ack = Ack {
            now_ns: Seconds(now).to_ns(),
            newly_acked: 1.0,
            newly_sacked: 0.0,
            rtt_ns: self.told_rtt_ns.take(),
            srtt_ns: self.rto.srtt_ns(),
            flight_size: (self.t_seqno - 1 - self.highest_ack) as f64,
            snd_una: (self.highest_ack + 1) as u64,
            snd_nxt: self.t_seqno as u64,
            is_cwnd_limited: true,
        };
        self.control.on_ack(&mut self.state, &ack);
    }

    fn loss(&self, now: Seconds, window: f64) -> Loss {
        Loss {
            now_ns: now.to_ns(),
            flight_size: window,
            snd_nxt: self.t_seqno as u64,
        }
    }

    /// ssthresh from the window in use, rounded down and at least 2; cwnd to half of it (not rounded) or to 1.
    pub fn slow_down(&mut self, io: &mut Io, window: f64, to: CutTo, by: DetectedBy) {
        self.cut(io, io.now, window.min(self.max_window), by, Some(to));
    }

    /// The same with the time and the window that the control is told; without `to` cwnd is left to the caller, and
    /// ssthresh to the control.
    pub fn cut(
        &mut self,
        io: &mut Io,
        now: Seconds,
        window: f64,
        by: DetectedBy,
        to: Option<CutTo>,
    ) {
        let cwnd_before = self.state.cwnd;
        let loss = self.loss(now, window);
        if by == DetectedBy::Rto {
            self.control.on_timeout(&mut self.state, &loss);
        } else {
            self.control.on_loss(&mut self.state, &loss);
        }
        if let Some(to) = to {
            self.state.cwnd = match to {
                CutTo::Half => self.state.ssthresh,
                CutTo::One => 1.0,
            };
            self.state.ssthresh = self.state.ssthresh.floor().max(2.0);
        }
        io.recorder.loss(LossRow {
            time_ns: io.now.to_ns(),
            connection: self.connection,
            offset: (self.highest_ack + 1) as u64,
            detected_by: by,
            cwnd_before,
            ssthresh_after: self.state.ssthresh,
        });
    }

    /// What every agent does on a timeout; its own part comes before.
    pub fn time_out(&mut self, io: &mut Io, window: f64) {
        if self.highest_ack == self.max_seq {
            // Nothing outstanding: ssthresh stays, nothing to send again.
            self.recover = self.max_seq;
            self.last_cut = LastCut::Timeout;
            self.state.cwnd = 1.0;
            self.reset_timer(io, true, false);
            return;
        }
        self.recover = self.max_seq;
        self.totals.timeouts += 1;
        self.last_cut = LastCut::Timeout;
        self.phase = SenderState::Loss;
        self.slow_down(io, window, CutTo::One, DetectedBy::Rto);
        self.reset_timer(io, true, true);
    }

    /// Go-back-N under a window: everything up to `highest_ack` + window.
    pub fn send_much(&mut self, io: &mut Io, window: i64) {
        while self.t_seqno <= self.highest_ack + window && self.t_seqno < self.cur_seq {
            let number = self.t_seqno;
            self.output(io, number);
            self.t_seqno += 1;
        }
    }

    /// RFC 3042: one new packet for a first or second duplicate ACK.
    pub fn send_one(&mut self, io: &mut Io) {
        let number = self.t_seqno;
        if number as f64 <= self.highest_ack as f64 + self.max_window
            && number < self.cur_seq
            && number as f64 <= self.highest_ack as f64 + self.state.cwnd + self.dupacks as f64
        {
            self.output(io, number);
            self.t_seqno += 1;
        }
    }

    /// Whether a third duplicate ACK may cut: not again for the same window (ns-2's `bugFix_`).
    pub fn may_cut(&self) -> bool {
        self.highest_ack > self.recover || self.highest_ack == 0
    }
}

/// A sender's own part: what it does with an ACK and a timeout, and when it sends.
pub trait Agent {
    fn on_ack(&mut self, base: &mut Base, io: &mut Io, packet: &Ns2Packet);
    fn on_timeout(&mut self, base: &mut Base, io: &mut Io);
    /// The application has written.
    fn send(&mut self, base: &mut Base, io: &mut Io);
    /// ns-2's `cwnd_`, within its `window_`.
    fn cwnd(&self, base: &Base) -> f64 {
        base.state.cwnd.min(base.max_window)
    }
    /// Packets that may be outstanding now: with duplicate ACKs more than cwnd.
    fn usable_window(&self, base: &Base) -> f64 {
        self.cwnd(base)
    }
    /// Packets not acknowledged and not known to have left the path.
    fn flight_size(&self, base: &Base) -> f64 {
        (base.t_seqno - 1 - base.highest_ack).max(0) as f64
    }
}
