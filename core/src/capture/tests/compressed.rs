//! Captures in gzip and zstd, whole, cut and damaged; sources that fail.

use super::*;

#[test]
fn compressed_captures_are_seen_through_and_may_be_cut() {
    let records: Vec<Owned> = (0..2000)
        .map(|n| (n * 1000, 1000, vec![(n % 251) as u8; 50]))
        .collect();
    let plain = written(Layout::new(FileFormat::PcapMicros, 1), &records);
    // Two gzip members in a row are one stream (RFC 1952 section 2.2).
    let members = [gzip(&plain[..5000]), gzip(&plain[5000..])].concat();
    let frames = zstd::encode_all(Cursor::new(plain.clone()), 3).unwrap();
    for packed in [gzip(&plain), members, frames] {
        assert_eq!(read_all(&packed), (records.clone(), None));
        let (some, truncated) = read_all(&packed[..packed.len() - 20]);
        assert!(some.len() < records.len() && some == records[..some.len()]);
        assert!(
            truncated
                .unwrap()
                .reason
                .contains("compressed data damaged or cut")
        );
    }
}

#[test]
fn damage_in_the_middle_of_a_compressed_capture_costs_little_before_it() {
    let records: Vec<Owned> = (0..8000u32)
        .map(|n| {
            (
                i64::from(n) * 1000,
                1000,
                n.wrapping_mul(2_654_435_761).to_le_bytes().repeat(9),
            )
        })
        .collect();
    let plain = written(Layout::new(FileFormat::PcapMicros, 1), &records);
    let mut packed = gzip(&plain);
    let middle = packed.len() / 2;
    packed[middle..middle + 64].fill(0xff);
    let (some, truncated) = read_all(&packed);
    assert!(
        some.len() > records.len() / 3,
        "{} of {}",
        some.len(),
        records.len()
    );
    assert_eq!(some[..1000], records[..1000]);
    assert!(truncated.is_some());
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is gone"))
    }
}

/// A source that fails is no capture that ends.
#[test]
fn source_errors_are_errors() {
    let plain = written(
        Layout::new(FileFormat::PcapMicros, 1),
        &[(0, 3, b"abc".to_vec())],
    );
    for start in [plain.clone(), gzip(&plain)[..20].to_vec()] {
        let failed =
            Reader::new(Cursor::new(start).chain(Failing), "test").and_then(|mut reader| {
                while reader.next_record()?.is_some() {}
                Ok(())
            });
        assert!(failed.unwrap_err().to_string().contains("the disk is gone"));
    }
}
