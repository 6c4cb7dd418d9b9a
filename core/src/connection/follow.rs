//! A whole capture through decoder and table.

use super::pipeline;
use super::table::{Table, Wanted};
use crate::capture::{CaptureError, Reader, Truncated};
use crate::wire::Counts;

/// What a capture held.
#[derive(Debug)]
pub struct Followed {
    pub name: String,
    pub table: Table,
    /// Packets by what became of them.
    pub counts: Counts,
    pub truncated: Option<Truncated>,
}

/// Follows every connection of a capture; `progress` is told how many bytes of the source have been read, now and
/// then, and ends the reading by returning false.
pub fn follow(
    reader: Reader,
    wanted: Wanted,
    progress: impl FnMut(u64) -> bool,
) -> Result<Followed, CaptureError> {
    let mut table = Table::new(wanted);
    let read = pipeline::run(reader, &mut table, progress)?;
    Ok(Followed {
        name: read.name,
        table,
        counts: read.counts,
        truncated: read.truncated,
    })
}
