//! pcapng (draft-ietf-opsawg-pcapng): sections, interfaces, packets; every other block is skipped.

use pcap_parser::pcapng::{parse_interfacedescriptionblock_be, parse_interfacedescriptionblock_le};
use pcap_parser::{InterfaceDescriptionBlock, OptionCode, parse_sectionheaderblock};

use super::source::{Buffer, word};
use super::{CaptureError, Found, Step, Truncated, end_of_stream};

pub const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete Packet Block (appendix A of the draft).
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
pub const ENHANCED_PACKET: u32 = 6;

pub const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Block type, total length, total length again at the end.
const FRAME: usize = 12;
/// libpcap's limit on a block as well.
const MAX_BLOCK: usize = 16 << 20;
/// More interfaces than any machine has; keeps a hostile file from filling memory.
const MAX_INTERFACES: usize = 1 << 16;

/// What a pcap's 32 bits of seconds can hold, and so much before 1970 that no two stamps are 2^62 ns apart: nor do
/// differences of differences leave 64 bits. A stamp beyond (a damaged file's) stays at the last one that fits.
const LATEST_NS: i64 = (1 << 32) * 1_000_000_000;
const EARLIEST_NS: i64 = LATEST_NS - (1 << 62) + 1;

/// How an interface's ticks become nanoseconds (if_tsresol, if_tsoffset).
#[derive(Clone, Copy)]
struct Clock {
    ticks_per_second: u128,
    /// Nanoseconds per tick where that is a whole number.
    tick_ns: Option<u64>,
    offset_ns: i64,
}

struct Interface {
    link_type: u16,
    snaplen: u32,
    clock: Clock,
}

pub struct Parser {
    is_big_endian: bool,
    interfaces: Vec<Interface>,
    last_time_ns: i64,
}

pub fn is_magic(start: &[u8]) -> bool {
    start.first_chunk::<4>() == Some(&SECTION_HEADER.to_le_bytes())
}

impl Parser {
    /// Reads the first section header: without it nothing is known, so it must be right.
    pub fn new(buffer: &mut Buffer) -> Result<Self, CaptureError> {
        let mut parser = Self {
            is_big_endian: false,
            interfaces: Vec::new(),
            last_time_ns: 0,
        };
        let block = match parser.next_block(buffer)? {
            Ok(block) => block,
            Err(Step::Stop(stop)) => return Err(header_error(buffer, stop)),
            Err(_) => unreachable!("the caller has seen the magic number"),
        };
        if let Err(reason) = parser.begin_section(buffer.at(block.at, block.len)) {
            let offset = block.offset;
            return Err(header_error(buffer, Truncated { offset, reason }));
        }
        Ok(parser)
    }

    /// An enhanced packet at the start of `bytes`, if all of it is there and right; all else is left to `next`.
    #[inline(always)]
    pub fn whole(&mut self, bytes: &[u8]) -> Option<Found> {
        let head = bytes.get(..FRAME)?;
        let len = word(head, 4, self.is_big_endian) as usize;
        if word(head, 0, self.is_big_endian) != ENHANCED_PACKET || len % 4 != 0 || len > MAX_BLOCK {
            return None;
        }
        let block = bytes.get(..len).filter(|block| block.len() >= FRAME)?;
        if word(block, len - 4, self.is_big_endian) as usize != len {
            return None;
        }
        let found = self.packet(block, false).ok()??;
        self.last_time_ns = found.time_ns;
        Some(found)
    }

    pub fn next(&mut self, buffer: &mut Buffer) -> Result<Step, CaptureError> {
        loop {
            let block = match self.next_block(buffer)? {
                Ok(block) => block,
                Err(step) => return Ok(step),
            };
            let bytes = buffer.at(block.at, block.len);
            let result = match block.kind {
                ENHANCED_PACKET => self.packet(bytes, false),
                SIMPLE_PACKET => self.simple_packet(bytes),
                OBSOLETE_PACKET => self.packet(bytes, true),
                INTERFACE_DESCRIPTION => self.add_interface(bytes).map(|()| None),
                SECTION_HEADER => self.begin_section(bytes).map(|()| None),
                _ => continue,
            };
            match result {
                Ok(Some(mut found)) => {
                    found.at += block.at;
                    found.offset = block.offset;
                    self.last_time_ns = found.time_ns;
                    return Ok(Step::Record(found));
                }
                Ok(None) => (),
                Err(reason) => {
                    let offset = block.offset;
                    return Ok(Step::Stop(Truncated { offset, reason }));
                }
            }
        }
    }

    /// Frames the next block; both its lengths must agree.
    #[inline]
    fn next_block(&mut self, buffer: &mut Buffer) -> Result<Result<Block, Step>, CaptureError> {
        if !buffer.require(FRAME)? {
            return Ok(Err(end_of_stream(buffer, FRAME, "block")));
        }
        let offset = buffer.offset();
        let stop = |reason| Ok(Err(Step::Stop(Truncated { offset, reason })));
        let head = buffer.available();
        if is_magic(head) {
            // A section has its own byte order, so its header's length cannot be read before this.
            self.is_big_endian = match word(head, 8, false) {
                BYTE_ORDER_MAGIC => false,
                magic if magic.swap_bytes() == BYTE_ORDER_MAGIC => true,
                magic => {
                    return stop(format!(
                        "section header with byte-order magic {magic:#010x}"
                    ));
                }
            };
        }
        let kind = word(head, 0, self.is_big_endian);
        let len = word(head, 4, self.is_big_endian) as usize;
        if len < FRAME || len % 4 != 0 {
            return stop(format!("block with a total length of {len}"));
        }
        if len > MAX_BLOCK {
            return stop(format!(
                "block claims {len} bytes, more than the {MAX_BLOCK} allowed"
            ));
        }
        if !buffer.require(len)? {
            return Ok(Err(end_of_stream(buffer, len, "block")));
        }
        let trailer = word(buffer.available(), len - 4, self.is_big_endian) as usize;
        if trailer != len {
            return stop(format!("block with total lengths {len} and {trailer}"));
        }
        let at = buffer.consume(len);
        Ok(Ok(Block {
            kind,
            at,
            len,
            offset,
        }))
    }

    fn begin_section(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (_, header) =
            parse_sectionheaderblock(bytes).map_err(|_| "impossible section header".to_owned())?;
        // Minor version 2 differs in nothing we read (wiretap and libpcap take it as well).
        if !matches!((header.major_version, header.minor_version), (1, 0 | 2)) {
            return Err(format!(
                "pcapng version {}.{}, known is 1.0",
                header.major_version, header.minor_version
            ));
        }
        check_options(bytes, 24, self.is_big_endian)?;
        self.interfaces.clear();
        Ok(())
    }

    fn add_interface(&mut self, bytes: &[u8]) -> Result<(), String> {
        let parse = if self.is_big_endian {
            parse_interfacedescriptionblock_be
        } else {
            parse_interfacedescriptionblock_le
        };
        let (_, block) = parse(bytes).map_err(|_| "impossible interface description".to_owned())?;
        check_options(bytes, 16, self.is_big_endian)?;
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(format!("more than {MAX_INTERFACES} interfaces"));
        }
        self.interfaces.push(Interface {
            link_type: block.linktype.0 as u16,
            snaplen: block.snaplen,
            clock: Clock::of(&block, self.is_big_endian)?,
        });
        Ok(())
    }

    fn interface(&self, number: u32) -> Result<&Interface, String> {
        self.interfaces
            .get(number as usize)
            .ok_or_else(|| format!("packet of interface {number}, which no block describes"))
    }

    /// Enhanced and obsolete packet blocks differ in the interface only: there 16 bits, before a drop count.
    #[inline]
    fn packet(&self, bytes: &[u8], is_obsolete: bool) -> Result<Option<Found>, String> {
        const HEADER: usize = 28;
        if bytes.len() < HEADER + 4 {
            return Err(format!("packet block of {} bytes", bytes.len()));
        }
        let word = |at| word(bytes, at, self.is_big_endian);
        let number = match (is_obsolete, self.is_big_endian) {
            (false, _) => word(8),
            (true, true) => word(8) >> 16,
            (true, false) => word(8) & 0xffff,
        };
        let ticks = u64::from(word(12)) << 32 | u64::from(word(16));
        let (caplen, orig_len) = (word(20), word(24));
        let room = bytes.len() - HEADER - 4;
        if caplen as usize > room {
            return Err(format!(
                "packet claims {caplen} captured bytes in a block with room for {room}"
            ));
        }
        let interface = self.interface(number)?;
        Ok(Some(Found {
            time_ns: interface.clock.time_ns(ticks),
            link_type: interface.link_type,
            interface: number,
            orig_len,
            at: HEADER,
            len: caplen as usize,
            record_len: bytes.len(),
            offset: 0,
        }))
    }

    fn simple_packet(&self, bytes: &[u8]) -> Result<Option<Found>, String> {
        const HEADER: usize = 12;
        if bytes.len() < HEADER + 4 {
            return Err(format!("simple packet block of {} bytes", bytes.len()));
        }
        let orig_len = word(bytes, 8, self.is_big_endian);
        // Section 4.4: of interface 0, cut at its snapshot length (0: unlimited), padded to 32 bits.
        let interface = self.interface(0)?;
        let snaplen = if interface.snaplen == 0 {
            u32::MAX
        } else {
            interface.snaplen
        };
        let room = bytes.len() - HEADER - 4;
        Ok(Some(Found {
            time_ns: self.last_time_ns,
            link_type: interface.link_type,
            interface: 0,
            orig_len,
            at: HEADER,
            len: (orig_len.min(snaplen) as usize).min(room),
            record_len: bytes.len(),
            offset: 0,
        }))
    }
}

struct Block {
    kind: u32,
    at: usize,
    len: usize,
    offset: u64,
}

impl Clock {
    /// Differs: pcap-parser reads if_tsoffset as little-endian always and knows no powers of two in if_tsresol.
    fn of(block: &InterfaceDescriptionBlock<'_>, is_big_endian: bool) -> Result<Self, String> {
        let mut resolution = 6;
        let mut offset_s = 0;
        for option in &block.options {
            let value = option.as_bytes().unwrap_or_default();
            match option.code {
                OptionCode::IfTsresol if !value.is_empty() => resolution = value[0],
                OptionCode::IfTsoffset => {
                    if let Ok(bytes) = <[u8; 8]>::try_from(value) {
                        offset_s = if is_big_endian {
                            i64::from_be_bytes(bytes)
                        } else {
                            i64::from_le_bytes(bytes)
                        };
                    }
                }
                _ => (),
            }
        }
        let exponent = u32::from(resolution & 0x7f);
        let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
        let ticks_per_second = base
            .checked_pow(exponent)
            .filter(|ticks| *ticks <= u128::from(u64::MAX))
            .ok_or_else(|| format!("interface with time resolution {base}^-{exponent}"))?;
        let tick_ns = (1_000_000_000 % ticks_per_second == 0)
            .then(|| (1_000_000_000 / ticks_per_second) as u64);
        Ok(Self {
            ticks_per_second,
            tick_ns,
            offset_ns: offset_s.saturating_mul(1_000_000_000),
        })
    }

    #[inline]
    fn time_ns(self, ticks: u64) -> i64 {
        let whole = self.tick_ns.and_then(|tick_ns| ticks.checked_mul(tick_ns));
        let elapsed = match whole {
            Some(elapsed) => u128::from(elapsed),
            None => u128::from(ticks) * 1_000_000_000 / self.ticks_per_second,
        };
        i64::try_from(elapsed)
            .unwrap_or(i64::MAX)
            .saturating_add(self.offset_ns)
            .clamp(EARLIEST_NS, LATEST_NS)
    }
}

/// pcap-parser stops at an option that does not fit and says nothing; such a block is damaged.
fn check_options(block: &[u8], fixed: usize, is_big_endian: bool) -> Result<(), String> {
    let mut rest = &block[fixed..block.len() - 4];
    while let Some(head) = rest.first_chunk::<4>() {
        let head = word(head, 0, is_big_endian);
        let (code, len) = if is_big_endian {
            (head >> 16, head & 0xffff)
        } else {
            (head & 0xffff, head >> 16)
        };
        if code == 0 {
            break;
        }
        let padded = 4 + (len as usize).next_multiple_of(4);
        rest = rest
            .get(padded..)
            .ok_or_else(|| format!("option {code} claims {len} bytes, {} left", rest.len() - 4))?;
    }
    Ok(())
}

fn header_error(buffer: &Buffer, stop: Truncated) -> CaptureError {
    CaptureError::Header {
        file: buffer.file().to_owned(),
        offset: stop.offset,
        layer: "pcapng section header",
        reason: stop.reason,
    }
}
