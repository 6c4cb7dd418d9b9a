//! IPv4 (RFC 791), IPv6 (RFC 8200) and the tunnels between them, down to TCP.

use std::net::IpAddr;

use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice};

use super::bytes::Bytes;
use super::checksum::{Checker, Header, of_ipv4, sum_of};
use super::fragments::{FirstFragment, Fragment, Fragments, Key};
use super::link::{self, Network};
use super::{Checked, Segment, Undecoded, tcp};

const HOP_BY_HOP: u8 = 0;
const IPV4: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const GRE: u8 = 47;
const ESP: u8 = 50;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;

/// RFC 7348, and the port Linux used before there was one.
const VXLAN_PORTS: [u16; 2] = [4789, 8472];

/// What a number of `Bytes::within` is one of.
const GRE_KEY: u32 = 2;
const VXLAN_NETWORK: u32 = 3;

/// Tunnels within tunnels; one is usual, more than this is an attack on the reader.
const MAX_TUNNELS: u8 = 4;

/// What the IP header gives to a segment.
#[derive(Clone, Copy)]
struct Datagram {
    src: IpAddr,
    dst: IpAddr,
    ip_len: u32,
    ip_id: u16,
    ttl: u8,
    ecn: u8,
    /// Tunnel headers passed so far.
    tunnels: u8,
    network: u32,
    /// The IPv4 header's checksum.
    checked: Checked,
    /// Sum of both addresses; `None`: the segment's checksum is of others, or of more than this packet.
    addresses: Option<u64>,
}

/// Where a segment is written to, and the pieces of datagrams seen before.
///
/// A segment is two cache lines: handed up through these calls by value it took half the time of decoding.
pub struct Target<'t> {
    pub segment: &'t mut Segment,
    pub fragments: &'t mut Fragments,
    pub checker: &'t mut Checker,
}

pub fn segment(network: Network<'_>, target: &mut Target<'_>) -> Result<(), Undecoded> {
    ip(network, target, 0)
}

fn ip(network: Network<'_>, target: &mut Target<'_>, tunnels: u8) -> Result<(), Undecoded> {
    match network {
        Network::Ipv4(packet) => ipv4(packet, target, tunnels),
        Network::Ipv6(packet) => ipv6(packet, target, tunnels),
        Network::Ip(packet) => match packet.u8(0)? >> 4 {
            4 => ipv4(packet, target, tunnels),
            6 => ipv6(packet, target, tunnels),
            _ => Err(Undecoded::NotIp),
        },
    }
}

fn ipv4(packet: Bytes<'_>, target: &mut Target<'_>, tunnels: u8) -> Result<(), Undecoded> {
    let first = packet.u8(0)?;
    let header_len = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || header_len < 20 {
        return Err(Undecoded::Malformed);
    }
    let payload = packet.skip(header_len)?;
    let header = Ipv4HeaderSlice::from_slice(packet.data).map_err(|_| Undecoded::Malformed)?;
    // Zero: a super-segment whose length did not fit (TSO, GRO, BIG TCP). The capture's own length stands in.
    let ip_len = match u32::from(header.total_len()) {
        0 => packet.wire_len,
        claimed => claimed,
    };
    if (ip_len as usize) < header_len {
        return Err(Undecoded::Malformed);
    }
    let payload = payload.with_wire_len(ip_len - header_len as u32);
    let datagram = Datagram {
        src: IpAddr::V4(header.source_addr()),
        dst: IpAddr::V4(header.destination_addr()),
        ip_len,
        ip_id: header.identification(),
        ttl: header.ttl(),
        ecn: header.ecn().value(),
        tunnels,
        network: packet.network,
        checked: of_ipv4(&packet.data[..header_len]),
        addresses: (!header.is_fragmenting_payload()).then(|| sum_of(&packet.data[12..20])),
    };
    let protocol = header.protocol().0;
    if header.is_fragmenting_payload() {
        let key = Key::new(
            datagram.src,
            datagram.dst,
            u32::from(datagram.ip_id),
            protocol,
        );
        let start = u32::from(header.fragments_offset().value()) * 8;
        let piece = Fragment {
            start,
            len: payload.wire_len,
            is_last: !header.more_fragments(),
        };
        return fragment(key, piece, protocol, payload, &datagram, target);
    }
    transport(protocol, payload, &datagram, target)
}

fn ipv6(packet: Bytes<'_>, target: &mut Target<'_>, tunnels: u8) -> Result<(), Undecoded> {
    const HEADER: u32 = 40;
    if packet.u8(0)? >> 4 != 6 {
        return Err(Undecoded::Malformed);
    }
    let payload = packet.skip(HEADER as usize)?;
    let header = Ipv6HeaderSlice::from_slice(packet.data).map_err(|_| Undecoded::Malformed)?;
    let mut next = header.next_header().0;
    let mut payload = match u32::from(header.payload_length()) {
        // A jumbogram (RFC 2675) tells its length below; a super-segment without that option does not.
        0 if next == HOP_BY_HOP => {
            payload.with_wire_len(jumbo_payload_len(payload)?.unwrap_or(payload.wire_len))
        }
        0 => payload,
        claimed => payload.with_wire_len(claimed),
    };
    let mut datagram = Datagram {
        src: IpAddr::V6(header.source_addr()),
        dst: IpAddr::V6(header.destination_addr()),
        ip_len: payload.wire_len.saturating_add(HEADER),
        ip_id: 0,
        ttl: header.hop_limit(),
        ecn: header.ecn().value(),
        tunnels,
        network: packet.network,
        checked: Checked::Unknown,
        // A routing header tells of another destination: with any header between, it is not looked at.
        addresses: (next == TCP).then(|| sum_of(&packet.data[8..40])),
    };
    // Each header is eight bytes or more, so the packet's end bounds this loop.
    loop {
        let len = match next {
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY | HOST_IDENTITY | SHIM6 => {
                usize::from(payload.u8(1)?) * 8 + 8
            }
            // RFC 4302: counted in four bytes, less two.
            AUTHENTICATION => usize::from(payload.u8(1)?) * 4 + 8,
            FRAGMENT => 8,
            _ => return transport(next, payload, &datagram, target),
        };
        let this = next;
        next = payload.u8(0)?;
        let bits = if this == FRAGMENT { payload.u16(2)? } else { 0 };
        let id = if this == FRAGMENT { payload.u32(4)? } else { 0 };
        payload = payload.skip(len)?;
        let (start, has_more) = (u32::from(bits & 0xfff8), bits & 1 != 0);
        // RFC 6946: an atomic fragment is a whole datagram.
        if start != 0 || has_more {
            let key = Key::new(datagram.src, datagram.dst, id, next);
            let piece = Fragment {
                start,
                len: payload.wire_len,
                is_last: !has_more,
            };
            datagram.ip_len = HEADER.saturating_add(payload.wire_len);
            return fragment(key, piece, next, payload, &datagram, target);
        }
    }
}

/// The jumbo payload option among the hop-by-hop options (RFC 2675 section 2).
fn jumbo_payload_len(options: Bytes<'_>) -> Result<Option<u32>, Undecoded> {
    const PAD1: u8 = 0;
    const JUMBO: u8 = 0xc2;
    let end = usize::from(options.u8(1)?) * 8 + 8;
    let mut at = 2;
    while at < end {
        let kind = options.u8(at)?;
        if kind == PAD1 {
            at += 1;
            continue;
        }
        let len = usize::from(options.u8(at + 1)?);
        if kind == JUMBO && len == 4 {
            return Ok(Some(options.u32(at + 2)?).filter(|len| *len > 0));
        }
        at += 2 + len;
    }
    Ok(None)
}

/// A piece of a datagram. The TCP header stands in the first; its segment is given when the last piece is there.
fn fragment(
    key: Key,
    piece: Fragment,
    protocol: u8,
    payload: Bytes<'_>,
    datagram: &Datagram,
    target: &mut Target<'_>,
) -> Result<(), Undecoded> {
    if protocol != TCP {
        return Err(Undecoded::NotTcp);
    }
    // RFC 791 section 3.2: all but the last are multiples of eight bytes; none reaches past 65,535.
    let is_odd = !piece.is_last && piece.len % 8 != 0;
    if piece.len == 0 || is_odd || piece.start.saturating_add(piece.len) > 0xffff {
        return Err(Undecoded::Malformed);
    }
    let head = if piece.start == 0 {
        tcp_segment(payload, datagram, target)?;
        let segment = *target.segment;
        let tcp_header = payload.wire_len - segment.payload_len;
        Some(FirstFragment {
            segment,
            tcp_header,
        })
    } else {
        None
    };
    *target.segment = target
        .fragments
        .add(key, piece, head)
        .ok_or(Undecoded::Fragment)?;
    Ok(())
}

fn transport(
    protocol: u8,
    payload: Bytes<'_>,
    datagram: &Datagram,
    target: &mut Target<'_>,
) -> Result<(), Undecoded> {
    let (protocol, payload) = match protocol {
        // RFC 4302 after IPv4; after IPv6 it was passed as an extension header.
        AUTHENTICATION => (
            payload.u8(0)?,
            payload.skip(usize::from(payload.u8(1)?) * 4 + 8)?,
        ),
        other => (other, payload),
    };
    let network = match protocol {
        TCP => return tcp_segment(payload, datagram, target),
        IPV4 => Network::Ipv4(payload),
        IPV6 => Network::Ipv6(payload),
        GRE => gre(payload)?,
        UDP => vxlan(payload)?,
        ESP => return Err(Undecoded::Encrypted),
        _ => return Err(Undecoded::NotTcp),
    };
    if datagram.tunnels == MAX_TUNNELS {
        return Err(Undecoded::Nested);
    }
    ip(network, target, datagram.tunnels + 1)
}

/// GRE (RFC 2784, RFC 2890) and the enhanced version of PPTP (RFC 2637).
fn gre(payload: Bytes<'_>) -> Result<Network<'_>, Undecoded> {
    let flags = payload.u16(0)?;
    let protocol = payload.u16(2)?;
    let bytes_if = |bit: u16| if flags & bit != 0 { 4 } else { 0 };
    let (has_routing, version) = (flags & 0x4000 != 0, flags & 7);
    let key_at = 4 + bytes_if(0x8000);
    match version {
        // RFC 1701's source routes are gone from RFC 2784.
        0 if has_routing => Err(Undecoded::NotTcp),
        0 => {
            let inner = payload.skip(key_at + bytes_if(0x2000) + bytes_if(0x1000))?;
            // RFC 2890 section 2.1: the key names the flow within the tunnel.
            let inner = if flags & 0x2000 != 0 {
                inner.within(GRE_KEY, payload.u32(key_at)?)
            } else {
                inner
            };
            match protocol {
                // Transparent Ethernet bridging.
                0x6558 => link::ethernet(inner),
                _ => link::ethertype(protocol, inner),
            }
        }
        1 if protocol == 0x880b => {
            link::ppp(payload.skip(8 + bytes_if(0x1000) + bytes_if(0x0080))?)
        }
        _ => Err(Undecoded::NotTcp),
    }
    .map_err(no_tcp_inside)
}

/// VXLAN (RFC 7348): UDP to a known port, a header whose I flag must be set, an Ethernet frame.
fn vxlan(payload: Bytes<'_>) -> Result<Network<'_>, Undecoded> {
    const UDP_HEADER: usize = 8;
    let port = payload.u16(2).map_err(|_| Undecoded::NotTcp)?;
    if !VXLAN_PORTS.contains(&port) || payload.u8(UDP_HEADER)? & 0x08 == 0 {
        return Err(Undecoded::NotTcp);
    }
    // Section 5: 24 bits of network identifier.
    let identifier = payload.u32(UDP_HEADER + 4)? >> 8;
    let inner = payload.skip(UDP_HEADER + 8)?;
    link::ethernet(inner.within(VXLAN_NETWORK, identifier)).map_err(no_tcp_inside)
}

/// What a tunnel carries that is no IP was still IP outside: it is counted as such.
fn no_tcp_inside(cause: Undecoded) -> Undecoded {
    match cause {
        Undecoded::NotIp => Undecoded::NotTcp,
        other => other,
    }
}

fn tcp_segment(
    payload: Bytes<'_>,
    datagram: &Datagram,
    target: &mut Target<'_>,
) -> Result<(), Undecoded> {
    let segment = &mut *target.segment;
    tcp::read(payload, segment)?;
    segment.src.addr = datagram.src;
    segment.dst.addr = datagram.dst;
    segment.ip_len = datagram.ip_len;
    segment.ip_id = datagram.ip_id;
    segment.ttl = datagram.ttl;
    segment.ecn = datagram.ecn;
    segment.network = datagram.network;
    segment.checked = datagram.checked;
    if let Some(addresses) = datagram.addresses {
        let header = Header {
            addresses,
            ports: u32::from(segment.src.port) << 16 | u32::from(segment.dst.port),
            seq: segment.seq,
            ack: segment.ack,
            payload_len: segment.payload_len,
            window: segment.window,
            flags: segment.flags,
        };
        let len = payload.wire_len as usize;
        segment.checked = target
            .checker
            .look(datagram.checked, &header, payload.data, len);
    }
    Ok(())
}
