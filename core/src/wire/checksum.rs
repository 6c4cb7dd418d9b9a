//! The Internet checksum (RFC 1071), made for what is written and looked at in what was captured.
//!
//! A receiver drops a segment whose checksum is wrong (RFC 9293 section 3.1), so nothing follows from what it says. At a
//! sender with offload they are wrong, or hold the pseudo-header's sum, because the card fills them in behind the tap:
//! which of the two it is, only a flow's other segments tell.

use super::segment::{Checked, TcpFlags};

const TCP: u16 = 6;
/// Where the TCP header holds its checksum.
const PLACE: usize = 16;

/// Segments of which the sum costs no more than decoding: an ACK, a SYN, with all their options and some data.
const SHORT: usize = 128;
/// Of long ones one in so many is looked at, at the most: a sum over 1,448 bytes takes as long as following a packet.
const SELDOM: u32 = 16;
/// Long ones that are looked at in a row after many that were not.
const MOST_CREDIT: u32 = 64 * SELDOM;
/// Flows whose last segment is known; others' long segments are looked at as far as the credit goes.
const FLOWS: usize = 256;
/// Flags whose change would change what a segment means.
const TELLING: u16 = TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0 | TcpFlags::ACK.0;

/// What is looked at of a segment's header before its sum is taken.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Sum of both addresses, as of all bytes here.
    pub addresses: u64,
    pub ports: u32,
    pub seq: u32,
    pub ack: u32,
    pub payload_len: u32,
    pub window: u16,
    pub flags: TcpFlags,
}

/// Decides of which segments the sum is taken: all short ones, and long ones that do more than continue the one before.
///
/// A header that differs from the last one of its flow only by the number that follows has no flipped bit in these fields.
#[derive(Debug, Default)]
pub struct Checker {
    last: Vec<Continued>,
    credit: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Continued {
    flow: u64,
    seq: u32,
    ack: u32,
    window: u16,
    flags: u16,
}

impl Checker {
    /// `bytes`: what was captured of the segment, `len`: what it had on the wire.
    #[inline]
    pub fn look(&mut self, ip: Checked, header: &Header, bytes: &[u8], len: usize) -> Checked {
        if ip == Checked::WrongHeader || bytes.len() < len {
            return ip;
        }
        if len > SHORT && !self.is_due(header) {
            return ip;
        }
        Self::judged(ip, sum_of(&bytes[..len]), header.addresses, bytes, len)
    }

    /// Of a segment that was captured whole, by its sum.
    #[inline]
    pub fn judged(ip: Checked, sum: u64, addresses: u64, bytes: &[u8], len: usize) -> Checked {
        match tcp_by(sum, addresses, bytes, len) {
            _ if ip == Checked::WrongHeader => ip,
            None => ip,
            Some(true) => Checked::Whole,
            Some(false) => Checked::WrongSegment,
        }
    }

    fn is_due(&mut self, header: &Header) -> bool {
        if self.last.is_empty() {
            self.last = vec![Continued::default(); FLOWS];
        }
        self.credit = (self.credit + 1).min(MOST_CREDIT);
        let flow = header.addresses << 32 | u64::from(header.ports);
        let place = flow.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - FLOWS.ilog2());
        let found = Continued {
            flow,
            seq: header.seq,
            ack: header.ack,
            window: header.window,
            flags: header.flags.0 & TELLING,
        };
        let next = Continued {
            seq: header.seq.wrapping_add(header.payload_len),
            ..found
        };
        let continues = std::mem::replace(&mut self.last[place as usize], next) == found;
        let is_due = !continues && self.credit >= SELDOM;
        self.credit -= if is_due { SELDOM } else { 0 };
        is_due
    }
}

/// Of an IPv4 header.
#[inline]
pub fn of_ipv4(header: &[u8]) -> Checked {
    ipv4_by(sum_of(header), header)
}

/// Of an IPv4 header with this sum.
#[inline]
pub fn ipv4_by(sum: u64, header: &[u8]) -> Checked {
    if fold(sum) == 0xffff {
        Checked::Header
    } else if header[10..12] == [0, 0] {
        // Left to the card.
        Checked::Unknown
    } else {
        Checked::WrongHeader
    }
}

/// Of a whole segment of `len` bytes with this sum; `None`: it was left to the card.
#[inline]
fn tcp_by(sum: u64, addresses: u64, segment: &[u8], len: usize) -> Option<bool> {
    let pseudo = addresses + u64::from(TCP.to_be());
    let whole = pseudo + u64::from((len as u32).to_be());
    if fold(whole + sum) == 0xffff {
        return Some(true);
    }
    // The card adds the segment to what stands there: the pseudo-header's sum, without a length where it cuts segments.
    let stored = u16::from_ne_bytes([segment[PLACE], segment[PLACE + 1]]);
    (![0, fold(whole), fold(pseudo)].contains(&stored)).then_some(false)
}

/// Sum of 16-bit words in this machine's order of bytes, not folded; an odd last byte is followed by a zero.
///
/// RFC 1071 section 2 (B): swapped words add up to the sum swapped.
#[inline(always)]
pub fn sum_of(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    let mut sum = match words.remainder() {
        [] => 0,
        [one] => word([*one, 0, 0, 0]),
        [one, two] => word([*one, *two, 0, 0]),
        [one, two, three, ..] => word([*one, *two, *three, 0]),
    };
    for each in words {
        sum += word([each[0], each[1], each[2], each[3]]);
    }
    sum
}

#[inline(always)]
fn word(bytes: [u8; 4]) -> u64 {
    u64::from(u32::from_ne_bytes(bytes))
}

/// To 16 bits, with each carry added again.
#[inline]
pub fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Decoder, Endpoint, RAW, Segment, encode};

    /// RFC 1071 section 3's example.
    #[test]
    fn four_words_add_up_to_ddf2() {
        let sum = sum_of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(fold(sum).to_ne_bytes(), [0xdd, 0xf2]);
    }

    fn ack(seq: u32) -> Segment {
        let end = |last| Endpoint {
            addr: std::net::Ipv4Addr::new(10, 0, 0, last).into(),
            port: 80,
        };
        Segment {
            src: end(1),
            dst: end(2),
            seq,
            ack: 77,
            flags: TcpFlags::ACK,
            window: 100,
            ttl: 64,
            ..Segment::BLANK
        }
    }

    fn frame(segment: &Segment, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        encode(segment, payload, RAW, 65_535, &mut frame).unwrap();
        frame
    }

    fn checked(decoder: &mut Decoder, frame: &[u8]) -> Checked {
        decoder.decode_plain(RAW, frame).unwrap().checked
    }

    #[test]
    fn what_is_left_to_the_card_is_not_wrong() {
        let mut bytes = frame(&ack(1), &[]);
        let decoder = &mut Decoder::new();
        assert_eq!(checked(decoder, &bytes), Checked::Whole);
        // 10.0.0.1 and 10.0.0.2, protocol 6, 20 bytes.
        bytes[36..38].copy_from_slice(&(0x0a00 + 1 + 0x0a00 + 2 + 6 + 20_u16).to_be_bytes());
        assert_eq!(checked(decoder, &bytes), Checked::Header);
        bytes[36..38].copy_from_slice(&[0, 0]);
        assert_eq!(checked(decoder, &bytes), Checked::Header);
        bytes[36..38].copy_from_slice(&[1, 2]);
        assert_eq!(checked(decoder, &bytes), Checked::WrongSegment);
        bytes[8] = 63;
        assert_eq!(checked(decoder, &bytes), Checked::WrongHeader);
        bytes[10..12].copy_from_slice(&[0, 0]);
        bytes[36..38].copy_from_slice(&[0, 0]);
        assert_eq!(checked(decoder, &bytes), Checked::Unknown);
    }

    #[test]
    fn a_long_segment_that_continues_the_one_before_is_not_looked_at() {
        let decoder = &mut Decoder::new();
        let data = [7; 1000];
        let segment = |seq| Segment {
            payload_len: 1000,
            ..ack(seq)
        };
        let found: Vec<Checked> = (0..40)
            .map(|count| checked(decoder, &frame(&segment(count * 1000), &data)))
            .collect();
        assert_eq!(found, [Checked::Header; 40]);
        // A jump is, and so is what is sent again.
        assert_eq!(
            checked(decoder, &frame(&segment(50_000), &data)),
            Checked::Whole
        );
        assert_eq!(
            checked(decoder, &frame(&segment(40_000), &data)),
            Checked::Whole
        );
        assert_eq!(
            checked(decoder, &frame(&segment(41_000), &data)),
            Checked::Header
        );
    }

    #[test]
    fn any_flipped_bit_of_an_ack_is_found() {
        for seq in [1, 0x1234_5678, u32::MAX] {
            let whole = frame(&ack(seq), &[]);
            for bit in 0..whole.len() * 8 {
                let mut bytes = whole.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                // Others make another packet of it: its version, length or protocol.
                if let Some(plain) = Decoder::new().decode_plain(RAW, &bytes) {
                    assert!(plain.checked.is_wrong(), "seq {seq}, bit {bit}");
                }
            }
        }
    }
}
