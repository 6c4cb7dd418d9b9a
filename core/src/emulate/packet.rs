//! A packet read from a device, with what the log says of it.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

use super::chain::Item;

/// An IP packet and the header fields that tell it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub bytes: Vec<u8>,
    /// IPv4 identification; 0 in IPv6.
    pub ip_id: u16,
    pub src_port: u16,
    pub dst_port: u16,
    pub tcp_seq: u32,
    pub payload_len: u32,
    is_pure_ack: bool,
}

impl Packet {
    /// Anything that is not TCP travels as well, without ports and payload: it is never lost but to overflow.
    pub fn new(bytes: Vec<u8>) -> Self {
        let mut packet = Self {
            ip_id: 0,
            src_port: 0,
            dst_port: 0,
            tcp_seq: 0,
            payload_len: 0,
            is_pure_ack: false,
            bytes: Vec::new(),
        };
        if let Ok(sliced) = SlicedPacket::from_ip(&bytes) {
            if let Some(NetSlice::Ipv4(ip)) = &sliced.net {
                packet.ip_id = ip.header().identification();
            }
            if let Some(TransportSlice::Tcp(tcp)) = &sliced.transport {
                packet.src_port = tcp.source_port();
                packet.dst_port = tcp.destination_port();
                packet.tcp_seq = tcp.sequence_number();
                packet.payload_len = tcp.payload().len() as u32;
                packet.is_pure_ack =
                    tcp.payload().is_empty() && tcp.ack() && !(tcp.syn() || tcp.fin() || tcp.rst());
            }
        }
        packet.bytes = bytes;
        packet
    }
}

impl Item for Packet {
    fn bytes(&self) -> u32 {
        self.bytes.len() as u32
    }

    fn is_data(&self) -> bool {
        self.payload_len > 0
    }

    fn is_pure_ack(&self) -> bool {
        self.is_pure_ack
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    #[test]
    fn a_tcp_packet_is_known_by_its_headers_and_anything_else_by_its_length() {
        let mut bytes = Vec::new();
        PacketBuilder::ipv4([10, 9, 1, 1], [10, 9, 2, 1], 64)
            .tcp(40000, 5001, 77, 65535)
            .ack(5)
            .write(&mut bytes, &[0; 100])
            .expect("a vector takes every byte");
        let data = Packet::new(bytes);
        assert_eq!((data.src_port, data.dst_port), (40000, 5001));
        assert_eq!((data.tcp_seq, data.payload_len), (77, 100));
        assert!(data.is_data() && !data.is_pure_ack());
        assert_eq!(data.bytes(), 140);

        let noise = Packet::new(vec![0xff; 20]);
        assert!(!noise.is_data() && !noise.is_pure_ack());
        assert_eq!(noise.bytes(), 20);
    }
}
