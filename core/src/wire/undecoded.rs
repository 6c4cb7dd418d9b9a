//! Why a packet gave no segment: every layer may say so.

/// Why a packet gave no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecoded {
    /// No IP is looked for in this link type (see `link_type_name`).
    LinkType(u16),
    /// ARP, LLC and the like.
    NotIp,
    /// UDP, ICMP and the like.
    NotTcp,
    /// A piece of an IP datagram; the segment comes with the last piece.
    Fragment,
    /// The snapshot length cut a header.
    Cut,
    /// A header contradicts itself or the packet's length.
    Malformed,
    /// ESP, or a protected 802.11 frame.
    Encrypted,
    /// More tunnels within tunnels than are followed.
    Nested,
}
