//! What a timer leaves counted of what was sent before it (RFC 8985 section 6.3).
//!
//! A sender with RACK takes for lost, beside the first segment, only what was sent longer ago than a round trip and the
//! reordering window: the rest fills its window still. Whether it has RACK no capture tells at once: so much more may
//! have been in use.

use super::flight::acks_of;
use crate::infer::ordered::from;
use crate::infer::sender::loss_events::rack::REORDERING_PARTS;
use crate::infer::sender::rows::rtt::RoundTrips;
use crate::infer::sender::rows::scoreboard::Scoreboard;
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::{LossEvent, Trace};

/// Bytes per ACK of the loss events that a timer began, with the first ACK of each; with SACK only.
#[derive(Default)]
pub struct Kept {
    events: Vec<(usize, Vec<i64>)>,
}

impl Kept {
    pub fn new(
        trace: &Trace,
        seen: &Sequence,
        events: &[LossEvent],
        board: &Scoreboard,
        rtt: &RoundTrips,
    ) -> Self {
        let mut found = Self::default();
        if !trace.has_sack {
            return found;
        }
        // What an earlier timer had left is a round trip old.
        let (mut before, mut near) = (0, 0);
        let recent_ns = rtt.longest_ns + rtt.base_ns / REORDERING_PARTS;
        for (number, event) in events.iter().enumerate().filter(|each| each.1.restarts) {
            let following = events.get(number + 1).map(|event| event.first_send);
            let part = acks_of(seen, event, following);
            let since_ns = event.time_ns.saturating_sub(recent_ns);
            let begin = from(trace.send_ns, event.first_send, |left| left < since_ns);
            let mut change = vec![0; part.len() + 1];
            for send in begin.max(before)..event.first_send {
                let (offset, end) = (trace.send_offset[send], trace.send_end[send]);
                let acked = seen.first_acked(part.start, end);
                let gone = board
                    .since(offset, end, &mut near)
                    .map_or(acked, |ack| ack.min(acked));
                if gone > part.start {
                    change[0] += end - offset;
                    change[gone.min(part.end) - part.start] -= end - offset;
                }
            }
            before = event.first_send;
            let mut left = 0;
            let each = change[..part.len()].iter().map(|changed| {
                left += changed;
                left
            });
            let kept: Vec<i64> = each.collect();
            if kept.iter().any(|&bytes| bytes > 0) {
                found.events.push((part.start, kept));
            }
        }
        found
    }

    /// What of it may still be under way after an ACK.
    pub fn under_way(&self, ack: usize) -> i64 {
        let behind = self.events.partition_point(|&(first, _)| first <= ack);
        let own = behind.checked_sub(1).map(|at| &self.events[at]);
        own.and_then(|(first, kept)| kept.get(ack - first))
            .copied()
            .unwrap_or(0)
    }
}
