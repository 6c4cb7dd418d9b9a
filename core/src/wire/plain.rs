//! The usual packet, decoded by the shortest way: IPv4 without options or fragments on Ethernet or bare, TCP with no
//! option but timestamps. Nearly every packet of a bulk transfer is one; all others take the general way.
//!
//! A third of a `Segment`'s size: what one thread decodes and another follows passes between them in this form.

use std::net::{IpAddr, Ipv4Addr};

use super::checksum::{Checker, Header, ipv4_by, sum_of};
use super::tcp::USUAL_TIMESTAMPS;
use super::{Checked, ETHERNET, Endpoint, RAW, Segment, TcpFlags, TcpOptions};

const LINK: usize = 14;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const IP: usize = 20;
const TCP: usize = 20;
const TIMESTAMPS: usize = 12;
const PROTOCOL_TCP: u8 = 6;

/// A [`Segment`] without options but timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain {
    /// IPv4 addresses, source above destination.
    pub addresses: u64,
    /// Ports, source above destination.
    pub ports: u32,
    pub seq: u32,
    pub ack: u32,
    pub payload_len: u32,
    pub ts_val: u32,
    pub ts_ecr: u32,
    pub flags: TcpFlags,
    pub window: u16,
    pub ip_id: u16,
    pub ttl: u8,
    pub ecn: u8,
    pub has_ts: bool,
    pub checked: Checked,
}

impl Plain {
    /// The segment in a frame, if it is of the usual form.
    #[inline]
    pub fn new(link_type: u16, frame: &[u8], checker: &mut Checker) -> Option<Self> {
        let packet = match link_type {
            ETHERNET if frame.get(12..LINK)? == ETHERTYPE_IPV4 => &frame[LINK..],
            RAW => frame,
            _ => return None,
        };
        let head = packet.first_chunk::<{ IP + TCP }>()?;
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        // Version 4 with a header of 20 bytes; no fragment (bit 14 is DF); TCP.
        let is_usual = head[0] == 0x45 && half(6) & 0x3fff == 0 && head[9] == PROTOCOL_TCP;
        if !is_usual {
            return None;
        }
        let (header_len, timestamps, options) = match head[32] >> 4 {
            5 => (TCP, None, None),
            8 => {
                let options = packet.get(IP + TCP..)?.first_chunk::<TIMESTAMPS>()?;
                let word = |at: usize| {
                    u32::from_be_bytes([
                        options[at],
                        options[at + 1],
                        options[at + 2],
                        options[at + 3],
                    ])
                };
                if word(0) != USUAL_TIMESTAMPS {
                    return None;
                }
                (TCP + TIMESTAMPS, Some((word(4), word(8))), Some(options))
            }
            _ => return None,
        };
        // A super-segment's length of 0 takes the general way too.
        let payload_len = usize::from(half(2)).checked_sub(IP + header_len)?;
        let (ts_val, ts_ecr) = timestamps.unwrap_or_default();
        let mut found = Self {
            addresses: u64::from(word(12)) << 32 | u64::from(word(16)),
            ports: word(20),
            seq: word(24),
            ack: word(28),
            payload_len: payload_len as u32,
            ts_val,
            ts_ecr,
            flags: TcpFlags(half(32) & 0x01ff),
            window: half(34),
            ip_id: half(4),
            ttl: head[8],
            ecn: head[1] & 3,
            has_ts: timestamps.is_some(),
            checked: Checked::Unknown,
        };
        let (ip_head, tcp_head) = head.split_at(IP);
        let addresses = sum_of(&ip_head[12..]);
        let ip = ipv4_by(sum_of(&ip_head[..12]) + addresses, ip_head);
        if payload_len == 0 {
            // An ACK: captured whole, of one of two lengths.
            let sum = sum_of(tcp_head) + options.map_or(0, |options| sum_of(options));
            found.checked = Checker::judged(ip, sum, addresses, tcp_head, header_len);
            return Some(found);
        }
        let header = Header {
            addresses,
            ports: found.ports,
            seq: found.seq,
            ack: found.ack,
            payload_len: found.payload_len,
            window: found.window,
            flags: found.flags,
        };
        let len = header_len + payload_len;
        found.checked = checker.look(ip, &header, &packet[IP..], len);
        Some(found)
    }

    pub fn src(&self) -> Endpoint {
        endpoint((self.addresses >> 32) as u32, (self.ports >> 16) as u16)
    }

    pub fn dst(&self) -> Endpoint {
        endpoint(self.addresses as u32, self.ports as u16)
    }

    pub fn segment(&self) -> Segment {
        let header_len = if self.has_ts {
            IP + TCP + TIMESTAMPS
        } else {
            IP + TCP
        };
        Segment {
            src: self.src(),
            dst: self.dst(),
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            payload_len: self.payload_len,
            ip_len: self.payload_len + header_len as u32,
            ip_id: self.ip_id,
            ttl: self.ttl,
            ecn: self.ecn,
            network: 0,
            checked: self.checked,
            options: TcpOptions {
                timestamps: self.has_ts.then_some((self.ts_val, self.ts_ecr)),
                ..TcpOptions::default()
            },
        }
    }
}

fn endpoint(addr: u32, port: u16) -> Endpoint {
    Endpoint {
        addr: IpAddr::V4(Ipv4Addr::from(addr)),
        port,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{decode, encode};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shortest_way_and_general_way_give_the_same_segment(
            seq: u32, ack: u32, ports: u32, addresses: u64, flags in 0_u16..512, window: u16, ip_id: u16,
            payload_len in 0_u32..60_000, timestamps: Option<(u32, u32)>, link in prop::bool::ANY,
        ) {
            let (ts_val, ts_ecr) = timestamps.unwrap_or_default();
            let header = if timestamps.is_some() { TCP + TIMESTAMPS } else { TCP };
            let link_len = if link { LINK } else { 0 };
            let plain = Plain {
                addresses, ports, seq, ack, payload_len, ts_val, ts_ecr, flags: TcpFlags(flags), window, ip_id,
                ttl: 64, ecn: 1, has_ts: timestamps.is_some(),
                // 96 bytes are captured, 14 of them perhaps the link's.
                checked: if link_len + IP + header + payload_len as usize <= 96 { Checked::Whole } else { Checked::Header },
            };
            let link_type = if link { ETHERNET } else { RAW };
            let mut frame = Vec::new();
            encode(&plain.segment(), &[], link_type, 96, &mut frame).unwrap();
            let orig_len = frame.len() as u32 + payload_len;
            prop_assert_eq!(Plain::new(link_type, &frame, &mut Checker::default()), Some(plain));
            prop_assert_eq!(decode(link_type, &frame, orig_len), Ok(plain.segment()));
        }

        #[test]
        fn any_bytes_are_refused_or_decoded_as_the_general_way_does(mut bytes in prop::collection::vec(any::<u8>(), 0..90)) {
            if bytes.len() > 24 {
                bytes[0] = 0x45;
                bytes[9] = PROTOCOL_TCP;
                bytes[6] &= 0x40;
                bytes[7] = 0;
            }
            if let Some(plain) = Plain::new(RAW, &bytes, &mut Checker::default()) {
                prop_assert_eq!(decode(RAW, &bytes, 1 << 20), Ok(plain.segment()));
            }
        }
    }
}
