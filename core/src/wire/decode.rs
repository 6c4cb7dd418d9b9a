//! A record to a segment, or the cause why it is none; no packet goes uncounted.

use std::ops::Add;

use super::bytes::Bytes;
use super::checksum::Checker;
use super::fragments::Fragments;
use super::network::Target;
use super::undecoded::Undecoded;
use super::{Plain, Segment, link, network};

/// Packets by what became of them; `segments` and the causes add up to `packets`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeCounts {
    pub packets: u64,
    pub segments: u64,
    pub unknown_link_type: u64,
    /// The first link type without a decoder that was met.
    pub link_type: Option<u16>,
    pub not_ip: u64,
    pub not_tcp: u64,
    pub fragments: u64,
    pub cut: u64,
    pub malformed: u64,
    pub encrypted: u64,
    pub nested: u64,
}

impl DecodeCounts {
    /// Each cause by name, with its count.
    pub fn causes(&self) -> [(&'static str, u64); 8] {
        [
            ("unknown_link_type", self.unknown_link_type),
            ("not_ip", self.not_ip),
            ("not_tcp", self.not_tcp),
            ("fragments", self.fragments),
            ("cut", self.cut),
            ("malformed", self.malformed),
            ("encrypted", self.encrypted),
            ("nested", self.nested),
        ]
    }

    /// The link type in which nothing was looked for, if there was one: its number and, where known, its name.
    pub fn unknown_link(&self) -> Option<String> {
        let number = self.link_type?;
        Some(match link::link_type_name(number) {
            Some(name) => format!("{number} ({name})"),
            None => number.to_string(),
        })
    }

    /// One packet more.
    #[inline]
    pub fn take_in(&mut self, decoded: Result<(), Undecoded>) {
        self.packets += 1;
        match decoded {
            Ok(()) => self.segments += 1,
            Err(cause) => self.count(cause),
        }
    }

    #[cold]
    fn count(&mut self, cause: Undecoded) {
        let count = match cause {
            Undecoded::LinkType(link_type) => {
                self.link_type.get_or_insert(link_type);
                &mut self.unknown_link_type
            }
            Undecoded::NotIp => &mut self.not_ip,
            Undecoded::NotTcp => &mut self.not_tcp,
            Undecoded::Fragment => &mut self.fragments,
            Undecoded::Cut => &mut self.cut,
            Undecoded::Malformed => &mut self.malformed,
            Undecoded::Encrypted => &mut self.encrypted,
            Undecoded::Nested => &mut self.nested,
        };
        *count += 1;
    }
}

impl Add for DecodeCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            segments: self.segments + other.segments,
            unknown_link_type: self.unknown_link_type + other.unknown_link_type,
            link_type: self.link_type.or(other.link_type),
            not_ip: self.not_ip + other.not_ip,
            not_tcp: self.not_tcp + other.not_tcp,
            fragments: self.fragments + other.fragments,
            cut: self.cut + other.cut,
            malformed: self.malformed + other.malformed,
            encrypted: self.encrypted + other.encrypted,
            nested: self.nested + other.nested,
        }
    }
}

/// Decodes the packets of one capture in their order; keeps a few IP fragments and the counts.
#[derive(Default)]
pub struct Decoder {
    fragments: Fragments,
    checker: Checker,
    counts: DecodeCounts,
}

impl Decoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// The segment in a packet of which `data` was captured and `orig_len` bytes were on the wire.
    pub fn decode(
        &mut self,
        link_type: u16,
        data: &[u8],
        orig_len: u32,
    ) -> Result<Segment, Undecoded> {
        let mut segment = Segment::BLANK;
        self.decode_into(link_type, data, orig_len, &mut segment)?;
        Ok(segment)
    }

    /// `decode` into a place that the caller keeps. After an error `segment` holds nothing of use.
    pub fn decode_into(
        &mut self,
        link_type: u16,
        data: &[u8],
        orig_len: u32,
        segment: &mut Segment,
    ) -> Result<(), Undecoded> {
        let mut target = Target {
            segment,
            fragments: &mut self.fragments,
            checker: &mut self.checker,
        };
        let result = decode_frame(link_type, data, orig_len, &mut target);
        self.counts.take_in(result);
        result
    }

    /// The segment of a packet of the usual form, by a way five times as short; others are left to `decode`.
    #[inline(always)]
    pub fn decode_plain(&mut self, link_type: u16, data: &[u8]) -> Option<Plain> {
        let plain = Plain::new(link_type, data, &mut self.checker)?;
        self.counts.take_in(Ok(()));
        Some(plain)
    }

    pub fn counts(&self) -> &DecodeCounts {
        &self.counts
    }
}

/// Decodes a packet on its own; a piece of a fragmented datagram stays a piece.
pub fn decode(link_type: u16, data: &[u8], orig_len: u32) -> Result<Segment, Undecoded> {
    let mut segment = Segment::BLANK;
    let mut target = Target {
        segment: &mut segment,
        fragments: &mut Fragments::default(),
        checker: &mut Checker::default(),
    };
    decode_frame(link_type, data, orig_len, &mut target)?;
    Ok(segment)
}

fn decode_frame(
    link_type: u16,
    data: &[u8],
    orig_len: u32,
    target: &mut Target<'_>,
) -> Result<(), Undecoded> {
    let frame = Bytes::new(data, orig_len);
    network::segment(link::network(link_type, frame)?, target)
}
