//! What held a sender back at each ACK, and what its window could not exceed there: the receiver's window, its
//! application, a loss that it repairs, a network that drains.

use std::ops::Range;

use super::limits::{Clocked, Limit, clocked, exhausted, in_recovery, pause_ns, told, written};
use super::starving::starved;
use crate::infer::given::DELAYED_ACK_SEGMENTS;
use crate::infer::ordered::from;
use crate::infer::sender::in_flight::flight::begins_at;
use crate::infer::sender::in_flight::kept::Kept;
use crate::infer::sender::in_flight::room::{Written, left_room, left_steps, written_late};
use crate::infer::sender::loss_events::events::silence;
use crate::infer::sender::rows::before::Begin;
use crate::infer::sender::rows::rtt::RoundTrips;
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::short::Lacking;
use crate::infer::sender::rows::trace::{LossEvent, Trace};
use crate::infer::sender::slow_starts::stretches::Stretch;
use crate::threshold::threshold;

// More below what it had outstanding before than a delayed ACK's worth that was read late, and no loss: the sender had
// nothing (or chose not) to send. With offload it waits until a few may leave together.
threshold!(OFFLOAD_ROOM_SEGMENTS: i64 = 3, Segments);
// RFC 6937 spreads a reduction: at half the window it sends for every second segment that left, at a quarter every
// fourth. A sender silent for longer has its reduced window at once (RFC 5681) and waits until the network has drained.
threshold!(SPREAD_SEGMENTS: i64 = 4, Segments);

// Short of the offered window by so many segments, at the most by this part of it: what one ACK may report.
threshold!(HUGS_SEGMENTS: i64 = 5, Segments);
threshold!(HUGS_PART: i64 = 8, Count);
// RFC 5681 section 3.1, equation (4): what a loss leaves of a window at the least.
threshold!(LEAST_SEGMENTS: i64 = 2, Segments);
// Growth by two doublings: an application's bursts do not follow the window's steps by chance for so long.
threshold!(DOUBLED_TWICE: i64 = 4, Count);

/// What the passes before found of a trace.
#[derive(Clone, Copy)]
pub struct SoFar<'a> {
    pub trace: &'a Trace<'a>,
    pub seen: &'a Sequence,
    pub rtt: &'a RoundTrips,
    pub events: &'a [LossEvent],
    pub parts: &'a [Stretch],
    pub flight: &'a [i64],
}

/// What held a sender back at each ACK, and what else bounds its window there.
pub struct HeldBack {
    pub limited: Vec<Limit>,
    pub exhausted: Vec<bool>,
    pub starved: Vec<bool>,
    pub drained: Vec<i64>,
    /// The least that a window was that a recovery left below what was outstanding; huge elsewhere.
    pub least: Vec<i64>,
    /// The most that was outstanding so far in each stretch, and how far below it a window at work may be.
    pub held: Vec<i64>,
    pub slack: i64,
    /// How much a sender at its limit may leave unused: less than a segment; with offload it waits for a few.
    pub room: i64,
    /// What a window of so many packets holds beyond its bytes.
    pub lacking: Lacking,
    /// What a timer may have left in use of it.
    pub kept: Kept,
    pub silence: f64,
    /// What was written late, outside of recoveries; where ACKs do not release segments at once on the whole, what surely
    /// was, behind a pause.
    pub late: Vec<Written>,
    /// Whether they do.
    is_prompt: bool,
}

impl HeldBack {
    pub fn new(known: SoFar<'_>, kept: Kept) -> Self {
        let SoFar {
            trace,
            seen,
            rtt,
            events,
            parts,
            flight,
        } = known;
        let written = written(trace, seen);
        let exhausted = exhausted(trace, seen, rtt, events, &written);
        let largest = largest_send(trace);
        let is_merged = largest > trace.smss;
        let slack =
            (DELAYED_ACK_SEGMENTS.get() * trace.smss).max(if is_merged { 2 * largest } else { 0 });
        let room = if is_merged {
            OFFLOAD_ROOM_SEGMENTS.get() * trace.smss
        } else {
            trace.smss
        };
        let told = told(trace, seen);
        let mut starved = starved(trace, seen, parts, flight, &told);
        let held = held(trace, flight, parts);
        let clocked = clocked(trace, rtt, &told);
        let mut late = written_late(trace, seen, pause_ns(rtt));
        let mut has_room = left_room(trace, seen, flight, &held, &late);
        left_steps(trace, seen, &exhausted, &mut has_room);
        let mut shut = shut(trace, rtt, flight);
        leave_written(trace, &mut shut, (&clocked, &late, &has_room));
        if !clocked.whole {
            // Such a sender sends later than its ACKs again and again; how much one lets go bounds it all the same.
            late.retain(|written| written.is_sure && written.is_apart);
            has_room.fill(None);
        }
        let idle = Idle {
            held: &held,
            slack,
            exhausted: &exhausted,
            starved: &starved,
            written: &written,
            grows: &grows(trace, parts, &starved),
            shut: &shut,
            clocked: &clocked,
            has_room: &has_room,
        };
        let mut limited = free_limits(known, &idle);
        let (drained, least) = drained_to(known, &limited, &exhausted);
        in_recovery(trace, seen, events, &mut limited);
        late.retain(|written| limited[written.ack] != Limit::Recovery);
        for (ack, is_starved) in starved.iter_mut().enumerate() {
            *is_starved |= written[ack] || has_room[ack] == Some(true);
        }
        Self {
            limited,
            exhausted,
            starved,
            drained,
            least,
            held,
            slack,
            room,
            lacking: Lacking::new(trace, seen),
            kept,
            silence: silence(rtt.base_ns),
            late,
            is_prompt: clocked.whole,
        }
    }

    /// By how much a window at work may exceed what is outstanding after an ACK.
    pub fn unseen(&self, ack: usize) -> i64 {
        self.room + self.lacking.under_way(ack) + self.kept.under_way(ack)
    }

    /// Whether what left last behind an ACK was written late, of a sender whose ACKs release segments at once.
    pub fn is_late(&self, ack: usize) -> bool {
        let late = |written: &Written| written.ack;
        self.is_prompt && self.late.binary_search_by_key(&ack, late).is_ok()
    }
}

/// What speaks for a sender that had nothing to send, per ACK.
struct Idle<'a> {
    held: &'a [i64],
    slack: i64,
    exhausted: &'a [bool],
    starved: &'a [bool],
    written: &'a [bool],
    grows: &'a [bool],
    shut: &'a [bool],
    clocked: &'a Clocked,
    has_room: &'a [Option<bool>],
}

/// What limits the sender outside recovery.
fn free_limits(known: SoFar<'_>, idle: &Idle<'_>) -> Vec<Limit> {
    let SoFar { trace, flight, .. } = known;
    let rows = flight.iter().enumerate().map(|(ack, &now)| {
        let is_below = now + idle.slack < idle.held[ack];
        let clocked = idle.clocked;
        let is_unclocked = !clocked.around[ack] && (is_below || clocked.never[ack]);
        let is_idle = idle.starved[ack]
            || idle.written[ack]
            || idle.has_room[ack].is_some()
            || (!idle.grows[ack] && (!clocked.whole || is_unclocked))
            || (now < idle.held[ack] && idle.exhausted[ack]);
        match (
            idle.shut[ack] || now + trace.smss > trace.rwnd[ack],
            is_idle,
        ) {
            (true, _) => Limit::Rwnd,
            (false, true) => Limit::Application,
            (false, false) => Limit::Cwnd,
        }
    });
    rows.collect()
}

/// The most that was outstanding so far in each stretch; two segments at least behind a recovery, which leaves a window of
/// as many (RFC 5681 section 3.1, equation 4).
fn held(trace: &Trace, flight: &[i64], parts: &[Stretch]) -> Vec<i64> {
    let mut held = flight.to_vec();
    for part in parts {
        let before = trace.before.filter(|_| part.first == 0);
        let mut top = before.map_or(part.resumed, |before| before.stretch.held.max(part.resumed));
        if part.begin == Begin::Recovery {
            top = top.max(LEAST_SEGMENTS.get() * trace.smss);
        }
        for ack in part.first..=part.last {
            top = top.max(flight[ack]);
            held[ack] = top;
        }
    }
    held
}

/// Where the flight hugs the offered window: it fills it once a round trip, and is short of it by what ACKs report.
fn shut(trace: &Trace, rtt: &RoundTrips, flight: &[i64]) -> Vec<bool> {
    let mut filled_ns = None;
    let rows = flight.iter().zip(trace.rwnd).zip(trace.ack_ns);
    let each = rows.map(|((&now, &rwnd), &time)| {
        if now + trace.smss > rwnd {
            filled_ns = Some(time);
        }
        let room = (HUGS_SEGMENTS.get() * trace.smss).min(rwnd / HUGS_PART.get());
        filled_ns.is_some_and(|filled| time - filled <= rtt.median_ns) && now + room > rwnd
    });
    each.collect()
}

/// Takes out of where the flight hugs the offered window what is told to be all that there was: what was written late, and
/// the room that it found; or, at the sender, where ACKs release nothing at once, as they do of a window at work.
fn leave_written(
    trace: &Trace,
    shut: &mut [bool],
    (clocked, late, has_room): (&Clocked, &[Written], &[Option<bool>]),
) {
    for written in late {
        shut[written.ack] = false;
    }
    for (ack, is_shut) in shut.iter_mut().enumerate() {
        *is_shut &= has_room[ack].is_none() && (clocked.around[ack] || !trace.slack.is_empty());
    }
}

/// Where the flight doubles and doubles again as in slow start: whatever the tap's place, that is a window at work.
fn grows(trace: &Trace, parts: &[Stretch], starved: &[bool]) -> Vec<bool> {
    let mut found = vec![false; starved.len()];
    for part in parts {
        let Some(peak) = part.peak else { continue };
        let rows = part.first..peak + 1;
        let before = trace.before.filter(|_| part.first == 0);
        let was_starved = before.is_some_and(|before| before.starving.was_short);
        let is_steep = part.grown_to >= DOUBLED_TWICE.get() * part.grown_from.max(trace.smss);
        if is_steep && !was_starved && !starved[rows.clone()].contains(&true) {
            found[rows].fill(true);
        }
    }
    found
}

/// Segments of several MSS (offload) leave the flight that much below the window at times.
pub fn largest_send(trace: &Trace) -> i64 {
    let sizes = trace
        .send_end
        .iter()
        .zip(trace.send_offset)
        .map(|(end, offset)| end - offset);
    let before = trace.before.map_or(0, |before| before.largest);
    sizes.max().unwrap_or(0).max(before)
}

/// For each ACK: what was outstanding when a sender that had fallen silent went on; huge where it was not silent.
///
/// The window does not grow in recovery, and a control that goes by delay takes some back without a loss. A silent
/// sender's is at most what is outstanding, and at least what will be when it sends again. No claim where the window was
/// not its limit before, or no data was left to send.
///
/// With it, behind a recovery that left more outstanding than its window: the least that this was. It opens meanwhile by
/// what is acknowledged (RFC 5681 section 3.1); where nothing is sent again nothing tells.
fn drained_to(known: SoFar<'_>, limited: &[Limit], exhausted: &[bool]) -> (Vec<i64>, Vec<i64>) {
    let SoFar {
        trace,
        seen,
        events,
        parts,
        flight,
        ..
    } = known;
    let mut found = vec![i64::MAX; flight.len()];
    let mut least = found.clone();
    let mut drain = |first: usize, over: usize, is_free: bool, is_exit: bool| {
        let mut begin = first;
        for end in first + 1..over {
            if !sends_at(trace, seen, end) {
                continue;
            }
            // The ACK that ends a recovery and releases nothing found the window reduced already; else, outside of a
            // recovery, the last ACK that released something found it as it was.
            let is_reduced = is_exit && begin == first;
            let silent = begin + usize::from(is_free && !is_reduced)..end;
            let spread = if is_reduced { 0 } else { SPREAD_SEGMENTS.get() };
            let falls = flight[begin] - flight[end] > spread * trace.smss;
            // While it drains a reduced window no ACK releases anything, as if there were nothing to send.
            let is_held = is_free
                && !is_reduced
                && limited[silent.clone()].iter().any(|&by| by != Limit::Cwnd);
            if falls && !is_held && !exhausted[silent.clone()].contains(&true) {
                found[silent].fill(flight[end]);
            }
            begin = end;
        }
    };
    for part in parts {
        let mut exits = silent_exits(known, part).peekable();
        let exit = exits.peek().copied();
        for first in exits {
            tell_least(known, first..part.last + 1, &mut least);
        }
        drain(
            exit.unwrap_or(part.first),
            part.last + 1,
            true,
            exit.is_some(),
        );
    }
    for (exit, until) in restarted_exits(known) {
        tell_least(known, exit..until, &mut least);
    }
    for event in events {
        let heard = seen.acks_before_send[event.first_send] as usize;
        let Some(first) = heard.checked_sub(1) else {
            continue;
        };
        let before = limited[first.saturating_sub(event.dupacks)];
        if event.restarts || !event.detected_by.is_loss() || before != Limit::Cwnd {
            continue;
        }
        let over = from(trace.ack_ns, heard, |time| time <= event.end_ns);
        drain(first, over, false, false);
    }
    (found, least)
}

/// From the ACK that ended a recovery on, up to that which releases a segment: the least that the window was.
fn tell_least(known: SoFar<'_>, rows: Range<usize>, least: &mut [i64]) {
    let (seen, flight) = (known.seen, known.flight);
    let end = rows.clone().find(|&ack| sends_at(known.trace, seen, ack));
    let rows = rows.start..end.unwrap_or(rows.end);
    let met = end.map(|end| flight[end] - seen.snd_una[end]);
    for (row, una) in least[rows.clone()].iter_mut().zip(&seen.snd_una[rows]) {
        *row = met.map_or(0, |met| met + una);
    }
}

/// The ACKs that may have ended a recovery, if they released nothing. NewReno's may go on at that of all sent before the
/// loss: to Linux it is over with the first above.
fn silent_exits<'a>(known: SoFar<'a>, part: &Stretch) -> impl Iterator<Item = usize> + 'a {
    let SoFar {
        trace,
        seen,
        events,
        ..
    } = known;
    let (first, last) = (part.first, part.last);
    let begun = part
        .started_by
        .filter(|_| part.begin == Begin::Recovery && first > 0);
    let above = begun
        .filter(|_| !trace.has_sack)
        .map(|event| seen.acked_at(first, events[event].recover + 1))
        .filter(|&above| above > first);
    let ends = begun.map(|_| first).into_iter().chain(above);
    ends.filter(move |&ack| ack <= last && !sends_at(trace, seen, ack))
}

/// The ACKs that end a recovery behind a timer, without SACK, where duplicates had let go what is counted from then on,
/// and they release nothing; of each where the next loss event begins.
fn restarted_exits<'a>(known: SoFar<'a>) -> impl Iterator<Item = (usize, usize)> + 'a {
    let SoFar {
        trace,
        seen,
        events,
        flight,
        ..
    } = known;
    let heard = |event: &LossEvent| seen.acks_before_send[event.first_send] as usize;
    let exits = events.iter().enumerate().map(move |(number, event)| {
        let following = events.get(number + 1);
        let until = following.map_or(flight.len(), |next| begins_at(seen, next.first_send));
        (event, seen.acked_at(heard(event), event.recover), until)
    });
    exits
        .filter(move |&(event, exit, until)| {
            event.restarts
                && !trace.has_sack
                && (1..until).contains(&exit)
                && flight[exit] > flight[exit - 1]
                && !sends_at(trace, seen, exit)
        })
        .map(|(_, exit, until)| (exit, until))
}

/// Whether an ACK released a segment. Without SACK a retransmission leaves by force (RFC 5681, 6582); with it, when the
/// window allows.
fn sends_at(trace: &Trace, seen: &Sequence, ack: usize) -> bool {
    let sends = seen.released(ack);
    if trace.has_sack || sends.is_empty() {
        return !sends.is_empty();
    }
    seen.again_within(sends.start, sends.end).len() < sends.len()
}
