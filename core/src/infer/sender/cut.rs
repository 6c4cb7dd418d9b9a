//! Where a trace may be cut, and what the rows in front leave behind.
//!
//! With it the passes say of the rows that are kept what they say of them among all rows, as far as a pass knows what was
//! before; medians are then a histogram's (within 0.8 %).

use super::in_flight::kept::Kept;
use super::limited_by::held_back::{HeldBack, SoFar, largest_send};
use super::observer::Observed;
use super::rows::before::{Before, Open, Starving, Told, Votes, Work};
use super::rows::trace::{LossEvent, Trace};

/// Where a trace may be cut: the first ACK and the first segment that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub ack: usize,
    pub send: usize,
}

impl Observed {
    /// The last place at which a trace may be cut, not behind ACK `most`: `snd_una` moves there and at the ACK before it,
    /// nothing above is SACKed, and what is outstanding was sent once, behind all that was sent again.
    pub fn last_cut(&self, trace: &Trace, most: usize) -> Option<Cut> {
        let seen = &self.sequence;
        (2..most.min(trace.ack_ns.len())).rev().find_map(|ack| {
            let moves = |ack: usize| seen.last_moved(ack + 1) == Some(ack);
            if !moves(ack) || !moves(ack - 1) || trace.sacked[ack - 1] > 0 {
                return None;
            }
            let sent = seen.sent_before(ack);
            let top = sent.checked_sub(1).map(|last| seen.snd_max[last])?;
            // Where all is acknowledged the last new segment is kept: the next is new beside it.
            let una = seen.snd_una[ack - 1].min(top - 1);
            let send = seen.snd_max.partition_point(|&reached| reached <= una);
            let is_whole = self
                .stretches
                .iter()
                .any(|part| part.first < ack && ack <= part.last);
            (is_whole && seen.again_within(send, sent).is_empty()).then_some(Cut { ack, send })
        })
    }

    /// What all rows in front of a cut leave behind.
    pub fn before(&self, trace: &Trace, cut: Cut) -> Option<Before> {
        let (seen, events, flight) = (&self.sequence, &self.events, &self.flight);
        let part = self.stretches.iter().rfind(|part| part.first < cut.ack)?;
        let known = SoFar {
            trace,
            seen,
            rtt: &self.rtt,
            events,
            parts: &self.stretches,
            flight,
        };
        let held_back = HeldBack::new(known, Kept::default());
        let over = events.partition_point(|event| event.first_send < cut.send);
        let before = trace.before;
        let mut stretch = Open::new(trace, seen, part, flight, cut.ack);
        if before.is_none() || part.first > 0 {
            stretch.was_exhausted = held_back.exhausted[part.first];
        }
        Some(Before {
            una: seen.snd_una[cut.ack - 1],
            top: trace.send_offset[cut.send],
            answer: trace.answer(cut.ack - 1),
            rtt: before
                .map(|before| before.rtt.clone())
                .unwrap_or_default()
                .with(&self.rtt, cut.ack),
            told: before
                .map_or(Told::default(), |before| before.told)
                .with(trace, seen, cut.ack),
            votes: before
                .map_or(Votes::default(), |before| before.votes)
                .with(&events[..over]),
            largest: largest_send(trace),
            loss_events: before.map_or(0, |before| before.loss_events) + losses(&events[..over]),
            stretch,
            starving: Starving::until(trace, seen, part, flight, cut.ack),
            work: Work::until(known, &held_back, cut.ack),
        })
    }

    /// Loss events so far, those of rows kept no more included.
    pub fn loss_events(&self, trace: &Trace) -> u64 {
        trace.before.map_or(0, |before| before.loss_events) + losses(&self.events)
    }
}

fn losses(events: &[LossEvent]) -> u64 {
    let lost = events.iter().filter(|event| event.detected_by.is_loss());
    lost.count() as u64
}
