//! One direction of a connection: the data that one side sent and the ACKs that came back.
//!
//! Offset 0 is the first byte of data (the SYN stands at -1), or the first byte seen where the capture starts in
//! the middle.

use super::columns::{AckColumns, SegmentColumns};
use super::counts::FlowCounts;
use super::detail::Detail;
use super::intervals::IntervalSet;
use super::outstanding::{Outstanding, SentSegment};
use super::packet::TcpPacket;
use super::sequence::{unwrap, wrap};
use crate::infer::AckContent;
use crate::wire::{Checked, SackBlocks, TcpOptions};

/// Of a flow's checksums: with one wrong one in fewer than this they are not the flow's damage but its host's or its tap's
/// (offload, rewritten headers). Damage is rarer: Stone and Partridge (2000) met 1 in 1,100 to 1 in 32,000 packets.
const RIGHT_PER_WRONG: u64 = 64;

/// A side's part of the handshake's round trip is known before it has sent so many packets.
pub(super) const HANDSHAKE_PACKETS: u64 = 4;

/// In this order in memory: first, a line of the cache at a time, what the short ways touch.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub struct Flow {
    // As sender of data, what the ACKs of the peer touch.
    /// The wire numbers of `snd_max` and `snd_una`.
    pub next_seq: u32,
    pub una_ack: u32,
    pub(super) dup_count: u32,
    /// Packets went before: the short ways are open.
    pub is_begun: bool,
    /// Data has been sent and acknowledged.
    pub extends: bool,
    pub(super) has_una: bool,
    pub shift: u8,
    pub(super) snd_una: i64,
    /// When the latest transmission among all acknowledged bytes was.
    pub(super) acked_sent_at: i64,
    /// The peer's last ACK; its window is raw.
    pub(super) answer: AckContent,

    pub(super) seen: IntervalSet,
    /// As sender of ACKs: what the window was last (scaled) and, below, the last pure ACKs.
    pub window: Option<u64>,

    pub(super) outstanding: Outstanding,

    pub(super) prints: [u64; 2],
    /// Packets by what their checksums tell.
    pub(super) checks: [u64; Checked::KINDS],
    pub detail: Option<Box<Detail>>,

    // What the short ways leave alone, and any other packet touches.
    pub(super) base: Option<u32>,
    pub isn: Option<u32>,
    /// One past the last payload byte, once a FIN was seen.
    pub(super) fin_at: Option<i64>,
    /// The end of a byte sent into a closed window.
    pub(super) probe_end: i64,
    /// The peer has acknowledged data: the initial window is over.
    pub(super) is_data_acked: bool,
    /// Rows are kept, of this direction or the other.
    pub is_watched: bool,

    pub counts: FlowCounts,

    /// The last segment that was sent again (offset, length, and what was sent when): its copy is no third one.
    pub(super) last_again: Option<(i64, SentSegment)>,
    /// The blocks of the last ACK that had any, as far as they were captured.
    pub(super) last_blocks: SackBlocks,
}

/// Whether all that an ACK has to tell is in the blocks that were captured: the latest ones come first, and repeat those
/// of the ACKs before (RFC 2018 section 4), so that behind a block that is known none is new.
fn tells_news(sack: Option<&SackBlocks>, before: &SackBlocks) -> bool {
    sack.and_then(|sack| sack.as_slice().get(1..))
        .is_some_and(|behind| behind.iter().any(|block| before.as_slice().contains(block)))
}

impl Flow {
    /// A value from each line that a packet of this side, with data or without, touches here by the short way, taken
    /// together: they come from memory at once.
    #[inline]
    pub(super) fn sends_in(&self, has_data: bool) -> i64 {
        let ring = if has_data { self.outstanding.len() } else { 0 };
        i64::from(self.next_seq)
            ^ self.seen.end()
            ^ ring as i64
            ^ self.prints[0] as i64
            ^ self.counts.last_time
    }

    /// The same of a packet of the other side.
    #[inline]
    pub(super) fn hears_in(&self, has_data: bool) -> i64 {
        if has_data {
            return self.snd_una;
        }
        let samples = self.counts.rtt.is_empty();
        self.snd_una ^ self.seen.end() ^ self.outstanding.len() as i64 ^ i64::from(samples)
    }

    /// The same of a packet of either side that takes the long way.
    #[inline]
    pub(super) fn any_in(&self) -> i64 {
        // No value twice: they would cancel out, and none be read.
        self.snd_una
            ^ self.seen.end()
            ^ self.outstanding.len() as i64
            ^ self.prints[0] as i64
            ^ i64::from(self.is_watched)
            ^ self.counts.last_time
            ^ i64::from(self.counts.rtt.is_empty())
            ^ self.counts.other_packets as i64
    }

    /// Behind the pointers: where the next segment sent will stand.
    #[inline]
    pub(super) fn sends_behind(&self) -> i64 {
        self.outstanding.last().map_or(0, |sent| sent.time)
    }

    /// The segments that an ACK takes out, and where the samples go.
    #[inline]
    pub(super) fn hears_behind(&self) -> i64 {
        let sent = self.outstanding.front().map_or(0, |sent| sent.time);
        let samples = [&self.counts.rtt, &self.counts.ts_rtt];
        let [rtt, ts_rtt] = samples.map(|samples| samples.last().unwrap_or(0));
        sent ^ rtt ^ ts_rtt
    }

    /// One past the highest byte sent, SYN and FIN included (RFC 9293 `SND.NXT` as the tap sees it).
    #[inline]
    pub(super) fn snd_max(&self) -> i64 {
        self.seen.end()
    }

    /// Whether a packet was damaged on its way, or at the tap: its checksum is wrong, and nearly all others are right.
    pub fn is_damaged(&self, checked: Checked) -> bool {
        let of = |kind: Checked| self.checks[kind as usize];
        let (right, wrong) = match checked {
            Checked::WrongHeader => (of(Checked::Header) + of(Checked::Whole), of(checked)),
            Checked::WrongSegment => (of(Checked::Whole), of(checked)),
            _ => return false,
        };
        right >= RIGHT_PER_WRONG * (wrong + 1)
    }

    /// Counts what a packet's checksums tell; false: it is left out.
    #[inline]
    pub(super) fn takes(&mut self, checked: Checked) -> bool {
        let is_damaged = checked.is_wrong() && self.is_damaged(checked);
        self.checks[checked as usize] += 1;
        if is_damaged {
            self.counts.damaged_packets += 1;
        }
        !is_damaged
    }

    /// Everything sent has been acknowledged.
    pub fn is_quiet(&self) -> bool {
        self.has_una && self.snd_una >= self.snd_max()
    }

    pub fn has_fin(&self) -> bool {
        self.fin_at.is_some()
    }

    pub fn has_sent_data(&self) -> bool {
        self.counts.data_packets > 0
    }

    /// The options of a SYN, and where its sequence space begins.
    pub fn on_syn(&mut self, packet: &TcpPacket<'_>, options: Option<&TcpOptions>) {
        if self.isn.is_none() && self.has_una && self.is_acked_alone(packet.seq) {
            self.counts.syn_after_ack = Some(packet.time - self.counts.first_acked);
        }
        if self.isn != Some(packet.seq) && self.counts.data_packets == 0 {
            // The first SYN, or one with a new number before anything else was said.
            if self.isn.is_some() {
                self.base = None;
                self.seen = IntervalSet::default();
                self.outstanding = Outstanding::default();
            }
            self.isn = Some(packet.seq);
        }
        self.isn.get_or_insert(packet.seq);
        let Some(options) = options else { return };
        self.counts.mss = options.mss.or(self.counts.mss);
        self.counts.sack_permitted |= options.sack_permitted;
    }

    /// Whether a SYN of this number, and nothing else of this side, has been acknowledged, and none was captured.
    fn is_acked_alone(&self, seq: u32) -> bool {
        self.seen.is_empty() && self.starts_at(seq.wrapping_add(1))
    }

    /// Whether `ack` is what the peer of a SYN just sent would acknowledge.
    pub fn expects_ack(&self, ack: u32) -> bool {
        self.isn.is_some_and(|isn| isn.wrapping_add(1) == ack)
    }

    /// Whether the first byte of data has this wire number.
    pub fn starts_at(&self, seq: u32) -> bool {
        self.base == Some(seq)
    }

    /// Whether nothing that this side sent lies between its SYN, if that was seen, and this packet.
    pub fn begins_with(&self, packet: &TcpPacket<'_>) -> bool {
        self.isn.is_none_or(|isn| packet.seq.wrapping_sub(isn) <= 1)
    }

    /// RFC 9293 section 3.8.4: nothing sent, one below `SND.NXT`, to make the peer answer.
    pub fn is_keep_alive(&self, packet: &TcpPacket<'_>) -> bool {
        packet.is_pure_ack()
            && self.snd_max() > 0
            && self
                .base
                .is_some_and(|base| unwrap(packet.seq, base, self.snd_max()) == self.snd_max() - 1)
    }

    /// The wire's number of offset 0.
    pub fn first_sequence(&self) -> Option<u32> {
        self.base
    }

    /// Payload bytes in the sequence space seen that the capture does not hold.
    pub fn missing_bytes(&self) -> i64 {
        self.seen.missing()
    }

    /// Whether old gaps were given up to stay within memory.
    pub fn is_approximate(&self) -> bool {
        self.seen.has_joined()
    }

    /// The number of 2^32 wraps that the sequence space made.
    pub fn wraps(&self) -> i64 {
        self.base
            .map_or(0, |base| (i64::from(base) + self.snd_max().max(0)) >> 32)
    }

    pub fn heap_bytes(&self) -> usize {
        self.outstanding.heap_bytes()
            + self.counts.rtt.heap_bytes()
            + self.counts.ts_rtt.heap_bytes()
            + self.seen.count() * size_of::<(i64, i64)>()
    }

    /// What a packet of this side adds to the counts by kind, whatever it tells.
    pub(super) fn count(&mut self, packet: &TcpPacket<'_>) {
        if self.counts.packets() == 0 {
            self.counts.first_time = packet.time;
            self.counts.ttl = Some(packet.ttl);
            self.counts.last_time = packet.time;
        }
        self.pass_time(packet.time);
        let counts = &mut self.counts;
        // A reset's payload is a message to people, not part of the stream (RFC 9293 section 3.5.3).
        if packet.len > 0 && !packet.is_rst() {
            counts.data_packets += 1;
            counts.max_segment = counts.max_segment.max(packet.len);
        } else if packet.is_pure_ack() {
            counts.pure_acks += 1;
        } else {
            counts.other_packets += 1;
        }
        counts.timestamps |= packet.has_ts;
        if packet.is_cut {
            counts.options_cut += 1;
            counts.blocks_cut += u64::from(!tells_news(packet.sack, &self.last_blocks));
            if !packet.is_syn() {
                let (least, most) = counts.cut_headers.unwrap_or((u32::MAX, 0));
                let own = packet.cut_headers;
                counts.cut_headers = Some((least.min(own), most.max(own)));
            }
        }
        self.last_blocks = packet.sack.copied().unwrap_or(self.last_blocks);
        if !packet.is_ack() {
            counts.without_ack += 1;
        }
        // As in tcptrace, an option of which a part was not captured is not counted.
        if let Some(sack) = packet.sack.filter(|sack| !sack.is_cut && !packet.is_rst()) {
            counts.sack_packets += 1;
            counts.sack_blocks += u64::from(sack.count);
        }
    }

    /// Numbers of a packet that this side sent, whatever it carries. Returns whether it is a second capture of a
    /// pure ACK.
    pub fn on_packet(&mut self, packet: &TcpPacket<'_>) -> bool {
        self.count(packet);
        let counts = &mut self.counts;
        if packet.is_rst() || !(packet.is_ack() || packet.is_syn()) {
            counts.without_window += 1;
            return false;
        }
        let shift = if packet.is_syn() { 0 } else { self.shift };
        let window = u64::from(packet.window) << shift;
        self.window = Some(window);
        // A SYN's window counts as an offer, unscaled (RFC 7323 section 2.2), but not towards the mean.
        counts.max_window = counts.max_window.max(window);
        if packet.is_syn() {
            counts.without_window += 1;
        } else {
            counts.window_sum += window;
            counts.zero_windows += u64::from(window == 0);
        }
        if packet.is_pure_ack() && self.is_noted(packet) {
            self.counts.duplicate_packets += 1;
            return true;
        }
        false
    }

    #[inline]
    pub(super) fn pass_time(&mut self, now: i64) {
        let counts = &mut self.counts;
        counts.idle_max = counts.idle_max.max(now - counts.last_time);
        counts.last_time = now;
    }

    /// Whether a pure ACK is the second capture of one just seen; if not, it is remembered. A second capture has the
    /// same IP identification; senders that leave it at 0 can't be told apart.
    #[inline]
    fn is_noted(&mut self, packet: &TcpPacket<'_>) -> bool {
        let print = print(packet);
        if packet.ip_id != 0 && self.prints.contains(&print) {
            return true;
        }
        self.prints = [print, self.prints[0]];
        false
    }

    /// Makes the short ways ready after a packet that took the long one.
    pub fn settle(&mut self) {
        // Rows are told of the handshake first.
        let first = if self.is_watched {
            HANDSHAKE_PACKETS - 1
        } else {
            1
        };
        self.is_begun = self.counts.packets() >= first;
        self.extends = self.is_data_acked && self.has_una && !self.seen.is_empty();
        if let Some(base) = self.base {
            self.next_seq = wrap(self.snd_max(), base);
            self.una_ack = wrap(self.snd_una, base);
        }
    }

    /// The short way for the numbers of a pure ACK that this side sent; false: it may be a second capture.
    #[inline]
    pub fn notes_ack(&mut self, packet: &TcpPacket<'_>) -> bool {
        let print = print(packet);
        if self.prints.contains(&print) {
            return false;
        }
        self.prints = [print, self.prints[0]];
        self.pass_time(packet.time);
        self.offer(packet.window);
        self.counts.pure_acks += 1;
        true
    }

    #[inline]
    pub(super) fn offer(&mut self, window: u16) {
        let window = u64::from(window) << self.shift;
        self.window = Some(window);
        self.counts.max_window = self.counts.max_window.max(window);
        self.counts.window_sum += window;
    }

    pub fn columns(&self) -> Option<(&SegmentColumns, &AckColumns)> {
        let detail = self.detail.as_ref()?;
        Some((&detail.segments, &detail.acks))
    }
}

/// What a second capture of a pure ACK shares with the first.
#[inline]
fn print(packet: &TcpPacket<'_>) -> u64 {
    u64::from(packet.ip_id) << 48 | u64::from(packet.window) << 32 | u64::from(packet.ack)
}
