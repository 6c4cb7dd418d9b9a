//! Any of ns-2's senders: one type, so that an ACK's whole work is compiled in one piece.

use super::agent::{Agent, Base, Io};
use super::fack::Fack;
use super::linux::Linux;
use super::packet::Ns2Packet;
use super::reno::Reno;
use super::sack::Sack1;
use super::tahoe::Tahoe;

pub enum Any {
    Tahoe(Tahoe),
    Reno(Reno),
    Sack(Sack1),
    Fack(Fack),
    Linux(Linux),
}

/// The same call on whichever it is.
macro_rules! on_any {
    ($any:expr, $agent:ident => $call:expr) => {
        match $any {
            Any::Tahoe($agent) => $call,
            Any::Reno($agent) => $call,
            Any::Sack($agent) => $call,
            Any::Fack($agent) => $call,
            Any::Linux($agent) => $call,
        }
    };
}

impl Agent for Any {
    #[inline(always)]
    fn on_ack(&mut self, base: &mut Base, io: &mut Io, packet: &Ns2Packet) {
        on_any!(self, agent => agent.on_ack(base, io, packet));
    }

    fn on_timeout(&mut self, base: &mut Base, io: &mut Io) {
        on_any!(self, agent => agent.on_timeout(base, io));
    }

    fn send(&mut self, base: &mut Base, io: &mut Io) {
        on_any!(self, agent => agent.send(base, io));
    }

    #[inline]
    fn cwnd(&self, base: &Base) -> f64 {
        on_any!(self, agent => agent.cwnd(base))
    }

    #[inline]
    fn usable_window(&self, base: &Base) -> f64 {
        on_any!(self, agent => agent.usable_window(base))
    }

    #[inline]
    fn flight_size(&self, base: &Base) -> f64 {
        on_any!(self, agent => agent.flight_size(base))
    }
}
