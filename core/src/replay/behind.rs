//! The capture behind the path: packets wait here until nothing can come out before them.

use std::collections::VecDeque;
use std::io::{self, Write};

use crate::capture::Writer;

/// A packet on its way, as bytes from the IP header on.
struct Waiting {
    is_reverse: bool,
    /// 0 while its fate is not known.
    out_ns: i64,
    orig_len: u32,
    bytes: Vec<u8>,
}

/// Merges both directions into one file in order of time; each direction delivers in order.
pub struct Behind<W: Write> {
    writer: Writer<W>,
    /// Of the run's time 0.
    epoch_ns: i64,
    /// In the order in which they entered.
    undecided: VecDeque<Waiting>,
    waiting: [VecDeque<Waiting>; 2],
    bytes_waiting: u64,
    spare: Vec<Vec<u8>>,
}

/// Spare buffers kept: a window's worth.
const SPARE: usize = 4096;

impl<W: Write> Behind<W> {
    pub fn new(writer: Writer<W>, epoch_ns: i64) -> Self {
        Self {
            writer,
            epoch_ns,
            undecided: VecDeque::new(),
            waiting: Default::default(),
            bytes_waiting: 0,
            spare: Vec::new(),
        }
    }

    /// A packet enters the path.
    pub fn enter(&mut self, is_reverse: bool, orig_len: u32, bytes: &[u8]) {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        self.bytes_waiting += bytes.len() as u64;
        self.undecided.push_back(Waiting {
            is_reverse,
            out_ns: 0,
            orig_len,
            bytes: copy,
        });
    }

    /// The first whose fate was not known comes out then; `None`: it is lost.
    pub fn decide(&mut self, out_ns: Option<i64>) {
        let Some(mut first) = self.undecided.pop_front() else {
            return;
        };
        if let Some(out_ns) = out_ns {
            first.out_ns = out_ns;
            self.waiting[usize::from(first.is_reverse)].push_back(first);
        } else {
            self.bytes_waiting -= first.bytes.len() as u64;
            self.spare(first.bytes);
        }
    }

    fn spare(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(bytes);
        }
    }

    pub fn bytes_waiting(&self) -> u64 {
        self.bytes_waiting
    }

    /// Writes what comes out until `now_ns`: nothing that enters later comes out before.
    pub fn flush_until(&mut self, now_ns: i64) -> io::Result<()> {
        loop {
            let due = |lane: &VecDeque<Waiting>| lane.front().map(|first| first.out_ns);
            let (there, back) = (due(&self.waiting[0]), due(&self.waiting[1]));
            let is_reverse = match (there, back) {
                (None, None) => return Ok(()),
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some(there), Some(back)) => back < there,
            };
            let lane = &mut self.waiting[usize::from(is_reverse)];
            if lane.front().is_none_or(|first| first.out_ns > now_ns) {
                return Ok(());
            }
            let Some(first) = lane.pop_front() else {
                return Ok(());
            };
            self.bytes_waiting -= first.bytes.len() as u64;
            let time_ns = self.epoch_ns.saturating_add(first.out_ns);
            self.writer.write(time_ns, first.orig_len, &first.bytes)?;
            self.spare(first.bytes);
        }
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.flush_until(i64::MAX)?;
        self.writer.finish()
    }
}
