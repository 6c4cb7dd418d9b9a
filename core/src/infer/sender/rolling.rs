//! The observer as packets come: the rows of a sender's last windows, and what those before them left behind.
//!
//! Rows are dropped at places where nothing is open (`Observed::last_cut`), so what is said of the last ACK is what the
//! observer says of all rows until then. In a recovery that lasts for longer than is kept it errs.

use super::cut::Cut;
use super::limited_by::limits::Limit;
use super::limited_by::windows::UNKNOWN;
use super::observer::{Observed, observe};
use super::rows::before::{Before, Begin};
use super::rows::trace::Trace;
use crate::infer::columns::{ColumnTable, columns};

/// Rows kept behind a cut: so many windows of segments and ACKs, and never fewer.
const WINDOWS_KEPT: i64 = 8;
const LEAST_KEPT: usize = 512;
/// A recovery that leaves no place for a cut ends what is known when so many times as much has gathered.
const MOST_TIMES: usize = 16;

columns! {
    SendRows of SendRow {
        time_ns: i64,
        offset: i64,
        end: i64,
    }
}

columns! {
    AckRows of
    /// An ACK, its blocks apart.
    Heard {
        time_ns: i64,
        offset: i64,
        rwnd: i64,
        is_bare: bool,
        sack_high: i64,
        sacked: i64,
    }
}

/// A sender after its last ACK; bytes. None: not known, or nothing bounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    pub cwnd: i64,
    pub cwnd_low: i64,
    pub cwnd_high: Option<i64>,
    pub ssthresh: Option<i64>,
    pub flight: i64,
    pub limited_by: Limit,
    pub phase: &'static str,
    pub loss_events: u64,
}

/// What is known of a sender besides its rows.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub smss: i64,
    pub has_sack: bool,
    pub has_start: bool,
}

#[derive(Clone, Debug)]
pub struct Rolling {
    sends: SendRows,
    acks: AckRows,
    /// Where each ACK's SACK blocks begin in `sack_edges`, one more entry than ACKs.
    sack_first: Vec<i64>,
    sack_edges: Vec<i64>,
    before: Option<Before>,
    /// Rows at which the next cut is looked for.
    full_at: usize,
    now_ns: i64,
}

impl Default for Rolling {
    fn default() -> Self {
        Self {
            sends: SendRows::default(),
            acks: AckRows::default(),
            sack_first: vec![0],
            sack_edges: Vec::new(),
            before: None,
            full_at: 2 * LEAST_KEPT,
            now_ns: i64::MIN,
        }
    }
}

impl Rolling {
    /// A segment left. A clock that goes back stands still.
    pub fn send(&mut self, sent: SendRow) {
        let time_ns = self.clock(sent.time_ns);
        self.sends.push(SendRow { time_ns, ..sent });
    }

    /// An ACK came; `edges` are its SACK blocks' left and right ones in turn.
    pub fn ack(&mut self, heard: Heard, edges: &[i64]) {
        let time_ns = self.clock(heard.time_ns);
        self.acks.push(Heard { time_ns, ..heard });
        self.sack_edges.extend_from_slice(edges);
        self.sack_first.push(self.sack_edges.len() as i64);
    }

    fn clock(&mut self, time_ns: i64) -> i64 {
        self.now_ns = self.now_ns.max(time_ns);
        self.now_ns
    }

    fn is_one_sided(&self) -> bool {
        self.sends.time_ns.is_empty() || self.acks.time_ns.is_empty()
    }

    /// Rows that are kept.
    pub fn rows(&self) -> usize {
        self.sends.time_ns.len() + self.acks.time_ns.len()
    }

    /// Drops what is not needed any more, if there is enough of it to make it worth while.
    pub fn settle(&mut self, known: Known) {
        if self.is_one_sided() {
            // Of one direction alone nothing can be said.
            if self.rows() > 2 * LEAST_KEPT {
                *self = Self::default();
            }
            return;
        }
        if self.rows() < self.full_at {
            return;
        }
        let dsacks = self.trace(known, &[]).received_twice();
        let Ok(trace) = self.trace(known, &dsacks).checked() else {
            // No capture of a sender has such columns.
            *self = Self::default();
            return;
        };
        let seen = observe(&trace);
        let largest = seen.flight.iter().copied().max().unwrap_or(0) / known.smss.max(1);
        let windows = usize::try_from(2 * WINDOWS_KEPT * largest).unwrap_or(LEAST_KEPT);
        let kept = windows.max(LEAST_KEPT);
        let acks = self.acks.time_ns.len();
        let share = acks as f64 / self.rows() as f64;
        let most = acks.saturating_sub((kept as f64 * share) as usize);
        let cut = seen.last_cut(&trace, most);
        let before = cut.and_then(|cut| Some((cut, seen.before(&trace, cut)?)));
        if let Some((cut, before)) = before {
            self.drop_before(cut);
            self.before = Some(before);
        } else if self.rows() > MOST_TIMES * kept {
            // What is outstanding begins anew, in the middle of a connection.
            *self = Self::default();
        }
        self.full_at = self.rows() + kept;
    }

    fn trace<'a>(&'a self, known: Known, dsacks: &'a [(i64, i64)]) -> Trace<'a> {
        Trace {
            send_ns: &self.sends.time_ns,
            send_offset: &self.sends.offset,
            send_end: &self.sends.end,
            // A live tap is at the sender.
            fate: &[],
            slack: &[],
            ack_ns: &self.acks.time_ns,
            ack_offset: &self.acks.offset,
            rwnd: &self.acks.rwnd,
            is_bare: &self.acks.is_bare,
            sack_high: &self.acks.sack_high,
            sacked: &self.acks.sacked,
            sack_first: &self.sack_first,
            sack_edges: &self.sack_edges,
            dsacks,
            echoes_older: &[],
            set_ns: &[],
            smss: known.smss.max(1),
            has_start: known.has_start,
            has_sack: known.has_sack,
            hides_blocks: false,
            before: self.before.as_ref(),
        }
    }

    fn drop_before(&mut self, cut: Cut) {
        let edges = self.sack_first[cut.ack];
        self.sends.drop_first(cut.send);
        self.acks.drop_first(cut.ack);
        self.sack_first.drain(..cut.ack);
        self.sack_edges.drain(..edges as usize);
        for first in &mut self.sack_first {
            *first -= edges;
        }
    }

    /// The sender as it is now; None: nothing was acknowledged yet, or nothing sent.
    pub fn now(&self, known: Known) -> Option<Now> {
        if self.is_one_sided() {
            return None;
        }
        let dsacks = self.trace(known, &[]).received_twice();
        let trace = self.trace(known, &dsacks).checked().ok()?;
        let seen = observe(&trace);
        let windows = &seen.windows;
        let last = windows.time_ns.len().checked_sub(1)?;
        let given = |value: i64| (value != UNKNOWN).then_some(value);
        let flight = *seen.flight.last()?;
        Some(Now {
            cwnd: windows.cwnd[last],
            cwnd_low: windows.cwnd_low[last],
            cwnd_high: given(windows.cwnd_high[last]),
            ssthresh: given(windows.ssthresh[last]),
            flight,
            limited_by: windows.limited_by[last],
            phase: phase(&seen, windows.limited_by[last], flight),
            loss_events: seen.loss_events(&trace),
        })
    }
}

/// RFC 5681: what a sender does after the last ACK. Slow start lasts while it grows, and from the beginning until
/// avoidance was seen.
fn phase(seen: &Observed, limit: Limit, flight: i64) -> &'static str {
    let Some(part) = seen.stretches.last().filter(|_| flight > 0) else {
        return "idle";
    };
    let grows = part.peak.is_some() && part.peak == seen.sequence.last_moved(seen.flight.len());
    match part.begin {
        _ if limit == Limit::Recovery => "recovery",
        Begin::Connection if !part.has_threshold => "slow start",
        Begin::Restart | Begin::Idle | Begin::Capture if grows => "slow start",
        _ => "avoidance",
    }
}
