//! ns-2's `Agent/TCP/Sack1`: recovery counted by a pipe, holes from SACK blocks.

use super::agent::{Agent, Base, CutTo, Io, LastCut, NUM_DUPACKS};
use super::packet::Ns2Packet;
use crate::recovery::DetectedBy;
use crate::recovery::Intervals;
use crate::simulate::record::SenderState;

pub struct Sack1 {
    in_recovery: bool,
    after_timeout: bool,
    /// Packets believed to be on the path.
    pipe: i64,
    sacked: Intervals,
    /// Everything below it that is a hole has been sent again.
    next_retransmission: u64,
    /// Blocks below this count no more.
    floor: Option<u64>,
}

impl Sack1 {
    pub fn new() -> Self {
        Self {
            in_recovery: false,
            after_timeout: false,
            pipe: -1,
            sacked: Intervals::default(),
            next_retransmission: 0,
            floor: None,
        }
    }

    fn clear(&mut self) {
        self.sacked.clear();
        self.next_retransmission = 0;
    }

    /// Takes the blocks in; whether they (or the ACK) told anything new.
    fn update(&mut self, highest_ack: i64, packet: &Ns2Packet) -> bool {
        let mut is_news = false;
        let floor = (highest_ack + 1) as u64;
        if self.floor.is_none_or(|old| old < floor) {
            self.floor = Some(floor);
            if !self.sacked.is_empty() {
                self.sacked.remove_below(floor);
                is_news = true;
            }
        }
        for (start, end) in packet.blocks.iter() {
            is_news |= self.sacked.insert(start, end) > 0;
        }
        is_news
    }

    /// The first hole from `at` on with something SACKed above it.
    fn hole_from(&self, at: u64) -> Option<u64> {
        let hole = self.sacked.next_hole(at);
        self.sacked
            .last()
            .is_some_and(|(start, _)| start > hole)
            .then_some(hole)
    }

    fn next_to_retransmit(&mut self) -> Option<u64> {
        let from = self.next_retransmission.max(self.floor.unwrap_or(0));
        let hole = self.hole_from(from)?;
        self.next_retransmission = self.next_retransmission.max(hole);
        Some(hole)
    }

    fn mark(&mut self, number: u64) {
        self.next_retransmission = self.next_retransmission.max(number + 1);
    }

    fn enter_recovery(&mut self, base: &mut Base, io: &mut Io) {
        if !base.may_cut() {
            return;
        }
        base.recover = base.max_seq;
        self.pipe = base.max_seq - base.highest_ack - NUM_DUPACKS;
        base.reset_timer(io, false, false);
        self.in_recovery = true;
        self.mark((base.highest_ack + 1) as u64);
        base.last_cut = LastCut::DupAck;
        base.phase = SenderState::Recovery;
        base.slow_down(io, base.state.cwnd, CutTo::Half, DetectedBy::Sack);
        base.output(io, base.last_ack + 1);
    }

    /// A partial ACK is taken for a retransmission that arrived: it has left the pipe as well as its ACK's cause.
    fn partial_ack(&mut self, base: &mut Base, io: &mut Io, packet: &Ns2Packet) {
        base.highest_ack = packet.number();
        self.update(base.highest_ack, packet);
        self.pipe -= 1;
        base.new_timer(io, packet.number());
        base.rto.end_back_off();
    }

    fn outside_recovery(&mut self, base: &mut Base, io: &mut Io, packet: &Ns2Packet) {
        if packet.number() > base.last_ack {
            base.new_ack(io, packet);
            base.open_cwnd(io.now.0);
            self.after_timeout = false;
            base.phase = SenderState::Open;
            self.clear();
        } else if packet.number() == base.last_ack
            && !self.after_timeout
            && self.update(base.highest_ack, packet)
        {
            base.dupacks += 1;
            if base.dupacks == NUM_DUPACKS {
                self.enter_recovery(base, io);
            } else if base.dupacks < NUM_DUPACKS && base.limited_transmit {
                base.send_one(io);
            }
        }
        if base.dupacks == 0 {
            self.send(base, io);
        }
    }

    fn in_recovery(&mut self, base: &mut Base, io: &mut Io, packet: &Ns2Packet) {
        self.pipe -= 1;
        if packet.number() >= base.recover {
            base.recover = 0;
            self.in_recovery = false;
            base.phase = SenderState::Open;
            base.new_ack(io, packet);
            self.after_timeout = false;
            self.clear();
        } else if packet.number() > base.highest_ack {
            self.partial_ack(base, io, packet);
        } else if !self.after_timeout && self.update(base.highest_ack, packet) && base.dupacks > 0 {
            base.dupacks += 1;
        }
        self.send(base, io);
    }
}

impl Agent for Sack1 {
    #[inline]
    fn on_ack(&mut self, base: &mut Base, io: &mut Io, packet: &Ns2Packet) {
        if self.in_recovery {
            self.in_recovery(base, io, packet);
        } else {
            self.outside_recovery(base, io, packet);
        }
    }

    fn on_timeout(&mut self, base: &mut Base, io: &mut Io) {
        base.dupacks = 0;
        self.in_recovery = false;
        self.after_timeout = true;
        base.last_ack = base.last_ack.max(base.highest_ack);
        self.clear();
        base.time_out(io, base.state.cwnd);
        self.send(base, io);
    }

    fn send(&mut self, base: &mut Base, io: &mut Io) {
        let window = base.window();
        loop {
            let may = if self.in_recovery {
                self.pipe < base.state.cwnd as i64
            } else {
                base.t_seqno <= base.last_ack + window
            };
            if !may || base.last_ack + 1 >= base.cur_seq {
                return;
            }
            let reach = base.highest_ack
                + if self.in_recovery {
                    base.max_window as i64
                } else {
                    window
                };
            let number = match self.next_to_retransmit() {
                None if base.t_seqno <= reach && base.t_seqno < base.cur_seq => base.t_seqno,
                Some(hole)
                    if base.recover > 0
                        && hole as i64 <= base.highest_ack + base.max_window as i64 =>
                {
                    self.mark(hole);
                    hole as i64
                }
                _ => return,
            };
            base.t_seqno = base.t_seqno.max(number + 1);
            base.output(io, number);
            self.pipe += 1;
        }
    }

    fn flight_size(&self, base: &Base) -> f64 {
        let outstanding = (base.t_seqno - 1 - base.highest_ack).max(0);
        (if self.in_recovery {
            self.pipe.min(outstanding)
        } else {
            outstanding
        }) as f64
    }
}
