//! The reading thread: records decoded as soon as they are there.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::source::Sources;
use crate::capture::{CaptureError, Reader, Record, Truncated};
use crate::wire::{Decoder, Plain, Segment, Undecoded};

/// Batches under way: a reader that is far ahead waits.
const BATCHES: usize = 4;

/// A record; what is no TCP keeps its time, so that the clock goes on. A segment of the unusual form is several times as
/// large as one of the usual: apart, it does not make all of them as large.
#[derive(Clone, Debug)]
pub enum Decoded {
    Plain(Plain),
    Other(Box<Segment>),
    Foreign(Undecoded),
}

/// Packets as they came, and what is known after them.
#[derive(Debug, Default)]
pub struct Batch {
    pub packets: Vec<(i64, Decoded)>,
    pub position: u64,
    pub truncated: Option<Truncated>,
}

pub type Stream = Receiver<Result<Batch, CaptureError>>;

/// Reads all sources in their order. The thread ends when nobody listens, or when there is no source any more.
pub fn stream(sources: Sources) -> Stream {
    let (send, receive) = sync_channel(BATCHES);
    thread::spawn(move || read(sources, &send));
    receive
}

fn read(mut sources: Sources, send: &SyncSender<Result<Batch, CaptureError>>) {
    let mut decoder = Decoder::new();
    let mut before = 0;
    while let Some(opened) = sources.open_next() {
        let read = opened.and_then(|reader| pass(reader, &mut decoder, before, send));
        match read {
            Ok(Some(position)) => before += position,
            // Nobody listens.
            Ok(None) => return,
            Err(error) => {
                let _ = send.send(Err(error));
                return;
            }
        }
        sources.find_next();
    }
}

/// One source; how many bytes it had.
fn pass(
    mut reader: Reader,
    decoder: &mut Decoder,
    before: u64,
    send: &SyncSender<Result<Batch, CaptureError>>,
) -> Result<Option<u64>, CaptureError> {
    loop {
        let mut batch = Batch::default();
        reader.ready_records(|record| batch.packets.push(decoded(decoder, record)));
        let mut is_over = false;
        if batch.packets.is_empty() {
            // Nothing whole is there: wait for it.
            match reader.next_record()? {
                Some(record) => batch.packets.push(decoded(decoder, &record)),
                None => is_over = true,
            }
        }
        batch.position = before + reader.source_position();
        batch.truncated = reader.truncated().cloned();
        if send.send(Ok(batch)).is_err() {
            return Ok(None);
        }
        if is_over {
            return Ok(Some(reader.source_position()));
        }
    }
}

fn decoded(decoder: &mut Decoder, record: &Record<'_>) -> (i64, Decoded) {
    let packet = match decoder.decode_plain(record.link_type, record.data) {
        Some(plain) => Decoded::Plain(plain),
        None => match decoder.decode(record.link_type, record.data, record.orig_len) {
            Ok(segment) => Decoded::Other(Box::new(segment)),
            Err(cause) => Decoded::Foreign(cause),
        },
    };
    (record.time_ns, packet)
}
