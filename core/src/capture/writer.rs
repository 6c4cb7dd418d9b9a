//! Records to a classic pcap or pcapng file.

use std::io::{self, Write};

use super::pcap::{MAGIC_MICROS, MAGIC_NANOS};
use super::pcapng::{BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION, SECTION_HEADER};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    PcapMicros,
    PcapNanos,
    /// One section, one interface, nanoseconds.
    Pcapng,
}

/// How a capture file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub format: FileFormat,
    /// LINKTYPE_ number.
    pub link_type: u16,
    /// Records are cut to this many bytes.
    pub snaplen: u32,
    pub is_big_endian: bool,
}

impl Layout {
    /// Little-endian, with tcpdump's snapshot length.
    pub fn new(format: FileFormat, link_type: u16) -> Self {
        Self {
            format,
            link_type,
            snaplen: 262_144,
            is_big_endian: false,
        }
    }
}

/// Writes records in the order in which they come. Give it a buffered sink.
pub struct Writer<W: Write> {
    sink: W,
    layout: Layout,
}

impl<W: Write> Writer<W> {
    /// Writes the file header.
    pub fn new(sink: W, layout: Layout) -> io::Result<Self> {
        let mut writer = Self { sink, layout };
        match layout.format {
            FileFormat::PcapMicros => writer.pcap_header(MAGIC_MICROS)?,
            FileFormat::PcapNanos => writer.pcap_header(MAGIC_NANOS)?,
            FileFormat::Pcapng => writer.pcapng_header()?,
        }
        Ok(writer)
    }

    /// Writes one packet of which `data` is the beginning; `InvalidInput` for a time the format cannot hold.
    pub fn write(&mut self, time_ns: i64, orig_len: u32, data: &[u8]) -> io::Result<()> {
        let data = &data[..data.len().min(self.layout.snaplen as usize)];
        let caplen = data.len() as u32;
        let no_time = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("time {time_ns} ns does not fit"),
            )
        };
        let nanos = u64::try_from(time_ns).map_err(|_| no_time())?;
        let fraction_ns = match self.layout.format {
            FileFormat::PcapMicros => 1000,
            FileFormat::PcapNanos => 1,
            FileFormat::Pcapng => {
                let padding = data.len().next_multiple_of(4) - data.len();
                let len = 32 + caplen + padding as u32;
                let head = [
                    ENHANCED_PACKET,
                    len,
                    0,
                    (nanos >> 32) as u32,
                    nanos as u32,
                    caplen,
                    orig_len,
                ];
                self.words(&head)?;
                self.sink.write_all(data)?;
                self.sink.write_all(&[0; 3][..padding])?;
                return self.words(&[len]);
            }
        };
        let seconds = u32::try_from(nanos / 1_000_000_000).map_err(|_| no_time())?;
        let fraction = (nanos % 1_000_000_000) as u32 / fraction_ns;
        self.words(&[seconds, fraction, caplen, orig_len])?;
        self.sink.write_all(data)
    }

    /// Flushes, and gives the sink back.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn pcap_header(&mut self, magic: u32) -> io::Result<()> {
        let version = self.halves(2, 4);
        self.words(&[
            magic,
            version,
            0,
            0,
            self.layout.snaplen,
            u32::from(self.layout.link_type),
        ])
    }

    fn pcapng_header(&mut self) -> io::Result<()> {
        const UNKNOWN_LENGTH: u32 = u32::MAX;
        let version = self.halves(1, 0);
        self.words(&[
            SECTION_HEADER,
            28,
            BYTE_ORDER_MAGIC,
            version,
            UNKNOWN_LENGTH,
            UNKNOWN_LENGTH,
            28,
        ])?;
        // if_tsresol 10^-9, then the end of options.
        let link_type = self.halves(self.layout.link_type, 0);
        let option = self.halves(9, 1);
        self.words(&[
            INTERFACE_DESCRIPTION,
            32,
            link_type,
            self.layout.snaplen,
            option,
        ])?;
        self.sink.write_all(&[9, 0, 0, 0])?;
        self.words(&[0, 32])
    }

    /// Two 16-bit fields as the word that holds them in file order.
    fn halves(&self, first: u16, second: u16) -> u32 {
        if self.layout.is_big_endian {
            u32::from(first) << 16 | u32::from(second)
        } else {
            u32::from(second) << 16 | u32::from(first)
        }
    }

    fn words(&mut self, words: &[u32]) -> io::Result<()> {
        for word in words {
            let bytes = if self.layout.is_big_endian {
                word.to_be_bytes()
            } else {
                word.to_le_bytes()
            };
            self.sink.write_all(&bytes)?;
        }
        Ok(())
    }
}
