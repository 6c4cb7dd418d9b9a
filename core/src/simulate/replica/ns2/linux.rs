//! ns-2's `Agent/TCP/Linux`: integer windows of Linux modules, SACK scoreboard, rate halving.

use super::agent::{Agent, Base, Io, LastCut};
use super::board::{Board, News};
use super::packet::Ns2Packet;
use super::rto::Sample;
use crate::congestion::Ack;
use crate::network::Instant;
use crate::recovery::DetectedBy;
use crate::simulate::record::SenderState;

/// Packets that may leave in a burst when recovery ends.
const MAX_BURST: i64 = 3;

pub struct Linux {
    board: Board,
    /// Rate halving: packets still allowed in flight above cwnd.
    next_in_flight: i64,
    has_started: bool,
    /// When each packet was last sent, by number modulo the table's size.
    sent_at: Vec<f64>,
    /// cwnd as ns-2 traces it: what is allowed while halving.
    traced: f64,
}

impl Linux {
    pub fn new() -> Self {
        Self {
            board: Board::new(),
            next_in_flight: 0,
            has_started: false,
            sent_at: vec![0.0; 1024],
            traced: 0.0,
        }
    }

    fn in_flight(&self, base: &Base) -> i64 {
        self.board.in_flight(base.t_seqno - base.highest_ack - 1)
    }

    fn cwnd(base: &Base) -> i64 {
        base.state.cwnd as i64
    }

    #[inline]
    fn remember_sending(&mut self, base: &Base, number: i64, now: f64) {
        if (number - base.highest_ack) as usize >= self.sent_at.len() {
            self.widen(base, number);
        }
        let mask = self.sent_at.len() - 1;
        self.sent_at[number as usize & mask] = now;
    }

    #[cold]
    fn widen(&mut self, base: &Base, number: i64) {
        let mut wider = vec![0.0; 2 * self.sent_at.len()];
        for n in base.highest_ack.max(0)..number {
            wider[n as usize & (2 * self.sent_at.len() - 1)] =
                self.sent_at[n as usize & (self.sent_at.len() - 1)];
        }
        self.sent_at = wider;
    }

    /// Sends what the window has room for. Part of an ACK's work, compiled in one piece with it.
    #[inline(always)]
    fn fill_window(&mut self, base: &mut Base, io: &mut Io) {
        let cwnd = Self::cwnd(base);
        let mut in_flight = self.in_flight(base);
        self.next_in_flight = self.next_in_flight.min(in_flight + 1);
        while in_flight < cwnd.max(self.next_in_flight) {
            let number = match self.board.retransmit(base.t_seqno) {
                Some(number) => number,
                None if base.t_seqno >= base.cur_seq => return,
                None => {
                    base.t_seqno += 1;
                    base.t_seqno - 1
                }
            };
            self.remember_sending(base, number, io.now.0);
            base.output(io, number);
            in_flight += 1;
            self.next_in_flight = self.next_in_flight.min((in_flight - 1).max(1));
        }
    }

    /// Round-trip sample, timer: every ACK that is not old gives both. Returns the sample of the newest packet
    /// acknowledged, if it is sure.
    #[inline(always)]
    fn take_time(
        &mut self,
        base: &mut Base,
        io: &mut Io,
        packet: &Ns2Packet,
        now_ns: i64,
        is_unsure: bool,
    ) -> Option<i64> {
        let now = io.now.0;
        let echoed = now - packet.ts;
        base.rto.update(now, echoed, Sample::LinuxTimestamp);
        let sent_at = self.sent_at[packet.number() as usize & (self.sent_at.len() - 1)];
        if self.has_started {
            let sample = if is_unsure || packet.number() == 0 {
                echoed
            } else {
                now - sent_at
            };
            // The module sees whole microseconds.
            let rtt_us = (sample * 1e6 + 0.5) as i64;
            base.control.on_rtt(now_ns, rtt_us * 1000);
        }
        base.rto.end_back_off();
        base.end_timing(now, packet.number(), false);
        base.set_timer(io);
        if !self.has_started {
            // The module is set up only now: the first sample is lost to it.
            self.has_started = true;
            base.control.start(&mut base.state, base.t_seqno as u64);
        }
        // Both times are cut to nanoseconds; 0 means none, so packets sent at the very start give no sample.
        let sent_ns = (sent_at * 1e9) as i64;
        (!is_unsure && sent_ns > 0).then(|| (now * 1e9) as i64 - sent_ns)
    }

    /// Enters and leaves recovery. ns-2 has no CWR and no undo.
    fn follow_recovery(&mut self, base: &mut Base, io: &mut Io, news: News) {
        if base.phase != SenderState::Open && base.highest_ack >= base.recover {
            self.board.clear();
            if base.state.cwnd < base.state.ssthresh {
                let most = self.in_flight(base) + MAX_BURST;
                base.state.cwnd = base.state.ssthresh.min(most as f64);
            }
            base.phase = SenderState::Open;
            base.control
                .on_recovered(&mut base.state, io.now.to_ns(), base.t_seqno as u64);
            self.next_in_flight = 0;
            return;
        }
        if base.phase == SenderState::Recovery || !news.lost {
            return;
        }
        base.recover = base.max_seq;
        base.last_cut = LastCut::DupAck;
        self.next_in_flight = Self::cwnd(base);
        base.cut(
            io,
            io.modules_clock,
            base.state.cwnd,
            DetectedBy::Sack,
            None,
        );
        base.state.cwnd = base.control.min_cwnd(&base.state);
        base.phase = SenderState::Recovery;
    }

    fn trace(&mut self, base: &Base) {
        let halving = self.next_in_flight as f64;
        self.traced = if halving > base.state.cwnd {
            halving
        } else {
            base.state.cwnd
        };
    }
}

impl Agent for Linux {
    #[inline(always)]
    fn on_ack(&mut self, base: &mut Base, io: &mut Io, packet: &Ns2Packet) {
        // The clock of all modules stands still between ACKs: a timeout is at the last one that any agent heard.
        io.modules_clock = io.now;
        let newly_acked = packet.number() - base.highest_ack;
        if packet.number() + 1 > base.t_seqno || newly_acked < 0 {
            return;
        }
        let prior_in_flight = self.in_flight(base);
        if newly_acked > 0 {
            base.highest_ack = packet.number();
            base.max_seq = base.max_seq.max(packet.number());
            base.t_seqno = base.t_seqno.max(packet.number() + 1);
        }
        let news = if !packet.blocks.is_empty() || !self.board.is_empty() {
            self.board.update(base.highest_ack, packet)
        } else {
            News::default()
        };
        let now_ns = io.now.to_ns();
        let rtt_ns = self.take_time(base, io, packet, now_ns, newly_acked == 0 || news.unsure);
        let is_dubious = newly_acked == 0 || news.sacked > 0 || base.phase != SenderState::Open;
        let mut ack = Ack {
            now_ns,
            newly_acked: newly_acked as f64,
            newly_sacked: news.sacked as f64,
            rtt_ns,
            srtt_ns: base.rto.srtt_ns(),
            flight_size: prior_in_flight as f64,
            snd_una: (base.highest_ack + 1) as u64,
            snd_nxt: base.t_seqno as u64,
            is_cwnd_limited: true,
        };
        base.control.on_arrival(&mut base.state, &ack);
        // Windows are whole numbers here. Hybla has just set its first one.
        ack.is_cwnd_limited = prior_in_flight as f64 >= base.state.cwnd;
        if newly_acked > 0 && base.phase != SenderState::Recovery {
            let before = base.state.cwnd;
            base.control.on_ack(&mut base.state, &ack);
            // `snd_cwnd_clamp`: no module grows beyond. Plain comparisons: no window is NaN.
            if base.state.cwnd > base.max_window && base.state.cwnd > before {
                base.state.cwnd = before.max(base.max_window);
            }
        }
        if is_dubious {
            self.follow_recovery(base, io, news);
        }
        self.trace(base);
        base.last_ack = base.highest_ack;
        self.fill_window(base, io);
    }

    fn on_timeout(&mut self, base: &mut Base, io: &mut Io) {
        base.last_cut = LastCut::Timeout;
        let has_outstanding = base.highest_ack != base.max_seq;
        if has_outstanding {
            // A module is set up with its first ACK, and then knows nothing of a timer before it.
            let unset = (!self.has_started).then(|| base.control.clone());
            base.cut(io, io.modules_clock, base.state.cwnd, DetectedBy::Rto, None);
            if let Some(unset) = unset {
                base.control = unset;
            }
            base.state.cwnd = 1.0;
            base.totals.timeouts += 1;
            base.recover = base.max_seq;
            base.phase = SenderState::Loss;
            self.board.mark_all_lost(base.highest_ack + 1, base.t_seqno);
        } else {
            base.state.cwnd = base.initial_window;
        }
        base.reset_timer(io, false, has_outstanding);
        self.next_in_flight = 0;
        self.trace(base);
        self.send(base, io);
    }

    fn send(&mut self, base: &mut Base, io: &mut Io) {
        self.fill_window(base, io);
    }

    fn cwnd(&self, base: &Base) -> f64 {
        if self.has_started || self.traced > base.state.cwnd {
            self.traced
        } else {
            base.state.cwnd
        }
    }

    fn flight_size(&self, base: &Base) -> f64 {
        self.in_flight(base) as f64
    }
}
