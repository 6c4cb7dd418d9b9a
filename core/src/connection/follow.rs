//! A whole capture through decoder and table.

use super::table::{Table, Wanted};
use crate::capture::{CaptureError, Reader, Truncated};
use crate::wire::{Counts, Decoder, Segment};

/// What a capture held.
#[derive(Debug)]
pub struct Followed {
    pub name: String,
    pub table: Table,
    /// Packets by what became of them.
    pub counts: Counts,
    pub truncated: Option<Truncated>,
}

/// Records between two calls of `progress`.
const STRIDE: u64 = 1 << 16;

/// Follows every connection of a capture; `progress` is told how many bytes of the source have been read, now and
/// then, and ends the reading by returning false.
pub fn follow(
    mut reader: Reader,
    wanted: Wanted,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Followed, CaptureError> {
    let mut table = Table::new(wanted);
    let mut decoder = Decoder::new();
    let mut index = 0_u64;
    let mut told = 0;
    let mut segment = Segment::BLANK;
    while reader.next_records(|record| {
        if decoder
            .decode_into(record.link_type, record.data, record.orig_len, &mut segment)
            .is_ok()
        {
            table.push_record(record.time_ns, index, &segment);
        }
        index += 1;
    })? {
        if index - told >= STRIDE {
            told = index;
            if !progress(reader.source_position()) {
                break;
            }
        }
    }
    Ok(Followed {
        name: reader.name().to_owned(),
        table,
        counts: *decoder.counts(),
        truncated: reader.truncated().cloned(),
    })
}
