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
use packet::Packet;
use rto::TickRto;
use sink::{Answer, Sink};

use super::output::{Output, unit_bytes};
use super::record::{EventKind, Known, Place, Recorder, SenderState, TruthRow};
use super::taps::Taps;
use super::timer::Timer;
use super::{Controls, writes};
use crate::congestion::State;
use crate::network::{Instant, Random, Schedule, Seconds, Stamp};
use crate::recovery::Recovery;
use crate::scenario::{ConnectionSpec, Scenario};

/// Sources of events: the two paths, then per connection the RTO, the delayed ACK, the application and ACKs on their own
/// last stretch.
const PER_CONNECTION: usize = 4;

struct Connection {
    base: Base,
    agent: Any,
    sink: Sink,
    delayed_ack: Timer<Seconds>,
    delayed_ack_s: f64,
    extra_delay: Seconds,
    /// ACKs behind the shared way back, on this connection's own delay.
    last_stretch: VecDeque<(Stamp<Seconds>, Packet)>,
    writes: writes::Writes,
    /// Number, echo and time of sending of ACKs on the way (in seconds), for a control that wants their timestamps.
    ack_stamps: Option<VecDeque<(i64, f64, f64)>>,
    /// Windows, threshold and state as last recorded; NaN before that.
    last_truth: ((f64, f64), f64, SenderState),
}

/// Runs a scenario in this profile.
pub fn run(scenario: &Scenario, controls: &mut Controls) -> Output {
    let sources = 2 + PER_CONNECTION * scenario.connections.len();
    let records = controls.records;
    let mut io = Io {
        now: Seconds(0.0),
        decided: Seconds(0.0),
        paths: super::build::paths(scenario, records),
        schedule: Schedule::new(sources),
        random: Random::new(scenario.seed),
        recorder: Recorder::new(scenario.connections.len(), records),
        taps: Taps::new(scenario),
        is_watched: records.is_watched(scenario) || scenario.is_managed(),
        sent: [0; 2],
    };
    let mut connections: Vec<Connection> = scenario
        .connections
        .iter()
        .enumerate()
        .map(|(n, c)| connection(scenario, n, c, controls))
        .collect();
    for (number, connection) in connections.iter().enumerate() {
        let start = Seconds::from_ns(connection.writes.next().unwrap_or(i64::MAX) as f64);
        io.schedule.set(
            2 + PER_CONNECTION * number + 2,
            Some(Stamp {
                time: start,
                scheduled: Seconds::ZERO,
            }),
        );
    }
    let end = Seconds::from_ns(scenario.duration_ns() as f64);
    io.recorder.keeps_values = controls.outlet.is_none();
    while let Some((source, at)) = io.schedule.next() {
        // As in ns-2, where the end of the run was scheduled before everything else.
        if at.time.0 >= end.0 || controls.has_stopped() {
            break;
        }
        io.now = at.time;
        io.decided = at.scheduled;
        if controls.is_piece_due() {
            io.pass_on(scenario, controls, || {
                vec![unit_bytes(scenario); connections.len()]
            });
        }
        if source < 2 {
            deliver(&mut connections, &mut io, source, at);
        } else {
            let number = (source - 2) / PER_CONNECTION;
            fire(&mut connections[number], &mut io, source, at);
        }
    }
    finish(scenario, connections, io, end, controls)
}

fn connection(
    scenario: &Scenario,
    number: usize,
    given: &ConnectionSpec,
    controls: &mut Controls,
) -> Connection {
    let sender = &given.control;
    let source = 2 + PER_CONNECTION * number;
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
        Timer::new(source),
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
    Connection {
        base,
        agent,
        sink: Sink::new(has_sack, delays, is_linux, scenario.path.ack_bytes),
        delayed_ack: Timer::new(source + 1),
        delayed_ack_s: seconds(given.receiver.delayed_ack_timer_ns()),
        extra_delay: Seconds::from_ns(given.extra_delay_ns()),
        last_stretch: VecDeque::new(),
        ack_stamps,
        writes: writes::Writes::new(&given.application, given.start_ns()),
        last_truth: ((f64::NAN, f64::NAN), f64::NAN, SenderState::Open),
    }
}

/// A packet comes out of one of the paths: data at its receiver, an ACK at its sender.
fn deliver(connections: &mut [Connection], io: &mut Io, direction: usize, at: Stamp<Seconds>) {
    let Some(packet) = io.leave(direction, at) else {
        return;
    };
    let connection = &mut connections[packet.connection as usize];
    if packet.is_data {
        io.delivered(direction, &packet);
        io.event(at, Place::Receiver, EventKind::Recv, &packet);
        match connection.sink.receive(&packet) {
            Answer::Delay => {
                connection.delayed_ack.set(
                    &mut io.schedule,
                    io.now,
                    Seconds(connection.delayed_ack_s),
                );
            }
            Answer::AckNow => {
                connection.delayed_ack.cancel();
                connection.send_ack(io, at);
            }
        }
    } else if connection.extra_delay > Seconds::ZERO {
        let later = Stamp {
            time: io.now.plus(connection.extra_delay),
            scheduled: io.now,
        };
        connection.last_stretch.push_back((later, packet));
        let source = 2 + PER_CONNECTION * packet.connection as usize + 3;
        io.schedule
            .set(source, connection.last_stretch.front().map(|(at, _)| *at));
    } else {
        connection.take_ack(io, at, &packet);
    }
}

/// A timer or the application of one connection.
fn fire(connection: &mut Connection, io: &mut Io, source: usize, at: Stamp<Seconds>) {
    match (source - 2) % PER_CONNECTION {
        0 => {
            if connection.base.timer.is_due(&mut io.schedule, at) {
                connection.agent.on_timeout(&mut connection.base, io);
            }
        }
        1 => {
            if connection.delayed_ack.is_due(&mut io.schedule, at) && connection.sink.expire() {
                connection.send_ack(io, at);
            }
        }
        3 => {
            let (_, packet) = connection
                .last_stretch
                .pop_front()
                .expect("the schedule says one is there");
            io.schedule
                .set(source, connection.last_stretch.front().map(|(at, _)| *at));
            connection.take_ack(io, at, &packet);
        }
        _ => {
            let bytes = connection.writes.take();
            let packets = bytes.map_or(ENDLESS, |bytes| {
                bytes.div_ceil(u64::from(connection.base.packet_bytes)) as i64
            });
            connection.base.cur_seq = (connection.base.cur_seq + packets).min(ENDLESS);
            let next = connection.writes.next();
            let next = next.map(|ns| Stamp {
                time: Seconds::from_ns(ns as f64),
                scheduled: io.now,
            });
            io.schedule.set(source, next);
            connection.agent.send(&mut connection.base, io);
        }
    }
    connection.record(io);
}

impl Connection {
    fn send_ack(&mut self, io: &mut Io, at: Stamp<Seconds>) {
        let ack = self.sink.ack(self.base.connection);
        self.base.totals.acks_sent += 1;
        if let Some(stamps) = &mut self.ack_stamps {
            stamps.push_back((ack.number(), ack.ts, io.now.0));
        }
        io.event(at, Place::Receiver, EventKind::SendAck, &ack);
        io.send(1 - self.base.direction, ack);
    }

    fn take_ack(&mut self, io: &mut Io, at: Stamp<Seconds>, packet: &Packet) {
        io.delivered(1 - self.base.direction, packet);
        io.event(at, Place::Sender, EventKind::RecvAck, packet);
        self.tell_stamps(packet);
        self.agent.on_ack(&mut self.base, io, packet);
        if self.base.deliveries.is_some() {
            self.base.tell_delivery(io.now, packet);
        }
        self.record(io);
    }

    /// The clocks in an ACK, which its packet has no room for: ACKs come in the order in which they were sent. Where
    /// one is lost among duplicates that are alike, the time is that of the first of them.
    fn tell_stamps(&mut self, packet: &Packet) {
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
    #[inline]
    fn record(&mut self, io: &mut Io) {
        let base = &self.base;
        let windows = (self.agent.cwnd(base), self.agent.usable_window(base));
        let now = (windows, base.state.ssthresh, base.phase);
        if self.last_truth != now {
            self.last_truth = now;
            self.record_change(io);
        }
    }

    fn record_change(&mut self, io: &mut Io) {
        let base = &self.base;
        let ((cwnd, usable_window), ssthresh, state) = self.last_truth;
        let row = TruthRow {
            time_ns: io.now.to_ns(),
            connection: base.connection,
            cwnd,
            usable_window,
            ssthresh,
            flight_size: self.agent.flight_size(base),
            state,
            snd_una: (base.highest_ack + 1) as u64,
            snd_nxt: base.t_seqno as u64,
            rwnd: base.max_window,
            known: Known::default(),
        };
        io.recorder.window(row, |values| {
            base.control.snapshot(values);
            Known {
                srtt_ns: base.rto.srtt_ns(),
                board: None,
            }
        });
    }
}

fn finish(
    scenario: &Scenario,
    connections: Vec<Connection>,
    mut io: Io,
    end: Seconds,
    controls: &mut Controls,
) -> Output {
    io.recorder.finish(end);
    let totals = connections
        .into_iter()
        .map(|connection| {
            let mut totals = connection.base.totals;
            totals.acked = (connection.base.highest_ack + 1) as u64;
            totals.delivered = connection.sink.delivered;
            totals
        })
        .collect();
    io.finish_taps(scenario, controls);
    let smss = vec![unit_bytes(scenario); scenario.connections.len()];
    Output::new(
        scenario,
        totals,
        smss,
        io.recorder,
        Box::new(io.taps),
        &mut io.paths,
        end,
    )
}
