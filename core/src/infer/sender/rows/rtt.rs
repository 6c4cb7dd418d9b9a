//! Round-trip times from sequence numbers (Karn and Partridge 1987; RFC 6298 section 3).

use super::before::Sampled;
use super::sequence::Sequence;
use super::trace::{LOST_ON_WAY, Trace};
use crate::infer::{given::FEWEST_SAMPLES, quantile};

/// The samples of one trace, in the order of the ACKs that gave them.
#[derive(Clone, Debug, Default)]
pub struct RoundTrips {
    pub ack: Vec<u32>,
    pub rtt_ns: Vec<i64>,
    /// Of a full segment: shorter ones are left out where there are enough of these.
    pub is_full: Vec<bool>,
    /// The smallest sample, 0 without any.
    pub base_ns: i64,
    /// The median, 0 without any.
    pub median_ns: i64,
    /// The longest of these samples, 0 without any.
    pub longest_ns: i64,
}

impl RoundTrips {
    /// One sample for each ACK of new data, from the last segment that it covers.
    ///
    /// Karn: none where that segment was sent more than once. None either where anything was retransmitted between
    /// segment and ACK: the ACK may answer the segment that filled a hole, not the last one it covers. Where the trace
    /// begins in the middle, none of what may have been sent before it, nor of what duplicate ACKs had waited for: the
    /// segment that filled that hole may be a copy, and so may those sent behind it. Nor across a step of the clock.
    pub fn new(trace: &Trace, seen: &Sequence) -> Self {
        let mut found: Vec<(u32, i64, bool)> = Vec::new();
        let mut fresh = Fresh { at: 0, again: 0 };
        let unseen = Unseen::new(trace);
        let mut resent = 0;
        for ack in 0..trace.ack_ns.len() {
            if seen.newly_acked(ack) <= 0 {
                continue;
            }
            let (heard_ns, una) = (trace.ack_ns[ack], seen.snd_una[ack]);
            let again_ns = |place: usize| {
                seen.again
                    .get(place)
                    .map(|&send| trace.send_ns[send as usize])
            };
            while again_ns(resent).is_some_and(|time| time <= heard_ns) {
                resent += 1;
            }
            let Some(send) = fresh.ending_at(trace, seen, una) else {
                continue;
            };
            let sent_ns = trace.send_ns[send];
            let is_filled = resent > 0 && again_ns(resent - 1).is_some_and(|time| time >= sent_ns);
            // When it left what never came to a tap is not known.
            let has_passed = trace.fate.get(send) != Some(&LOST_ON_WAY);
            let is_known = has_passed && heard_ns >= sent_ns && !trace.is_across(sent_ns, heard_ns);
            if is_known && !is_filled && !unseen.has(trace, seen, send, ack) {
                let is_full = trace.send_end[send] - trace.send_offset[send] >= trace.smss;
                found.push((ack as u32, heard_ns - sent_ns, is_full));
            }
        }
        // A short segment is sent faster than a full one: it would make the path look shorter.
        let full = found.iter().filter(|sample| sample.2).count();
        let full = full
            + trace
                .before
                .map_or(0, |before| before.rtt.full.count() as usize);
        if full >= FEWEST_SAMPLES.get() {
            found.retain(|sample| sample.2);
        }
        let mut samples = Self {
            ack: found.iter().map(|sample| sample.0).collect(),
            rtt_ns: found.iter().map(|sample| sample.1).collect(),
            is_full: found.iter().map(|sample| sample.2).collect(),
            longest_ns: found.iter().map(|sample| sample.1).max().unwrap_or(0),
            ..Self::default()
        };
        (samples.base_ns, samples.median_ns) = match trace.before {
            Some(before) => before.rtt.with(&samples, usize::MAX).least_and_median(),
            None => (
                samples.rtt_ns.iter().copied().min().unwrap_or(0),
                quantile::median(&mut samples.rtt_ns.clone()).map_or(0, |rtt_ns| rtt_ns as i64),
            ),
        };
        samples
    }
}

impl Sampled {
    /// With those of the ACKs before number `until`.
    pub fn with(&self, found: &RoundTrips, until: usize) -> Self {
        let mut both = self.clone();
        let count = found.ack.partition_point(|&ack| (ack as usize) < until);
        for (&rtt_ns, &is_full) in found.rtt_ns[..count].iter().zip(&found.is_full) {
            both.all.add(rtt_ns);
            if is_full {
                both.full.add(rtt_ns);
            }
        }
        both
    }

    fn least_and_median(&self) -> (i64, i64) {
        let samples = if self.full.count() as usize >= FEWEST_SAMPLES.get() {
            &self.full
        } else {
            &self.all
        };
        let median = samples.quantile(0.5).unwrap_or(0.0);
        (samples.min(), median as i64)
    }
}

/// What was sent before a trace that begins in the middle, as far as its ACKs tell.
struct Unseen {
    /// The highest byte acknowledged or SACKed up to each ACK; empty where the trace has the start.
    heard: Vec<i64>,
}

impl Unseen {
    fn new(trace: &Trace) -> Self {
        // Where rows are kept no more, what they sent is known.
        if trace.has_start || trace.before.is_some() {
            return Self { heard: Vec::new() };
        }
        let mut top = i64::MIN;
        let each = trace.ack_offset.iter().zip(trace.sack_high);
        let heard = each.map(|(&ack, &sacked)| {
            top = top.max(ack).max(sacked);
            top
        });
        Self {
            heard: heard.collect(),
        }
    }

    /// Whether a send without a copy before it may be a retransmission: data above it had arrived, or is missing, or the
    /// ACK that answers it ends duplicates.
    fn has(&self, trace: &Trace, seen: &Sequence, send: usize, answer: usize) -> bool {
        if self.heard.is_empty() {
            return false;
        }
        let mut known = seen.acks_before_send[send] as usize;
        // An ACK of the same instant may be the answer.
        while known > 0 && trace.ack_ns[known - 1] == trace.send_ns[send] {
            known -= 1;
        }
        let had_arrived = known > 0 && self.heard[known - 1] > trace.send_offset[send];
        let end = trace.send_end[send];
        let is_below_hole = seen.holes.binary_search_by_key(&end, |hole| hole.0).is_ok();
        had_arrived || is_below_hole || (answer > 0 && seen.is_dup(answer - 1))
    }
}

/// Goes through the segments sent for the first time, whose ends only rise.
struct Fresh {
    at: usize,
    again: usize,
}

impl Fresh {
    /// The one that ends where `una` stands.
    fn ending_at(&mut self, trace: &Trace, seen: &Sequence, una: i64) -> Option<usize> {
        while self.at < trace.send_ns.len() {
            if seen
                .again
                .get(self.again)
                .is_some_and(|&send| send as usize == self.at)
            {
                self.again += 1;
            } else if trace.send_end[self.at] >= una {
                return (trace.send_end[self.at] == una).then_some(self.at);
            }
            self.at += 1;
        }
        None
    }
}
