//! ns-2's `Agent/TCP`: Tahoe (fast retransmit, then slow start from one packet).

use super::agent::{Agent, Base, CutTo, Io, LastCut, NUM_DUPACKS};
use super::packet::Ns2Packet;
use crate::recovery::DetectedBy;
use crate::simulate::record::SenderState;

pub struct Tahoe;

impl Agent for Tahoe {
    #[inline]
    fn on_ack(&mut self, base: &mut Base, io: &mut Io, packet: &Ns2Packet) {
        if packet.number() > base.last_ack {
            base.new_ack(io, packet);
            base.open_cwnd(io.now.0);
            if packet.number() >= base.recover {
                base.phase = SenderState::Open;
            }
        } else if packet.number() == base.last_ack {
            base.dupacks += 1;
            if base.dupacks == NUM_DUPACKS && base.may_cut() {
                base.recover = base.max_seq;
                base.last_cut = LastCut::DupAck;
                base.phase = SenderState::Loss;
                base.slow_down(io, base.state.cwnd, CutTo::One, DetectedBy::DupAck);
                base.reset_timer(io, true, false);
            } else if base.dupacks < NUM_DUPACKS && base.limited_transmit {
                base.send_one(io);
            }
        }
        self.send(base, io);
    }

    fn on_timeout(&mut self, base: &mut Base, io: &mut Io) {
        base.time_out(io, base.state.cwnd);
        self.send(base, io);
    }

    fn send(&mut self, base: &mut Base, io: &mut Io) {
        base.send_much(io, base.window());
    }
}
