//! A sender of this project's own against a real receiver: any slow start, window and recovery of the table.
//!
//! The kernel has no Tahoe and no Compound. Here `recovery::Sender` writes real segments and is given the real ACKs;
//! the simulator drives the same code. No clock and no device: segments and times in, segments out.

use super::own_truth::{KernelRow, TruthRows};
use crate::congestion::{Control, Counting, State};
use crate::recovery::{Arrived, Options, Outgoing, Rto, Sender};
use crate::scenario::{Application, Scenario};
use crate::simulate::{control, initial_state, rto, sender_options};
use crate::wire::{Checked, Endpoint, Segment, TcpFlags, TcpOptions};

/// Everything a bulk transfer will ever send.
const ENDLESS: u64 = 1 << 62;
/// What a sender that reads nothing offers.
const WINDOW: u16 = 65_535;

/// Why a scenario's connection cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSendable {
    #[error("connections.{0}: not there")]
    Connection(usize),
    #[error("application.kind: this sender writes bulk or bytes")]
    Application,
}

/// One connection, from SYN to FIN.
pub struct OwnSender {
    source: Endpoint,
    destination: Endpoint,
    mss: u16,
    offers_sack: bool,
    has_timestamps: bool,
    isn: u32,
    /// What the sender will be made of when the handshake is done.
    seed: Option<(Options, Box<dyn Control>, State)>,
    rto: Rto,
    sender: Option<Sender>,
    /// When a sender that paces may send again.
    departure_ns: Option<i64>,
    written: u64,
    is_closing: bool,
    syn_at_ns: Option<i64>,
    syns: u32,
    syn_timer_ns: Option<i64>,
    /// The receiver's next sequence number, its window's shift, and its latest timestamp.
    rcv_nxt: u32,
    wscale: u8,
    ts_recent: u32,
    has_peer_closed: bool,
    is_reset: bool,
    ip_id: u16,
    outgoing: Vec<Segment>,
    truth: TruthRows,
}

impl OwnSender {
    pub fn new(
        scenario: &Scenario,
        number: usize,
        source: Endpoint,
        destination: Endpoint,
    ) -> Result<Self, NotSendable> {
        let given = scenario
            .connections
            .get(number)
            .ok_or(NotSendable::Connection(number))?;
        let fixed = if scenario.ipv6 { 60 } else { 40 };
        let mss = scenario.path.packet_bytes.saturating_sub(fixed);
        let timestamps = if given.control.timestamps { 12 } else { 0 };
        let smss = mss.saturating_sub(timestamps).max(1);
        // RFC 9293's FIN takes one number behind the last byte; the SYN is number 0.
        let (written, is_closing) = match Application::from(&given.application) {
            Application::Bulk => (ENDLESS, false),
            Application::Bytes { bytes } => (1 + bytes + 1, true),
            _ => return Err(NotSendable::Application),
        };
        let sender = &given.control;
        let counting = Counting {
            profile: scenario.profile,
            segment_bytes: smss,
        };
        let control = control(sender, counting);
        Ok(Self {
            source,
            destination,
            mss: mss.min(u32::from(u16::MAX)) as u16,
            offers_sack: given.has_sack(),
            has_timestamps: sender.timestamps,
            isn: 1_000_000_007,
            seed: Some((
                sender_options(sender, smss),
                control,
                initial_state(sender, smss),
            )),
            rto: rto(&sender.rto).of_linux(sender.is_linux()),
            sender: None,
            departure_ns: None,
            written,
            is_closing,
            syn_at_ns: None,
            syns: 0,
            syn_timer_ns: None,
            rcv_nxt: 0,
            wscale: 0,
            ts_recent: 0,
            has_peer_closed: false,
            is_reset: false,
            ip_id: 0,
            outgoing: Vec::new(),
            truth: TruthRows::new(f64::from(smss)),
        })
    }

    /// Sends the SYN.
    pub fn open(&mut self, now_ns: i64) {
        self.syn_at_ns.get_or_insert(now_ns);
        self.syns += 1;
        self.syn_timer_ns = Some(now_ns + self.rto.timeout_ns());
        let options = TcpOptions {
            mss: Some(self.mss),
            // We offer 65535 bytes to a peer that sends none; only his shift counts (RFC 7323 section 2.2).
            wscale: Some(0),
            sack_permitted: self.offers_sack,
            ..TcpOptions::default()
        };
        self.transmit(now_ns, 0, 0, TcpFlags::SYN, options);
    }

    /// The application stops: what has been sent is all there is, and the FIN follows it.
    pub fn close(&mut self, now_ns: i64) {
        if self.is_closing {
            return;
        }
        self.is_closing = true;
        if let Some(sender) = &mut self.sender {
            self.written = sender.close_here();
        } else {
            self.written = 2;
        }
        self.pump(now_ns);
    }

    /// When a timer expires.
    pub fn next_event(&self) -> Option<i64> {
        match &self.sender {
            Some(sender) => sender.timer_ns().into_iter().chain(self.departure_ns).min(),
            None => self.syn_timer_ns,
        }
    }

    /// A timer may have expired.
    pub fn on_time(&mut self, now_ns: i64) {
        if self.next_event().is_none_or(|due| due > now_ns) {
            return;
        }
        let Some(sender) = &mut self.sender else {
            // RFC 6298 (5.5) for SYN as well.
            self.rto.back_off();
            self.open(now_ns);
            return;
        };
        if sender.timer_ns().is_some_and(|due| due <= now_ns) {
            sender.on_timer(now_ns);
        }
        self.pump(now_ns);
    }

    /// A segment of the receiver has come.
    pub fn on_segment(&mut self, now_ns: i64, segment: &Segment) {
        if (segment.src, segment.dst) != (self.destination, self.source) {
            return;
        }
        if segment.flags.has(TcpFlags::RST) {
            self.is_reset = true;
            return;
        }
        if let Some((ts_val, _)) = segment.options.timestamps {
            self.ts_recent = ts_val;
        }
        if segment.flags.has(TcpFlags::SYN) {
            // RFC 9293 section 3.10.7.3: an answer to another SYN than ours (an earlier run's, late) opens nothing.
            let is_ours =
                segment.flags.has(TcpFlags::ACK) && segment.ack == self.isn.wrapping_add(1);
            if !is_ours {
                return;
            }
            self.on_syn_ack(now_ns, segment);
        } else if self.sender.is_some() {
            self.on_ack(now_ns, segment);
        }
        self.pump(now_ns);
    }

    fn on_syn_ack(&mut self, now_ns: i64, segment: &Segment) {
        if let (Some((options, control, state)), Some(sent)) = (self.seed.take(), self.syn_at_ns) {
            self.rcv_nxt = segment.seq.wrapping_add(1);
            self.wscale = segment.options.wscale.unwrap_or(0).min(14);
            self.has_timestamps &= segment.options.timestamps.is_some();
            if self.syns == 1 {
                self.rto.on_sample(now_ns - sent);
            }
            // RFC 7323 section 2.2: the window of a SYN is not scaled.
            let rwnd = u64::from(segment.window);
            let mut sender =
                Sender::new(options, control, state, self.rto.clone(), 1, rwnd, now_ns);
            if self.is_closing {
                sender.on_close();
            }
            sender.on_write(now_ns, self.written);
            self.sender = Some(sender);
        }
        self.acknowledge(now_ns);
    }

    fn on_ack(&mut self, now_ns: i64, segment: &Segment) {
        let Some(sender) = &mut self.sender else {
            return;
        };
        let una = self.isn.wrapping_add(sender.snd_una() as u32);
        let unwrap = |seq: u32| {
            sender
                .snd_una()
                .saturating_add_signed(i64::from(seq.wrapping_sub(una) as i32))
        };
        let ack = unwrap(segment.ack);
        let blocks: Vec<_> = segment
            .options
            .sack
            .as_slice()
            .iter()
            .map(|&(left, right)| (unwrap(left), unwrap(right)))
            .filter(|(left, right)| left < right)
            .collect();
        let echo = segment
            .options
            .timestamps
            .filter(|&(_, ts_ecr)| ts_ecr != 0);
        let arrived = Arrived {
            ack,
            window: u64::from(segment.window) << self.wscale,
            blocks: &blocks,
            echo_rtt_ns: echo.map(|(_, ts_ecr)| {
                i64::from(ts_val(now_ns).wrapping_sub(ts_ecr) as i32) * 1_000_000
            }),
        };
        self.truth.ack(
            now_ns,
            sender,
            self.isn,
            ack as i64 - sender.snd_una() as i64,
        );
        sender.on_ack(now_ns, &arrived);
        if segment.flags.has(TcpFlags::FIN) {
            let end = segment.seq.wrapping_add(segment.payload_len);
            self.rcv_nxt = end.wrapping_add(1);
            self.has_peer_closed = true;
            self.acknowledge(now_ns);
        }
    }

    /// Sends what may be sent, and keeps the books.
    fn pump(&mut self, now_ns: i64) {
        while let Some(next) = self
            .sender
            .as_mut()
            .and_then(|sender| sender.next_send(now_ns))
        {
            self.send(now_ns, next);
        }
        if let Some(sender) = &mut self.sender {
            self.departure_ns = sender.wake_at_ns().filter(|&at_ns| at_ns > now_ns);
            self.truth.changes(now_ns, sender, self.isn);
        }
    }

    fn send(&mut self, now_ns: i64, next: Outgoing) {
        let has_fin = self.is_closing && next.end == self.written;
        let payload = (next.end - next.start) as u32 - u32::from(has_fin);
        let mut flags = TcpFlags::ACK;
        if has_fin {
            flags = flags.with(TcpFlags::FIN).with(TcpFlags::PSH);
        }
        if next.is_retransmission {
            if let Some(sender) = &self.sender {
                let seq = self.isn.wrapping_add(next.start as u32);
                self.truth.retransmission(now_ns, sender, self.isn, seq);
            }
        }
        self.transmit(now_ns, next.start, payload, flags, TcpOptions::default());
    }

    fn acknowledge(&mut self, now_ns: i64) {
        let next = self.sender.as_ref().map_or(1, Sender::snd_max);
        self.transmit(now_ns, next, 0, TcpFlags::ACK, TcpOptions::default());
    }

    fn transmit(
        &mut self,
        now_ns: i64,
        offset: u64,
        payload_len: u32,
        flags: TcpFlags,
        options: TcpOptions,
    ) {
        self.ip_id = self.ip_id.wrapping_add(1);
        let has_ack = flags.has(TcpFlags::ACK);
        let echo = if has_ack { self.ts_recent } else { 0 };
        self.outgoing.push(Segment {
            seq: self.isn.wrapping_add(offset as u32),
            ack: if has_ack { self.rcv_nxt } else { 0 },
            flags,
            window: WINDOW,
            payload_len,
            ip_id: self.ip_id,
            // One router, the kernel that forwards for us, before the capture.
            ttl: 65,
            src: self.source,
            dst: self.destination,
            options: TcpOptions {
                timestamps: self.has_timestamps.then(|| (ts_val(now_ns), echo)),
                ..options
            },
            ip_len: 0,
            ecn: 0,
            network: 0,
            checked: Checked::Unknown,
        });
    }

    /// Segments to be written to the device, in order.
    pub fn outgoing(&mut self) -> std::vec::Drain<'_, Segment> {
        self.outgoing.drain(..)
    }

    /// Both sides have closed, or the receiver has reset the connection.
    pub fn has_ended(&self) -> bool {
        let is_done = self.sender.as_ref().is_some_and(Sender::is_done);
        self.is_reset || (is_done && self.has_peer_closed)
    }

    pub fn is_reset(&self) -> bool {
        self.is_reset
    }

    /// Payload bytes that the receiver has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        let una = self.sender.as_ref().map_or(1, Sender::snd_una);
        let fin = u64::from(self.is_closing && una == self.written);
        una - 1 - fin
    }

    /// What the sender knew, row by row.
    pub fn rows(&self) -> &[KernelRow] {
        self.truth.rows()
    }
}

/// Milliseconds (RFC 7323 section 5.4), never 0.
fn ts_val(now_ns: i64) -> u32 {
    ((now_ns / 1_000_000) as u32) | 1 << 31
}

#[cfg(test)]
#[path = "own_sender_tests.rs"]
mod tests;
