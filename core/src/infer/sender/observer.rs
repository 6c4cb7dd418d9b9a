//! The observer: all that a trace shows of its sender, each step once (RFC 5681, 6298, 6582, 6675).

use super::in_flight::flight::outstanding;
use super::in_flight::kept::Kept;
use super::limited_by::held_back::{HeldBack, SoFar};
use super::limited_by::shares::shares;
use super::limited_by::windows::Windows;
use super::loss_events::events::loss_events;
use super::lost_segments::lost::{Losses, lost};
use super::lost_segments::resent::repeats;
use super::rows::rtt::RoundTrips;
use super::rows::scoreboard::Scoreboard;
use super::rows::sequence::Sequence;
use super::rows::trace::{LossEvent, Trace};
use super::slow_starts::cycles::{InCycle, places};
use super::slow_starts::stretches::{Stretch, stretches};

/// What a trace shows. Every part costs time in proportion to the packets, however many losses there are.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub sequence: Sequence,
    pub rtt: RoundTrips,
    /// For each retransmission the latest send before it that carried its first byte.
    pub repeats: Vec<Option<u32>>,
    pub events: Vec<LossEvent>,
    /// Bytes in the network after each ACK and after the segments it released.
    pub flight: Vec<i64>,
    pub lost: Losses,
    pub stretches: Vec<Stretch>,
    /// The loss cycle of each.
    pub places: Vec<InCycle>,
    pub windows: Windows,
    /// Share of the time by what limited the sender, in `Limit`'s order.
    pub limits: Option<[f64; 4]>,
    /// The part of the application's share that needs no tap at the sender: pauses, and what followed an emptied window.
    pub starved: f64,
}

/// What follows from a trace row by row, without its losses.
pub fn followed(trace: &Trace) -> (Sequence, RoundTrips) {
    let sequence = Sequence::new(trace);
    let rtt = RoundTrips::new(trace, &sequence);
    (sequence, rtt)
}

/// Reads a trace from end to end.
pub fn observe(trace: &Trace) -> Observed {
    let (sequence, rtt) = followed(trace);
    let repeats = repeats(trace, &sequence);
    let events = loss_events(trace, &sequence, &rtt, &repeats);
    let board = if events.is_empty() {
        Scoreboard::default()
    } else {
        Scoreboard::new(trace)
    };
    let flight = outstanding(trace, &sequence, &repeats, &events, &board, rtt.base_ns);
    let lost = lost(trace, &sequence, &repeats, &events, &board, &rtt);
    let kept = Kept::new(trace, &sequence, &events, &board, &rtt);
    drop(board);
    let stretches = stretches(trace, &sequence, &events, &flight, rtt.base_ns);
    let places = places(&sequence, &events, &stretches, &flight);
    let known = SoFar {
        trace,
        seen: &sequence,
        rtt: &rtt,
        events: &events,
        parts: &stretches,
        flight: &flight,
    };
    let held_back = HeldBack::new(known, kept);
    let windows = Windows::new(known, &held_back);
    let (limits, starved) = shares(&windows, known, &held_back.late).unzip();
    Observed {
        sequence,
        rtt,
        repeats,
        events,
        flight,
        lost,
        stretches,
        places,
        windows,
        limits,
        starved: starved.unwrap_or(0.0),
    }
}

impl Observed {
    /// What was outstanding after the last ACK that moved before a loss: limited transmit (RFC 3042) not counted.
    pub fn window_before(&self, event: &LossEvent) -> i64 {
        let known = self.sequence.acks_before_send[event.first_send] as usize;
        self.sequence
            .last_moved(known.max(1))
            .map_or(event.flight, |ack| self.flight[ack])
    }

    /// What was outstanding when a recovery was over; None after a restart, or where the capture ends before.
    pub fn window_after(&self, event: &LossEvent) -> Option<i64> {
        let known = self.sequence.acks_before_send[event.first_send] as usize;
        let over = self.sequence.first_acked(known, event.recover);
        self.flight.get(over).copied().filter(|_| !event.restarts)
    }

    /// RFC 6675 section 4 `SetPipe` after each send, as far as the ACKs around it tell.
    pub fn pipe_at_sends(&self, trace: &Trace) -> Vec<i64> {
        let seen = &self.sequence;
        let mut pipes = vec![0; trace.send_ns.len()];
        let (mut after, mut later) = (usize::MAX, 0);
        for send in (0..pipes.len()).rev() {
            let known = seen.acks_before_send[send] as usize;
            if known != after {
                (after, later) = (known, 0);
            }
            // What the last ACK released, without those that left after this one.
            pipes[send] = match known.checked_sub(1) {
                Some(ack) => (self.flight[ack] - later).max(0),
                None => seen.snd_max[send] - seen.first_offset,
            };
            later += trace.send_end[send] - trace.send_offset[send];
        }
        pipes
    }
}
