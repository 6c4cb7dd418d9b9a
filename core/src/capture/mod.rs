//! Captures: bytes to records and back (pcap, pcapng; gzip and zstd seen through).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

mod error;
mod pcap;
mod pcapng;
mod source;
#[cfg(test)]
mod tests;
mod writer;

pub use error::{CaptureError, Truncated};
use source::Buffer;
pub use writer::{FileFormat, Layout, Writer};

/// One captured packet; borrows the reader's buffer until the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Nanoseconds since the epoch (UTC). A pcapng simple packet carries no time: it gets that of the record before it.
    pub time_ns: i64,
    /// LINKTYPE_ number of its interface.
    pub link_type: u16,
    /// Interface number within its section; 0 in classic pcap.
    pub interface: u32,
    /// Bytes on the wire; `data` holds as many of them as the snapshot length let through.
    pub orig_len: u32,
    pub data: &'a [u8],
    /// Byte of the (decompressed) stream at which the record begins.
    pub offset: u64,
}

/// What a format parser found: a record, described without borrowing the buffer.
struct Found {
    time_ns: i64,
    link_type: u16,
    interface: u32,
    orig_len: u32,
    /// Place and length in the buffer, as `Buffer::at` takes them.
    at: usize,
    len: usize,
    /// Bytes that the whole record takes in the file, headers and padding included.
    record_len: usize,
    offset: u64,
}

impl Found {
    #[inline]
    fn record<'a>(&self, data: &'a [u8], offset: u64) -> Record<'a> {
        Record {
            time_ns: self.time_ns,
            link_type: self.link_type,
            interface: self.interface,
            orig_len: self.orig_len,
            data,
            offset,
        }
    }
}

enum Step {
    Record(Found),
    End,
    /// The rest cannot be read as records.
    Stop(Truncated),
}

enum Format {
    Pcap(pcap::Parser),
    Pcapng(pcapng::Parser),
}

/// Streams the records of one capture in constant memory.
pub struct Reader {
    buffer: Buffer,
    format: Format,
    is_done: bool,
    truncated: Option<Truncated>,
}

/// Opens a capture by path; `-` is standard input.
pub fn open(path: impl AsRef<Path>) -> Result<Reader, CaptureError> {
    let path = path.as_ref();
    if path.as_os_str() == "-" {
        return Reader::new(io::stdin(), "standard input");
    }
    open_as(path, &path.display().to_string())
}

/// Opens a capture by path; `name` stands for it in errors.
pub fn open_as(path: impl AsRef<Path>, name: &str) -> Result<Reader, CaptureError> {
    match File::open(path) {
        Ok(file) => Reader::new(file, name),
        Err(source) => Err(CaptureError::Io {
            file: name.to_owned(),
            source,
        }),
    }
}

impl Reader {
    /// Reads a capture from any source; `name` stands for it in errors.
    pub fn new(source: impl Read + Send + 'static, name: &str) -> Result<Self, CaptureError> {
        let mut buffer = Buffer::new(Box::new(source), name)?;
        buffer.require(4)?;
        let format = match buffer.available() {
            start if pcapng::is_magic(start) => Format::Pcapng(pcapng::Parser::new(&mut buffer)?),
            start if pcap::is_magic(start) => Format::Pcap(pcap::Parser::new(&mut buffer)?),
            _ => return Err(not_a_capture(&mut buffer)?),
        };
        Ok(Self {
            buffer,
            format,
            is_done: false,
            truncated: None,
        })
    }

    /// The next record, or `None` at the end; then `truncated` says whether the end came too early.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        let bytes = self.buffer.available();
        let ready = match &mut self.format {
            Format::Pcap(parser) => parser.whole(bytes),
            Format::Pcapng(parser) => parser.whole(bytes),
        };
        let found = match ready {
            Some(mut found) => {
                found.offset = self.buffer.offset();
                found.at += self.buffer.consume(found.record_len);
                found
            }
            None => match self.find()? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let data = self.buffer.at(found.at, found.len);
        Ok(Some(found.record(data, found.offset)))
    }

    /// Gives every record that is buffered, a few thousand, to `each`; false at the end.
    ///
    /// The same records as from `next_record` in half the time: the place in the buffer stays in a register.
    #[inline]
    pub fn next_records(
        &mut self,
        mut each: impl FnMut(&Record<'_>),
    ) -> Result<bool, CaptureError> {
        self.ready_records(&mut each);
        // The next one is not all there, or unusual, or there is none: the careful way moves on, or says why not.
        match self.next_record()? {
            Some(record) => each(&record),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Gives every record that is all there to `each`, and waits for none.
    pub fn ready_records(&mut self, mut each: impl FnMut(&Record<'_>)) {
        let (bytes, base) = (self.buffer.available(), self.buffer.offset());
        let passed = match &mut self.format {
            Format::Pcap(parser) => pass(bytes, base, |rest| parser.whole(rest), &mut each),
            Format::Pcapng(parser) => pass(bytes, base, |rest| parser.whole(rest), &mut each),
        };
        self.buffer.consume(passed);
    }

    fn find(&mut self) -> Result<Option<Found>, CaptureError> {
        if self.is_done {
            return Ok(None);
        }
        let step = match &mut self.format {
            Format::Pcap(parser) => parser.next(&mut self.buffer)?,
            Format::Pcapng(parser) => parser.next(&mut self.buffer)?,
        };
        if let Step::Record(found) = step {
            return Ok(Some(found));
        }
        self.is_done = true;
        if let Step::Stop(truncated) = step {
            self.truncated = Some(truncated);
        }
        Ok(None)
    }

    /// Set once the end was reached and the capture is cut or damaged there.
    pub fn truncated(&self) -> Option<&Truncated> {
        self.truncated.as_ref()
    }

    /// Bytes read from the source so far, compressed as they are: for a progress bar against the file's size.
    pub fn source_position(&self) -> u64 {
        self.buffer.source_position()
    }

    /// Name of the source, as errors give it.
    pub fn name(&self) -> &str {
        self.buffer.file()
    }
}

/// Gives the records at the start of `bytes` to `each`, as long as `whole` finds them; how many bytes they took.
#[inline(always)]
fn pass(
    bytes: &[u8],
    base: u64,
    mut whole: impl FnMut(&[u8]) -> Option<Found>,
    each: &mut impl FnMut(&Record<'_>),
) -> usize {
    let mut at = 0;
    while let Some(found) = whole(&bytes[at..]) {
        let data = &bytes[at + found.at..at + found.at + found.len];
        each(&found.record(data, base + at as u64));
        at += found.record_len;
    }
    at
}

/// The end of the stream where `wanted` bytes of something were due: clean when nothing at all is left.
fn end_of_stream(buffer: &Buffer, wanted: usize, what: &str) -> Step {
    let found = buffer.available().len();
    if found == 0 && buffer.damage().is_none() {
        return Step::End;
    }
    Step::Stop(Truncated {
        offset: buffer.offset(),
        reason: match buffer.damage() {
            Some(damage) => damage.to_owned(),
            None => format!("{what} of {wanted} bytes, {found} left"),
        },
    })
}

/// What a file is that begins with none of our magic numbers, in words that help.
fn not_a_capture(buffer: &mut Buffer) -> Result<CaptureError, CaptureError> {
    const KNOWN: [(&[u8], &str); 8] = [
        (
            b"snoop\0\0\0",
            "a Solaris snoop file (editcap -F pcap converts it)",
        ),
        (
            b"GMBU",
            "a Microsoft Network Monitor file (editcap -F pcap converts it)",
        ),
        (b"\xfd7zXZ\0", "xz-compressed (unpack it first)"),
        (b"BZh", "bzip2-compressed (unpack it first)"),
        (b"\x04\x22\x4d\x18", "lz4-compressed (unpack it first)"),
        (b"PK\x03\x04", "a zip archive (unpack it first)"),
        (b"PAR1", "a Parquet file"),
        (b"\x7fELF", "a program"),
    ];
    buffer.require(32)?;
    let start = &buffer.available()[..buffer.available().len().min(32)];
    let reason = if let Some(damage) = buffer.damage() {
        damage.to_owned()
    } else if start.is_empty() {
        "empty".to_owned()
    } else if let Some((_, name)) = KNOWN.iter().find(|(magic, _)| start.starts_with(magic)) {
        format!("not pcap or pcapng but {name}")
    } else if start
        .iter()
        .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
    {
        format!(
            "not pcap or pcapng: begins with the text {:?}",
            String::from_utf8_lossy(&start[..start.len().min(16)])
        )
    } else if start.len() < 4 {
        format!("magic number of 4 bytes wanted, {} found", start.len())
    } else {
        format!(
            "not pcap or pcapng: begins with {:02x}{:02x}{:02x}{:02x}",
            start[0], start[1], start[2], start[3]
        )
    };
    Ok(CaptureError::Header {
        file: buffer.file().to_owned(),
        offset: 0,
        layer: "capture file",
        reason,
    })
}
