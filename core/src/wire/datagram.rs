//! The outermost IP packet of a frame, whatever it carries: what a path forwards.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Undecoded;
use super::bytes::Bytes;
use super::link::{self, Network};

/// An IP packet as captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    pub src: IpAddr,
    pub dst: IpAddr,
    /// As claimed by its header; of a super-segment that claims none, as the capture has it.
    pub ip_len: u32,
    /// From the IP header on, without the link's padding.
    pub bytes: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// The IP packet in a frame of which `data` was captured and `orig_len` bytes were on the wire.
    pub fn new(link_type: u16, data: &'a [u8], orig_len: u32) -> Result<Self, Undecoded> {
        match link::network(link_type, Bytes::new(data, orig_len))? {
            Network::Ipv4(packet) => Self::v4(packet),
            Network::Ipv6(packet) => Self::v6(packet),
            Network::Ip(packet) => match packet.u8(0)? >> 4 {
                4 => Self::v4(packet),
                6 => Self::v6(packet),
                _ => Err(Undecoded::NotIp),
            },
        }
    }

    fn v4(packet: Bytes<'a>) -> Result<Self, Undecoded> {
        let first = packet.u8(0)?;
        if first >> 4 != 4 || first & 0xf < 5 {
            return Err(Undecoded::Malformed);
        }
        let ip_len = match u32::from(packet.u16(2)?) {
            0 => packet.wire_len,
            claimed => claimed,
        };
        let address = |at| Ok(IpAddr::V4(Ipv4Addr::from(packet.u32(at)?)));
        Ok(Self::of(packet, address(12)?, address(16)?, ip_len))
    }

    fn v6(packet: Bytes<'a>) -> Result<Self, Undecoded> {
        const HEADER: u32 = 40;
        if packet.u8(0)? >> 4 != 6 {
            return Err(Undecoded::Malformed);
        }
        let ip_len = match u32::from(packet.u16(4)?) {
            0 => packet.wire_len,
            claimed => claimed + HEADER,
        };
        let word = |at| packet.u32(at).map(u128::from);
        let address = |at| {
            let bits = word(at)? << 96 | word(at + 4)? << 64 | word(at + 8)? << 32 | word(at + 12)?;
            Ok(IpAddr::V6(Ipv6Addr::from(bits)))
        };
        Ok(Self::of(packet, address(8)?, address(24)?, ip_len))
    }

    fn of(packet: Bytes<'a>, src: IpAddr, dst: IpAddr, ip_len: u32) -> Self {
        let captured = packet.data.len().min(ip_len as usize);
        Self {
            src,
            dst,
            ip_len,
            bytes: &packet.data[..captured],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ETHERNET, RAW};
    use proptest::prelude::*;

    #[test]
    fn any_protocol_is_an_ip_packet_and_padding_is_not_of_it() {
        // UDP, 28 bytes, in a frame padded to 60.
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 8, 0, 0]);
        frame.resize(60, 0);
        let found = Datagram::new(ETHERNET, &frame, 60).unwrap();
        assert_eq!((found.ip_len, found.bytes.len()), (28, 28));
        assert_eq!(
            (found.src.to_string(), found.dst.to_string()),
            ("10.0.0.1".to_owned(), "10.0.0.2".to_owned())
        );
    }

    proptest! {
        #[test]
        fn no_bytes_crash_it(bytes in prop::collection::vec(any::<u8>(), 0..80), orig_len: u32, raw: bool) {
            if let Ok(found) = Datagram::new(if raw { RAW } else { ETHERNET }, &bytes, orig_len) {
                prop_assert!(found.bytes.len() <= bytes.len());
            }
        }
    }
}
