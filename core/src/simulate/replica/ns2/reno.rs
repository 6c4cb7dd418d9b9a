//! ns-2's `Agent/TCP/Reno` and `Agent/TCP/Newreno`: fast recovery under a window inflated by duplicate ACKs.

use super::agent::{Agent, Base, CutTo, Io, LastCut, NUM_DUPACKS};
use super::packet::Ns2Packet;
use crate::recovery::DetectedBy;
use crate::simulate::record::SenderState;

pub struct Reno {
    /// RFC 6582: a partial ACK sends the next hole and stays in recovery.
    is_newreno: bool,
    /// Duplicate ACKs by which the window is inflated.
    dupwnd: i64,
    first_partial: bool,
}

impl Reno {
    pub fn new(is_newreno: bool) -> Self {
        Self {
            is_newreno,
            dupwnd: 0,
            first_partial: true,
        }
    }

    fn window(&self, base: &Base) -> i64 {
        (base.state.cwnd as i64 + self.dupwnd).min(base.max_window as i64)
    }

    fn fast_retransmit(&mut self, base: &mut Base, io: &mut Io) {
        // Reno may cut again while no new ACK has come since its last cut; NewReno may not.
        let is_still_in_it = !self.is_newreno && base.last_cut == LastCut::DupAck;
        if !base.may_cut() && !is_still_in_it {
            return;
        }
        base.recover = base.max_seq;
        base.last_cut = LastCut::DupAck;
        base.phase = SenderState::Recovery;
        base.slow_down(
            io,
            base.state.cwnd + self.dupwnd as f64,
            CutTo::Half,
            DetectedBy::DupAck,
        );
        base.reset_timer(io, false, false);
        base.output(io, base.last_ack + 1);
        self.dupwnd = NUM_DUPACKS;
    }

    /// RFC 6582 section 3.2 step 3, with ns-2's partial window deflation.
    fn partial_ack(&mut self, base: &mut Base, io: &mut Io, packet: &Ns2Packet) {
        if self.first_partial {
            self.first_partial = false;
            base.new_timer(io, packet.number());
        }
        let deflate = packet.number() - base.last_ack;
        if self.dupwnd > deflate {
            self.dupwnd -= deflate - 1;
        } else {
            base.state.cwnd = (base.state.cwnd - (deflate - self.dupwnd) as f64).max(1.0);
            self.dupwnd = 1;
        }
        base.last_ack = packet.number();
        base.highest_ack = packet.number();
        base.t_seqno = base.t_seqno.max(packet.number() + 1);
        base.end_timing(io.now.0, packet.number(), false);
        base.output(io, base.last_ack + 1);
    }
}

impl Agent for Reno {
    #[inline]
    fn on_ack(&mut self, base: &mut Base, io: &mut Io, packet: &Ns2Packet) {
        if packet.number() > base.last_ack {
            let is_partial = self.is_newreno
                && packet.number() < base.recover
                && base.last_cut == LastCut::DupAck;
            if is_partial {
                self.partial_ack(base, io, packet);
            } else {
                if base.last_cut == LastCut::DupAck && (!self.is_newreno || self.dupwnd > 0) {
                    base.last_cut = LastCut::Exited;
                }
                self.dupwnd = 0;
                self.first_partial = true;
                base.phase = SenderState::Open;
                base.new_ack(io, packet);
                base.open_cwnd(io.now.0);
            }
        } else if packet.number() == base.last_ack {
            base.dupacks += 1;
            if base.dupacks == NUM_DUPACKS {
                self.fast_retransmit(base, io);
            } else if base.dupacks > NUM_DUPACKS && base.last_cut == LastCut::DupAck {
                self.dupwnd += 1;
            } else if base.dupacks < NUM_DUPACKS && base.limited_transmit {
                base.send_one(io);
            }
        }
        if base.dupacks == 0 {
            self.send(base, io);
        } else if base.dupacks >= NUM_DUPACKS {
            let window = self.window(base);
            if self.is_newreno {
                // At most two packets per ACK in recovery.
                let limit = (base.t_seqno + 1 - base.highest_ack).min(window);
                base.send_much(io, limit);
            } else {
                base.send_much(io, window);
            }
        }
    }

    fn on_timeout(&mut self, base: &mut Base, io: &mut Io) {
        self.dupwnd = 0;
        base.dupacks = 0;
        base.time_out(io, base.state.cwnd);
        self.send(base, io);
    }

    fn send(&mut self, base: &mut Base, io: &mut Io) {
        base.send_much(io, self.window(base));
    }

    fn usable_window(&self, base: &Base) -> f64 {
        self.window(base) as f64
    }
}
