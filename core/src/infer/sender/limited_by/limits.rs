//! What held a sender back: its congestion window, the receiver's window, its application, or a loss.

use crate::infer::given::{FEWEST_SAMPLES, HOST_NS, PROMPT_PARTS};
use crate::infer::ordered::from;
use crate::infer::sender::in_flight::room::{MOST_RELEASED, is_in_order};
use crate::infer::sender::rows::before::Told;
use crate::infer::sender::rows::rtt::RoundTrips;
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::{LossEvent, Trace};
use crate::recovery::DetectedBy;
use crate::threshold::threshold;

// Answers to ACKs at once are so large a share of all, where a window is at work.
threshold!(CLOCKED_SHARE: f64 = 0.5, Share);
// Segments that one ACK releases leave one behind the other: so many times the closest two ever left may lie between.
// A host that is interrupted within a burst goes on within this.
threshold!(BURST_GAPS: i64 = 4, Count);
threshold!(pub BURST_NS: i64 = 500_000, Nanoseconds);
// A host takes as long to answer an ACK: where that part is less, a radio or an interrupt handed over a bunch of ACKs.
threshold!(ANSWER_NS: i64 = 20_000, Nanoseconds);
// A pause: longer than this part of a round trip, and than a host's own delay.
threshold!(pub PAUSE_PARTS: i64 = 4, Count);
// The closest two: so many pairs in a thousand may have been stamped closer by chance.
threshold!(CLOSEST_PER_MILLE: i64 = 10, Count);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Limit {
    Cwnd = 0,
    Rwnd = 1,
    Application = 2,
    Recovery = 3,
}

impl Limit {
    pub const NAMES: [&'static str; 4] = ["cwnd", "rwnd", "application", "recovery"];
}

/// Where ACKs release segments at once: a window at work.
pub struct Clocked {
    /// Per ACK, in the round trip before it.
    pub around: Vec<bool>,
    /// On the whole.
    pub whole: bool,
    /// Per ACK: it is one of many in a row of which none did.
    pub never: Vec<bool>,
}

/// Whether the ACKs of the last round trip released segments at once (a window at work), and on the whole.
///
/// An application or a pacer sends at its own times: by chance, one in eight of its segments follows an ACK within an
/// eighth of the time to the next, and as many within an eighth of what lies between those behind it: of those that a
/// radio, or an interrupt, hands over in one bunch the next comes sooner than any host answers.
pub fn clocked(trace: &Trace, rtt: &RoundTrips, told: &[u8]) -> Clocked {
    let count = trace.ack_ns.len();
    let mut found = Clocked {
        around: vec![false; count],
        whole: false,
        never: vec![false; count],
    };
    if rtt.rtt_ns.is_empty() {
        return found;
    }
    let (mut since, mut around, mut whole) = (0, Told::default(), Told::default());
    if let Some(before) = trace.before {
        whole = before.told;
    }
    // The first ACK behind the last that released a segment at once.
    let mut since_prompt = 0;
    for ack in 0..count {
        around.add(told[ack]);
        whole.add(told[ack]);
        // Times that were put by a rule do not tell it of one.
        if whole.late_in_a_row == 0 || !trace.slack.is_empty() {
            since_prompt = ack + 1;
        } else if whole.late_in_a_row >= FEWEST_SAMPLES.get() as u64 {
            found.never[since_prompt..=ack].fill(true);
            since_prompt = ack + 1;
        }
        while since < ack && trace.ack_ns[since] < trace.ack_ns[ack] - rtt.median_ns {
            around.all -= u64::from(told[since] > 0);
            around.prompt -= u64::from(told[since] > 1);
            since += 1;
        }
        found.around[ack] = around.is_clocked();
    }
    found.whole = whole.is_clocked();
    found
}

impl Told {
    fn add(&mut self, told: u8) {
        self.all += u64::from(told > 0);
        self.prompt += u64::from(told > 1);
        match told {
            0 => {}
            1 => self.late_in_a_row += 1,
            _ => self.late_in_a_row = 0,
        }
    }

    fn is_clocked(self) -> bool {
        self.prompt as f64 > CLOCKED_SHARE.get() * self.all as f64
    }

    /// With the ACKs before number `until`.
    pub fn with(mut self, trace: &Trace, seen: &Sequence, until: usize) -> Self {
        for told in told(trace, seen).into_iter().take(until) {
            self.add(told);
        }
        self
    }
}

/// Per ACK: 0, nothing is told; 1, it released a segment, not at once; 2, at once. The first segment after each ACK
/// tells; of those behind it one that does not follow in the burst: no ACK released it.
pub(super) fn told(trace: &Trace, seen: &Sequence) -> Vec<u8> {
    let found = told_within(trace, seen, 0);
    let mut whole = Told::default();
    found.iter().for_each(|&told| whole.add(told));
    if whole.is_clocked() {
        return found;
    }
    own_answer_ns(trace, seen).map_or(found, |own_ns| told_within(trace, seen, own_ns))
}

/// How long this host takes to answer an ACK, where that shows: half of what each ACK released first left within a part of
/// the time between ACKs that chance would have hit with one in eight of it; and no host's is many times the usual.
fn own_answer_ns(trace: &Trace, seen: &Sequence) -> Option<i64> {
    let (mut answers, mut gaps, mut before) = (Vec::new(), Vec::new(), 0);
    for (send, &known) in seen.acks_before_send.iter().enumerate() {
        let known = known as usize;
        if known > before && known < trace.ack_ns.len() {
            let (heard, next) = (trace.ack_ns[known - 1], trace.ack_ns[known]);
            answers.push(trace.send_ns[send].saturating_sub(heard));
            gaps.push(next.saturating_sub(heard));
        }
        before = known.max(before);
    }
    let half = answers.len() / 2;
    if half < FEWEST_SAMPLES.get() {
        return None;
    }
    answers.sort_unstable();
    let (_, &mut gap, _) = gaps.select_nth_unstable(half);
    let spans = answers.iter().zip(&answers[half..]);
    // The narrowest span that holds half of them, and up to when.
    let spans = spans.map(|(since, &until)| (until.saturating_sub(*since), until));
    let (span, until) = spans.min()?;
    let is_own = span.saturating_mul(PROMPT_PARTS.get()) <= gap;
    (is_own && until <= ANSWER_NS.get() * PROMPT_PARTS.get()).then_some(until)
}

fn told_within(trace: &Trace, seen: &Sequence, own_ns: i64) -> Vec<u8> {
    let count = trace.ack_ns.len();
    let mut told = vec![0_u8; count];
    let until_next_ns = until_next_bunch_ns(trace);
    let mut before = 0;
    let burst_ns = closest_ns(trace)
        .saturating_mul(BURST_GAPS.get())
        .max(BURST_NS.get());
    for (send, &known) in seen.acks_before_send.iter().enumerate() {
        let known = known as usize;
        if known > 0 && known < count {
            let (heard, next) = (trace.ack_ns[known - 1], trace.ack_ns[known]);
            // Behind ACKs that released nothing what an application writes comes early, too, by the time to the next ACK
            // of another train. A host may read some at once, and late; not what the first of them would have let go.
            let since = known.checked_sub(2).filter(|_| known > before + 1);
            let since = since.map_or(i64::MAX, |last| {
                let apart_ns = heard - trace.ack_ns[last];
                let is_late = trace.send_ns[send] - trace.ack_ns[before] > HOST_NS.get();
                if is_late && exceeds_release(trace, seen, send, known - 1) {
                    apart_ns
                } else {
                    apart_ns.max(HOST_NS.get() * PROMPT_PARTS.get())
                }
            });
            let mut soon = ((next - heard).min(since) / PROMPT_PARTS.get()).max(own_ns);
            if soon < ANSWER_NS.get() {
                let apart_ns = apart_behind_ns(trace, known - 1).max(until_next_ns[known - 1]);
                soon = soon.max(apart_ns / PROMPT_PARTS.get());
            }
            if known > before && next > heard {
                told[known - 1] = if trace.send_ns[send] - heard <= soon {
                    2
                } else {
                    1
                };
            } else if trace.send_ns[send] - trace.send_ns[send - 1] > soon.max(burst_ns) {
                told[known - 1] = told[known - 1].min(1);
            }
        }
        before = known.max(before);
    }
    told
}

/// Whether more leaves behind an ACK, from a send on, than that can have let go by itself.
fn exceeds_release(trace: &Trace, seen: &Sequence, send: usize, ack: usize) -> bool {
    let left = seen.newly_sent(send, seen.sends_before_next_ack[ack] as usize);
    is_in_order(trace, ack) && left > MOST_RELEASED.get() * seen.newly_acked(ack) + trace.smss
}

/// How far apart ACKs are from one of them on, a few and as many behind those: the less of both, so that no pause counts,
/// and no more than leaves a host time to answer. Of what came before it nothing may be kept.
fn apart_behind_ns(trace: &Trace, ack: usize) -> i64 {
    let few = FEWEST_SAMPLES.get();
    if ack + 2 * few >= trace.ack_ns.len() {
        return 0;
    }
    let apart_ns = |first: usize| (trace.ack_ns[first + few] - trace.ack_ns[first]) / few as i64;
    apart_ns(ack)
        .min(apart_ns(ack + few))
        .min(HOST_NS.get() * PROMPT_PARTS.get())
}

/// Per ACK of a bunch: how long until the next bunch, 0 where the rest of its own lasts longer than chance may hit: of what
/// leaves at other times than ACKs tell, one in eight falls into an eighth of the time.
fn until_next_bunch_ns(trace: &Trace) -> Vec<i64> {
    let times = trace.ack_ns;
    let mut found = vec![0; times.len()];
    // The last of the bunch, and the first of the next.
    let mut ends: Option<(i64, i64)> = None;
    for ack in (1..times.len()).rev() {
        let (here, next) = (times[ack - 1], times[ack]);
        if next - here >= ANSWER_NS.get() {
            ends = Some((here, next));
        }
        let Some((last, begins)) = ends else { continue };
        if (last - here).saturating_mul(PROMPT_PARTS.get()) <= begins - here {
            found[ack - 1] = (begins - here).min(HOST_NS.get() * PROMPT_PARTS.get());
        }
    }
    found
}

/// How closely segments ever leave one behind the other: the sender's line.
fn closest_ns(trace: &Trace) -> i64 {
    let mut gaps: Vec<i64> = trace
        .send_ns
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    if gaps.is_empty() {
        return 0;
    }
    let place = gaps.len() * CLOSEST_PER_MILLE.get() as usize / 1000;
    *gaps.select_nth_unstable(place).1
}

/// What leaves later behind an ACK was not released by it.
pub fn pause_ns(rtt: &RoundTrips) -> i64 {
    if rtt.rtt_ns.is_empty() {
        0
    } else {
        HOST_NS.get().max(rtt.median_ns / PAUSE_PARTS.get())
    }
}

/// The ACKs after the last new segment before a pause, before a probe of the tail, or before the end: no data was left for
/// them to release.
pub fn exhausted(
    trace: &Trace,
    seen: &Sequence,
    rtt: &RoundTrips,
    events: &[LossEvent],
    is_written: &[bool],
) -> Vec<bool> {
    // RFC 8985 section 7.3: it sends again what was last sent where there is no new data (or no room for it).
    let probes = events
        .iter()
        .filter(|event| event.detected_by == DetectedBy::Tlp);
    let probes: Vec<usize> = probes.map(|event| event.first_send).collect();
    // The next segment leaves when all before it is acknowledged, and later than that ACK explains: of new data, where a
    // repair begins with what is sent again first. Its window releases the others.
    let wait = pause_ns(rtt);
    let resumes = |send: usize| {
        let Some(&known) = seen.acks_before_send.get(send) else {
            return false;
        };
        let known = known as usize;
        let heard = known
            .checked_sub(1)
            .map_or(trace.send_ns[send], |last| trace.ack_ns[last]);
        let before = send
            .checked_sub(1)
            .map_or(seen.first_offset, |before| seen.snd_max[before]);
        seen.una_at(send) >= before && trace.send_ns[send] - heard > wait
    };
    let begun: Vec<usize> = events.iter().map(|event| event.first_send).collect();
    let next = |send: usize| {
        if begun.binary_search(&send).is_ok() {
            seen.next_new(send)
        } else {
            send
        }
    };
    // What is only sent again behind it was no new data to release.
    let last_new = seen
        .snd_max
        .partition_point(|&top| Some(&top) < seen.snd_max.last());
    let rows = seen.sends_before_next_ack.iter().zip(is_written);
    let each = rows.map(|(&sent, &is_written)| {
        let sent = sent as usize;
        is_written
            || sent > last_new
            || sent >= trace.send_ns.len()
            || resumes(next(sent))
            || has_waited(trace, seen, sent)
            || probes.binary_search(&sent).is_ok()
    });
    each.collect()
}

/// The ACKs between the end of one answer, short of a full segment, and what follows when all of it is acknowledged, with
/// room left in the receiver's window: the other side's data asks for more, or it is short again, and had waited.
pub fn written(trace: &Trace, seen: &Sequence) -> Vec<bool> {
    let begins = |send: usize| {
        let last = send.checked_sub(1)?;
        let asked = (seen.acks_before_send[send] as usize).checked_sub(1)?;
        let heard = (seen.acks_before_send[last] as usize).checked_sub(1)?;
        let in_flight = seen.snd_max[last] - seen.una_at(last);
        Some(
            is_short(trace, last)
                && seen.una_at(send) >= seen.snd_max[last]
                && (!trace.is_bare[asked] || has_waited(trace, seen, send))
                && in_flight + trace.smss <= trace.rwnd[heard],
        )
    };
    let rows = seen.sends_before_next_ack.iter().map(|&sent| {
        let sent = sent as usize;
        sent < trace.send_ns.len() && begins(sent).unwrap_or(false)
    });
    rows.collect()
}

/// Whether a segment short of full waited until all before it was acknowledged, and no more was written behind it (RFC 9293
/// section 3.7.4).
fn has_waited(trace: &Trace, seen: &Sequence, send: usize) -> bool {
    let known = &seen.acks_before_send;
    let top = send.checked_sub(1).map(|last| seen.snd_max[last]);
    is_short(trace, send)
        && top.is_some_and(|top| seen.una_at(send) >= top)
        && known.get(send + 1).is_none_or(|&next| next > known[send])
}

fn is_short(trace: &Trace, send: usize) -> bool {
    trace.send_end[send] - trace.send_offset[send] < trace.smss
}

/// From the loss noticed until all outstanding then is acknowledged; after a restart, until it resends.
pub fn in_recovery(trace: &Trace, seen: &Sequence, events: &[LossEvent], limited: &mut [Limit]) {
    for event in events.iter().filter(|event| event.detected_by.is_loss()) {
        let known = seen.acks_before_send[event.first_send] as usize;
        let first = known.saturating_sub(event.dupacks + 1);
        let over_ns = if event.restarts {
            event.time_ns
        } else {
            event.end_ns
        };
        let over = from(trace.ack_ns, known, |time| time < over_ns);
        if let Some(rows) = limited.get_mut(first..over) {
            rows.fill(Limit::Recovery);
        }
    }
}
