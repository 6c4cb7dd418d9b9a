//! A TCP segment as it was seen on the wire: the one vocabulary between readers, simulator and followers.

use std::net::{IpAddr, Ipv4Addr};

/// An address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    pub addr: IpAddr,
    pub port: u16,
}

/// The TCP header's flag bits (RFC 9293 section 3.1; AE: RFC 9768).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u16);

impl TcpFlags {
    pub const FIN: Self = Self(0x001);
    pub const SYN: Self = Self(0x002);
    pub const RST: Self = Self(0x004);
    pub const PSH: Self = Self(0x008);
    pub const ACK: Self = Self(0x010);
    pub const URG: Self = Self(0x020);
    pub const ECE: Self = Self(0x040);
    pub const CWR: Self = Self(0x080);
    pub const AE: Self = Self(0x100);

    /// Whether every flag of `other` is set here.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Up to four SACK blocks as (left edge, right edge) wire sequence numbers (RFC 2018 section 3); `is_cut` when the
/// capture has not all of the option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    pub count: u8,
    pub is_cut: bool,
    pub edges: [(u32, u32); 4],
}

impl SackBlocks {
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.edges[..usize::from(self.count)]
    }
}

/// What the checksums of a captured segment tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Checked {
    /// Not filled in, or nothing of them was captured.
    #[default]
    Unknown,
    /// The IPv4 header's is right; the segment's cannot be told, or was not looked at.
    Header,
    /// The segment's is right.
    Whole,
    WrongHeader,
    WrongSegment,
}

impl Checked {
    /// How many there are.
    pub const KINDS: usize = 5;

    #[inline]
    pub fn is_wrong(self) -> bool {
        matches!(self, Self::WrongHeader | Self::WrongSegment)
    }
}

/// The TCP options that matter to following a sender; unknown ones are skipped by length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    pub mss: Option<u16>,
    pub wscale: Option<u8>,
    pub sack_permitted: bool,
    pub sack: SackBlocks,
    /// (`ts_val`, `ts_ecr`), RFC 7323 section 3.
    pub timestamps: Option<(u32, u32)>,
    pub has_tfo: bool,
    pub has_mptcp: bool,
    pub has_accecn: bool,
    /// The option list was cut short or a length was impossible: what stood before it is kept.
    pub malformed: bool,
}

impl TcpOptions {
    pub const NONE: Self = Self {
        mss: None,
        wscale: None,
        sack_permitted: false,
        sack: SackBlocks {
            count: 0,
            is_cut: false,
            edges: [(0, 0); 4],
        },
        timestamps: None,
        has_tfo: false,
        has_mptcp: false,
        has_accecn: false,
        malformed: false,
    };
}

/// One TCP segment. A super-segment (TSO, GRO, BIG TCP) is one `Segment` with a large payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub src: Endpoint,
    pub dst: Endpoint,
    pub seq: u32,
    pub ack: u32,
    pub flags: TcpFlags,
    /// The header's 16 bits, not scaled.
    pub window: u16,
    /// Payload bytes as claimed by the IP header, not as captured.
    pub payload_len: u32,
    /// Bytes of the IP packet as claimed by its header(s).
    pub ip_len: u32,
    /// IPv4 identification; 0 in IPv6.
    pub ip_id: u16,
    pub ttl: u8,
    /// The two ECN bits (RFC 3168).
    pub ecn: u8,
    /// Which of several networks with the same addresses: its VLANs and tunnels as one number; 0: none.
    pub network: u32,
    pub options: TcpOptions,
    /// What its checksums tell, where it was captured.
    pub checked: Checked,
}

impl Segment {
    /// Nothing: a place for `Decoder::decode_into` to write to.
    pub const BLANK: Self = {
        const NOWHERE: Endpoint = Endpoint {
            addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 0,
        };
        Self {
            src: NOWHERE,
            dst: NOWHERE,
            seq: 0,
            ack: 0,
            flags: TcpFlags(0),
            window: 0,
            payload_len: 0,
            ip_len: 0,
            ip_id: 0,
            ttl: 0,
            ecn: 0,
            network: 0,
            options: TcpOptions::NONE,
            checked: Checked::Unknown,
        }
    };

    /// Sequence space the segment occupies: payload, SYN and FIN (RFC 9293 section 3.4).
    pub fn seq_len(&self) -> u32 {
        self.payload_len
            .wrapping_add(u32::from(self.flags.has(TcpFlags::SYN)))
            .wrapping_add(u32::from(self.flags.has(TcpFlags::FIN)))
    }
}
