//! A packet read from a device, with what the log says of it.

use crate::network::Traveller;
use crate::wire::{TcpFlags, decode};

/// Packets of a TUN device begin with the IP header.
const LINKTYPE_RAW: u16 = 101;

/// Which direction of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Forward,
    Reverse,
}

/// An IP packet and the header fields that tell it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledPacket {
    pub bytes: Vec<u8>,
    pub label: Label,
}

/// What is known of a packet without its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    pub ip_len: u32,
    /// IPv4 identification; 0 in IPv6.
    pub ip_id: u16,
    pub src_port: u16,
    pub dst_port: u16,
    pub tcp_seq: u32,
    pub payload_len: u32,
    /// An ACK and nothing else: what may be lost on the way back.
    pub is_pure_ack: bool,
    /// On the way back, where every packet but a pure ACK counts as data.
    pub is_reverse: bool,
    /// Of those that entered its direction, from 1.
    pub number: u64,
}

impl LabelledPacket {
    /// What is not TCP travels as well, without ports and payload.
    pub fn new(bytes: Vec<u8>, is_reverse: bool) -> Self {
        let ip_len = bytes.len() as u32;
        let mut label = Label {
            ip_len,
            is_reverse,
            ..Label::default()
        };
        if let Ok(segment) = decode(LINKTYPE_RAW, &bytes, ip_len) {
            let other = TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0;
            label.ip_id = segment.ip_id;
            label.src_port = segment.src.port;
            label.dst_port = segment.dst.port;
            label.tcp_seq = segment.seq;
            label.payload_len = segment.payload_len;
            label.is_pure_ack = segment.payload_len == 0
                && segment.flags.has(TcpFlags::ACK)
                && segment.flags.0 & other == 0;
        }
        Self { bytes, label }
    }
}

impl Traveller for Label {
    /// Bytes that take time to send: the IP packet, no link header.
    fn bytes(&self) -> u32 {
        self.ip_len
    }

    fn is_data(&self) -> bool {
        if self.is_reverse {
            !self.is_pure_ack
        } else {
            self.payload_len > 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn tcp(payload: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([10, 9, 1, 1], [10, 9, 2, 1], 64)
            .tcp(40000, 5001, 77, 65535)
            .ack(5)
            .write(&mut bytes, &vec![0; payload])
            .expect("a vector takes every byte");
        bytes
    }

    #[test]
    fn a_tcp_packet_is_known_by_its_headers_and_anything_else_by_its_length() {
        let data = LabelledPacket::new(tcp(100), false).label;
        assert_eq!((data.src_port, data.dst_port), (40000, 5001));
        assert_eq!((data.tcp_seq, data.payload_len), (77, 100));
        assert!(data.is_data() && !data.is_pure_ack);
        assert_eq!(data.bytes(), 140);

        let noise = LabelledPacket::new(vec![0xff; 20], false).label;
        assert!(!noise.is_data() && !noise.is_pure_ack);
        assert_eq!(noise.bytes(), 20);
    }

    #[test]
    fn on_the_way_back_only_pure_acks_are_not_data() {
        assert!(!LabelledPacket::new(tcp(0), true).label.is_data());
        assert!(LabelledPacket::new(tcp(1), true).label.is_data());
        // A SYN-ACK must not be lost as an ACK: the connection would begin with a second's timeout.
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([10, 9, 2, 1], [10, 9, 1, 1], 64)
            .tcp(5001, 40000, 77, 65535)
            .syn()
            .ack(5)
            .write(&mut bytes, &[])
            .expect("a vector takes every byte");
        assert!(LabelledPacket::new(bytes, true).label.is_data());
    }
}
