//! What limited the sender, for how much of the time.

use super::held_back::SoFar;
use super::limits::Limit;
use super::windows::Windows;
use crate::infer::given::HOST_NS;
use crate::infer::ordered::from;
use crate::infer::sender::in_flight::room::Written;
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::{LossEvent, Trace};
use crate::recovery::DetectedBy;

/// Share of the time in which data was to be delivered, by what limited the sender; pauses count as application.
///
/// With it the part of the application's share that does not rest on how promptly ACKs released segments.
pub fn shares(table: &Windows, known: SoFar<'_>, late: &[Written]) -> Option<([f64; 4], f64)> {
    let SoFar {
        trace,
        seen,
        events,
        ..
    } = known;
    let (&last_ns, &last_send_ns) = (table.time_ns.last()?, trace.send_ns.last()?);
    if table.time_ns.len() < 2 {
        return None;
    }
    // ACKs before the first segment captured tell of a flight that was not.
    let since = trace.before.map_or(trace.send_ns[0], |_| i64::MIN);
    let last_ns = if ends_in_pause(trace, seen) {
        last_ns.max(last_send_ns)
    } else {
        last_ns
    };
    let until = last_ns.min(last_send_ns);
    let asked_ns = before_first_duplicates(trace, seen, events);
    let (mut asked, mut late) = (0, late.iter().peekable());
    let mut spans = [0_i64; 4];
    let (mut sent, mut heard, mut starved) = (0, 0, 0_i64);
    for (row, &time) in table.time_ns.iter().enumerate() {
        while trace.send_ns.get(sent).is_some_and(|&left| left < time) {
            sent += 1;
        }
        while trace.ack_ns.get(heard).is_some_and(|&known| known <= time) {
            heard += 1;
        }
        let next_ns = table.time_ns.get(row + 1).copied().unwrap_or(last_ns);
        let span = (next_ns.min(until) - time.max(since).min(until)).max(0);
        let passed_ns = |left: i64| (left - time).clamp(0, span);
        // How long, from then on, everything sent was acknowledged and nothing was sent; a closed window is no pause.
        let is_done = sent > 0
            && heard > 0
            && seen.snd_max[sent - 1] <= seen.snd_una[heard - 1]
            && trace.rwnd[heard - 1] >= trace.smss;
        let resumes = trace.send_ns.get(sent).filter(|_| is_done);
        while late.next_if(|each| each.ack + 1 < heard).is_some() {}
        let written = late.peek().filter(|each| each.ack + 1 == heard);
        let left_ns = |each: &&Written| trace.send_ns[each.first];
        let sure = written.filter(|each| each.is_sure).map(left_ns);
        let paused = resumes.copied().max(sure).map_or(0, passed_ns);
        let pause = paused.max(written.map(left_ns).map_or(0, passed_ns));
        // What is sent behind a pause is limited by what the next ACK shows: rows stand at ACKs, none where it resumes.
        // What leaves within a host's own time the ACK may have released.
        let is_apart = pause > HOST_NS.get() && row + 1 < table.time_ns.len();
        let after = row + usize::from(is_apart);
        asked = from(&asked_ns, asked, |asked| asked < time);
        let is_before = row > 0 && !is_apart && asked_ns.get(asked) == Some(&time);
        let shown = table.limited_by[if is_before { row - 1 } else { after }];
        let limit = if is_apart {
            let rwnd = trace.rwnd[heard.max(1) - 1];
            apart_from_pause(table, row, shown, rwnd, trace.smss)
        } else {
            shown
        };
        // Where stamps go back years, spans overlap for as long.
        let add = |sum: &mut i64, span: i64| *sum = sum.saturating_add(span);
        add(&mut spans[limit as usize], span - pause);
        add(&mut spans[Limit::Application as usize], pause);
        add(&mut starved, paused);
        if limit == Limit::Application && table.is_starved[after] {
            add(&mut starved, span - pause);
        }
    }
    let total = spans.iter().copied().fold(0, i64::saturating_add);
    let share = |span: i64| span as f64 / total as f64;
    (total > 0).then(|| (spans.map(share), share(starved)))
}

/// Behind the last ACK time counts where it was of all that had been sent: a pause, until the last segment.
fn ends_in_pause(trace: &Trace, seen: &Sequence) -> bool {
    trace.ack_ns.len().checked_sub(1).is_some_and(|ack| {
        let sent = seen.sent_before(ack);
        sent > 0 && seen.snd_max[sent - 1] <= seen.snd_una[ack]
    })
}

/// What limited the sender in the time of a row apart from the pause in it, behind which it is limited as `shown`.
fn apart_from_pause(table: &Windows, row: usize, shown: Limit, rwnd: i64, smss: i64) -> Limit {
    if table.limited_by[row] == Limit::Recovery {
        // What was written meanwhile repairs nothing: a timer's wait goes on (RFC 6298 section 5.3).
        return Limit::Recovery;
    }
    // A window that it fills is what stopped it; else the one that had not grown.
    match shown {
        _ if table.cwnd_low[row] + smss > rwnd => Limit::Rwnd,
        Limit::Rwnd => Limit::Cwnd,
        other => other,
    }
}

/// When the last ACKs before the duplicates that told of a loss came: until the first of them nothing had told of it, and
/// what held the sender back before held it still.
fn before_first_duplicates(trace: &Trace, seen: &Sequence, events: &[LossEvent]) -> Vec<i64> {
    let asked = events.iter().filter(|event| {
        event.dupacks > 0 && event.detected_by.is_loss() && event.detected_by != DetectedBy::Rto
    });
    let before = asked.filter_map(|event| {
        let known = seen.acks_before_send[event.first_send] as usize;
        trace.ack_ns.get(known.checked_sub(event.dupacks + 1)?)
    });
    let mut found: Vec<_> = before.copied().collect();
    found.sort_unstable();
    found
}
