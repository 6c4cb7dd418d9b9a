//! Link layers: where in a frame its IP packet begins. One arm per LINKTYPE_ (www.tcpdump.org/linktypes.html).

use super::Undecoded;
use super::bytes::Bytes;

/// What a link layer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network<'a> {
    Ipv4(Bytes<'a>),
    Ipv6(Bytes<'a>),
    /// The version field says which.
    Ip(Bytes<'a>),
}

/// What comes next on the way to IP. A loop follows it, so a hostile frame cannot nest calls.
enum Layer<'a> {
    Network(Network<'a>),
    Ethernet(Bytes<'a>),
    Ethertype(u16, Bytes<'a>),
    Llc(Bytes<'a>),
    Mpls(Bytes<'a>),
    Ppp(Bytes<'a>),
    Pppoe(Bytes<'a>),
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// What a number of `Bytes::within` is one of.
const VLAN: u32 = 1;

/// Headers, tags and labels before IP; frames with more are not believed.
const MAX_LAYERS: usize = 32;

/// Names for the link types in which no IP is looked for, so that a report can say what they are.
pub fn link_type_name(link_type: u16) -> Option<&'static str> {
    Some(match link_type {
        0 => "NULL",
        1 => "EN10MB",
        6 => "IEEE802_5 (token ring)",
        9 => "PPP",
        10 => "FDDI",
        12 | 14 | 101 => "RAW",
        50 => "PPP_HDLC",
        51 => "PPP_ETHER",
        100 => "ATM_RFC1483",
        104 => "C_HDLC",
        105 => "IEEE802_11",
        108 => "LOOP",
        109 => "ENC",
        113 => "LINUX_SLL",
        127 => "IEEE802_11_RADIOTAP",
        147..=162 => "USER",
        187 | 201 => "BLUETOOTH_HCI_H4",
        189 | 220 => "USB_LINUX",
        192 => "PPI",
        195 | 230 => "IEEE802_15_4",
        197 => "ERF",
        227 => "CAN_SOCKETCAN",
        228 => "IPV4",
        229 => "IPV6",
        239 => "NFLOG",
        249 => "USBPCAP",
        253 => "NETLINK",
        258 => "PKTAP",
        276 => "LINUX_SLL2",
        _ => return None,
    })
}

/// Finds the IP packet in a frame.
#[inline]
pub fn network(link_type: u16, frame: Bytes<'_>) -> Result<Network<'_>, Undecoded> {
    // Frames without tags and labels need no loop: a quarter of the time that decoding takes.
    match link_type {
        1 => match frame.u16(12)? {
            ETHERTYPE_IPV4 => return Ok(Network::Ipv4(frame.skip(14)?)),
            ETHERTYPE_IPV6 => return Ok(Network::Ipv6(frame.skip(14)?)),
            _ => (),
        },
        12 | 14 | 101 => return Ok(Network::Ip(frame)),
        _ => (),
    }
    descend(outermost(link_type, frame)?)
}

/// Finds the IP packet in an Ethernet frame.
pub fn ethernet(frame: Bytes<'_>) -> Result<Network<'_>, Undecoded> {
    descend(Layer::Ethernet(frame))
}

/// Finds the IP packet below an Ethernet type.
pub fn ethertype(number: u16, payload: Bytes<'_>) -> Result<Network<'_>, Undecoded> {
    descend(Layer::Ethertype(number, payload))
}

/// Finds the IP packet in a PPP frame.
pub fn ppp(frame: Bytes<'_>) -> Result<Network<'_>, Undecoded> {
    descend(Layer::Ppp(frame))
}

fn descend(mut layer: Layer<'_>) -> Result<Network<'_>, Undecoded> {
    for _ in 0..MAX_LAYERS {
        layer = match layer {
            Layer::Network(network) => return Ok(network),
            Layer::Ethernet(frame) => below_type_or_length(frame.u16(12)?, frame.skip(14)?),
            Layer::Ethertype(number, payload) => below_ethertype(number, payload)?,
            Layer::Llc(payload) => below_llc(payload)?,
            Layer::Mpls(payload) => below_mpls(payload)?,
            Layer::Ppp(frame) => below_ppp(frame)?,
            Layer::Pppoe(payload) => below_pppoe(payload)?,
        };
    }
    Err(Undecoded::Nested)
}

fn outermost(link_type: u16, frame: Bytes<'_>) -> Result<Layer<'_>, Undecoded> {
    Ok(match link_type {
        0 | 108 => loopback(frame)?,
        1 => Layer::Ethernet(frame),
        9 | 50 => Layer::Ppp(frame),
        10 => fddi(frame)?,
        12 | 14 | 101 => Layer::Network(Network::Ip(frame)),
        51 => Layer::Pppoe(frame),
        100 => Layer::Llc(frame),
        104 => Layer::Ethertype(frame.u16(2)?, frame.skip(4)?),
        105 => wireless(frame, false)?,
        109 => family(frame.u32_le(0)?, frame.skip(12)?)?,
        113 => Layer::Ethertype(frame.u16(14)?, frame.skip(16)?),
        127 => radiotap(frame)?,
        228 => Layer::Network(Network::Ipv4(frame)),
        229 => Layer::Network(Network::Ipv6(frame)),
        239 => nflog(frame)?,
        258 => pktap(frame)?,
        276 => Layer::Ethertype(frame.u16(0)?, frame.skip(20)?),
        other => return Err(Undecoded::LinkType(other)),
    })
}

/// IEEE 802.3 section 3.2.6: up to 1500 it is a length, and LLC follows.
fn below_type_or_length(number: u16, payload: Bytes<'_>) -> Layer<'_> {
    if number <= 1500 {
        Layer::Llc(payload)
    } else {
        Layer::Ethertype(number, payload)
    }
}

fn below_ethertype(number: u16, payload: Bytes<'_>) -> Result<Layer<'_>, Undecoded> {
    Ok(match number {
        ETHERTYPE_IPV4 => Layer::Network(Network::Ipv4(payload)),
        ETHERTYPE_IPV6 => Layer::Network(Network::Ipv6(payload)),
        // 802.1Q, 802.1ad and the two numbers QinQ used before it had one.
        0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
            // The identifier without priority and drop bits; 0 is a priority tag, no VLAN (802.1Q section 9.6).
            let inside = match payload.u16(0)? & 0x0fff {
                0 => payload,
                vlan => payload.within(VLAN, vlan.into()),
            };
            below_type_or_length(inside.u16(2)?, inside.skip(4)?)
        }
        0x8847 | 0x8848 => Layer::Mpls(payload),
        0x8864 => Layer::Pppoe(payload),
        // LLC inside a cooked capture.
        0x0004 => Layer::Llc(payload),
        _ => return Err(Undecoded::NotIp),
    })
}

/// RFC 3032; the payload's type is not told, so its first nibble decides, as in routers (RFC 4928).
fn below_mpls(payload: Bytes<'_>) -> Result<Layer<'_>, Undecoded> {
    let is_bottom_of_stack = payload.u8(2)? & 1 != 0;
    let payload = payload.skip(4)?;
    if !is_bottom_of_stack {
        return Ok(Layer::Mpls(payload));
    }
    Ok(match payload.u8(0)? >> 4 {
        4 => Layer::Network(Network::Ipv4(payload)),
        6 => Layer::Network(Network::Ipv6(payload)),
        // RFC 4385: a pseudowire control word, then an Ethernet frame.
        0 => Layer::Ethernet(payload.skip(4)?),
        _ => return Err(Undecoded::NotIp),
    })
}

/// RFC 2516: six bytes, then PPP without address and control.
fn below_pppoe(payload: Bytes<'_>) -> Result<Layer<'_>, Undecoded> {
    const SESSION: u8 = 0;
    if payload.u8(0)? != 0x11 {
        return Err(Undecoded::Malformed);
    }
    if payload.u8(1)? != SESSION {
        return Err(Undecoded::NotIp);
    }
    Ok(Layer::Ppp(payload.skip(6)?))
}

/// RFC 1661; RFC 1662's address and control bytes and the first byte of the protocol may be left out.
fn below_ppp(frame: Bytes<'_>) -> Result<Layer<'_>, Undecoded> {
    let frame = match (frame.u8(0)?, frame.u8(1)?) {
        (0xff, 0x03) => frame.skip(2)?,
        // Cisco HDLC in a link type shared with PPP: address, control, Ethernet type.
        (0x0f | 0x8f, _) => return Ok(Layer::Ethertype(frame.u16(2)?, frame.skip(4)?)),
        _ => frame,
    };
    // The low bit of a protocol number's last byte is 1, that of its first byte 0.
    let first = frame.u8(0)?;
    let (protocol, payload) = if first & 1 == 1 {
        (u16::from(first), frame.skip(1)?)
    } else {
        (frame.u16(0)?, frame.skip(2)?)
    };
    Ok(match protocol {
        0x0021 => Layer::Network(Network::Ipv4(payload)),
        0x0057 => Layer::Network(Network::Ipv6(payload)),
        0x0281 | 0x0283 => Layer::Mpls(payload),
        _ => return Err(Undecoded::NotIp),
    })
}

/// RFC 1042: LLC, with SNAP for what has an Ethernet type.
fn below_llc(payload: Bytes<'_>) -> Result<Layer<'_>, Undecoded> {
    match payload.chunk::<3>(0)? {
        [0xaa, 0xaa, 0x03] => match payload.chunk::<3>(3)? {
            // 802.1H bridge tunnels (f8) count as plain Ethernet types.
            [0, 0, 0 | 0xf8] => Ok(Layer::Ethertype(payload.u16(6)?, payload.skip(8)?)),
            _ => Err(Undecoded::NotIp),
        },
        // LLC's own number for IP.
        [0x06, 0x06, 0x03] => Ok(Layer::Network(Network::Ipv4(payload.skip(3)?))),
        _ => Err(Undecoded::NotIp),
    }
}

/// RFC 1188: frame control, two addresses, LLC.
fn fddi(frame: Bytes<'_>) -> Result<Layer<'_>, Undecoded> {
    if frame.u8(0)? & 0xf0 != 0x50 {
        return Err(Undecoded::NotIp);
    }
    Ok(Layer::Llc(frame.skip(13)?))
}

/// BSD loopback: an address family in the byte order of the host (0) or the network (108).
fn loopback(frame: Bytes<'_>) -> Result<Layer<'_>, Undecoded> {
    family(frame.u32_le(0)?, frame.skip(4)?)
}

fn family(number: u32, payload: Bytes<'_>) -> Result<Layer<'_>, Undecoded> {
    let number = if number > 0xffff {
        number.swap_bytes()
    } else {
        number
    };
    match number {
        2 => Ok(Layer::Network(Network::Ipv4(payload))),
        // AF_INET6 of Linux, Windows, NetBSD and OpenBSD, FreeBSD, macOS.
        10 | 23 | 24 | 28 | 30 => Ok(Layer::Network(Network::Ipv6(payload))),
        _ => Err(Undecoded::NotIp),
    }
}

/// IEEE 802.11 data frames; what is encrypted or aggregated cannot be read.
fn wireless(frame: Bytes<'_>, is_padded: bool) -> Result<Layer<'_>, Undecoded> {
    let control = frame.u8(0)?;
    let flags = frame.u8(1)?;
    let (kind, subtype) = (control >> 2 & 3, control >> 4);
    const DATA: u8 = 2;
    let has_no_data = subtype & 0x4 != 0;
    if kind != DATA || has_no_data {
        return Err(Undecoded::NotIp);
    }
    let is_protected = flags & 0x40 != 0;
    if is_protected {
        return Err(Undecoded::Encrypted);
    }
    let is_relayed = flags & 0x03 == 0x03;
    let is_qos = subtype & 0x8 != 0;
    let mut header = 24 + if is_relayed { 6 } else { 0 };
    if is_qos {
        let is_aggregated = frame.u8(header)? & 0x80 != 0;
        if is_aggregated {
            // Omitted: A-MSDU, several packets in one record.
            return Err(Undecoded::NotIp);
        }
        let has_ht_control = flags & 0x80 != 0;
        header += 2 + if has_ht_control { 4 } else { 0 };
    }
    if is_padded {
        header = header.next_multiple_of(4);
    }
    Ok(Layer::Llc(frame.skip(header)?))
}

/// Radiotap (www.radiotap.org): its length, and whether the driver padded the 802.11 header.
fn radiotap(frame: Bytes<'_>) -> Result<Layer<'_>, Undecoded> {
    let length = usize::from(frame.u16_le(2)?);
    let mut present = frame.u32_le(4)?;
    let first = present;
    let mut at = 8;
    // Further bitmaps may follow the first.
    while present & 0x8000_0000 != 0 {
        present = frame.u32_le(at)?;
        at += 4;
    }
    let has_tsft = first & 1 != 0;
    if has_tsft {
        at = at.next_multiple_of(8) + 8;
    }
    let has_flags = first & 2 != 0;
    let is_padded = has_flags && frame.u8(at)? & 0x20 != 0;
    wireless(frame.skip(length)?, is_padded)
}

/// Linux netfilter log: attributes, one of which is the packet.
fn nflog(frame: Bytes<'_>) -> Result<Layer<'_>, Undecoded> {
    const PAYLOAD: u16 = 9;
    let address_family = frame.u8(0)?;
    let mut rest = frame.skip(4)?;
    loop {
        // Lengths and types are in the byte order of the capturing host: in practice little-endian.
        let length = usize::from(rest.u16_le(0)?);
        if length < 4 {
            return Err(Undecoded::Malformed);
        }
        if rest.u16_le(2)? == PAYLOAD {
            return family(u32::from(address_family), rest.skip(4)?);
        }
        rest = rest.skip(length.next_multiple_of(4))?;
    }
}

/// Apple's pktap: a header that tells its own length and the link type that follows.
fn pktap(frame: Bytes<'_>) -> Result<Layer<'_>, Undecoded> {
    let length = frame.u32_le(0)? as usize;
    let inner = frame.u32_le(8)?;
    match u16::try_from(inner) {
        Ok(258) | Err(_) => Err(Undecoded::Malformed),
        Ok(inner) => outermost(inner, frame.skip(length)?),
    }
}
