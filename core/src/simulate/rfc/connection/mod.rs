//! One connection of the `rfc` profile: handshake, sender, receiver, application, timers.

mod books;
mod new;
mod pauses;
mod sending;

pub use new::{initial_state, options, rto};

use std::collections::VecDeque;

use super::Io;
use super::packet::{Agreed, RfcPacket};
use super::receiver::{Answer, Receiver};
use crate::congestion::{Control, State};
use crate::network::{Instant, Nanos, Stamp};
use crate::recovery::{Arrived, Expired, Options, Rto, Sender};
use crate::scenario::Scenario;
use crate::simulate::controls::Controls;
use crate::simulate::event_loop::Simulated;
use crate::simulate::record::{EventKind, SenderState, Site, Totals};
use crate::simulate::timer::Timer;
use crate::simulate::writes::Writes;
use crate::wire::TcpFlags;
use pauses::Pauses;

/// A connection's sources in the schedule.
const RTO: usize = 0;
const DELAYED_ACK: usize = 1;
const APPLICATION: usize = 2;
const LAST_STRETCH: usize = 3;
const WINDOW_UPDATE: usize = 4;
const FIN_AGAIN: usize = 5;
const DEPARTURE: usize = 6;
const PAUSE: usize = 7;

/// Everything a bulk transfer will ever send.
const ENDLESS: u64 = 1 << 62;

pub struct RfcConnection {
    number: u32,
    /// Direction of the data.
    direction: usize,
    agreed: Agreed,
    first_source: usize,
    /// `None` before SYN+ACK has come.
    sender: Option<Sender>,
    /// What the sender will be made of.
    seed: Option<(Options, Box<dyn Control>, State)>,
    rto: Rto,
    syn_sent: Option<Nanos>,
    written: u64,
    is_closing: bool,
    receiver: Receiver,
    /// The receiver's FIN has gone out; it is sent again until it is acknowledged.
    has_closed: bool,
    fin_again: Timer<Nanos>,
    fin_rto: Rto,
    /// What the sender has received: the receiver's SYN, then its FIN.
    sender_rcv_nxt: u64,
    sender_echo_ns: Option<i64>,
    writes: Writes,
    timer: Timer<Nanos>,
    /// Of a sender that paces.
    departure: Timer<Nanos>,
    delayed_ack: Timer<Nanos>,
    delayed_ack_ns: i64,
    extra_delay: Nanos,
    /// What the sender's host takes for an ACK, at most.
    jitter_ns: u64,
    pauses: Pauses,
    last_stretch: VecDeque<(Stamp<Nanos>, RfcPacket)>,
    last_truth: Option<(f64, f64, SenderState)>,
    totals: Totals,
}

impl Simulated for RfcConnection {
    type Time = Nanos;
    type Packet = RfcPacket;
    const SOURCES: usize = 8;

    fn new(
        scenario: &Scenario,
        number: usize,
        first_source: usize,
        controls: &mut Controls,
    ) -> Self {
        let control = controls.take(number, scenario);
        Self::of(scenario, number, first_source, control)
    }

    /// The first write: the handshake goes before it.
    fn begin(&mut self, io: &mut Io) {
        let next = self.writes.next().map(|ns| stamp(Nanos(ns), Nanos(0)));
        io.schedule.set(self.first_source + APPLICATION, next);
    }

    fn fire(&mut self, io: &mut Io, source: usize, at: Stamp<Nanos>) {
        match source {
            RTO => {
                if self.timer.is_due(&mut io.schedule, at) {
                    self.on_timer(io);
                }
            }
            DELAYED_ACK => {
                if self.delayed_ack.is_due(&mut io.schedule, at) && self.receiver.expire() {
                    self.send_ack(io);
                }
            }
            APPLICATION => self.write(io),
            LAST_STRETCH => {
                let (_, packet) = self
                    .last_stretch
                    .pop_front()
                    .expect("the schedule says one is there");
                self.schedule_last_stretch(io);
                self.at_sender(io, at, &packet);
            }
            FIN_AGAIN => {
                if self.fin_again.is_due(&mut io.schedule, at) {
                    self.fin_rto.back_off();
                    self.send_fin(io);
                }
            }
            DEPARTURE => {
                if self.departure.is_due(&mut io.schedule, at) {
                    self.pump(io);
                }
            }
            PAUSE => {
                io.schedule.set(self.first_source + PAUSE, None);
                while let Some(packet) = self.pauses.next() {
                    self.take_in(io, at, &packet);
                }
            }
            _ => {
                io.schedule.set(self.first_source + WINDOW_UPDATE, None);
                self.send_ack(io);
            }
        }
    }

    fn arrive(&mut self, io: &mut Io, direction: usize, at: Stamp<Nanos>, packet: &RfcPacket) {
        if packet.is_from_sender {
            io.delivered(direction, packet);
            io.event(at, Site::Receiver, EventKind::Recv, packet);
            self.at_receiver(io, at, packet);
        } else {
            self.on_way_back(io, at, packet);
        }
    }

    /// A real sender answers a little later: a place freed at this very moment is free.
    fn decided(at: Stamp<Nanos>) -> Nanos {
        at.time
    }

    fn totals(&self) -> Totals {
        self.books()
    }

    fn smss(&self) -> u32 {
        let options = self.sender.as_ref().map(Sender::options);
        let options = options.or(self.seed.as_ref().map(|(options, ..)| options));
        options.map_or(0, |options| options.smss as u32)
    }
}

impl RfcConnection {
    /// The application writes; the first write opens the connection.
    fn write(&mut self, io: &mut Io) {
        let bytes = self.writes.take();
        // Thousands of writes of 2^53 bytes are more than 64 bits count.
        self.written = bytes.map_or(ENDLESS, |bytes| {
            self.written.saturating_add(bytes).min(ENDLESS)
        });
        let next = self.writes.next().map(|ns| stamp(Nanos(ns), io.now));
        io.schedule.set(self.first_source + APPLICATION, next);
        if self.writes.is_over() && self.written < ENDLESS {
            // FIN takes one number behind the last byte.
            self.is_closing = true;
            self.written += 1;
        }
        if self.syn_sent.is_none() {
            self.send_syn(io);
        }
        if let Some(sender) = &mut self.sender {
            if self.is_closing {
                sender.on_close();
            }
            sender.on_write(io.now.0, self.written);
        }
        self.pump(io);
    }

    fn on_timer(&mut self, io: &mut Io) {
        match &mut self.sender {
            None => {
                // RFC 6298 (5.5) for SYN as well.
                self.rto.back_off();
                self.totals.retransmissions += 1;
                self.send_syn(io);
            }
            Some(sender) => {
                let has_outstanding = sender.has_outstanding();
                let is_timeout = sender.on_timer(io.now.0) == Expired::Retransmission;
                self.totals.timeouts += u64::from(is_timeout && has_outstanding);
                self.pump(io);
            }
        }
    }

    /// A segment of the data's sender has reached the receiver.
    fn at_receiver(&mut self, io: &mut Io, _at: Stamp<Nanos>, packet: &RfcPacket) {
        if packet.is_syn() {
            self.receiver.open(io.now.0, packet.ts_ns);
            let answer = self.packet(io, false, 0, 0, TcpFlags::SYN.with(TcpFlags::ACK));
            self.transmit(io, answer);
            return;
        }
        if self.has_closed && packet.ack >= 2 {
            self.fin_again.cancel();
        }
        self.receiver.hear_echo(io.now.0, packet.echo_ns);
        let has_fin = packet.flags.has(TcpFlags::FIN);
        let end = packet.seq + u64::from(packet.payload) + u64::from(has_fin);
        match self
            .receiver
            .receive(io.now.0, packet.ts_ns, packet.seq, end, has_fin)
        {
            Answer::AckNow => {
                self.delayed_ack.cancel();
                self.send_ack(io);
            }
            Answer::Delay => {
                if !self.delayed_ack.is_pending() {
                    self.delayed_ack
                        .set(&mut io.schedule, io.now, Nanos(self.delayed_ack_ns));
                }
            }
            Answer::Within(ns) => {
                let latest = io.now.plus(Nanos(ns));
                if self.delayed_ack.deadline() > latest {
                    self.delayed_ack.set(&mut io.schedule, io.now, Nanos(ns));
                }
            }
            Answer::Nothing => {}
        }
    }

    /// A segment of the receiver has come out of the shared way back.
    fn on_way_back(&mut self, io: &mut Io, at: Stamp<Nanos>, packet: &RfcPacket) {
        if self.extra_delay > Nanos::ZERO || self.jitter_ns > 0 {
            let jitter = Nanos(io.random.below(self.jitter_ns + 1) as i64);
            let later = io.now.plus(self.extra_delay).plus(jitter);
            // Nothing overtakes.
            let last = self.last_stretch.back().map_or(later, |(at, _)| at.time);
            self.last_stretch
                .push_back((stamp(later.max(last), io.now), *packet));
            self.schedule_last_stretch(io);
        } else {
            self.at_sender(io, at, packet);
        }
    }

    fn schedule_last_stretch(&mut self, io: &mut Io) {
        let next = self.last_stretch.front().map(|(at, _)| *at);
        io.schedule.set(self.first_source + LAST_STRETCH, next);
    }

    fn at_sender(&mut self, io: &mut Io, at: Stamp<Nanos>, packet: &RfcPacket) {
        io.delivered(1 - self.direction, packet);
        match self.pauses.hold(io.now.0, packet) {
            Some(end_ns) => {
                let end = stamp(Nanos(end_ns), io.now);
                io.schedule.set(self.first_source + PAUSE, Some(end));
            }
            None => self.take_in(io, at, packet),
        }
    }

    fn take_in(&mut self, io: &mut Io, at: Stamp<Nanos>, packet: &RfcPacket) {
        io.event(at, Site::Sender, EventKind::RecvAck, packet);
        self.sender_echo_ns = Some(packet.ts_ns);
        if packet.is_syn() {
            self.establish(io, packet);
            return;
        }
        let Some(sender) = &mut self.sender else {
            return;
        };
        sender.on_ack(
            io.now.0,
            &Arrived {
                ack: packet.ack,
                window: packet.window,
                blocks: packet.blocks.as_slice(),
                echo_rtt_ns: packet.echo_ns.map(|echo_ns| io.now.0 - echo_ns),
            },
        );
        if sender.snd_una() == self.written {
            if let Some(ns) = self.writes.on_all_acked(io.now.0) {
                let at = stamp(Nanos(ns), io.now);
                io.schedule.set(self.first_source + APPLICATION, Some(at));
            }
        }
        if packet.flags.has(TcpFlags::FIN) {
            // Each copy: the ACK of the one before may have been lost.
            self.sender_rcv_nxt = 2;
            let ack = self.packet(io, true, self.next_seq(), 0, TcpFlags::ACK);
            self.transmit(io, ack);
        }
        self.pump(io);
    }

    /// SYN+ACK has come: the third segment, then data.
    fn establish(&mut self, io: &mut Io, packet: &RfcPacket) {
        if let (Some((options, control, state)), Some(sent)) = (self.seed.take(), self.syn_sent) {
            self.sender_rcv_nxt = 1;
            if self.totals.retransmissions == 0 {
                self.rto.on_sample(io.now.0 - sent.0);
            }
            let mut sender = Sender::new(
                options,
                control,
                state,
                self.rto.clone(),
                1,
                packet.window,
                io.now.0,
            );
            if self.is_closing {
                sender.on_close();
            }
            sender.on_write(io.now.0, self.written);
            self.sender = Some(sender);
        }
        self.timer.cancel();
        let ack = self.packet(io, true, self.next_seq(), 0, TcpFlags::ACK);
        self.transmit(io, ack);
        self.pump(io);
    }
}

fn stamp(time: Nanos, scheduled: Nanos) -> Stamp<Nanos> {
    Stamp { time, scheduled }
}
