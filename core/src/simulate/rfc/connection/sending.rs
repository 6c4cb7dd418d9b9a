//! What a connection of the `rfc` profile puts on the wire, from both of its ends.

use super::{RfcConnection, WINDOW_UPDATE, stamp};
use crate::network::{Nanos, Traveller};
use crate::recovery::{Outgoing, Sender};
use crate::simulate::record::{EventKind, Site};
use crate::simulate::rfc::Io;
use crate::simulate::rfc::packet::{Blocks, RfcPacket};
use crate::wire::TcpFlags;

impl RfcConnection {
    pub(super) fn send_syn(&mut self, io: &mut Io) {
        self.syn_sent = Some(io.now);
        let packet = self.packet(io, true, 0, 0, TcpFlags::SYN);
        self.timer
            .set(&mut io.schedule, io.now, Nanos(self.rto.timeout_ns()));
        self.transmit(io, packet);
    }

    /// The receiver acknowledges; once all is there it closes its side too.
    pub(super) fn send_ack(&mut self, io: &mut Io) {
        if self.receiver.has_finished() && !self.has_closed {
            self.has_closed = true;
            self.send_fin(io);
        } else {
            self.answer(io, 1 + u64::from(self.has_closed), TcpFlags::ACK);
        }
    }

    /// The receiver's FIN, for the first time or again (RFC 9293 section 3.8.1).
    pub(super) fn send_fin(&mut self, io: &mut Io) {
        let timeout = Nanos(self.fin_rto.timeout_ns());
        self.fin_again.set(&mut io.schedule, io.now, timeout);
        self.answer(io, 1, TcpFlags::FIN.with(TcpFlags::ACK));
    }

    fn answer(&mut self, io: &mut Io, seq: u64, flags: TcpFlags) {
        let mut ack = self.packet(io, false, seq, 0, flags);
        ack.blocks = self.receiver.blocks();
        self.receiver.on_ack_sent();
        self.totals.acks_sent += 1;
        self.transmit(io, ack);
        let update = self
            .receiver
            .next_update_ns(io.now.0)
            .map(|ns| stamp(Nanos(ns), io.now));
        io.schedule.set(self.first_source + WINDOW_UPDATE, update);
    }

    pub(super) fn next_seq(&self) -> u64 {
        self.sender.as_ref().map_or(1, Sender::snd_max)
    }

    /// Sends what may be sent, keeps the timer and the books.
    pub(super) fn pump(&mut self, io: &mut Io) {
        while let Some(next) = self
            .sender
            .as_mut()
            .and_then(|sender| sender.next_send(io.now.0))
        {
            self.send_data(io, next);
        }
        let Some(sender) = &mut self.sender else {
            return;
        };
        match sender.timer_ns() {
            Some(ns) => self
                .timer
                .set(&mut io.schedule, io.now, Nanos(ns - io.now.0)),
            None => self.timer.cancel(),
        }
        if let Some(ns) = sender.wake_at_ns().filter(|&ns| ns > io.now.0) {
            self.departure
                .set(&mut io.schedule, io.now, Nanos(ns - io.now.0));
        }
        self.record_losses(io);
        self.record(io);
    }

    fn send_data(&mut self, io: &mut Io, next: Outgoing) {
        let has_fin = self.is_closing && next.end == self.written;
        let payload = (next.end - next.start) as u32 - u32::from(has_fin);
        let mut flags = TcpFlags::ACK;
        if has_fin {
            flags = flags.with(TcpFlags::FIN);
        }
        if payload > 0 && next.end + u64::from(has_fin) >= self.written {
            flags = flags.with(TcpFlags::PSH);
        }
        self.totals.packets_sent += 1;
        self.totals.retransmissions += u64::from(next.is_retransmission);
        let packet = self.packet(io, true, next.start, payload, flags);
        self.transmit(io, packet);
    }

    pub(super) fn packet(
        &mut self,
        io: &Io,
        is_from_sender: bool,
        seq: u64,
        payload: u32,
        flags: TcpFlags,
    ) -> RfcPacket {
        let is_first = flags.has(TcpFlags::SYN) && !flags.has(TcpFlags::ACK);
        let (ack, window, echo_ns) = if is_from_sender {
            (
                self.sender_rcv_nxt,
                65_535 << self.agreed.wscale.min(7),
                self.sender_echo_ns,
            )
        } else {
            (
                self.receiver.rcv_nxt,
                self.receiver.window(io.now.0),
                self.receiver.ts_recent_ns,
            )
        };
        RfcPacket {
            connection: self.number,
            is_from_sender,
            seq,
            payload,
            flags,
            ack: if is_first { 0 } else { ack },
            window: if flags.has(TcpFlags::SYN) {
                window.min(65_535)
            } else {
                window
            },
            ts_ns: io.now.0,
            echo_ns: echo_ns.filter(|_| self.agreed.has_timestamps && !is_first),
            blocks: Blocks::default(),
            ip_id: 0,
            agreed: self.agreed,
        }
    }

    pub(super) fn transmit(&mut self, io: &mut Io, packet: RfcPacket) {
        let at = stamp(io.now, io.now);
        let (place, kind, direction) = if packet.is_from_sender {
            (Site::Sender, EventKind::Send, self.direction)
        } else {
            (Site::Receiver, EventKind::SendAck, 1 - self.direction)
        };
        debug_assert!(packet.payload == 0 || packet.bytes() <= 65_535);
        io.event(at, place, kind, &packet);
        io.send(direction, packet);
    }
}
