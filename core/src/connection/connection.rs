//! One connection: two flows, who opened it and how it ended (RFC 9293 sections 3.5 and 3.6).

use super::acking::Acknowledged;
use super::columns::Keep;
use super::detail::Detail;
use super::flow::{Flow, HANDSHAKE_PACKETS};
use super::packet::TcpPacket;
use super::sending::Peer;
use crate::wire::{Endpoint, TcpOptions};

/// How a connection ended within the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both sides sent a FIN.
    Fin,
    Rst,
    /// Neither: it goes on beyond the capture, or died silently.
    Open,
}

impl End {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fin => "fin",
            Self::Rst => "rst",
            Self::Open => "open",
        }
    }
}

/// Where the capture was taken, from how the handshake's round trip falls into two parts at the tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vantage {
    Client,
    Server,
    Middle,
    Unknown,
}

impl Vantage {
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Middle => "middle",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Connection {
    pub id: usize,
    /// The sender of the first packet, and its peer.
    pub ends: [Endpoint; 2],
    /// What `ends[0]` sent, and what `ends[1]` sent.
    pub flows: [Flow; 2],
    /// Who sent a SYN without ACK first.
    syn_from: Option<usize>,
    syn_ack_from: Option<usize>,
    /// Both SYNs offered a shift (RFC 7323 section 2.2), as far as the capture shows them.
    shift_offers: [Option<u8>; 2],
    /// A SYN's options were cut before a shift: what it offered is not known.
    is_offer_cut: [bool; 2],
    pub reset_from: Option<usize>,
    /// Both sides sent a SYN before either answered (RFC 9293 section 3.5, simultaneous open).
    pub is_simultaneous: bool,
}

impl Connection {
    /// `wanted`: what is kept of the rows that each end sent.
    pub fn new(id: usize, ends: [Endpoint; 2], wanted: [Keep; 2]) -> Self {
        let is_watched = wanted != [Keep::Nothing; 2];
        let flows = wanted.map(|keep| Flow {
            detail: Detail::new(keep),
            is_watched,
            ..Flow::default()
        });
        Self {
            id,
            ends,
            flows,
            syn_from: None,
            syn_ack_from: None,
            shift_offers: [None; 2],
            is_offer_cut: [false; 2],
            reset_from: None,
            is_simultaneous: false,
        }
    }

    /// Whether a SYN from `src` opens a new connection on the same pair of endpoints.
    pub fn is_reused_by(&self, src: Endpoint, syn: &TcpPacket<'_>) -> bool {
        let from = usize::from(self.ends[0] != src);
        let (mine, other) = (&self.flows[from], &self.flows[1 - from]);
        if mine.isn == Some(syn.seq) || mine.is_damaged(syn.checked) {
            return false;
        }
        let has_begun = mine.has_sent_data() || other.has_sent_data() || self.is_closed();
        if mine.isn.is_some() {
            // RFC 9293 section 3.4.1: a new incarnation takes a new number. A SYN-ACK with a new number may be a
            // server that answers a repeated SYN afresh, as long as nothing else has happened.
            return !syn.is_ack() || has_begun;
        }
        // No SYN of this side yet: simultaneous open, the SYN-ACK, a SYN captured late, or, in a capture that began
        // in the middle, a new connection.
        if syn.is_ack() || !has_begun {
            // Stamped by another clock, a SYN-ACK may come behind what answers it, its SYN not captured.
            let is_late = || mine.starts_at(syn.seq.wrapping_add(1)) && other.starts_at(syn.ack);
            return has_begun && !other.expects_ack(syn.ack) && !(syn.is_ack() && is_late());
        }
        !mine.starts_at(syn.seq.wrapping_add(1))
    }

    fn is_closed(&self) -> bool {
        self.reset_from.is_some() || self.flows.iter().all(Flow::has_fin)
    }

    /// The next packet, sent by `ends[from]`.
    ///
    /// New data in order and ACKs of new data, in a connection that has begun: nine of ten packets take this way, and
    /// what it leaves out is what cannot happen then.
    #[inline]
    pub fn push(&mut self, from: usize, packet: &TcpPacket<'_>, options: Option<&TcpOptions>) {
        let [first, second] = &mut self.flows;
        let (mine, other) = if from == 0 {
            (first, second)
        } else {
            (second, first)
        };
        if !mine.takes(packet.checked) {
            mine.count(packet);
            mine.counts.without_window += 1;
            mine.counts.dsacks += u64::from(other.tells_copy(packet));
            return;
        }
        let is_usual = packet.is_plain_ack()
            && packet.seq == mine.next_seq
            && mine.is_begun
            && packet.window > 0
            && packet.sack.is_none()
            && !packet.is_cut;
        if is_usual && packet.len > 1 && mine.extends && packet.ack == other.una_ack {
            mine.extend(packet);
            other.hear(packet, mine.window, Acknowledged::default(), other.snd_una);
        } else if is_usual && packet.len == 0 && other.advances_to(packet.ack) {
            if mine.notes_ack(packet) {
                other.advance(packet, mine.window);
                if let Some(detail) = &mut mine.detail {
                    detail.on_bare(packet);
                }
            } else {
                self.push_any(from, packet, options);
            }
        } else {
            self.push_any(from, packet, options);
        }
    }

    /// Any packet at all.
    fn push_any(&mut self, from: usize, packet: &TcpPacket<'_>, options: Option<&TcpOptions>) {
        let [first, second] = &mut self.flows;
        let (mine, other) = if from == 0 {
            (first, second)
        } else {
            (second, first)
        };
        if packet.flags.0 & 0b111 != 0 {
            // SYN, FIN or RST.
            mine.counts.syns += u64::from(packet.is_syn());
            mine.counts.fins += u64::from(packet.is_fin());
            mine.counts.resets += u64::from(packet.is_rst());
            if packet.is_rst() {
                self.reset_from.get_or_insert(from);
            }
            if packet.is_syn() {
                mine.on_syn(packet, options);
                if packet.is_ack() {
                    self.syn_ack_from.get_or_insert(from);
                } else {
                    self.is_simultaneous |= self.syn_from.is_some_and(|other| other != from);
                    self.syn_from.get_or_insert(from);
                }
                self.shift_offers[from] = options.and_then(|options| options.wscale);
                self.is_offer_cut[from] = packet.is_cut && self.shift_offers[from].is_none();
                if let Some(shifts) = agreed_shifts(self.shift_offers, self.syn_ack_from) {
                    mine.shift = shifts[from];
                    other.shift = shifts[1 - from];
                }
            }
        }
        let is_copy = mine.on_packet(packet);
        if packet.has_sequence_space() && !packet.is_rst() {
            let peer = Peer {
                window: other.window,
                last_ns: other.counts.last_time,
                asks_ns: other.counts.handshake_rtt,
            };
            mine.on_segment(packet, peer);
        } else if mine.is_keep_alive(packet) {
            mine.counts.keep_alives += 1;
        }
        if packet.is_ack() {
            let window = mine.window.unwrap_or(u64::from(packet.window));
            let had_none = other.counts.handshake_rtt.is_none();
            let outcome = other.on_ack(packet, window, is_copy);
            if let Some(detail) = mine.detail.as_mut().filter(|_| packet.len == 0 && !is_copy) {
                detail.on_bare(packet);
            }
            if had_none && !mine.begins_with(packet) {
                // What answered the SYN first was lost before the tap: this came later.
                other.counts.handshake_rtt = None;
            }
            mine.counts.dup_acks += u64::from(outcome.is_dup);
            if outcome.is_dsack {
                mine.counts.dsacks += 1;
            }
        }
        mine.settle();
        other.settle();
        if mine.is_watched && mine.counts.packets() < HANDSHAKE_PACKETS {
            self.tell_handshake();
        }
    }

    /// The handshake's whole round trip bounds every later one from below.
    fn tell_handshake(&mut self) {
        if let Some(rtt) = self.handshake_rtt() {
            for flow in &mut self.flows {
                if let Some(detail) = &mut flow.detail {
                    detail.handshake_rtt = rtt;
                }
            }
        }
    }

    /// Which of `ends` is the client: the sender of the first SYN, the receiver of a SYN-ACK, else the higher port.
    pub fn client(&self) -> usize {
        self.syn_from
            .or(self.syn_ack_from.map(|from| 1 - from))
            .unwrap_or_else(|| {
                let [first, second] = self.ends.map(|end| end.port);
                usize::from(second > first)
            })
    }

    /// The place among the ends of the client (direction 0) or the server (1).
    pub fn place_of(&self, direction: usize) -> usize {
        let client = self.client();
        if direction == 0 { client } else { 1 - client }
    }

    /// Client to server, then server to client.
    pub fn client_and_server(&self) -> [&Flow; 2] {
        let client = self.client();
        [&self.flows[client], &self.flows[1 - client]]
    }

    pub fn end(&self) -> End {
        if self.reset_from.is_some() {
            End::Rst
        } else if self.flows.iter().all(Flow::has_fin) {
            End::Fin
        } else {
            End::Open
        }
    }

    /// SYN to the ACK of the SYN-ACK: a round trip of the whole path, wherever the tap is.
    pub fn handshake_rtt(&self) -> Option<i64> {
        let [client, server] = self.client_and_server();
        let (out, back) = (client.counts.handshake_rtt?, server.counts.handshake_rtt?);
        // Stamps may be anything.
        Some(out.saturating_add(back))
    }

    /// Errs towards `Middle`: a host that answers slowly looks like a path.
    pub fn vantage(&self) -> Vantage {
        let [client, server] = self
            .client_and_server()
            .map(|flow| flow.counts.handshake_rtt);
        match (client, server) {
            (Some(to_server), Some(to_client)) => {
                // A host answers its own tap within a small part of the round trip.
                let part = to_server.saturating_add(to_client).div_euclid(10);
                if to_client <= part {
                    Vantage::Client
                } else if to_server <= part {
                    Vantage::Server
                } else {
                    Vantage::Middle
                }
            }
            _ => Vantage::Unknown,
        }
    }

    /// Whether the windows of `ends[from]` are scaled rightly: its shift is known, or known to be none.
    pub fn knows_scale(&self, from: usize) -> bool {
        // An offer in either SYN is one in both where the SYN-ACK has it; without it there is no scaling.
        if self.is_offer_cut[from] {
            return false;
        }
        self.flows[from].isn.is_some()
            && (!self.is_offer_cut[1 - from]
                || self.syn_ack_from == Some(from)
                || self.shift_offers[from].is_none())
            && (self.flows[1 - from].isn.is_some()
                || self.syn_ack_from == Some(from)
                || self.shift_offers[from].is_none())
    }

    /// The shift by which the windows of `ends[from]` are scaled; unknown where the handshake was not captured.
    pub fn known_shift(&self, from: usize) -> Option<u8> {
        self.knows_scale(from).then_some(self.flows[from].shift)
    }

    /// Whether the capture holds a SYN.
    pub fn is_from_start(&self) -> bool {
        self.syn_from.is_some() || self.syn_ack_from.is_some()
    }

    pub fn duration(&self) -> i64 {
        self.last_time() - self.first_time()
    }

    /// The flows that sent anything.
    fn speaking(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter().filter(|flow| flow.counts.packets() > 0)
    }

    pub fn packets(&self) -> u64 {
        self.flows.iter().map(|flow| flow.counts.packets()).sum()
    }

    pub fn first_time(&self) -> i64 {
        self.speaking()
            .map(|flow| flow.counts.first_time)
            .min()
            .unwrap_or(0)
    }

    pub fn last_time(&self) -> i64 {
        self.speaking()
            .map(|flow| flow.counts.last_time)
            .max()
            .unwrap_or(0)
    }

    /// Bytes of memory, heap included.
    pub fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.flows.iter().map(Flow::heap_bytes).sum::<usize>()
    }
}

/// RFC 7323 section 2.2: scaling is in use when both SYNs offer it; a SYN-ACK offers it only to a SYN that did.
/// Section 2.3: a shift above 14 counts as 14.
fn agreed_shifts(offers: [Option<u8>; 2], syn_ack_from: Option<usize>) -> Option<[u8; 2]> {
    match offers {
        [Some(first), Some(second)] => Some([first.min(14), second.min(14)]),
        [Some(first), None] if syn_ack_from == Some(0) => Some([first.min(14), 0]),
        [None, Some(second)] if syn_ack_from == Some(1) => Some([0, second.min(14)]),
        _ => None,
    }
}
