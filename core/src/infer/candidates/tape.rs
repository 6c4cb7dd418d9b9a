//! A tape's rows, from columns that every reading of a capture shares and the marks of one: nothing is copied per tape.

use super::heard::{Room, TapeEvent, TapeRow};
use crate::congestion::{self, Ack};
use crate::infer::sender::rows::trace::beyond;
use crate::recovery::Srtt;

/// The columns of `Heard`, an entry per ACK, for whoever needs one of each.
macro_rules! heard_columns {
    ($with:ident) => {
        $with! {
            now_ns: i64,
            una: i64,
            /// The highest byte sent before each.
            top: i64,
            newly_acked: i64,
            /// SACKed, as each says.
            sacked: i64,
            /// Not above 0: it tells none.
            rtt_ns: i64,
            /// Places in `TapeEvent::ALL`.
            event: u8,
            is_cwnd_limited: bool,
            /// Empty: infinite.
            most_after: f64,
            /// Outstanding after each, and where that is taken over as the window.
            flight: i64,
            is_shown: bool,
        }
    };
}
#[cfg(feature = "python")]
pub(crate) use heard_columns;

macro_rules! heard {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// What a control heard; bytes and nanoseconds.
        #[derive(Clone, Copy, Debug)]
        pub struct Heard<'a> {
            $($(#[$doc])* pub $name: &'a [$type],)*
            /// Those before it no control heard of.
            pub first: usize,
            /// The control's time 0.
            pub zero_ns: i64,
        }

        impl Heard<'_> {
            fn lengths(&self) -> impl Iterator<Item = (&'static str, usize)> {
                [$((stringify!($name), self.$name.len())),*].into_iter()
            }
        }
    };
}
heard_columns!(heard);

/// What happened between two ACKs: behind ACK `ack` (-1: before the first), or a second answer to it.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub ack: i64,
    pub event: TapeEvent,
    pub now_ns: i64,
    pub rtt_ns: i64,
    pub newly_acked: f64,
    pub flight_size: f64,
    pub cwnd: Option<f64>,
    pub ssthresh: Option<f64>,
    pub room: Room,
}

/// Columns of one tape that do not fit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    #[error("a tape's columns are of equal length")]
    Length,
    #[error("an event without a name")]
    Event,
    #[error("{0} is beyond what a trace has")]
    Range(&'static str),
}

// A kernel's 32 bits of milliseconds go round after 50 days, and the squares of times that H-TCP takes do not fit far
// beyond: a control's clock stands still from then on.
const CLOCK_ENDS_NS: i64 = 1 << 52;
// As at the trace's door (trace.rs): differences fit.
const MOST_NS: i64 = 1 << 62;
// 256 TB. Controls count bytes in sixteenths and thousandths, in 64 bits.
const MOST_BYTES: i64 = 1 << 48;

impl Heard<'_> {
    pub fn checked(&self) -> Result<(), TapeError> {
        let wanted = self.now_ns.len();
        let is_whole = |(name, length): (&str, usize)| {
            length == wanted || (name == "most_after" && length == 0)
        };
        if self.first > wanted || !self.lengths().all(is_whole) {
            return Err(TapeError::Length);
        }
        let known = |&event: &u8| usize::from(event) < TapeEvent::ALL.len();
        if !self.event.iter().all(known) {
            return Err(TapeError::Event);
        }
        for (name, column, most) in [
            ("now_ns", self.now_ns, MOST_NS),
            ("zero_ns", &[self.zero_ns], MOST_NS),
            ("rtt_ns", self.rtt_ns, MOST_NS),
            ("una", self.una, MOST_BYTES),
            ("top", self.top, MOST_BYTES),
            ("newly_acked", self.newly_acked, MOST_BYTES),
            ("sacked", self.sacked, MOST_BYTES),
            ("flight", self.flight, MOST_BYTES),
        ] {
            if beyond(column, &(-most..=most)).is_some() {
                return Err(TapeError::Range(name));
            }
        }
        if self.most_after.iter().any(|most| most.is_nan()) {
            return Err(TapeError::Range("most_after"));
        }
        Ok(())
    }
}

/// One reading: all marks of `before`, then those of the `marks` that it has, in the order of their ACKs.
#[derive(Clone, Copy, Debug)]
pub struct Tape<'a> {
    pub heard: Heard<'a>,
    pub before: &'a [Mark],
    pub marks: &'a [Mark],
    pub chosen: &'a [u32],
    /// Whether the sender opens its window on the ACK that ends a recovery: then it goes by cwnd at a loss, and counts
    /// what has arrived. Otherwise what limited transmit sent is no part of FlightSize (RFC 5681 section 3.2).
    pub opens: bool,
}

impl<'a> Tape<'a> {
    pub fn len(&self) -> usize {
        self.heard.now_ns.len() - self.heard.first + self.count()
    }

    /// Of its marks.
    fn count(&self) -> usize {
        self.before.len() + self.chosen.len()
    }

    fn mark(&self, at: usize) -> Option<&'a Mark> {
        match at.checked_sub(self.before.len()) {
            Some(behind) => Some(&self.marks[*self.chosen.get(behind)? as usize]),
            None => self.before.get(at),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows in order of time, each `later_ns` later.
    pub fn rows(self, later_ns: i64) -> impl ExactSizeIterator<Item = TapeRow> + 'a {
        let mut cursor = self.begin();
        (0..self.len()).map(move |_| self.take(&mut cursor).later(later_ns))
    }

    pub fn begin(&self) -> Cursor {
        Cursor {
            ack: self.heard.first,
            ..Cursor::default()
        }
    }

    /// Whether there are rows left up to that of ACK `upto` (None: to the end).
    pub fn has_more(&self, cursor: &Cursor, upto: Option<usize>) -> bool {
        let last = upto.map_or(self.heard.now_ns.len(), |upto| upto + 1);
        cursor.ack < last.min(self.heard.now_ns.len())
            || (upto.is_none() && cursor.mark < self.count())
    }

    /// The next row; there is one. A control counts on a clock and on numbers that never go back.
    pub fn take(&self, cursor: &mut Cursor) -> TapeRow {
        let (heard, ack) = (&self.heard, cursor.ack);
        let marked = self.mark(cursor.mark);
        let mut row = match marked.filter(|next| next.ack < ack as i64) {
            Some(next) => {
                cursor.mark += 1;
                self.marked(next)
            }
            None => {
                cursor.ack += 1;
                heard.row(ack, self.opens)
            }
        };
        let numbers = (row.snd_una, row.snd_nxt);
        row.rtt_ns = cursor.pass(heard, row.now_ns, numbers, row.rtt_ns);
        row.now_ns = cursor.now_ns;
        (row.snd_una, row.snd_nxt) = (cursor.una, cursor.nxt);
        row
    }

    /// The next row where it is an ACK that tells nothing else, as most are; `srtt` smooths its round trip. None: the next
    /// row is another, and is not taken.
    pub fn take_alone(&self, cursor: &mut Cursor, srtt: &mut Srtt) -> Option<congestion::Heard> {
        let (heard, ack) = (&self.heard, cursor.ack);
        let opens = match TapeEvent::ALL[usize::from(*heard.event.get(ack)?)] {
            TapeEvent::Ack => true,
            TapeEvent::Arrival => false,
            _ => return None,
        };
        let is_marked = |next: &Mark| next.ack < ack as i64;
        if heard.is_shown[ack] || self.mark(cursor.mark).is_some_and(is_marked) {
            return None;
        }
        cursor.ack += 1;
        let (una, nxt) = (number(heard.una[ack]), number(heard.nxt(ack)));
        let rtt_ns = cursor.pass(heard, heard.now_ns[ack], (una, nxt), heard.rtt(ack));
        let ack = Ack {
            now_ns: cursor.now_ns,
            newly_acked: heard.grown_by(ack, self.opens) as f64,
            newly_sacked: heard.newly_sacked(ack) as f64,
            rtt_ns,
            srtt_ns: srtt.with(rtt_ns),
            flight_size: heard.outstanding_before(ack) as f64,
            snd_una: cursor.una,
            snd_nxt: cursor.nxt,
            is_cwnd_limited: heard.is_cwnd_limited[ack],
        };
        Some(congestion::Heard { ack, opens })
    }
}

impl Cursor {
    /// To the time and the numbers of the next row, which never go back; its round trip, as far as one is told.
    fn pass(
        &mut self,
        heard: &Heard<'_>,
        now_ns: i64,
        (una, nxt): (u64, u64),
        rtt_ns: Option<i64>,
    ) -> Option<i64> {
        let heard_ns = now_ns.saturating_sub(heard.zero_ns);
        self.now_ns = heard_ns.clamp(self.now_ns, CLOCK_ENDS_NS);
        self.una = una.max(self.una);
        self.nxt = nxt.max(self.una).max(self.nxt);
        let rtt_ns = rtt_ns.map(|rtt_ns| rtt_ns.min(self.now_ns));
        rtt_ns.filter(|&rtt_ns| rtt_ns > 0)
    }
}

/// How far a tape has been heard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// The next ACK, and the next mark.
    pub ack: usize,
    mark: usize,
    now_ns: i64,
    una: u64,
    nxt: u64,
}

impl Tape<'_> {
    /// The row of each ACK asked for, in their order; None: no control heard of it. ACKs behind the one asked for
    /// before are found without a search.
    pub fn places(&self) -> impl FnMut(usize) -> Option<usize> + '_ {
        let (mut mark, mut last) = (0, 0);
        move |ack| {
            if ack < last {
                mark = 0;
            }
            last = ack;
            while self.mark(mark).is_some_and(|next| next.ack < ack as i64) {
                mark += 1;
            }
            Some(ack.checked_sub(self.heard.first)? + mark)
        }
    }

    fn marked(&self, mark: &Mark) -> TapeRow {
        let mut row = self.heard.marked(mark);
        if !self.opens {
            row.room.flight = 0.0;
        }
        row
    }
}

impl Heard<'_> {
    fn outstanding_before(&self, ack: usize) -> i64 {
        let una = ack.checked_sub(1).map_or(0, |before| self.una[before]);
        (self.top[ack] - una).max(0)
    }

    /// What was never seen to be sent may be acknowledged.
    fn nxt(&self, ack: usize) -> i64 {
        self.top[ack].max(self.una[ack])
    }

    fn event(&self, ack: usize) -> TapeEvent {
        TapeEvent::ALL[usize::from(self.event[ack])]
    }

    /// By how much more is SACKed than before; less where the ACK number has passed what was.
    fn sacked_more(&self, ack: usize) -> i64 {
        self.sacked[ack] - ack.checked_sub(1).map_or(0, |before| self.sacked[before])
    }

    /// What is SACKed for the first time: told where the ACK number stands still, or nothing was SACKed before.
    fn newly_sacked(&self, ack: usize) -> i64 {
        let more = self.sacked_more(ack);
        let is_told = self.newly_acked[ack] <= 0 || more == self.sacked[ack];
        if is_told { more.max(0) } else { 0 }
    }

    /// What the window grows by: what is acknowledged, or, of who opens its window and counts what has arrived (Linux;
    /// RFC 9937's DeliveredData), with what is SACKed and without what was before.
    fn grown_by(&self, ack: usize, opens: bool) -> i64 {
        let counts = opens && self.event(ack) == TapeEvent::Ack;
        self.newly_acked[ack] + if counts { self.sacked_more(ack) } else { 0 }
    }

    fn rtt(&self, ack: usize) -> Option<i64> {
        Some(self.rtt_ns[ack]).filter(|&rtt_ns| rtt_ns > 0)
    }

    fn row(&self, ack: usize, opens: bool) -> TapeRow {
        TapeRow {
            event: self.event(ack),
            now_ns: self.now_ns[ack],
            newly_acked: self.grown_by(ack, opens) as f64,
            newly_sacked: self.newly_sacked(ack) as f64,
            rtt_ns: self.rtt(ack),
            flight_size: self.outstanding_before(ack) as f64,
            snd_una: number(self.una[ack]),
            snd_nxt: number(self.nxt(ack)),
            is_cwnd_limited: self.is_cwnd_limited[ack],
            cwnd: self.is_shown[ack].then(|| self.flight[ack] as f64),
            ssthresh: None,
            room: Room {
                most_after: self.most_after.get(ack).copied().unwrap_or(f64::INFINITY),
                ..Room::default()
            },
        }
    }

    fn marked(&self, mark: &Mark) -> TapeRow {
        let at = usize::try_from(mark.ack).ok();
        TapeRow {
            event: mark.event,
            now_ns: mark.now_ns,
            newly_acked: mark.newly_acked,
            newly_sacked: 0.0,
            rtt_ns: Some(mark.rtt_ns).filter(|&rtt_ns| rtt_ns > 0),
            flight_size: mark.flight_size,
            snd_una: number(at.map_or(0, |ack| self.una[ack])),
            snd_nxt: number(at.map_or(0, |ack| self.nxt(ack))),
            is_cwnd_limited: self
                .is_cwnd_limited
                .get(at.unwrap_or(0))
                .is_some_and(|&is_limited| is_limited),
            cwnd: mark.cwnd,
            ssthresh: mark.ssthresh,
            room: mark.room,
        }
    }
}

/// An offset as a control has it: the first byte is number 1.
fn number(offset: i64) -> u64 {
    offset.max(0) as u64 + 1
}
