//! A record as the packets that enter the path.

use super::sides::Sides;
use crate::network::Traveller;
use crate::wire::{Datagram, Decoder, Plain, Segment, TcpFlags};

/// Of a packet that is no TCP segment.
pub const NO_PAIR: u32 = u32::MAX;

/// What the path and its books need of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passing {
    pub time_ns: i64,
    /// The record's number in the capture, from 0.
    pub record: u64,
    /// Of `Sides`, or `NO_PAIR`.
    pub pair: u32,
    pub is_reverse: bool,
    pub ip_len: u32,
    pub tcp: Tcp,
}

/// What the books need of a segment's headers; all 0 for a packet that is no TCP segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    pub ip_id: u16,
    pub seq: u32,
    pub payload_len: u32,
    pub ack: u32,
    pub flags: TcpFlags,
}

impl From<&Plain> for Tcp {
    fn from(plain: &Plain) -> Self {
        Self {
            ip_id: plain.ip_id,
            seq: plain.seq,
            payload_len: plain.payload_len,
            ack: plain.ack,
            flags: plain.flags,
        }
    }
}

impl From<&Segment> for Tcp {
    fn from(segment: &Segment) -> Self {
        Self {
            ip_id: segment.ip_id,
            seq: segment.seq,
            payload_len: segment.payload_len,
            ack: segment.ack,
            flags: segment.flags,
        }
    }
}

impl Tcp {
    /// Sequence number behind the segment; SYN and FIN take one each (RFC 9293 section 3.4).
    pub fn end(&self) -> u32 {
        self.seq
            .wrapping_add(self.payload_len)
            .wrapping_add(u32::from(self.flags.has(TcpFlags::SYN)))
            .wrapping_add(u32::from(self.flags.has(TcpFlags::FIN)))
    }
}

impl Passing {
    fn is_pure_ack(&self) -> bool {
        const OTHERS: u16 = TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0;
        self.pair != NO_PAIR
            && self.tcp.payload_len == 0
            && self.tcp.flags.0 & (OTHERS | TcpFlags::ACK.0) == TcpFlags::ACK.0
    }
}

impl Traveller for Passing {
    fn bytes(&self) -> u32 {
        self.ip_len
    }

    /// What random loss may take on the way there is data; on the way back, all that `ack_loss` may not.
    fn is_data(&self) -> bool {
        if self.is_reverse {
            !self.is_pure_ack()
        } else {
            self.tcp.payload_len > 0 || self.pair == NO_PAIR
        }
    }
}

/// Turns records into packets: their direction, and super-segments cut to what the wire carried.
pub struct Entrance {
    sides: Sides,
    decoder: Decoder,
    /// Longest packet of the wire in bytes: longer ones were joined or not yet cut when captured (TSO, GRO).
    mtu: u32,
    /// No IP, or between hosts on one side: it does not enter the path.
    pub elsewhere: u64,
    pub cut_up: u64,
}

/// A record's packet, and the segment that it has to be cut from.
pub struct Entering<'a> {
    pub first: Passing,
    pub datagram: Datagram<'a>,
    pub whole: Option<Segment>,
}

impl Entrance {
    pub fn new(sides: Sides, mtu: u32) -> Self {
        Self {
            sides,
            decoder: Decoder::new(),
            mtu,
            elsewhere: 0,
            cut_up: 0,
        }
    }

    pub fn into_sides(self) -> Sides {
        self.sides
    }

    /// `None`: the record does not cross the path.
    pub fn entering<'a>(
        &mut self,
        time_ns: i64,
        record: u64,
        link_type: u16,
        data: &'a [u8],
        orig_len: u32,
    ) -> Option<Entering<'a>> {
        let found = self.look(time_ns, record, link_type, data, orig_len);
        self.elsewhere += u64::from(found.is_none());
        self.cut_up += u64::from(found.as_ref().is_some_and(|found| found.whole.is_some()));
        found
    }

    fn look<'a>(
        &mut self,
        time_ns: i64,
        record: u64,
        link_type: u16,
        data: &'a [u8],
        orig_len: u32,
    ) -> Option<Entering<'a>> {
        let datagram = Datagram::new(link_type, data, orig_len).ok()?;
        let mut first = Passing {
            time_ns,
            record,
            pair: NO_PAIR,
            is_reverse: false,
            ip_len: datagram.ip_len,
            tcp: Tcp::default(),
        };
        if let Some(plain) = self.decoder.decode_plain(link_type, data) {
            let found = self.sides.find_plain(&plain)?;
            first.pair = found.pair;
            first.is_reverse = found.is_reverse;
            first.tcp = Tcp::from(&plain);
            let whole = (first.ip_len > self.mtu).then(|| plain.segment());
            return Some(Entering {
                first,
                datagram,
                whole,
            });
        }
        let decoded = self.decoder.decode(link_type, data, orig_len).ok();
        let Some(segment) = decoded else {
            // UDP, ICMP, a fragment: it takes room in the queue like any other.
            first.is_reverse = self.sides.is_reverse(datagram.src, datagram.dst)?;
            return Some(Entering {
                first,
                datagram,
                whole: None,
            });
        };
        let found = self.sides.find(segment.src, segment.dst)?;
        first.pair = found.pair;
        first.is_reverse = found.is_reverse;
        first.tcp = Tcp::from(&segment);
        // What travels in a tunnel cannot be cut here: its outer headers are not ours to write.
        let is_bare = segment.src.addr == datagram.src && segment.ip_len == datagram.ip_len;
        let whole = (first.ip_len > self.mtu && is_bare).then_some(segment);
        Some(Entering {
            first,
            datagram,
            whole,
        })
    }

    /// The packets that a super-segment was on the wire, in order.
    pub fn pieces(&self, whole: &Segment) -> Vec<Segment> {
        let header = whole.ip_len - whole.payload_len;
        let room = self.mtu.saturating_sub(header).max(1);
        let last = whole.payload_len.saturating_sub(1) / room;
        (0..=last)
            .map(|number| {
                let start = number * room;
                let payload_len = room.min(whole.payload_len - start);
                let mut flags = whole.flags;
                if number < last {
                    // As a network card does it: what ends the data stands on the last one.
                    flags.0 &= !(TcpFlags::FIN.0 | TcpFlags::PSH.0);
                }
                Segment {
                    seq: whole.seq.wrapping_add(start),
                    payload_len,
                    ip_len: header + payload_len,
                    ip_id: whole.ip_id.wrapping_add(number as u16),
                    flags,
                    ..*whole
                }
            })
            .collect()
    }
}

impl Entering<'_> {
    /// The same packet as one piece of it.
    pub fn piece(&self, piece: &Segment) -> Passing {
        Passing {
            ip_len: piece.ip_len,
            tcp: Tcp::from(piece),
            ..self.first
        }
    }
}
