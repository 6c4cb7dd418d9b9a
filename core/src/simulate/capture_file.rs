//! What a tap saw as a capture file: real Ethernet, IP and TCP headers with right checksums.

use std::io::{self, Write};

use crate::capture::{FileFormat, Layout, Writer};
use crate::wire::{ETHERNET, Segment, encode};

const ETHERNET_HEADER: u32 = 14;

/// How much of each packet the capture keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub snaplen: u32,
    /// The application's bytes (zeros: the simulator sends lengths, not contents) or only the headers before them.
    pub has_payload: bool,
}

/// A capture file that grows segment by segment, in order of time. Give it a buffered sink.
pub struct CaptureFile<W: Write> {
    writer: Writer<W>,
    kept: Kept,
    frame: Vec<u8>,
}

impl<W: Write> CaptureFile<W> {
    /// Writes the file header.
    pub fn new(sink: W, format: FileFormat, kept: Kept) -> io::Result<Self> {
        let layout = Layout {
            snaplen: kept.snaplen,
            ..Layout::new(format, ETHERNET)
        };
        Ok(Self {
            writer: Writer::new(sink, layout)?,
            kept,
            frame: Vec::new(),
        })
    }

    pub fn write(&mut self, time_ns: i64, segment: &Segment) -> io::Result<()> {
        let headers = ETHERNET_HEADER + segment.ip_len - segment.payload_len;
        let snaplen = if self.kept.has_payload {
            self.kept.snaplen
        } else {
            self.kept.snaplen.min(headers)
        };
        let orig_len = encode(segment, &[], ETHERNET, snaplen, &mut self.frame)
            .expect("a simulated segment has addresses of one family and options that fit");
        self.writer.write(time_ns, orig_len, &self.frame)
    }

    /// Flushes, and gives the sink back.
    pub fn finish(self) -> io::Result<W> {
        self.writer.finish()
    }
}

/// Writes segments in the order in which they come, which is that of time.
pub fn write_capture<W: Write>(
    sink: W,
    format: FileFormat,
    kept: Kept,
    segments: impl Iterator<Item = (i64, Segment)>,
) -> io::Result<W> {
    let mut file = CaptureFile::new(sink, format, kept)?;
    for (time_ns, segment) in segments {
        file.write(time_ns, &segment)?;
    }
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Reader;
    use crate::simulate::packet_counting;
    use crate::simulate::taps::Ends;
    use crate::wire::{Checked, Decoder};

    fn segments() -> Vec<(i64, Segment)> {
        let ends = Ends::of(0, false, false);
        let data = |number| packet_counting::data(&ends, number, 7, 512);
        let ack = packet_counting::ack(&ends, 0, 8, 512, &[(2, 3)]);
        vec![(0, data(0)), (10, data(1)), (1_000_000_007, ack)]
    }

    /// The captured length of each record, and what it decodes to.
    fn reread(format: FileFormat, kept: Kept) -> Vec<(i64, usize, Segment)> {
        let file = write_capture(Vec::new(), format, kept, segments().into_iter()).unwrap();
        let mut reader = Reader::new(io::Cursor::new(file), "memory").unwrap();
        let mut rows = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            let segment = Decoder::new()
                .decode(record.link_type, record.data, record.orig_len)
                .unwrap();
            assert!(!segment.checked.is_wrong());
            let segment = Segment {
                checked: Checked::Unknown,
                ..segment
            };
            rows.push((record.time_ns, record.data.len(), segment));
        }
        rows
    }

    #[test]
    fn what_was_seen_is_read_back_whole_in_each_format() {
        for format in [FileFormat::PcapNanos, FileFormat::Pcapng] {
            let rows = reread(
                format,
                Kept {
                    snaplen: 65535,
                    has_payload: true,
                },
            );
            assert_eq!(
                rows.iter().map(|row| (row.0, row.2)).collect::<Vec<_>>(),
                segments()
            );
            // 14 + 512; the ACK: 14 + 20 + 20 + 12.
            assert_eq!(
                rows.iter().map(|row| row.1).collect::<Vec<_>>(),
                [526, 526, 66]
            );
        }
    }

    #[test]
    fn without_payload_the_headers_are_kept_and_the_lengths_said() {
        let rows = reread(
            FileFormat::Pcapng,
            Kept {
                snaplen: 65535,
                has_payload: false,
            },
        );
        assert_eq!(
            rows.iter().map(|row| row.1).collect::<Vec<_>>(),
            [54, 54, 66]
        );
        assert_eq!(rows[1].2.payload_len, 472);
    }

    #[test]
    fn a_snaplen_cuts_headers_too() {
        let rows = reread(
            FileFormat::PcapNanos,
            Kept {
                snaplen: 60,
                has_payload: false,
            },
        );
        assert_eq!(
            rows.iter().map(|row| row.1).collect::<Vec<_>>(),
            [54, 54, 60]
        );
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let mut full = [0_u8; 100];
        let kept = Kept {
            snaplen: 65535,
            has_payload: true,
        };
        assert!(
            write_capture(
                &mut full[..],
                FileFormat::PcapNanos,
                kept,
                segments().into_iter()
            )
            .is_err()
        );
    }
}
