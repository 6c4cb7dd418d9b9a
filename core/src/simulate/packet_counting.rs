//! ns-2's packets as TCP segments: what a capture of the `ns2` profile shows.
//!
//! ns-2 counts packets; it has no headers, no handshake and no bytes. Differs: a packet of b bytes on the wire is shown
//! as b - 40 bytes of data behind an IPv4 and a TCP header, packet n beginning at sequence number n * (b - 40) + 1, so
//! that lengths, holes and duplicates are those of the run. Headers larger than the packet leave one byte of data.
//! Nothing is shown that ns-2 does not send: no FIN, no timestamps; SACK blocks are. Omitted: ns-2's SYN (`syn`), a
//! 40-byte packet 0 in the middle of its numbers, is shown as the full packet that its number stands for.

use super::taps::Ends;
use crate::wire::{Checked, SackBlocks, Segment, TcpFlags, TcpOptions};

/// IPv4 and TCP without options: what ns-2's packets are taken to hold besides data.
const HEADERS: u32 = 40;
/// Nobody is ever limited by it: ns-2's receiver has no window.
const WINDOW: u16 = u16::MAX;

/// The headers shown: IPv6's is 20 bytes longer, so that a packet is shown longer than it is sent.
fn headers(ends: &Ends) -> u32 {
    if ends.sender.addr.is_ipv4() {
        HEADERS
    } else {
        HEADERS + 20
    }
}

/// Bytes of data in a packet of `wire_bytes`.
pub fn payload(wire_bytes: u32) -> u32 {
    wire_bytes.saturating_sub(HEADERS).max(1)
}

/// The sequence number of a packet; -1, "nothing yet", lies before packet 0.
pub fn seq(number: i64, wire_bytes: u32) -> u32 {
    // Sequence space is modulo 2^32 (RFC 9293 section 3.4).
    (number.wrapping_mul(i64::from(payload(wire_bytes))) as u32).wrapping_add(1)
}

/// Data packet `number`.
pub fn data(ends: &Ends, number: i64, ip_id: u16, wire_bytes: u32) -> Segment {
    Segment {
        src: ends.sender,
        dst: ends.receiver,
        seq: seq(number, wire_bytes),
        ack: 1,
        flags: TcpFlags::ACK,
        window: WINDOW,
        payload_len: payload(wire_bytes),
        ip_len: headers(ends) + payload(wire_bytes),
        ip_id,
        ttl: 64,
        ecn: 0,
        network: 0,
        checked: Checked::Unknown,
        options: TcpOptions::default(),
    }
}

/// The ACK of everything up to and with packet `number`, with SACK blocks as (first, behind the last) packet numbers.
pub fn ack(
    ends: &Ends,
    number: i64,
    ip_id: u16,
    wire_bytes: u32,
    blocks: &[(i64, i64)],
) -> Segment {
    let mut sack = SackBlocks::default();
    for (edge, &(first, behind)) in sack.edges.iter_mut().zip(blocks) {
        *edge = (seq(first, wire_bytes), seq(behind, wire_bytes));
        sack.count += 1;
    }
    // Two bytes of padding, kind and length, then eight per block (RFC 2018 section 3).
    let options = if blocks.is_empty() {
        0
    } else {
        4 + 8 * u32::from(sack.count)
    };
    Segment {
        src: ends.receiver,
        dst: ends.sender,
        seq: 1,
        ack: seq(number + 1, wire_bytes),
        flags: TcpFlags::ACK,
        window: WINDOW,
        payload_len: 0,
        ip_len: headers(ends) + options,
        ip_id,
        ttl: 64,
        ecn: 0,
        network: 0,
        checked: Checked::Unknown,
        options: TcpOptions {
            sack,
            ..TcpOptions::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> Ends {
        Ends::of(0, false, false)
    }

    #[test]
    fn packets_follow_each_other_without_a_hole_and_acks_name_the_next_one() {
        let (first, second) = (data(&ends(), 0, 0, 512), data(&ends(), 1, 0, 512));
        assert_eq!((first.seq, first.payload_len, first.ip_len), (1, 472, 512));
        assert_eq!(second.seq, first.seq + first.payload_len);
        assert_eq!(ack(&ends(), 0, 0, 512, &[]).ack, second.seq);
        // ns-2 acknowledges -1 while packet 0 is missing.
        assert_eq!(ack(&ends(), -1, 0, 512, &[]).ack, 1);
    }

    #[test]
    fn sequence_numbers_wrap() {
        // 2^32 / 1460 = 2941758.4: packet 2941759 begins 2941759 * 1460 - 2^32 = 844 bytes behind the wrap, plus 1.
        assert_eq!(data(&ends(), 2_941_759, 0, 1500).seq, 845);
    }

    #[test]
    fn sack_blocks_are_the_sequence_numbers_of_packet_ranges() {
        let ack = ack(&ends(), 3, 0, 1500, &[(5, 8), (10, 11)]);
        assert_eq!(ack.options.sack.as_slice(), [(7301, 11681), (14601, 16061)]);
        assert_eq!(ack.ip_len, 60);
    }
}
