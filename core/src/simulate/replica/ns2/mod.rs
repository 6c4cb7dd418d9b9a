//! The `ns2` profile: numbered packets, doubles for time, ns-2.35's agents event for event.

mod agent;
mod any;
mod board;
mod deliveries;
mod fack;
mod linux;
mod packet;
mod reno;
mod rto;
mod sack;
mod sink;
mod tahoe;

use std::collections::VecDeque;

use agent::{Agent, Base, ENDLESS, Io};
use any::Any;
use deliveries::Deliveries;
use packet::Ns2Packet;
use rto::TickRto;
use sink::{Answer, Sink};

use crate::congestion::State;
use crate::infer::Moment;
use crate::network::{Instant, Seconds, Stamp};
use crate::recovery::Recovery;
use crate::scenario::Scenario;
use crate::simulate::controls::Controls;
use crate::simulate::event_loop::Simulated;
use crate::simulate::record::{EventKind, OwnState, SenderState, Site, Totals, TruthRow};
use crate::simulate::timer::Timer;
use crate::simulate::{packet_counting, writes};

// A connection's sources of events; the last are ACKs on their own last stretch.
const RTO: usize = 0;
const DELAYED_ACK: usize = 1;
const APPLICATION: usize = 2;
const LAST_STRETCH: usize = 3;

/// An agent of ns-2's and its sink.
pub struct Ns2Connection {
    first_source: usize,
    base: Base,
    agent: Any,
    sink: Sink,
    delayed_ack: Timer<Seconds>,
    delayed_ack_s: f64,
    extra_delay: Seconds,
    /// ACKs behind the shared way back, on this connection's own delay.
    last_stretch: VecDeque<(Stamp<Seconds>, Ns2Packet)>,
    writes: writes::Writes,
    /// Number, echo and time of sending of ACKs on the way (in seconds), for a control that wants their timestamps.
    ack_stamps: Option<VecDeque<(i64, f64, f64)>>,
    /// Windows, threshold and state as last recorded; NaN before that.
    last_truth: ((f64, f64), f64, SenderState),
}

impl Simulated for Ns2Connection {
    type Time = Seconds;
    type Packet = Ns2Packet;
    const SOURCES: usize = 4;

    fn new(
        scenario: &Scenario,
        number: usize,
        first_source: usize,
        controls: &mut Controls,
    ) -> Self {
        let given = &scenario.connections[number];
        let sender = &given.control;
        let is_linux = sender.window.is_linux_module && !controls.is_own(number);
        let state = State {
            cwnd: f64::from(sender.initial_window),
            ssthresh: if sender.initial_ssthresh.is_finite() {
                sender.initial_ssthresh
            } else {
                sender.max_window as f64
            },
            smss: 1.0,
        };
        let seconds = |ns: i64| ns as f64 / 1e9;
        let rto = TickRto::new(
            // The Linux agent's clock ticks in jiffies.
            if is_linux {
                1.0 / 1000.0
            } else {
                seconds(sender.rto.granularity_ns())
            },
            sender.rto.tick_phase,
            seconds(sender.rto.initial_ns()),
            seconds(sender.rto.min_ns()),
            seconds(sender.rto.max_ns()),
            sender.rto.backoff,
        );
        let mut base = Base::new(
            number as u32,
            usize::from(given.reverse),
            scenario.path.packet_bytes,
            sender.syn,
            controls.take(number, scenario),
            state,
            sender.max_window as f64,
            rto,
            Timer::new(first_source + RTO),
        );
        base.limited_transmit = sender.limited_transmit;
        base.has_timestamps = sender.timestamps;
        let has_sack = given.has_sack();
        if base.control.wants_delivery() {
            base.deliveries = Some(Box::new(Deliveries::new(has_sack)));
        }
        if !is_linux {
            // The Linux agent sets its module up with the first ACK.
            base.control.start(&mut base.state, 0);
        }
        let agent = match sender.recovery {
            _ if is_linux => Any::Linux(linux::Linux::new()),
            Recovery::Tahoe => Any::Tahoe(tahoe::Tahoe),
            Recovery::Reno => Any::Reno(reno::Reno::new(false)),
            Recovery::NewReno => Any::Reno(reno::Reno::new(true)),
            Recovery::Sack => Any::Sack(sack::Sack1::new()),
            Recovery::Fack => Any::Fack(fack::Fack::new()),
        };
        let delays = sender.delayed_ack_segments > 1;
        let ack_stamps = base.control.wants_timestamps().then(VecDeque::new);
        Self {
            first_source,
            base,
            agent,
            sink: Sink::new(has_sack, delays, is_linux, scenario.path.ack_bytes),
            delayed_ack: Timer::new(first_source + DELAYED_ACK),
            delayed_ack_s: seconds(given.receiver.delayed_ack_timer_ns()),
            extra_delay: Seconds::from_ns(given.extra_delay_ns()),
            last_stretch: VecDeque::new(),
            ack_stamps,
            writes: writes::Writes::new(&given.application, given.start_ns()),
            last_truth: ((f64::NAN, f64::NAN), f64::NAN, SenderState::Open),
        }
    }

    fn begin(&mut self, io: &mut Io) {
        let start = Stamp {
            time: Seconds::from_ns(self.writes.next().unwrap_or(i64::MAX) as f64),
            scheduled: Seconds::ZERO,
        };
        io.schedule
            .set(self.first_source + APPLICATION, Some(start));
    }

    fn fire(&mut self, io: &mut Io, source: usize, at: Stamp<Seconds>) {
        match source {
            RTO => {
                if self.base.timer.is_due(&mut io.schedule, at) {
                    self.agent.on_timeout(&mut self.base, io);
                }
            }
            DELAYED_ACK => {
                if self.delayed_ack.is_due(&mut io.schedule, at) && self.sink.expire() {
                    self.send_ack(io, at);
                }
            }
            LAST_STRETCH => {
                let packet = self.last_stretch.pop_front();
                let (_, packet) = packet.expect("the schedule says one is there");
                self.schedule_last_stretch(io);
                self.take_ack(io, at, &packet);
            }
            _ => self.write(io),
        }
        self.record(io);
    }

    #[inline(always)]
    fn arrive(&mut self, io: &mut Io, direction: usize, at: Stamp<Seconds>, packet: &Ns2Packet) {
        if packet.is_data {
            io.delivered(direction, packet);
            io.event(at, Site::Receiver, EventKind::Recv, packet);
            match self.sink.receive(packet) {
                Answer::Delay => {
                    let wait = Seconds(self.delayed_ack_s);
                    self.delayed_ack.set(&mut io.schedule, io.now, wait);
                }
                Answer::AckNow => {
                    self.delayed_ack.cancel();
                    self.send_ack(io, at);
                }
            }
        } else if self.extra_delay > Seconds::ZERO {
            let later = Stamp {
                time: io.now.plus(self.extra_delay),
                scheduled: io.now,
            };
            self.last_stretch.push_back((later, *packet));
            self.schedule_last_stretch(io);
        } else {
            self.take_ack(io, at, packet);
        }
    }

    fn decided(at: Stamp<Seconds>) -> Seconds {
        at.scheduled
    }

    fn totals(&self) -> Totals {
        Totals {
            acked: (self.base.highest_ack + 1) as u64,
            delivered: self.sink.delivered,
            ..self.base.totals
        }
    }

    fn smss(&self) -> u32 {
        packet_counting::payload(self.base.packet_bytes)
    }
}

impl Ns2Connection {
    /// The application gives the agent more to send.
    fn write(&mut self, io: &mut Io) {
        let bytes = self.writes.take();
        let packets = bytes.map_or(ENDLESS, |bytes| {
            bytes.div_ceil(u64::from(self.base.packet_bytes)) as i64
        });
        self.base.cur_seq = (self.base.cur_seq + packets).min(ENDLESS);
        let next = self.writes.next().map(|ns| Stamp {
            time: Seconds::from_ns(ns as f64),
            scheduled: io.now,
        });
        io.schedule.set(self.first_source + APPLICATION, next);
        self.agent.send(&mut self.base, io);
    }

    fn schedule_last_stretch(&self, io: &mut Io) {
        let next = self.last_stretch.front().map(|(at, _)| *at);
        io.schedule.set(self.first_source + LAST_STRETCH, next);
    }

    fn send_ack(&mut self, io: &mut Io, at: Stamp<Seconds>) {
        let ack = self.sink.ack(self.base.connection);
        self.base.totals.acks_sent += 1;
        if let Some(stamps) = &mut self.ack_stamps {
            stamps.push_back((ack.number(), ack.ts, io.now.0));
        }
        io.event(at, Site::Receiver, EventKind::SendAck, &ack);
        io.send(1 - self.base.direction, ack);
    }

    fn take_ack(&mut self, io: &mut Io, at: Stamp<Seconds>, packet: &Ns2Packet) {
        io.delivered(1 - self.base.direction, packet);
        io.event(at, Site::Sender, EventKind::RecvAck, packet);
        self.tell_stamps(packet);
        self.agent.on_ack(&mut self.base, io, packet);
        if self.base.deliveries.is_some() {
            self.base.tell_delivery(io.now, packet);
        }
        self.record(io);
    }

    /// The clocks in an ACK, which its packet has no room for: ACKs come in the order in which they were sent. Where
    /// one is lost among duplicates that are alike, the time is that of the first of them.
    fn tell_stamps(&mut self, packet: &Ns2Packet) {
        let Some(stamps) = &mut self.ack_stamps else {
            return;
        };
        while let Some((number, echo_s, sent_s)) = stamps.pop_front() {
            if number == packet.number() && echo_s == packet.ts {
                let ms = |time_s: f64| (time_s * 1e3).round() as u64;
                self.base.control.on_timestamps(ms(sent_s), ms(echo_s));
                return;
            }
        }
    }

    /// A row of truth if window, threshold or state have changed.
    #[inline(always)]
    fn record(&mut self, io: &mut Io) {
        let base = &self.base;
        let windows = (self.agent.cwnd(base), self.agent.usable_window(base));
        let now = (windows, base.state.ssthresh, base.phase);
        if self.last_truth != now {
            self.last_truth = now;
            self.record_change(io);
        }
    }

    #[inline(never)]
    fn record_change(&mut self, io: &mut Io) {
        let (base, agent) = (&self.base, &self.agent);
        let ((cwnd, usable_window), ssthresh, state) = self.last_truth;
        let now = io.now;
        let moment = Moment {
            snd_una: (base.highest_ack + 1) as u64,
            snd_nxt: base.t_seqno as u64,
            is_slow_start: cwnd < ssthresh,
            has_restarted: state == SenderState::Loss,
        };
        io.recorder.window(base.connection, moment, |values| {
            base.control.snapshot(values);
            TruthRow {
                time_ns: now.to_ns(),
                connection: base.connection,
                cwnd,
                usable_window,
                ssthresh,
                flight_size: agent.flight_size(base),
                state,
                snd_una: moment.snd_una,
                snd_nxt: moment.snd_nxt,
                rwnd: base.max_window,
                known: OwnState {
                    srtt_ns: base.rto.srtt_ns(),
                    board: None,
                },
            }
        });
    }
}
