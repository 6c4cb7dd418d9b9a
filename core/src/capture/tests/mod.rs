mod compressed;

use std::io::{Cursor, Write};

use proptest::prelude::*;

use super::*;

type Owned = (i64, u32, Vec<u8>);

fn read_all(bytes: &[u8]) -> (Vec<Owned>, Option<Truncated>) {
    let mut reader = Reader::new(Cursor::new(bytes.to_vec()), "test").unwrap();
    let mut records = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        records.push((record.time_ns, record.orig_len, record.data.to_vec()));
    }
    (records, reader.truncated().cloned())
}

fn read_at_once(source: impl Read + Send + 'static) -> Vec<Owned> {
    let mut reader = Reader::new(source, "test").unwrap();
    let mut records = Vec::new();
    while reader
        .next_records(|record| {
            records.push((record.time_ns, record.orig_len, record.data.to_vec()))
        })
        .unwrap()
    {}
    records
}

fn open_error(bytes: &[u8]) -> String {
    match Reader::new(Cursor::new(bytes.to_vec()), "test") {
        Ok(_) => panic!("was read"),
        Err(error) => error.to_string(),
    }
}

fn written(layout: Layout, records: &[Owned]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), layout).unwrap();
    for (time_ns, orig_len, data) in records {
        writer.write(*time_ns, *orig_len, data).unwrap();
    }
    writer.finish().unwrap()
}

/// A classic header with this version; three words per record follow.
fn classic(magic: u32, version: (u16, u16)) -> Vec<u8> {
    let mut file = magic.to_le_bytes().to_vec();
    file.extend_from_slice(&version.0.to_le_bytes());
    file.extend_from_slice(&version.1.to_le_bytes());
    for word in [0u32, 0, 100, 1] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = 12 + body.len() as u32;
    [&words(&[kind, len]), body, &words(&[len])].concat()
}

fn section() -> Vec<u8> {
    block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]))
}

fn interface(options: &[u8]) -> Vec<u8> {
    block(1, &[&words(&[1, 0]), options].concat())
}

fn enhanced(interface: u32, ticks: u64) -> Vec<u8> {
    block(
        6,
        &words(&[
            interface,
            (ticks >> 32) as u32,
            ticks as u32,
            4,
            60,
            0x0403_0201,
        ]),
    )
}

const SECOND: i64 = 1_000_000_000;

#[test]
fn lengths_swapped_before_version_2_4() {
    let data = [7u8; 60];
    for (version, first, second) in [
        ((2, 4), 60, 90),
        ((2, 2), 90, 60),
        ((2, 3), 90, 60),
        ((2, 3), 60, 90),
    ] {
        let mut file = classic(0xa1b2_c3d4, version);
        file.extend_from_slice(&words(&[1, 2, first, second]));
        file.extend_from_slice(&data);
        let (records, truncated) = read_all(&file);
        assert_eq!(
            records,
            vec![(SECOND + 2000, 90, data.to_vec())],
            "{version:?}"
        );
        assert_eq!(truncated, None);
    }
}

#[test]
fn modified_pcap_has_longer_record_headers() {
    let mut file = classic(0xa1b2_cd34, (2, 4));
    for _ in 0..2 {
        file.extend_from_slice(&words(&[1, 2, 3, 3, 5, 6]));
        file.extend_from_slice(b"abc");
    }
    assert_eq!(
        read_all(&file).0,
        vec![(SECOND + 2000, 3, b"abc".to_vec()); 2]
    );
}

#[test]
fn frame_check_sequence_bits_are_no_link_type() {
    let mut file = classic(0xa1b2_c3d4, (2, 4));
    file[20..24].copy_from_slice(&0x5400_0001u32.to_le_bytes());
    file.extend_from_slice(&words(&[0, 0, 0, 0]));
    let mut reader = Reader::new(Cursor::new(file), "test").unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().link_type, 1);
}

#[test]
fn interfaces_have_their_own_clocks() {
    // if_tsresol: 10^-9, 2^-10, 10^-12; if_tsoffset of one hour; default microseconds.
    let file = [
        section(),
        interface(&words(&[1 << 16 | 9, 9, 0])),
        interface(&words(&[1 << 16 | 9, 0x8a, 0])),
        interface(&words(&[1 << 16 | 9, 12, 0])),
        interface(&words(&[8 << 16 | 14, 3600, 0, 0])),
        enhanced(0, 5),
        enhanced(1, 512),
        enhanced(2, 7_000),
        enhanced(3, 1),
    ]
    .concat();
    let times: Vec<i64> = read_all(&file).0.iter().map(|record| record.0).collect();
    assert_eq!(times, [5, SECOND / 2, 7, 3600 * SECOND + 1000]);
}

#[test]
fn each_packet_block_is_read_and_others_are_skipped() {
    let obsolete = block(2, &words(&[0x0009_0000, 0, 3, 4, 60, 0x0403_0201]));
    let simple = block(3, &words(&[60, 0x0403_0201]));
    let file = [
        section(),
        block(4, &words(&[0, 0])),
        interface(&[]),
        block(5, &words(&[0, 0, 0])),
        enhanced(0, 2),
        simple,
        block(0xbad, &[0; 40]),
        obsolete,
    ]
    .concat();
    let data = vec![1, 2, 3, 4];
    let (records, truncated) = read_all(&file);
    // A simple packet carries no time: it gets the last one.
    assert_eq!(
        records,
        vec![
            (2000, 60, data.clone()),
            (2000, 60, data.clone()),
            (3000, 60, data)
        ]
    );
    assert_eq!(truncated, None);
}

#[test]
fn sections_may_change_byte_order_and_forget_interfaces() {
    let big = Layout {
        is_big_endian: true,
        ..Layout::new(FileFormat::Pcapng, 101)
    };
    let record = (5, 3, b"abc".to_vec());
    let first = written(
        Layout::new(FileFormat::Pcapng, 1),
        std::slice::from_ref(&record),
    );
    let second = written(big, std::slice::from_ref(&record));
    assert_eq!(
        read_all(&[first, second].concat()).0,
        vec![record.clone(), record]
    );
    let orphan = [section(), interface(&[]), section(), enhanced(0, 1)].concat();
    let (records, truncated) = read_all(&orphan);
    assert!(records.is_empty());
    assert!(truncated.unwrap().reason.contains("interface 0"));
}

#[test]
fn cut_file_gives_what_was_readable_and_where_it_ends() {
    let record = (5_000, 3, b"abc".to_vec());
    for format in [
        FileFormat::PcapMicros,
        FileFormat::PcapNanos,
        FileFormat::Pcapng,
    ] {
        let empty = written(Layout::new(format, 1), &[]).len();
        let one = written(Layout::new(format, 1), std::slice::from_ref(&record)).len();
        let two = written(Layout::new(format, 1), &[record.clone(), record.clone()]);
        for cut in empty..two.len() {
            let (records, truncated) = read_all(&two[..cut]);
            let whole = usize::from(cut >= one);
            assert_eq!(records.len(), whole, "{format:?} cut at {cut}");
            let expected = [empty, one][whole];
            match truncated {
                None => assert_eq!(cut, expected, "{format:?}"),
                Some(truncated) => {
                    assert_eq!(truncated.offset, expected as u64, "{format:?} cut at {cut}")
                }
            }
        }
        for cut in 0..empty.min(24) {
            let error = open_error(&two[..cut]);
            assert!(error.starts_with("test: at byte 0: "), "{error}");
        }
    }
}

#[test]
fn absurd_lengths_end_the_capture_without_memory() {
    let mut file = classic(0xa1b2_c3d4, (2, 4));
    file.extend_from_slice(&words(&[0, 0, 0x7fff_ffff, 60]));
    let (records, truncated) = read_all(&file);
    assert!(records.is_empty());
    assert!(
        truncated
            .unwrap()
            .reason
            .contains("2147483647 captured bytes")
    );
    let file = [section(), words(&[6, 0x7fff_fffc, 0])].concat();
    let (_, truncated) = read_all(&file);
    assert!(
        truncated
            .unwrap()
            .reason
            .contains("claims 2147483644 bytes")
    );
    let file = [
        section(),
        interface(&[]),
        block(6, &words(&[0, 0, 0, 500, 500, 1])),
    ]
    .concat();
    assert!(read_all(&file).1.unwrap().reason.contains("room for 4"));
}

#[test]
fn foreign_files_are_named() {
    for (bytes, words) in [
        (&b""[..], "empty"),
        (b"ab", "begins with the text \"ab\""),
        (b"snoop\0\0\0\0\0\0\x02", "Solaris snoop"),
        (
            b"<!DOCTYPE html><html>",
            "begins with the text \"<!DOCTYPE html><\"",
        ),
        (b"\xfd7zXZ\0\0", "xz-compressed"),
        (b"\x01\x02\x03\x04\x05", "begins with 01020304"),
        (b"\xd4\xc3\xb2\xa1", "24 bytes wanted, 4 found"),
    ] {
        let error = open_error(bytes);
        assert!(error.contains(words), "{error}");
    }
    assert!(
        open_error(&classic(0xa1b2_c3d4, (1, 4)))
            .contains("at byte 4: pcap file header: version 1.4")
    );
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A byte at a time: no record is ever found whole in the buffer by chance.
struct Dribble(Cursor<Vec<u8>>);

impl Read for Dribble {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let one = bytes.len().min(1);
        self.0.read(&mut bytes[..one])
    }
}

proptest! {
    #[test]
    fn written_records_are_read_back(
        records in proptest::collection::vec(
            (0..4_000_000_000i64, 0..1000i64, any::<u32>(), proptest::collection::vec(any::<u8>(), 0..300)), 0..20),
        format in prop_oneof![Just(FileFormat::PcapMicros), Just(FileFormat::PcapNanos), Just(FileFormat::Pcapng)],
        is_big_endian: bool, link_type: u16, snaplen in 1..400u32,
    ) {
        let records: Vec<Owned> = records
            .into_iter()
            .map(|(seconds, nanos, orig_len, data)| (seconds * SECOND + nanos * 1_000, orig_len, data))
            .collect();
        let layout = Layout { format, link_type, snaplen, is_big_endian };
        let written = written(layout, &records);
        let (read, truncated) = read_all(&written);
        let expected: Vec<Owned> = records
            .into_iter()
            .map(|(time, orig_len, data)| (time, orig_len, data[..data.len().min(snaplen as usize)].to_vec()))
            .collect();
        prop_assert_eq!(&read, &expected);
        prop_assert_eq!(read_at_once(Cursor::new(written.clone())), expected.clone());
        prop_assert_eq!(read_at_once(Dribble(Cursor::new(written))), expected);
        prop_assert_eq!(truncated, None);
    }

    #[test]
    fn no_bytes_make_reading_panic(start in 0..4usize, rest in proptest::collection::vec(any::<u8>(), 0..300)) {
        let starts = [vec![], classic(0xa1b2_c3d4, (2, 4)), section(), [section(), interface(&[])].concat()];
        let bytes = [&starts[start][..], &rest].concat();
        if let Ok(mut reader) = Reader::new(Cursor::new(bytes), "test") {
            while let Ok(Some(_)) = reader.next_record() {}
        }
    }
}
