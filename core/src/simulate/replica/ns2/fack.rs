//! ns-2's `Agent/TCP/Fack` (Mathis and Mahdavi 1996): what lies below the highest SACK is gone.

use std::collections::BTreeMap;

use super::agent::{Agent, Base, CutTo, Io, LastCut, NUM_DUPACKS};
use super::packet::Ns2Packet;
use super::rto::Sample;
use crate::recovery::DetectedBy;
use crate::recovery::Intervals;
use crate::simulate::record::SenderState;

pub struct Fack {
    in_recovery: bool,
    /// A retransmission was lost: wait for the timer.
    waits_for_timeout: bool,
    /// The highest packet known to have arrived.
    snd_fack: i64,
    /// Retransmissions still on the path.
    retran_data: i64,
    sacked: Intervals,
    /// Ns2Packet sent again, and the next new number when that happened.
    retransmitted: BTreeMap<u64, i64>,
    /// Below it every hole was sent again (or nothing is known): where the search goes on.
    has_board: bool,
}

impl Fack {
    pub fn new() -> Self {
        Self {
            in_recovery: false,
            waits_for_timeout: false,
            snd_fack: -1,
            retran_data: 0,
            sacked: Intervals::default(),
            retransmitted: BTreeMap::new(),
            has_board: false,
        }
    }

    fn clear(&mut self) {
        self.sacked.clear();
        self.retransmitted.clear();
        self.has_board = false;
    }

    /// Takes ACK and blocks in; retransmissions that have arrived leave `retran_data`.
    fn update(&mut self, highest_ack: i64, packet: &Ns2Packet) {
        let floor = (highest_ack + 1) as u64;
        let kept = self.retransmitted.split_off(&floor);
        self.retran_data -= self.retransmitted.len() as i64;
        self.retransmitted = kept;
        self.sacked.remove_below(floor);
        for (start, end) in packet.blocks.iter() {
            self.has_board = true;
            self.sacked.insert(start, end);
            while let Some((&number, _)) = self.retransmitted.range(start..end).next() {
                self.retransmitted.remove(&number);
                self.retran_data -= 1;
            }
        }
    }

    /// A packet sent after a retransmission has arrived before it: the retransmission is lost again.
    fn forget_lost_retransmissions(&mut self, packet: &Ns2Packet) {
        for (_, end) in packet.blocks.iter() {
            let before = self.retransmitted.len();
            self.retransmitted
                .retain(|&number, &mut snd_nxt| number >= end || snd_nxt >= end as i64);
            self.waits_for_timeout |= self.retransmitted.len() < before;
        }
    }

    /// The first number neither SACKed nor sent again, below the highest SACK.
    fn next_to_retransmit(&self, base: &Base) -> Option<u64> {
        if !self.has_board {
            return None;
        }
        let (_, end) = self.sacked.last()?;
        let mut number = (base.highest_ack + 1) as u64;
        while number < end {
            let hole = self.sacked.next_hole(number);
            if hole >= end {
                return None;
            }
            if !self.retransmitted.contains_key(&hole) {
                return Some(hole);
            }
            number = hole + 1;
        }
        None
    }

    /// ACK bookkeeping with SACK about: every ACK restarts the timer and gives a sample by its echo.
    fn old_ack(&mut self, base: &mut Base, io: &mut Io, packet: &Ns2Packet) {
        base.last_ack = packet.number();
        base.highest_ack = packet.number();
        self.snd_fack = self.snd_fack.max(packet.number());
        base.t_seqno = base.t_seqno.max(packet.number() + 1);
        base.new_timer(io, packet.number());
        base.end_timing(io.now.0, packet.number(), false);
        let sample = io.now.0 - packet.ts;
        base.tell_rtt(io.now.0, sample);
        base.rto.update(
            io.now.0,
            sample,
            if base.has_timestamps {
                Sample::Timestamp
            } else {
                Sample::Timed
            },
        );
    }

    fn advance_fack(&mut self, base: &mut Base, packet: &Ns2Packet) {
        if let Some(end) = packet.blocks.iter().map(|(_, end)| end as i64).max() {
            self.snd_fack = self.snd_fack.max(end - 1);
        }
        base.t_seqno = base.t_seqno.max(self.snd_fack + 1);
    }

    fn enter_recovery(&mut self, base: &mut Base, io: &mut Io) {
        base.recover = base.t_seqno;
        base.last_cut = LastCut::DupAck;
        base.phase = SenderState::Recovery;
        base.slow_down(io, base.state.cwnd, CutTo::One, DetectedBy::Sack);
        base.reset_timer(io, false, false);
        self.in_recovery = true;
        self.retransmitted
            .insert((base.last_ack + 1) as u64, base.t_seqno);
        self.retran_data += 1;
        base.output(io, base.last_ack + 1);
    }
}

impl Agent for Fack {
    #[inline]
    fn on_ack(&mut self, base: &mut Base, io: &mut Io, packet: &Ns2Packet) {
        if self.in_recovery {
            self.old_ack(base, io, packet);
            self.advance_fack(base, packet);
            self.update(base.highest_ack, packet);
            self.forget_lost_retransmissions(packet);
            base.open_cwnd(io.now.0);
            if packet.blocks.is_empty() && base.last_ack >= base.recover {
                self.in_recovery = false;
                self.waits_for_timeout = false;
                self.clear();
                self.retran_data = 0;
                base.dupacks = 0;
                base.phase = SenderState::Open;
            }
            self.send(base, io);
            return;
        }
        if packet.number() > base.last_ack && packet.blocks.is_empty() {
            base.new_ack(io, packet);
            base.open_cwnd(io.now.0);
            self.snd_fack = base.last_ack;
            self.waits_for_timeout = false;
            self.clear();
            self.retran_data = 0;
            base.phase = SenderState::Open;
        } else if packet.number() >= base.last_ack {
            self.update(base.highest_ack, packet);
            self.old_ack(base, io, packet);
            self.advance_fack(base, packet);
            base.dupacks = self.snd_fack - base.last_ack - 1;
            if base.dupacks >= NUM_DUPACKS {
                self.enter_recovery(base, io);
            }
        }
        if base.dupacks == 0 {
            self.send(base, io);
        }
    }

    fn on_timeout(&mut self, base: &mut Base, io: &mut Io) {
        self.waits_for_timeout = false;
        base.last_ack = base.last_ack.max(base.highest_ack);
        self.retran_data = 0;
        base.last_cut = LastCut::Timeout;
        if base.highest_ack == base.max_seq {
            base.state.cwnd = base.initial_window;
            base.reset_timer(io, false, false);
        } else {
            base.totals.timeouts += 1;
            base.slow_down(io, base.state.cwnd, CutTo::One, DetectedBy::Rto);
            base.reset_timer(io, false, true);
        }
        self.clear();
        self.snd_fack = base.last_ack;
        base.t_seqno = base.last_ack + 1;
        self.send(base, io);
    }

    fn send(&mut self, base: &mut Base, io: &mut Io) {
        while base.t_seqno <= self.snd_fack + base.window() - self.retran_data
            && !self.waits_for_timeout
        {
            let number = match self.next_to_retransmit(base) {
                Some(hole) => {
                    self.retransmitted.insert(hole, base.t_seqno);
                    self.retran_data += 1;
                    hole as i64
                }
                None if base.t_seqno >= base.cur_seq => return,
                None if self.in_recovery
                    && base.t_seqno > base.highest_ack + base.max_window as i64 =>
                {
                    return;
                }
                None => {
                    base.t_seqno += 1;
                    base.t_seqno - 1
                }
            };
            base.output(io, number);
        }
    }

    /// awnd = snd.nxt - snd.fack + `retran_data`.
    fn flight_size(&self, base: &Base) -> f64 {
        (base.t_seqno - 1 - self.snd_fack + self.retran_data).max(0) as f64
    }
}
