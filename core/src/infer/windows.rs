//! The congestion window after each ACK, between bounds, and what limited the sender.
//!
//! A sender limited by its congestion window has as much outstanding as the window allows: value, low and high lie within
//! a segment. Held back by the receiver's window or by its application it has less: then the flight is only the low
//! bound, nothing bounds the window from above, and the value is the last one seen at work (no loss, no long pause since).

use super::events::silence;
use super::limits::{Limit, clocked, exhausted, in_recovery, starved};
use super::rtt::RoundTrips;
use super::sequence::Sequence;
use super::stretches::{Begin, Stretch};
use super::trace::{LossEvent, Trace};
use crate::recovery::DetectedBy;
use crate::threshold::threshold;

/// Not known; in `cwnd_high`: nothing bounds it.
pub const UNKNOWN: i64 = -1;
// So much below what it had outstanding before, in segments, and no loss: the sender had nothing (or chose not) to
// send. Two: a delayed ACK's worth that was read late.
threshold!(SLACK_SEGMENTS: i64 = 2, Segments);
threshold!(OFFLOAD_ROOM_SEGMENTS: i64 = 3, Segments);
// RFC 6937 spreads a reduction: at half the window it sends for every second segment that left, at a quarter every
// fourth. A sender silent for longer has its reduced window at once (RFC 5681) and waits until the network has drained.
threshold!(SPREAD_SEGMENTS: i64 = 4, Segments);

// Short of the offered window by so many segments, at the most by this part of it: what one ACK may report.
threshold!(HUGS_SEGMENTS: i64 = 5, Segments);
threshold!(HUGS_PART: i64 = 8, Count);
// Growth by two doublings: an application's bursts do not follow the window's steps by chance for so long.
threshold!(DOUBLED_TWICE: i64 = 4, Count);

// An application that writes answers the ACK that it happens to write behind; a window at work answers ACK after ACK.
threshold!(ANSWERS: i64 = 8, Acks);

/// A row per ACK and per restart; bytes.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    pub time_ns: Vec<i64>,
    pub cwnd: Vec<i64>,
    pub cwnd_low: Vec<i64>,
    pub cwnd_high: Vec<i64>,
    pub ssthresh: Vec<i64>,
    pub limited_by: Vec<Limit>,
    /// Limited by its application, whatever the tap's place: its window had been emptied.
    pub is_starved: Vec<bool>,
}

impl Windows {
    pub fn new(
        trace: &Trace,
        seen: &Sequence,
        rtt: &RoundTrips,
        events: &[LossEvent],
        parts: &[Stretch],
        flight: &[i64],
    ) -> Self {
        let exhausted = exhausted(trace, seen, rtt);
        let largest = largest_send(trace);
        let slack = (SLACK_SEGMENTS.get() * trace.smss).max(if largest > trace.smss {
            2 * largest
        } else {
            0
        });
        let starved = starved(trace, seen, parts, flight);
        let idle = Idle {
            held: &held(flight, parts),
            slack,
            exhausted: &exhausted,
            starved: &starved,
            grows: &grows(trace, parts, &starved),
            shut: &shut(trace, rtt, flight),
        };
        let mut limited = free_limits(trace, seen, rtt, flight, &idle);
        let drained = drained_to(trace, seen, events, flight, &limited, &exhausted);
        in_recovery(trace, seen, events, &mut limited);
        // How much a sender at its limit may leave unused: less than a segment; with offload it waits for a few.
        let room = if largest > trace.smss {
            OFFLOAD_ROOM_SEGMENTS.get() * trace.smss
        } else {
            trace.smss
        };
        let mut table = Self::with_capacity(flight.len() + events.len());
        let restarts = events
            .iter()
            .filter(|event| event.restarts)
            .filter_map(|event| {
                let known = seen.acks_before_send[event.first_send] as usize;
                Some((known.checked_sub(1)?, event))
            });
        let mut restarts = restarts.peekable();
        let thresholds = thresholds(flight.len(), parts, &exhausted);
        let mut at_work: Option<usize> = None;
        let mut shown = Shown::new(silence(rtt.base_ns));
        for (ack, &now) in flight.iter().enumerate() {
            let limit = limited[ack];
            let is_idle =
                limit == Limit::Application || (limit == Limit::Recovery && exhausted[ack]);
            if !is_idle {
                at_work = Some(ack);
            }
            // The flight, or where the sender was held back that of the last ACK before (of the same recovery).
            let last = at_work.filter(|&last| {
                is_idle && (limit == Limit::Application || limited[last] == Limit::Recovery)
            });
            let cwnd = last.map_or(now, |last| flight[last].max(now));
            // The last segments before a pause may have been fewer than the window allowed.
            let is_bound = matches!(limit, Limit::Cwnd | Limit::Recovery) && !exhausted[ack];
            let high = match limit {
                _ if !is_bound => UNKNOWN,
                Limit::Cwnd => {
                    shown.high(trace, seen, ack, now, room, now + slack >= idle.held[ack])
                }
                _ => now + room,
            };
            if limit != Limit::Cwnd || !is_bound {
                shown.last = None;
            }
            let row = Row {
                time_ns: trace.ack_ns[ack],
                cwnd: cwnd.min(drained[ack]),
                cwnd_low: now.min(drained[ack]),
                cwnd_high: high,
                ssthresh: thresholds[ack],
                limited_by: limit,
                is_starved: limit == Limit::Application && starved[ack],
            };
            // The timer moves the window between two ACKs: the ACK before keeps the old one, a row of its own has the
            // new.
            let place = table.time_ns.len();
            table.push(row);
            while let Some((_, event)) = restarts.next_if(|&(before, _)| before == ack) {
                table.cwnd[place] = event.flight;
                table.cwnd_low[place] = event.flight;
                table.cwnd_high[place] = UNKNOWN;
                table.limited_by[place] = Limit::Recovery;
                table.push(Row {
                    time_ns: event.time_ns,
                    ..row
                });
            }
        }
        table
    }

    fn with_capacity(rows: usize) -> Self {
        Self {
            time_ns: Vec::with_capacity(rows),
            cwnd: Vec::with_capacity(rows),
            cwnd_low: Vec::with_capacity(rows),
            cwnd_high: Vec::with_capacity(rows),
            ssthresh: Vec::with_capacity(rows),
            limited_by: Vec::with_capacity(rows),
            is_starved: Vec::with_capacity(rows),
        }
    }

    fn push(&mut self, row: Row) {
        self.time_ns.push(row.time_ns);
        self.cwnd.push(row.cwnd);
        self.cwnd_low.push(row.cwnd_low);
        self.cwnd_high.push(row.cwnd_high);
        self.ssthresh.push(row.ssthresh);
        self.limited_by.push(row.limited_by);
        self.is_starved.push(row.is_starved);
    }
}

#[derive(Clone, Copy)]
struct Row {
    time_ns: i64,
    cwnd: i64,
    cwnd_low: i64,
    cwnd_high: i64,
    ssthresh: i64,
    limited_by: Limit,
    is_starved: bool,
}

/// The window's upper bound since it was last seen at work.
struct Shown {
    last: Option<i64>,
    is_at_work: bool,
    /// ACKs in a row that were answered.
    answers: i64,
    silence: f64,
}

impl Shown {
    fn new(silence: f64) -> Self {
        Self {
            last: None,
            is_at_work: true,
            answers: 0,
            silence,
        }
    }

    /// A window at work answers each ACK with new segments: where one released nothing, the sender had nothing to send,
    /// and its window is what it was, or larger by what was acknowledged (RFC 5681 section 3.1).
    ///
    /// `is_filled`: as much is outstanding as the window was seen to allow.
    fn high(
        &mut self,
        trace: &Trace,
        seen: &Sequence,
        ack: usize,
        now: i64,
        room: i64,
        is_filled: bool,
    ) -> i64 {
        let sent = seen.sends_before_next_ack[ack] as usize;
        let before = ack
            .checked_sub(1)
            .map_or(0, |last| seen.sends_before_next_ack[last] as usize);
        let newly_acked = seen.newly_acked(ack);
        if sent > before {
            let waited = trace.send_ns[before] - trace.ack_ns[ack];
            if waited as f64 > self.silence {
                // It was the application that sent: what it had, not what the window is.
                (self.last, self.is_at_work, self.answers) = (None, false, 0);
                return UNKNOWN;
            }
            self.answers += 1;
            self.is_at_work |= is_filled || self.answers >= ANSWERS.get();
        } else if newly_acked > 0 {
            (self.is_at_work, self.answers) = (false, 0);
        }
        let high = match self.last {
            _ if self.is_at_work => now + room,
            Some(last) => (now + room).max(last + newly_acked),
            None => return UNKNOWN,
        };
        self.last = Some(high);
        high
    }
}

/// What speaks for a sender that had nothing to send, per ACK.
struct Idle<'a> {
    /// The most that was outstanding so far in each stretch, and how far below it a window at work may be.
    held: &'a [i64],
    slack: i64,
    exhausted: &'a [bool],
    starved: &'a [bool],
    grows: &'a [bool],
    shut: &'a [bool],
}

/// What limits the sender outside recovery.
fn free_limits(
    trace: &Trace,
    seen: &Sequence,
    rtt: &RoundTrips,
    flight: &[i64],
    idle: &Idle<'_>,
) -> Vec<Limit> {
    let (is_clocked, on_the_whole) = clocked(trace, seen, rtt);
    let rows = flight.iter().enumerate().map(|(ack, &now)| {
        let is_below = now + idle.slack < idle.held[ack];
        let is_idle = idle.starved[ack]
            || (!idle.grows[ack] && (!on_the_whole || (is_below && !is_clocked[ack])))
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

/// The most that was outstanding so far in each stretch.
fn held(flight: &[i64], parts: &[Stretch]) -> Vec<i64> {
    let mut held = flight.to_vec();
    for part in parts {
        let mut top = i64::MIN;
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

/// Where the flight doubles and doubles again as in slow start: whatever the tap's place, that is a window at work.
fn grows(trace: &Trace, parts: &[Stretch], starved: &[bool]) -> Vec<bool> {
    let mut found = vec![false; starved.len()];
    for part in parts {
        let Some(peak) = part.peak else { continue };
        let rows = part.first..peak + 1;
        let is_steep = part.grown_to >= DOUBLED_TWICE.get() * part.grown_from.max(trace.smss);
        if is_steep && !starved[rows.clone()].contains(&true) {
            found[rows].fill(true);
        }
    }
    found
}

fn thresholds(count: usize, parts: &[Stretch], exhausted: &[bool]) -> Vec<i64> {
    let mut found = vec![UNKNOWN; count];
    for part in parts {
        if part.begin == Begin::Recovery && exhausted[part.first] {
            continue;
        }
        if let Some(ssthresh) = part.ssthresh() {
            found[part.first..=part.last].fill(ssthresh);
        }
    }
    found
}

/// Segments of several MSS (offload) leave the flight that much below the window at times.
fn largest_send(trace: &Trace) -> i64 {
    let sizes = trace
        .send_end
        .iter()
        .zip(trace.send_offset)
        .map(|(end, offset)| end - offset);
    sizes.max().unwrap_or(0)
}

/// For each ACK: what was outstanding when a sender silent in recovery went on; huge where it was not silent.
///
/// The window does not grow in recovery. A silent sender's is at most what is outstanding, and at least what will be when
/// it sends again. No claim where the window was not its limit before, or no data was left to send.
fn drained_to(
    trace: &Trace,
    seen: &Sequence,
    events: &[LossEvent],
    flight: &[i64],
    limited: &[Limit],
    exhausted: &[bool],
) -> Vec<i64> {
    let mut found = vec![i64::MAX; flight.len()];
    for event in events {
        let known = seen.acks_before_send[event.first_send] as usize;
        let Some(first) = known.checked_sub(1) else {
            continue;
        };
        let before = limited[first.saturating_sub(event.dupacks)];
        if event.restarts || event.detected_by == DetectedBy::Tlp || before != Limit::Cwnd {
            continue;
        }
        let over = trace.ack_ns.partition_point(|&time| time <= event.end_ns);
        let mut begin = first;
        for end in first + 1..over {
            if !sends_at(trace, seen, end) {
                continue;
            }
            let falls = flight[begin] - flight[end] > SPREAD_SEGMENTS.get() * trace.smss;
            if falls && !exhausted[begin..end].contains(&true) {
                found[begin..end].fill(flight[end]);
            }
            begin = end;
        }
    }
    found
}

/// Whether an ACK released a segment. Without SACK a retransmission leaves by force (RFC 5681, 6582); with it, when the
/// window allows.
fn sends_at(trace: &Trace, seen: &Sequence, ack: usize) -> bool {
    let (from, to) = (
        seen.sends_before_next_ack[ack - 1] as usize,
        seen.sends_before_next_ack[ack] as usize,
    );
    if trace.has_sack || from >= to {
        return from < to;
    }
    seen.again_within(from, to).len() < to - from
}
