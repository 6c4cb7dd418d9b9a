//! A sender's run cut at what sets its window back, and where slow start ended in each part (RFC 5681 sections 3, 4.1).
//!
//! Slow start is recognised by what it does: each ACK adds at least one segment to what is outstanding, where avoidance
//! adds one per round trip. Its end (the ssthresh reached, or HyStart's exit) is the change point of that growth, found by
//! a cumulative sum, so a late ACK or a burst does not move it.

use crate::infer::given::HOST_NS;
use crate::infer::sender::rows::before::{Begin, ExcessGrowth, Open};
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::{LossEvent, Trace};
use crate::recovery::LEAST_RTO_NS;
use crate::threshold::threshold;

// Growth of half a segment per ACK lies between slow start (one or more) and avoidance (ACKed segments / cwnd).
threshold!(PER_ACK: f64 = 0.5, Segments);
// ACKs of several segments: slow start adds one per ACK (RFC 5681) to one per segment (RFC 3465, Linux).
threshold!(PER_SEGMENT: f64 = 0.25, Segments);
// A flight this much below where slow start ended is not avoidance: the data ran out.
threshold!(FALL: f64 = 0.2, Share);

/// The ACKs between two things that set the window back: from `begin` to the next loss event, idle time or the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub begin: Begin,
    /// First and last ACK.
    pub first: usize,
    pub last: usize,
    /// The ACK up to which the window grew as in slow start (None: it never did), and the bytes outstanding at its two
    /// ends.
    pub peak: Option<usize>,
    pub grown_from: i64,
    pub grown_to: i64,
    /// Behind a pause: what was outstanding before its first ACK.
    pub resumed: i64,
    /// Avoidance followed, rather than the receiver's window, the end of the data or of the stretch.
    pub has_threshold: bool,
    /// The loss events that began and ended it, by number.
    pub started_by: Option<usize>,
    pub ended_by: Option<usize>,
}

impl Stretch {
    /// The threshold seen at work: where slow start turned into avoidance. None: it never did, or something else did.
    pub fn ssthresh(&self) -> Option<i64> {
        if self.begin == Begin::Recovery {
            return Some(self.grown_from);
        }
        self.has_threshold.then_some(self.grown_to)
    }
}

struct Cut {
    first: usize,
    begin: Begin,
    event: Option<usize>,
}

/// The run cut at loss events and at idle times, each with the end of its slow start if it has one.
pub fn stretches(
    trace: &Trace,
    seen: &Sequence,
    events: &[LossEvent],
    flight: &[i64],
    base_ns: i64,
) -> Vec<Stretch> {
    let count = trace.ack_ns.len();
    let mut cuts = cuts(trace, seen, events, base_ns);
    cuts.retain(|cut| cut.first < count);
    let mut found = Vec::with_capacity(cuts.len());
    for (number, cut) in cuts.iter().enumerate() {
        let following = cuts.get(number + 1);
        let ended_by = following.and_then(|next| next.event);
        let mut last = following.map_or(count, |next| next.first).saturating_sub(1);
        if let Some(event) = ended_by {
            // What came after the last ACK that moved `snd_una` is the loss, not the window.
            let known = (seen.acks_before_send[events[event].first_send] as usize).max(1);
            last = (last + 1).min(seen.last_moved(known).unwrap_or(0));
        }
        let last = last.max(cut.first);
        let open = trace.before.map(|before| &before.stretch);
        let open = open.filter(|_| number == 0);
        let mut growth = open.map_or(ExcessGrowth::default(), |open| open.growth);
        let peak = growth_end(trace, seen, flight, (cut.first, last), &mut growth);
        let until = peak.map_or(cut.first + 1, |peak| peak.max(cut.first + 1));
        let upto = peak.unwrap_or(last);
        let mut part = Stretch {
            begin: cut.begin,
            first: cut.first,
            last,
            peak,
            grown_from: flight[cut.first..until].iter().copied().min().unwrap_or(0),
            grown_to: flight[cut.first..=upto].iter().copied().max().unwrap_or(0),
            has_threshold: peak.is_some_and(|peak| turns(trace, seen, flight, peak, last)),
            resumed: match (cut.begin, cut.first.checked_sub(1)) {
                (Begin::Idle, Some(before)) => flight[before],
                _ => open.map_or(0, |open| open.resumed),
            },
            started_by: cut.event,
            ended_by,
        };
        if let Some(open) = open {
            open.goes_on(&mut part);
        }
        found.push(part);
    }
    found
}

impl Open {
    /// The stretch that ACK `at` belongs to, without that ACK and what follows it.
    pub fn new(trace: &Trace, seen: &Sequence, part: &Stretch, flight: &[i64], at: usize) -> Self {
        let open = trace.before.map(|before| before.stretch);
        let open = open.filter(|_| part.first == 0);
        let mut growth = open.map_or(ExcessGrowth::default(), |open| open.growth);
        let rows = &flight[part.first..at];
        let peak = growth_end(trace, seen, flight, (part.first, at - 1), &mut growth);
        let until = peak.map_or(part.first + 1, |peak| peak.max(part.first + 1));
        let of = |rows: &[i64]| {
            let least = rows.iter().copied().min().unwrap_or(i64::MAX);
            (least, rows.iter().copied().max().unwrap_or(0))
        };
        let (least, held) = of(rows);
        let mut now = Stretch {
            peak,
            grown_from: of(&flight[part.first..until]).0,
            grown_to: of(&flight[part.first..=peak.unwrap_or(at - 1)]).1,
            // What came after it shows whether the flight stayed there.
            has_threshold: peak.is_some_and(|peak| turns(trace, seen, flight, peak, part.last)),
            ..*part
        };
        if let Some(open) = open {
            open.goes_on(&mut now);
        }
        Self {
            begin: part.begin,
            growth,
            least: open.map_or(least, |open| open.least.min(least)),
            held: open.map_or(held, |open| open.held.max(held)),
            has_peak: peak.is_some() || open.is_some_and(|open| open.has_peak),
            grown_from: now.grown_from,
            grown_to: now.grown_to,
            has_threshold: now.has_threshold,
            resumed: part.resumed,
            was_exhausted: open.is_some_and(|open| open.was_exhausted),
        }
    }

    /// What of a stretch lies before its first row.
    fn goes_on(&self, part: &mut Stretch) {
        if part.peak.is_some() {
            part.grown_from = part.grown_from.min(self.least);
            part.grown_to = part.grown_to.max(self.held);
        } else {
            part.grown_from = self.grown_from;
            part.grown_to = if self.has_peak {
                self.grown_to
            } else {
                part.grown_to.max(self.held)
            };
            part.has_threshold = self.has_threshold;
        }
    }
}

fn cuts(trace: &Trace, seen: &Sequence, events: &[LossEvent], base_ns: i64) -> Vec<Cut> {
    if trace.ack_ns.is_empty() || trace.send_ns.is_empty() {
        return Vec::new();
    }
    let begin = match trace.before {
        Some(before) => before.stretch.begin,
        None if trace.has_start => Begin::Connection,
        None => Begin::Capture,
    };
    let mut cuts = vec![Cut {
        first: 0,
        begin,
        event: None,
    }];
    for (number, event) in events.iter().enumerate() {
        let known = seen.acks_before_send[event.first_send] as usize;
        let cut = |first, begin| Cut {
            first,
            begin,
            event: Some(number),
        };
        if event.restarts {
            cuts.push(cut(known.saturating_sub(1), Begin::Restart));
        } else if event.detected_by.is_loss() {
            let over = seen.acked_at(known, event.recover);
            let upto = events.get(number + 1).map_or(trace.ack_ns.len(), |next| {
                seen.acks_before_send[next.first_send] as usize
            });
            // Not over when the timer fires within the recovery.
            cuts.push(if over < upto {
                cut(over, Begin::Recovery)
            } else {
                cut(known, Begin::Lost)
            });
        }
    }
    cuts.extend(idle_ends(trace, seen, base_ns).map(|first| Cut {
        first,
        begin: Begin::Idle,
        event: None,
    }));
    cuts.sort_by_key(|cut| cut.first);
    cuts
}

/// The first ACK after each pause: all was acknowledged, and nothing was sent for longer than the least RTO (RFC 5681
/// section 4.1): from the last segment on, whenever its ACK came, and a timer waits for a round trip besides.
fn idle_ends<'a>(
    trace: &'a Trace,
    seen: &'a Sequence,
    base_ns: i64,
) -> impl Iterator<Item = usize> + 'a {
    let mut sent = 0;
    let mut resumed = usize::MAX;
    trace
        .ack_ns
        .iter()
        .enumerate()
        .filter_map(move |(ack, &heard_ns)| {
            while trace.send_ns.get(sent).is_some_and(|&left| left < heard_ns) {
                sent += 1;
            }
            let resumes = *trace.send_ns.get(sent)?;
            let is_done = sent > 0 && seen.snd_max[sent - 1] <= seen.snd_una[ack];
            // What an ACK that was delayed lets go is no resumption.
            if !is_done
                || resumes - heard_ns <= HOST_NS.get()
                || resumes - trace.send_ns[sent - 1] <= LEAST_RTO_NS.get() + base_ns
            {
                return None;
            }
            let first = trace.ack_ns.partition_point(|&time| time <= resumes);
            (std::mem::replace(&mut resumed, first) != first).then_some(first)
        })
}

impl ExcessGrowth {
    /// The next ACK that moved; whether it has grown the most so far. Sizes in bytes.
    fn is_most(&mut self, now: i64, newly_acked: i64, smss: f64) -> bool {
        let Some(before) = self.before.replace(now) else {
            return false;
        };
        // An ACK that jumps over data received earlier (a hole filled) releases no more than any other ACK.
        let grown = (now - before) as f64 / smss;
        let acked = newly_acked.min(before) as f64 / smss;
        let ordinary = if acked <= 2.0 {
            PER_ACK.get()
        } else {
            PER_SEGMENT.get() * acked
        };
        self.score += grown.min(acked.max(1.0) * 16.0) - ordinary;
        let is_most = self.score > self.best;
        if is_most {
            self.best = self.score;
        }
        is_most
    }
}

/// The ACK at which growth like slow start's ends, None where there is none between the two ends of `rows`.
fn growth_end(
    trace: &Trace,
    seen: &Sequence,
    flight: &[i64],
    (first, last): (usize, usize),
    growth: &mut ExcessGrowth,
) -> Option<usize> {
    let smss = trace.smss.max(1) as f64;
    let mut peak = None;
    for ack in (first..=last).filter(|&ack| seen.newly_acked(ack) > 0) {
        if growth.is_most(flight[ack], seen.newly_acked(ack), smss) {
            peak = Some(ack);
        }
    }
    // Two segments more than avoidance would have added: one can be a rounding or a delayed ACK.
    peak.filter(|_| growth.best >= 1.0)
}

/// Whether the flight stayed where slow start had ended, with room left in the receiver's window.
fn turns(trace: &Trace, seen: &Sequence, flight: &[i64], peak: usize, last: usize) -> bool {
    // A round trip of ACKs: as many as there were segments outstanding, or half as many.
    let round = (flight[peak] / (2 * trace.smss.max(1))).max(2) as usize;
    // A duplicate ACK moves nothing, whatever the window is.
    let end = last.min(peak.saturating_add(round)) + 1;
    let mut rows: Vec<usize> = (peak + 1..end)
        .filter(|&ack| seen.newly_acked(ack) > 0)
        .collect();
    // Away from the sender what left between two of its stamps is shared out evenly among the ACKs between: that the flight
    // stays there tells nothing.
    let is_told = |&ack: &usize| trace.slack.get(ack).is_none_or(|&open| open < trace.smss);
    if rows.iter().copied().filter(|ack| is_told(ack)).count() >= 2 {
        rows.retain(is_told);
    }
    // Behind an ACK that was stamped with the next, less is outstanding than either window allows.
    let answered: Vec<usize> = rows
        .iter()
        .copied()
        .filter(|&ack| !seen.released(ack).is_empty())
        .collect();
    if rows.len() < 2 {
        return false;
    }
    let floor = flight[peak] as f64 * (1.0 - FALL.get());
    // Behind the last that let something go the data may have run out.
    let releases = |&ack: &usize| !seen.released(ack).is_empty();
    let over = (peak + 1..=last).rev().find(releases).unwrap_or(peak);
    // Where it fills the receiver's window again and again, what an ACK made room for may leave behind another capture of it.
    let fills = |ack: &usize| flight[*ack] + trace.smss > trace.rwnd[*ack];
    let is_full = (peak + 1..end).filter(fills).count() * 2 >= rows.len();
    let room = |ack: usize| trace.smss + if is_full { seen.newly_acked(ack) } else { 0 };
    let stays = |rows: &[usize]| {
        let is_there = |&&ack: &&usize| {
            ack <= over && flight[ack] + room(ack) <= trace.rwnd[ack] && flight[ack] as f64 >= floor
        };
        rows.iter().filter(is_there).count() * 2 > rows.len()
    };
    // What was inferred between the stamps tells nothing either where no ACK of those let go something.
    let tells = answered.len() >= 2;
    stays(&rows)
        && if tells {
            stays(&answered)
        } else {
            trace.slack.is_empty()
        }
}
