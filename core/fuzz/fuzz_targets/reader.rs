//! Any bytes as a capture file: an end, or one error; each record inside the file, both ways of reading the same.
#![no_main]

use std::io::{self, Cursor, Read};

use libfuzzer_sys::fuzz_target;
use tcptrace_core::capture::Reader;

type Owned = (i64, u16, u32, u32, u64, Vec<u8>);

/// A source that gives a byte at a time: no record is ever found whole in the buffer by chance.
struct Dribble(Cursor<Vec<u8>>);

impl Read for Dribble {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let one = bytes.len().min(1);
        self.0.read(&mut bytes[..one])
    }
}

fn one_by_one(bytes: &[u8]) -> Option<Vec<Owned>> {
    let mut reader = Reader::new(Dribble(Cursor::new(bytes.to_vec())), "fuzz").ok()?;
    let mut records = Vec::new();
    let mut last = None;
    while let Some(record) = reader.next_record().expect("the source cannot fail") {
        assert!(
            last.is_none_or(|last| record.offset > last),
            "records go forward"
        );
        last = Some(record.offset);
        records.push((
            record.time_ns,
            record.link_type,
            record.interface,
            record.orig_len,
            record.offset,
            record.data.to_vec(),
        ));
    }
    assert!(
        reader.next_record().is_ok_and(|record| record.is_none()),
        "the end stays"
    );
    Some(records)
}

fn at_once(bytes: &[u8]) -> Vec<Owned> {
    let mut records = Vec::new();
    let Ok(mut reader) = Reader::new(Cursor::new(bytes.to_vec()), "fuzz") else {
        return records;
    };
    while reader
        .next_records(|record| {
            records.push((
                record.time_ns,
                record.link_type,
                record.interface,
                record.orig_len,
                record.offset,
                record.data.to_vec(),
            ));
        })
        .expect("the source cannot fail")
    {}
    records
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(records) = one_by_one(bytes) {
        let quick = at_once(bytes);
        // A damaged compressed stream yields as much as the decompressor gives at a time before it fails.
        let is_compressed =
            bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
        if is_compressed {
            assert!(records.starts_with(&quick));
        } else {
            assert_eq!(records, quick);
        }
    }
});
