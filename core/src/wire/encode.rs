//! A segment to a frame, for the captures that simulator and tests write.

use std::net::IpAddr;

use etherparse::{IpNumber, Ipv4Header, Ipv6Header, TcpHeader};
use thiserror::Error;

use super::checksum::{fold, sum_of};
use super::{ETHERNET, RAW, Segment, TcpFlags, TcpOptions};

/// A segment that no frame can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unencodable {
    #[error("link type {0}: frames can be made for Ethernet (1) and raw IP (101)")]
    LinkType(u16),
    #[error("one address is IPv4, the other IPv6")]
    Addresses,
    #[error("TCP options of {0} bytes, 40 fit")]
    Options(usize),
    #[error("{0} bytes of payload given, the segment has {1}")]
    Payload(usize, u32),
}

/// Writes the segment's frame into `frame`, up to `snaplen` bytes of it; returns its length on the wire.
///
/// The payload is `payload` and, where that is shorter than the segment's, zeros. Both checksums are right, also in a frame
/// cut behind its headers. `ip_len` follows from the rest and is not read. A super-segment gets the IP length 0, as from Linux.
pub fn encode(
    segment: &Segment,
    payload: &[u8],
    link_type: u16,
    snaplen: u32,
    frame: &mut Vec<u8>,
) -> Result<u32, Unencodable> {
    if payload.len() > segment.payload_len as usize {
        return Err(Unencodable::Payload(payload.len(), segment.payload_len));
    }
    let tcp = tcp_header(segment)?;
    frame.clear();
    match link_type {
        ETHERNET => ethernet_header(segment, frame),
        RAW => (),
        other => return Err(Unencodable::LinkType(other)),
    }
    let tcp_len = tcp.header_len() as u32 + segment.payload_len;
    let sum = ip_header(segment, tcp_len, frame)?;
    let start = frame.len();
    frame.extend_from_slice(&tcp.to_bytes());
    // Zeros add nothing, so the payload that is not given need not exist. Its place after an even-sized header keeps pairs.
    let checksum = !fold(sum + sum_of(&frame[start..]) + sum_of(payload));
    frame[start + 16..start + 18].copy_from_slice(&checksum.to_ne_bytes());
    let orig_len = frame.len() as u32 + segment.payload_len;
    let captured = orig_len.min(snaplen) as usize;
    if captured > frame.len() {
        frame.extend_from_slice(&payload[..payload.len().min(captured - frame.len())]);
    }
    frame.resize(captured, 0);
    Ok(orig_len)
}

/// Locally administered addresses made from the IP ones.
fn ethernet_header(segment: &Segment, frame: &mut Vec<u8>) {
    for addr in [segment.dst.addr, segment.src.addr] {
        let tail: [u8; 4] = match addr {
            IpAddr::V4(addr) => addr.octets(),
            IpAddr::V6(addr) => *addr.octets().last_chunk().expect("sixteen octets"),
        };
        frame.extend_from_slice(&[0x02, 0]);
        frame.extend_from_slice(&tail);
    }
    let ethertype: u16 = if segment.src.addr.is_ipv4() {
        0x0800
    } else {
        0x86dd
    };
    frame.extend_from_slice(&ethertype.to_be_bytes());
}

/// Appends the IP header; returns the sum of TCP's pseudo-header (RFC 9293 section 3.1).
fn ip_header(segment: &Segment, tcp_len: u32, frame: &mut Vec<u8>) -> Result<u64, Unencodable> {
    let sum = match (segment.src.addr, segment.dst.addr) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut header = Ipv4Header {
                total_len: u16::try_from(tcp_len + 20).unwrap_or(0),
                identification: segment.ip_id,
                dont_fragment: true,
                time_to_live: segment.ttl,
                protocol: IpNumber::TCP,
                source: src.octets(),
                destination: dst.octets(),
                ecn: segment.ecn.try_into().unwrap_or_default(),
                ..Ipv4Header::default()
            };
            header.header_checksum = header.calc_header_checksum();
            frame.extend_from_slice(&header.to_bytes());
            sum_of(&src.octets()) + sum_of(&dst.octets())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = Ipv6Header {
                traffic_class: segment.ecn & 3,
                payload_length: u16::try_from(tcp_len).unwrap_or(0),
                next_header: IpNumber::TCP,
                hop_limit: segment.ttl,
                source: src.octets(),
                destination: dst.octets(),
                ..Ipv6Header::default()
            };
            frame.extend_from_slice(&header.to_bytes());
            sum_of(&src.octets()) + sum_of(&dst.octets())
        }
        _ => return Err(Unencodable::Addresses),
    };
    Ok(sum + sum_of(&tcp_len.to_be_bytes()) + sum_of(&[0, IpNumber::TCP.0]))
}

fn tcp_header(segment: &Segment) -> Result<TcpHeader, Unencodable> {
    let flags = segment.flags;
    let mut header = TcpHeader {
        acknowledgment_number: segment.ack,
        ns: flags.has(TcpFlags::AE),
        cwr: flags.has(TcpFlags::CWR),
        ece: flags.has(TcpFlags::ECE),
        urg: flags.has(TcpFlags::URG),
        ack: flags.has(TcpFlags::ACK),
        psh: flags.has(TcpFlags::PSH),
        rst: flags.has(TcpFlags::RST),
        syn: flags.has(TcpFlags::SYN),
        fin: flags.has(TcpFlags::FIN),
        ..TcpHeader::new(
            segment.src.port,
            segment.dst.port,
            segment.seq,
            segment.window,
        )
    };
    let options = options(&segment.options);
    header
        .set_options_raw(&options)
        .map_err(|_| Unencodable::Options(options.len()))?;
    Ok(header)
}

/// Options in the order in which Linux writes them.
fn options(options: &TcpOptions) -> Vec<u8> {
    const NO_OPERATION: u8 = 1;
    let mut bytes = Vec::with_capacity(40);
    if let Some(mss) = options.mss {
        bytes.extend_from_slice(&[2, 4]);
        bytes.extend_from_slice(&mss.to_be_bytes());
    }
    match (options.sack_permitted, options.timestamps) {
        (true, Some(_)) => bytes.extend_from_slice(&[4, 2]),
        (false, Some(_)) => bytes.extend_from_slice(&[NO_OPERATION, NO_OPERATION]),
        (true, None) => bytes.extend_from_slice(&[NO_OPERATION, NO_OPERATION, 4, 2]),
        (false, None) => (),
    }
    if let Some((ts_val, ts_ecr)) = options.timestamps {
        bytes.extend_from_slice(&[8, 10]);
        bytes.extend_from_slice(&ts_val.to_be_bytes());
        bytes.extend_from_slice(&ts_ecr.to_be_bytes());
    }
    if let Some(shift) = options.wscale {
        bytes.extend_from_slice(&[NO_OPERATION, 3, 3, shift]);
    }
    if options.sack.count > 0 {
        bytes.extend_from_slice(&[NO_OPERATION, NO_OPERATION, 5, 2 + 8 * options.sack.count]);
        for (left, right) in options.sack.as_slice() {
            bytes.extend_from_slice(&left.to_be_bytes());
            bytes.extend_from_slice(&right.to_be_bytes());
        }
    }
    if options.has_tfo {
        // RFC 7413: a request for a cookie.
        bytes.extend_from_slice(&[34, 2]);
    }
    if options.has_mptcp {
        // RFC 8684 section 3.1: MP_CAPABLE, version 1, HMAC-SHA256.
        bytes.extend_from_slice(&[30, 4, 0x01, 0x01]);
    }
    if options.has_accecn {
        // RFC 9768 section 3.2.3: an empty option announces itself.
        bytes.extend_from_slice(&[172, 2]);
    }
    bytes
}
