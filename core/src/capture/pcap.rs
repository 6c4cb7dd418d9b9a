//! Classic pcap (draft-ietf-opsawg-pcap), with the older and patched variants found in the wild.

use super::source::{Buffer, word};
use super::{CaptureError, Found, Step, Truncated, end_of_stream};

/// Seconds and microseconds.
pub const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
/// Seconds and nanoseconds.
pub const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// Kuznetzov's modified format: eight more bytes in each record header.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

const FILE_HEADER: usize = 24;
/// Times and lengths of a record; the modified format has more behind them.
const COMMON_HEADER: usize = 16;
/// libpcap's MAXIMUM_SNAPLEN; a file whose own snapshot length is larger may fill that.
const MAX_SNAPLEN: u32 = 256 << 10;
/// The largest snapshot length that is believed.
const MAX_BELIEVED: u32 = 16 << 20;

/// How versions before 2.4 ordered the two lengths of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lengths {
    InOrder,
    /// Version 2.3 was written both ways: swapped where it would make sense.
    PerhapsSwapped,
    Swapped,
}

pub struct Parser {
    is_big_endian: bool,
    record_header: usize,
    fraction_ns: u32,
    lengths: Lengths,
    link_type: u16,
    max_caplen: u32,
}

fn magic(start: &[u8]) -> Option<(u32, bool)> {
    let start = *start.first_chunk::<4>()?;
    let known = |magic| matches!(magic, MAGIC_MICROS | MAGIC_NANOS | MAGIC_MODIFIED);
    let little = u32::from_le_bytes(start);
    let big = u32::from_be_bytes(start);
    (known(little).then_some((little, false))).or(known(big).then_some((big, true)))
}

pub fn is_magic(start: &[u8]) -> bool {
    magic(start).is_some()
}

impl Parser {
    /// Reads the file header.
    pub fn new(buffer: &mut Buffer) -> Result<Self, CaptureError> {
        let file = buffer.file().to_owned();
        let error = |offset, reason| CaptureError::Header {
            file,
            offset,
            layer: "pcap file header",
            reason,
        };
        if !buffer.require(FILE_HEADER)? {
            let found = buffer.available().len();
            return Err(error(
                0,
                format!("{FILE_HEADER} bytes wanted, {found} found"),
            ));
        }
        let header = buffer.available();
        let (magic, is_big_endian) = magic(header).expect("the caller has seen the magic number");
        let half = |at: usize| {
            let bytes = [header[at], header[at + 1]];
            if is_big_endian {
                u16::from_be_bytes(bytes)
            } else {
                u16::from_le_bytes(bytes)
            }
        };
        let (major, minor) = (half(4), half(6));
        // As in libpcap: below 2.3 always swapped, 2.3 sometimes, 543.0 (DG/UX tcpdump) always.
        let lengths = match (major, minor) {
            (2, 0..=2) | (543, 0) => Lengths::Swapped,
            (2, 3) => Lengths::PerhapsSwapped,
            (2, 4) => Lengths::InOrder,
            _ => {
                return Err(error(
                    4,
                    format!("version {major}.{minor}, known are 2.0 to 2.4"),
                ));
            }
        };
        let snaplen = word(header, 16, is_big_endian);
        let parser = Self {
            is_big_endian,
            record_header: if magic == MAGIC_MODIFIED {
                24
            } else {
                COMMON_HEADER
            },
            fraction_ns: if magic == MAGIC_NANOS { 1 } else { 1000 },
            lengths,
            // The upper bits tell the length of the frame check sequence, which no IP length counts.
            link_type: (word(header, 20, is_big_endian) & 0xffff) as u16,
            max_caplen: snaplen.clamp(MAX_SNAPLEN, MAX_BELIEVED),
        };
        buffer.consume(FILE_HEADER);
        Ok(parser)
    }

    /// The record at the start of `bytes`, if all of it is there and possible; `at` counts from there.
    #[inline(always)]
    pub fn whole(&self, bytes: &[u8]) -> Option<Found> {
        // What every variant's header begins with: of a known length, its words need no check each.
        let header = bytes.first_chunk::<COMMON_HEADER>()?;
        let (caplen, orig_len) = self.lengths(header);
        let end = self.record_header + caplen as usize;
        if caplen > self.max_caplen || end > bytes.len() {
            return None;
        }
        let seconds = word(header, 0, self.is_big_endian);
        let fraction = word(header, 4, self.is_big_endian);
        Some(Found {
            time_ns: i64::from(seconds) * 1_000_000_000
                + i64::from(fraction) * i64::from(self.fraction_ns),
            link_type: self.link_type,
            interface: 0,
            orig_len,
            at: self.record_header,
            len: caplen as usize,
            record_len: end,
            offset: 0,
        })
    }

    pub fn next(&mut self, buffer: &mut Buffer) -> Result<Step, CaptureError> {
        if !buffer.require(self.record_header)? {
            return Ok(end_of_stream(buffer, self.record_header, "record header"));
        }
        let offset = buffer.offset();
        let header = buffer.available().first_chunk();
        let (caplen, _) = self.lengths(header.expect("a record header is there"));
        if caplen > self.max_caplen {
            let reason = format!(
                "record claims {caplen} captured bytes, more than the {} allowed",
                self.max_caplen
            );
            return Ok(Step::Stop(Truncated { offset, reason }));
        }
        let len = self.record_header + caplen as usize;
        if !buffer.require(len)? {
            return Ok(end_of_stream(buffer, len, "record"));
        }
        let mut found = self.whole(buffer.available()).expect("all of it is there");
        found.at += buffer.consume(len);
        found.offset = offset;
        Ok(Step::Record(found))
    }

    /// Bytes captured and bytes on the wire.
    #[inline(always)]
    fn lengths(&self, header: &[u8; COMMON_HEADER]) -> (u32, u32) {
        let first = word(header, 8, self.is_big_endian);
        let second = word(header, 12, self.is_big_endian);
        let is_swapped = match self.lengths {
            Lengths::InOrder => false,
            Lengths::PerhapsSwapped => first > second,
            Lengths::Swapped => true,
        };
        if is_swapped {
            (second, first)
        } else {
            (first, second)
        }
    }
}
