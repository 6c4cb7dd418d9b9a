//! A receiver: reassembly, when to acknowledge (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2), SACK and D-SACK blocks
//! (RFC 2018, RFC 2883), the window it offers, and an application that reads at its own pace.

use super::linux_acks::{Data, LinuxAcks};
use super::packet::Blocks;
use crate::recovery::Intervals;
use crate::scenario::ReceiverSpec;

/// What a segment calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    AckNow,
    /// Wait for another segment or the timer.
    Delay,
    /// Wait for so long at most.
    Within(i64),
    Nothing,
}

#[derive(Debug)]
pub struct Receiver {
    every: u32,
    quickacks: u32,
    /// A Linux host's habits besides.
    linux: Option<LinuxAcks>,
    opened_ns: i64,
    max_blocks: usize,
    mss: u64,
    rwnd: u64,
    /// Window fields count in units of 2^shift.
    wscale: u8,
    reader_bps: Option<f64>,
    pub rcv_nxt: u64,
    held: Intervals,
    /// Ranges reported before, most recent first, by an offset inside.
    reported: Vec<u64>,
    has_dsack: bool,
    /// Received again and not reported yet.
    duplicate: Option<(u64, u64)>,
    /// Segments not acknowledged yet.
    pending: u32,
    fin_at: Option<u64>,
    /// Right edge offered last: it never moves back (RFC 9293 section 3.8.6).
    edge: u64,
    /// Bytes in order and not read, at `read_ns`.
    unread: f64,
    read_ns: i64,
    /// RFC 7323 section 4.3: TS.Recent and Last.ACK.sent.
    pub ts_recent_ns: Option<i64>,
    last_ack_sent: u64,
    pub delivered: u64,
}

impl Receiver {
    pub fn new(
        spec: &ReceiverSpec,
        every: u32,
        is_linux: bool,
        max_blocks: usize,
        mss: u64,
        wscale: u8,
    ) -> Self {
        let linux =
            is_linux.then(|| LinuxAcks::new(spec.initial_rwnd, spec.rwnd, mss, max_blocks > 0));
        Self {
            every,
            quickacks: spec.quickack_segments,
            linux,
            opened_ns: 0,
            max_blocks,
            mss,
            rwnd: spec.rwnd,
            wscale,
            reader_bps: Some(spec.reader_bps).filter(|rate| rate.is_finite()),
            rcv_nxt: 0,
            held: Intervals::default(),
            reported: Vec::new(),
            has_dsack: spec.dsack || is_linux,
            duplicate: None,
            pending: 0,
            fin_at: None,
            edge: 0,
            unread: 0.0,
            read_ns: 0,
            ts_recent_ns: None,
            last_ack_sent: 0,
            delivered: 0,
        }
    }

    /// SYN has come.
    pub fn open(&mut self, now_ns: i64, ts_ns: i64) {
        self.rcv_nxt = self.rcv_nxt.max(1);
        (self.read_ns, self.opened_ns) = (now_ns, now_ns);
        self.ts_recent_ns = Some(ts_ns);
    }

    /// A segment echoes this host's clock, or ends the handshake.
    pub fn hear_echo(&mut self, now_ns: i64, echo_ns: Option<i64>) {
        let opened_ns = std::mem::take(&mut self.opened_ns);
        let handshake_ns = (opened_ns > 0).then_some(opened_ns);
        if let (Some(linux), Some(ns)) = (&mut self.linux, echo_ns.or(handshake_ns)) {
            linux.on_round_trip(now_ns, now_ns - ns);
        }
    }

    /// Data or FIN has come: `end` counts the FIN.
    pub fn receive(
        &mut self,
        now_ns: i64,
        ts_ns: i64,
        start: u64,
        end: u64,
        has_fin: bool,
    ) -> Answer {
        if start <= self.last_ack_sent && self.ts_recent_ns.is_none_or(|recent| ts_ns >= recent) {
            self.ts_recent_ns = Some(ts_ns);
        }
        if start == end {
            return Answer::Nothing;
        }
        self.read(now_ns);
        if has_fin {
            self.fin_at = Some(end - 1);
        }
        self.duplicate = self.received_before(start, end);
        self.pending += 1;
        let data = if end <= self.rcv_nxt {
            Data::Again
        } else if start > self.rcv_nxt {
            self.held.insert(start, end);
            self.reported.insert(0, start);
            self.reported.truncate(8);
            Data::OutOfOrder
        } else {
            self.advance(end)
        };
        self.answer(now_ns, data)
    }

    /// Data up to `end` is in order now, and with it what was held behind.
    fn advance(&mut self, end: u64) -> Data {
        let had_gap = !self.held.is_empty();
        let before = self.rcv_nxt;
        self.rcv_nxt = end;
        if had_gap {
            self.rcv_nxt = self.held.next_hole(end);
            self.held.remove_below(self.rcv_nxt);
        }
        let fin = u64::from(self.has_finished());
        self.unread += (self.rcv_nxt - before - fin) as f64;
        self.delivered = self.rcv_nxt - 1 - fin;
        match (had_gap, self.held.is_empty()) {
            (false, _) => Data::InOrder,
            (true, false) => Data::FillsPart,
            (true, true) => Data::FillsAll,
        }
    }

    /// When to acknowledge what has just come.
    fn answer(&mut self, now_ns: i64, data: Data) -> Answer {
        let is_advance = matches!(data, Data::InOrder | Data::FillsPart | Data::FillsAll);
        let is_end = is_advance && self.has_finished();
        if let Some(linux) = &mut self.linux {
            linux.on_data(now_ns, data, self.held.covered());
            linux.on_read(now_ns, self.delivered - self.unread as u64);
            // More than one full segment, a gap that is filled (RFC 5681 section 4.2), or quick ACKs.
            let is_due = self.rcv_nxt - self.last_ack_sent > self.mss
                || data == Data::FillsAll
                || linux.is_quick()
                || self.every == 1
                || is_end;
            if is_due {
                return Answer::AckNow;
            }
            if self.held.is_empty() {
                return Answer::Delay;
            }
            return linux
                .compress(self.rcv_nxt)
                .map_or(Answer::AckNow, Answer::Within);
        }
        let is_quick = is_advance && self.quickacks > 0;
        self.quickacks -= u32::from(is_quick);
        let may_wait = data == Data::InOrder && !is_end && self.pending < self.every;
        if may_wait && !is_quick {
            return Answer::Delay;
        }
        self.pending = 0;
        Answer::AckNow
    }

    /// What of a segment is here already: its part below rcv_nxt, or all of it in one held range.
    fn received_before(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        if start < self.rcv_nxt {
            return Some((start, end.min(self.rcv_nxt)));
        }
        let range = self.held.around(start)?;
        (end <= range.1).then_some((start, end))
    }

    /// The delayed ACK's timer has expired: whether there is something to acknowledge.
    pub fn expire(&mut self) -> bool {
        std::mem::take(&mut self.pending) > 0
    }

    /// Whether everything up to and with FIN has come.
    pub fn has_finished(&self) -> bool {
        self.fin_at.is_some_and(|fin| self.rcv_nxt > fin)
    }

    /// The application reads on.
    fn read(&mut self, now_ns: i64) {
        self.unread = match self.reader_bps {
            None => 0.0,
            Some(bps) => (self.unread - (now_ns - self.read_ns) as f64 * bps / 8e9).max(0.0),
        };
        self.read_ns = now_ns;
    }

    /// The window to offer now.
    pub fn window(&mut self, now_ns: i64) -> u64 {
        self.read(now_ns);
        let free = (self.rwnd as f64 - self.unread).max(0.0) as u64;
        let free = self
            .linux
            .as_ref()
            .map_or(free, |linux| free.min(linux.offered()));
        let edge = self.rcv_nxt + free;
        if edge >= self.edge + self.least_step() {
            self.edge = edge;
        }
        self.edge = self.edge.max(self.rcv_nxt);
        (self.edge - self.rcv_nxt) >> self.wscale << self.wscale
    }

    /// RFC 9293 section 3.8.6.2.2: the window opens by no less.
    fn least_step(&self) -> u64 {
        (self.rwnd / 2).min(self.mss)
    }

    /// When the reader will have made room for a step the sender waits for; `None`: it is not waiting.
    pub fn next_update_ns(&mut self, now_ns: i64) -> Option<i64> {
        let bps = self.reader_bps?;
        let step = (self.rwnd / 2).min(2 * self.mss) as f64;
        let offered = (self.edge - self.rcv_nxt) as f64;
        self.read(now_ns);
        if offered >= step || self.unread == 0.0 {
            return None;
        }
        // Not before the window can open by a step above what is offered: an update would say nothing.
        let wanted = step.max(offered + self.least_step() as f64);
        let missing = (wanted - (self.rwnd as f64 - self.unread)).max(0.0);
        Some(now_ns + (missing * 8e9 / bps).ceil() as i64 + 1)
    }

    /// The ACK's blocks: the range just received first, then those reported most recently (RFC 2018 section 4); before
    /// them what was received twice, reported once (RFC 2883 section 4).
    pub fn blocks(&mut self) -> Blocks {
        let mut blocks = Blocks::default();
        let duplicate = self.duplicate.take();
        let may_tell = self.has_dsack && self.max_blocks > 0;
        if let Some(duplicate) = duplicate.filter(|_| may_tell) {
            blocks.push(duplicate);
        }
        if self.max_blocks == 0 || self.held.is_empty() {
            self.reported.clear();
            return blocks;
        }
        let above = usize::from(blocks.count);
        let held = &self.held;
        let max_blocks = self.max_blocks;
        self.reported.retain(|&offset| match held.around(offset) {
            Some(range) if blocks.as_slice()[above..].contains(&range) => false,
            Some(range) => {
                if usize::from(blocks.count) < max_blocks {
                    blocks.push(range);
                }
                true
            }
            None => false,
        });
        blocks
    }

    /// An ACK goes out.
    pub fn on_ack_sent(&mut self) {
        self.last_ack_sent = self.rcv_nxt;
        self.pending = 0;
        if let Some(linux) = &mut self.linux {
            linux.on_ack_sent();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(spec: ReceiverSpec, every: u32) -> Receiver {
        let mut receiver = Receiver::new(&spec, every, false, 3, 1000, 0);
        receiver.open(0, 0);
        receiver
    }

    fn receive(receiver: &mut Receiver, segment: u64) -> Answer {
        receiver.receive(0, 0, 1 + 1000 * segment, 1001 + 1000 * segment, false)
    }

    #[test]
    fn every_second_segment_is_acknowledged_gaps_and_their_ends_at_once() {
        let spec = ReceiverSpec {
            quickack_segments: 1,
            ..ReceiverSpec::default()
        };
        let mut receiver = receiver(spec, 2);
        use Answer::{AckNow, Delay};
        let answers = [0, 1, 2, 4, 3, 5, 5].map(|segment| receive(&mut receiver, segment));
        assert_eq!(
            answers,
            [AckNow, Delay, AckNow, AckNow, AckNow, Delay, AckNow]
        );
        assert_eq!(receiver.delivered, 6000);
    }

    #[test]
    fn blocks_begin_with_the_segment_just_received() {
        let mut receiver = receiver(ReceiverSpec::default(), 1);
        for segment in [2, 4, 6, 8, 3] {
            receive(&mut receiver, segment);
        }
        assert_eq!(
            receiver.blocks().as_slice(),
            [(2001, 5001), (8001, 9001), (6001, 7001)]
        );
    }

    #[test]
    fn a_slow_reader_closes_the_window_and_opens_it_in_steps() {
        let spec = ReceiverSpec {
            rwnd: 4000,
            reader_bps: 8e6,
            ..ReceiverSpec::default()
        };
        let mut receiver = receiver(spec, 1);
        assert_eq!(receiver.window(0), 4000);
        for segment in 0..4 {
            receive(&mut receiver, segment);
        }
        assert_eq!(receiver.window(0), 0);
        // 1 MB/s: a step of 2000 bytes is free after 2 ms.
        assert_eq!(receiver.next_update_ns(0), Some(2_000_001));
        assert_eq!(receiver.window(500_000), 0);
        assert_eq!(receiver.window(2_000_001), 2000);
    }

    #[test]
    fn an_update_waits_until_it_can_say_something() {
        let spec = ReceiverSpec {
            rwnd: 4000,
            reader_bps: 8e6,
            ..ReceiverSpec::default()
        };
        let mut receiver = receiver(spec, 1);
        receiver.window(0);
        for segment in 0..4 {
            receive(&mut receiver, segment);
        }
        // 1500 bytes are read and offered. At 2 ms 2000 are free, 500 more than offered: less than a segment.
        assert_eq!(receiver.window(1_500_000), 1500);
        let next = receiver.next_update_ns(1_500_000).unwrap();
        assert_eq!(next, 2_500_001);
        assert_eq!(receiver.window(next), 2500);
    }
}
