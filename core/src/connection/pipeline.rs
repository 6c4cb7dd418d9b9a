//! Reading and decoding on one thread, following on others.
//!
//! Of few connections following costs about as much per packet as reading, so two cores nearly halve the time; of many it
//! waits for memory, and is done in parts (`parts`). On one core nothing is lost but the hand-over, a few microseconds for
//! each batch of packets.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::parts::Parts;
use super::table::{AHEAD, ConnectionTable};
use crate::capture::{CaptureError, Reader, Truncated};
use crate::wire::{DecodeCounts, Decoder, Plain, Segment};

/// Records read before packets are handed over: enough that waiting costs nothing per packet, few enough to stay in the
/// cache.
const BATCH: u32 = 2048;
/// Batches under way between two threads.
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

/// Between the reading thread and one that follows: batches to fill, and filled ones.
struct Lane {
    empty: Receiver<Batch>,
    full: SyncSender<Batch>,
}

/// The other end of a lane.
struct Following {
    full: Receiver<Batch>,
    empty: SyncSender<Batch>,
}

fn lane() -> (Lane, Following) {
    let (full, to_follow) = sync_channel::<Batch>(BATCHES);
    let (empty, to_fill) = sync_channel::<Batch>(BATCHES);
    for _ in 0..BATCHES {
        empty
            .send(Batch::default())
            .expect("there is room for all of them");
    }
    let following = Following {
        full: to_follow,
        empty,
    };
    let empty = to_fill;
    (Lane { empty, full }, following)
}

impl Following {
    /// Follows what comes until there is no more, or `progress` returns false.
    fn run(
        self,
        table: &mut ConnectionTable,
        mut progress: impl FnMut(&mut ConnectionTable, &Batch) -> bool,
    ) {
        for mut batch in self.full {
            follow(table, &batch);
            if !progress(table, &batch) {
                break;
            }
            batch.packets.clear();
            batch.others.clear();
            // The reading thread may have finished: then nobody needs the batch.
            let _ = self.empty.send(batch);
        }
        // Both ends of ours are gone now: a reader that is not done yet stops at its next batch.
    }
}

/// Follows all segments of a capture, each part of the connections in its table, of which there is at least one.
///
/// After each batch `progress` has the first of them, and is told the bytes read and the time of the last packet there;
/// it ends the work by returning false.
pub fn run(
    reader: Reader,
    tables: &mut [ConnectionTable],
    mut progress: impl FnMut(&mut ConnectionTable, u64, i64) -> bool,
) -> Result<ReadResult, CaptureError> {
    let [first, others @ ..] = tables else {
        unreachable!("a table at least");
    };
    let (mut lanes, mine) = (Vec::new(), lane());
    lanes.push(mine.0);
    thread::scope(|scope| {
        for table in others {
            let (lane, following) = lane();
            lanes.push(lane);
            scope.spawn(move || following.run(table, |_, _| true));
        }
        let reading = scope.spawn(move || read(reader, &lanes));
        mine.1.run(first, |table, batch| {
            let now = batch.packets.last().map_or(i64::MIN, |last| last.time_ns);
            progress(table, batch.position, now)
        });
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

fn read(mut reader: Reader, lanes: &[Lane]) -> Result<ReadResult, CaptureError> {
    let mut decoder = Decoder::new();
    let mut parts = Parts::new(lanes.len());
    let mut record = 0;
    let mut more = true;
    while more {
        let Ok(mut batches) = lanes
            .iter()
            .map(|lane| lane.empty.recv())
            .collect::<Result<Vec<_>, _>>()
        else {
            break;
        };
        let first_record = record;
        more = fill(
            &mut reader,
            &mut decoder,
            &mut parts,
            &mut batches,
            &mut record,
        )?;
        for (lane, mut batch) in lanes.iter().zip(batches) {
            batch.first_record = first_record;
            batch.position = reader.source_position();
            more &= lane.full.send(batch).is_ok();
        }
    }
    Ok(ReadResult {
        name: reader.name().to_owned(),
        counts: *decoder.counts(),
        truncated: reader.truncated().cloned(),
    })
}

/// Whether there is more to read. A packet goes to the batch of its connection's part.
fn fill(
    reader: &mut Reader,
    decoder: &mut Decoder,
    parts: &mut Parts,
    batches: &mut [Batch],
    next: &mut u64,
) -> Result<bool, CaptureError> {
    let mut record = 0;
    let mut more = true;
    while more && record < BATCH {
        more = reader.next_records(|found| {
            let time_ns = found.time_ns;
            if let Some(plain) = decoder.decode_plain(found.link_type, found.data) {
                batches[parts.of_plain(&plain)].packets.push(Decoded {
                    time_ns,
                    plain,
                    record,
                });
            } else if let Ok(segment) = decoder.decode(found.link_type, found.data, found.orig_len)
            {
                let batch = &mut batches[parts.of(&segment)];
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
