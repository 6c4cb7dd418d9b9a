//! Reading and decoding on one thread, following on another.
//!
//! Both cost about the same per packet, so two cores nearly halve the time; on one core nothing is lost but the hand-over,
//! a few microseconds for each batch of packets.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::table::{AHEAD, ConnectionTable};
use crate::capture::{CaptureError, Reader, Truncated};
use crate::wire::{DecodeCounts, Decoder, Plain, Segment};

/// Packets handed over at a time: enough that waiting costs nothing per packet, few enough to stay in the cache.
const BATCH: u32 = 2048;
/// Batches under way between the two threads.
const BATCHES: usize = 4;

/// A decoded packet. One of the unusual form stands in `Batch::others`, at the place that `plain.seq` tells.
struct Decoded {
    time_ns: i64,
    plain: Plain,
    /// Records since the batch's first one; `OTHER` is set for the unusual form.
    record: u32,
}

const OTHER: u32 = 1 << 31;

#[derive(Default)]
struct Batch {
    first_record: u64,
    packets: Vec<Decoded>,
    others: Vec<Segment>,
    /// Bytes of the source read so far.
    position: u64,
}

/// What the reading thread knows at the end.
pub struct ReadResult {
    pub name: String,
    pub counts: DecodeCounts,
    pub truncated: Option<Truncated>,
}

/// Follows all segments of a capture; after each batch `progress` has the table, and is told the bytes read and the
/// time of the last packet; it ends the work by returning false.
pub fn run(
    reader: Reader,
    table: &mut ConnectionTable,
    mut progress: impl FnMut(&mut ConnectionTable, u64, i64) -> bool,
) -> Result<ReadResult, CaptureError> {
    let (full, to_follow) = sync_channel::<Batch>(BATCHES);
    let (empty, to_fill) = sync_channel::<Batch>(BATCHES);
    for _ in 0..BATCHES {
        empty
            .send(Batch::default())
            .expect("there is room for all of them");
    }
    thread::scope(|scope| {
        let reading = scope.spawn(move || read(reader, &to_fill, &full));
        for mut batch in to_follow {
            follow(table, &batch);
            let now = batch.packets.last().map_or(i64::MIN, |last| last.time_ns);
            if !progress(table, batch.position, now) {
                break;
            }
            batch.packets.clear();
            batch.others.clear();
            // The reading thread may have finished: then nobody needs the batch.
            let _ = empty.send(batch);
        }
        // Both ends of ours are gone now: a reader that is not done yet stops at its next batch.
        drop(empty);
        reading.join().expect("the reading thread does not panic")
    })
}

fn follow(table: &mut ConnectionTable, batch: &Batch) {
    for next in batch.packets.chunks(AHEAD) {
        let ahead = table.look_ahead(next.iter().map(|packet| &packet.plain));
        for (at, packet) in next.iter().enumerate() {
            let index = batch.first_record + u64::from(packet.record & !OTHER);
            if packet.record & OTHER == 0 {
                table.push_next(&ahead, at, packet.time_ns, index, &packet.plain);
            } else {
                let other = &batch.others[packet.plain.seq as usize];
                table.push_record(packet.time_ns, index, other);
            }
        }
    }
}

fn read(
    mut reader: Reader,
    empty: &Receiver<Batch>,
    full: &SyncSender<Batch>,
) -> Result<ReadResult, CaptureError> {
    let mut decoder = Decoder::new();
    let mut record = 0;
    while let Ok(mut batch) = empty.recv() {
        batch.first_record = record;
        let more = fill(&mut reader, &mut decoder, &mut batch, &mut record)?;
        batch.position = reader.source_position();
        if full.send(batch).is_err() || !more {
            break;
        }
    }
    Ok(ReadResult {
        name: reader.name().to_owned(),
        counts: *decoder.counts(),
        truncated: reader.truncated().cloned(),
    })
}

/// Whether there is more to read.
fn fill(
    reader: &mut Reader,
    decoder: &mut Decoder,
    batch: &mut Batch,
    next: &mut u64,
) -> Result<bool, CaptureError> {
    let mut record = 0;
    let mut more = true;
    while more && record < BATCH {
        more = reader.next_records(|found| {
            let time_ns = found.time_ns;
            if let Some(plain) = decoder.decode_plain(found.link_type, found.data) {
                batch.packets.push(Decoded {
                    time_ns,
                    plain,
                    record,
                });
            } else if let Ok(segment) = decoder.decode(found.link_type, found.data, found.orig_len)
            {
                let plain = Plain {
                    seq: batch.others.len() as u32,
                    ..Plain::default()
                };
                batch.packets.push(Decoded {
                    time_ns,
                    plain,
                    record: record | OTHER,
                });
                batch.others.push(segment);
            }
            record += 1;
        })?;
    }
    *next += u64::from(record);
    Ok(more)
}
