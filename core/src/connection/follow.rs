//! A whole capture through decoder and table.

use super::connection::Connection;
use super::table::ConnectionTable;
use super::wanted::{Patience, Wanted};
use super::{parts, pipeline};
use crate::capture::{CaptureError, Reader, Truncated};
use crate::wire::DecodeCounts;

/// What a capture held.
#[derive(Debug)]
pub struct Followed {
    pub name: String,
    pub table: ConnectionTable,
    /// Packets by what became of them.
    pub counts: DecodeCounts,
    pub truncated: Option<Truncated>,
}

/// Follows every connection of a capture; `progress` is told how many bytes of the source have been read, now and
/// then, and ends the reading by returning false.
pub fn follow(
    reader: Reader,
    wanted: Wanted,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Followed, CaptureError> {
    let progress = |table: &mut ConnectionTable, position, _| {
        table.settle_first();
        progress(position)
    };
    followed(reader, parts::tables(wanted), progress)
}

/// Packets between two looks for connections that are over; never fewer than there are connections.
const SELDOM: u64 = 1 << 16;

/// Follows every connection of a capture and gives each to `row` as soon as it is over: what is kept is what is open.
///
/// The rest comes at the end, in order of ids. An error of `row` ends the reading.
pub fn follow_by_row<E>(
    reader: Reader,
    patience: Patience,
    mut row: impl FnMut(&str, &Connection) -> Result<(), E>,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Result<Followed, E>, CaptureError> {
    let name = reader.name().to_owned();
    let (mut failed, mut looked_at) = (None, 0);
    let followed = followed(
        reader,
        vec![ConnectionTable::default()],
        |table, position, now| {
            if table.segments() - looked_at >= SELDOM.max(table.len() as u64) {
                looked_at = table.segments();
                let gone = table.leave(now, patience);
                failed = gone
                    .iter()
                    .find_map(|connection| row(&name, connection).err());
            }
            failed.is_none() && progress(position)
        },
    )?;
    if failed.is_none() {
        failed = followed
            .table
            .connections()
            .find_map(|connection| row(&name, &connection).err());
    }
    Ok(failed.map_or(Ok(followed), Err))
}

fn followed(
    reader: Reader,
    mut tables: Vec<ConnectionTable>,
    progress: impl FnMut(&mut ConnectionTable, u64, i64) -> bool,
) -> Result<Followed, CaptureError> {
    let read = pipeline::run(reader, &mut tables, progress)?;
    Ok(Followed {
        name: read.name,
        table: parts::merged(tables),
        counts: read.counts,
        truncated: read.truncated,
    })
}
