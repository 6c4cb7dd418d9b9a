//! A whole capture through one path, or through many at once.

use std::io::{self, BufWriter, Write};

use rayon::prelude::*;
use thiserror::Error;

use super::behind::Behind;
use super::carrier::Carrier;
use super::entrance::{Entering, Entrance, Passing};
use super::sides::Sides;
use crate::capture::{CaptureError, FileFormat, Layout, Reader, Truncated, Writer};
use crate::wire::{RAW, encode};

/// Packets handed to all paths at a time.
const BATCH: usize = 8192;

/// A queue without limit before a link that never catches up: what waits is not to fill the memory.
const MOST_WAITING_BYTES: u64 = 1 << 30;

#[derive(Debug, Error)]
pub enum Failed {
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Output(#[from] io::Error),
    #[error(
        "{waiting_bytes} bytes wait in the path {seconds:.1} s into the capture: its rate is below the recorded one, and a buffer without limit never ends"
    )]
    Endless { waiting_bytes: u64, seconds: f64 },
    /// `progress` said so.
    #[error("stopped")]
    Stopped,
}

/// Where the packets behind the path go: `None` to count only.
pub struct Exit {
    pub file: Box<dyn Write + Send>,
    pub format: FileFormat,
}

/// What became of the capture's records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub records: u64,
    /// No IP, or not between a near and a far host.
    pub elsewhere: u64,
    /// Super-segments cut into packets.
    pub cut_up: u64,
    /// Recorded before the packet in front of it: it enters with that one.
    pub out_of_order: u64,
}

pub struct Finished {
    pub carriers: Vec<Carrier>,
    pub counts: Counts,
    pub sides: Sides,
    /// When the first packet was recorded: the run's time 0.
    pub epoch_ns: i64,
    pub truncated: Option<Truncated>,
}

/// Sends all of a capture through the path of every carrier; of the first one the packets behind it go to `sink`.
///
/// `progress` is told the bytes read now and then, and ends the work by returning false.
pub fn run(
    mut reader: Reader,
    sides: Sides,
    mtu: u32,
    mut carriers: Vec<Carrier>,
    sink: Option<Exit>,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Finished, Failed> {
    let mut entrance = Entrance::new(sides, mtu);
    let mut counts = Counts::default();
    let mut clock = Clock::default();
    let mut batch: Vec<Passing> = Vec::with_capacity(BATCH);
    let mut behind: Option<Behind<Box<dyn Write>>> = None;
    let (mut frame, mut failed, mut sink) = (Vec::new(), None, sink);
    loop {
        let more = reader.next_records(|record| {
            let index = counts.records;
            counts.records += 1;
            let (time_ns, data) = (record.time_ns, record.data);
            let entering =
                entrance.entering(time_ns, index, record.link_type, data, record.orig_len);
            let Some(mut entering) = entering else { return };
            entering.first.time_ns = clock.pass(time_ns);
            if failed.is_some() {
                return;
            }
            if let Some(sink) = sink.take() {
                match open(sink, clock.epoch_ns()) {
                    Ok(opened) => behind = Some(opened),
                    Err(error) => failed = Some(Failed::Output(error)),
                }
            }
            if let Some(behind) = &mut behind {
                let sent = write(&entering, &entrance, &mut carriers[0], behind, &mut frame);
                failed = sent.err();
            } else {
                cut(&entering, &entrance, |packet| batch.push(packet));
            }
        })?;
        if batch.len() >= BATCH || !more {
            carry(&mut carriers, &batch);
            batch.clear();
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if !progress(reader.source_position()) {
            return Err(Failed::Stopped);
        }
        if !more {
            break;
        }
    }
    settle(&mut carriers, behind, sink)?;
    counts.elsewhere = entrance.elsewhere;
    counts.cut_up = entrance.cut_up;
    counts.out_of_order = clock.out_of_order;
    Ok(Finished {
        carriers,
        counts,
        sides: entrance.into_sides(),
        epoch_ns: clock.epoch_ns(),
        truncated: reader.truncated().cloned(),
    })
}

/// Recorded times as the run's: from 0 on, and never backwards.
#[derive(Default)]
struct Clock {
    epoch_ns: Option<i64>,
    last_ns: i64,
    out_of_order: u64,
}

impl Clock {
    fn epoch_ns(&self) -> i64 {
        self.epoch_ns.unwrap_or(0)
    }

    #[inline]
    fn pass(&mut self, time_ns: i64) -> i64 {
        let epoch_ns = *self.epoch_ns.get_or_insert(time_ns);
        let now = time_ns.saturating_sub(epoch_ns);
        self.out_of_order += u64::from(now < self.last_ns);
        self.last_ns = self.last_ns.max(now);
        self.last_ns
    }
}

fn open(sink: Exit, epoch_ns: i64) -> io::Result<Behind<Box<dyn Write>>> {
    let file: Box<dyn Write> = Box::new(BufWriter::with_capacity(1 << 18, sink.file));
    let writer = Writer::new(file, Layout::new(sink.format, RAW))?;
    Ok(Behind::new(writer, epoch_ns))
}

/// What was still on its way comes out, and the capture behind the path ends.
fn settle(
    carriers: &mut [Carrier],
    mut behind: Option<Behind<Box<dyn Write>>>,
    sink: Option<Exit>,
) -> io::Result<()> {
    for carrier in carriers {
        carrier.settle(|_, out_ns| {
            if let Some(behind) = &mut behind {
                behind.decide(out_ns);
            }
        });
    }
    match (behind, sink) {
        (Some(behind), _) => behind.finish().map(drop),
        // Nothing entered: an empty capture all the same.
        (None, Some(sink)) => open(sink, 0)?.finish().map(drop),
        (None, None) => Ok(()),
    }
}

fn carry(carriers: &mut [Carrier], batch: &[Passing]) {
    if let [only] = carriers {
        // One path needs no other thread.
        for packet in batch {
            only.carry(packet, |_, _| ());
        }
        return;
    }
    carriers.par_iter_mut().for_each(|carrier| {
        for packet in batch {
            carrier.carry(packet, |_, _| ());
        }
    });
}

/// The packets of a record.
fn cut(entering: &Entering<'_>, entrance: &Entrance, mut each: impl FnMut(Passing)) {
    match &entering.whole {
        None => each(entering.first),
        Some(whole) => {
            for piece in entrance.pieces(whole) {
                each(entering.piece(&piece));
            }
        }
    }
}

/// Carries a record's packets, and puts what comes out where it waits to be written.
fn write(
    entering: &Entering<'_>,
    entrance: &Entrance,
    carrier: &mut Carrier,
    behind: &mut Behind<Box<dyn Write>>,
    frame: &mut Vec<u8>,
) -> Result<(), Failed> {
    let Passing {
        time_ns,
        is_reverse,
        ..
    } = entering.first;
    behind.flush_until(time_ns)?;
    let bytes = entering.datagram.bytes;
    match &entering.whole {
        None => {
            behind.enter(is_reverse, entering.first.ip_len, bytes);
            carrier.carry(&entering.first, |_, out_ns| behind.decide(out_ns));
        }
        Some(whole) => {
            let headers = (whole.ip_len - whole.payload_len) as usize;
            let payload = bytes.get(headers..).unwrap_or_default();
            for piece in entrance.pieces(whole) {
                let start = piece.seq.wrapping_sub(whole.seq) as usize;
                let rest = payload.get(start..).unwrap_or_default();
                let captured = &rest[..rest.len().min(piece.payload_len as usize)];
                let snaplen = (headers + captured.len()) as u32;
                encode(&piece, captured, RAW, snaplen, frame)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                behind.enter(is_reverse, piece.ip_len, frame);
                carrier.carry(&entering.piece(&piece), |_, out_ns| behind.decide(out_ns));
            }
        }
    }
    let waiting_bytes = behind.bytes_waiting();
    if waiting_bytes > MOST_WAITING_BYTES {
        let seconds = time_ns as f64 / 1e9;
        return Err(Failed::Endless {
            waiting_bytes,
            seconds,
        });
    }
    Ok(())
}
