//! How much a sender has in the network after each ACK: FlightSize, or `pipe` while it recovers (RFC 5681, RFC 6675).
//!
//! Just before the next ACK a sender limited by its congestion window has sent all that the last ACK released: what is
//! then outstanding is its cwnd, to within one segment. Errs low where something else held the sender back.

use std::ops::Range;

use crate::infer::ordered::from;
use crate::infer::sender::rows::scoreboard::{LEAST_ROOM, Scoreboard, lost_up_to};
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::{LossEvent, Trace};
use crate::recovery::DetectedBy;
use crate::threshold::threshold;

// RFC 3042: so many new segments may duplicate ACKs let go beyond the window.
threshold!(LIMITED_TRANSMIT_SEGMENTS: usize = 2, Segments);
/// Packets of one send told apart: as many as the largest offload makes of it, and more.
const MOST_PACKETS: i64 = 1 << 10;

/// Bytes in the network after each ACK and after the segments it released.
pub fn outstanding(
    trace: &Trace,
    seen: &Sequence,
    repeats: &[Option<u32>],
    events: &[LossEvent],
    board: &Scoreboard,
    base_ns: i64,
) -> Vec<i64> {
    let mut flight: Vec<i64> = seen
        .snd_una
        .iter()
        .zip(&seen.sends_before_next_ack)
        .map(|(&una, &sent)| {
            let top = if sent > 0 {
                seen.snd_max[sent as usize - 1]
            } else {
                0
            };
            (top - una).max(0)
        })
        .collect();
    let mut is_told = vec![false; flight.len()];
    let lost_up_to = if events.is_empty() {
        Vec::new()
    } else {
        lost_up_to(trace)
    };
    let view = View {
        trace,
        seen,
        repeats,
        board,
        lost_up_to: &lost_up_to,
        base_ns,
    };
    tell_events(&view, events, &mut flight, &mut is_told);
    // An ACK that has room for more blocks lists all there are.
    let is_full = |&ack: &usize| !is_told[ack] && trace.blocks(ack).nth(LEAST_ROOM - 1).is_some();
    let full: Vec<usize> = (0..flight.len()).filter(is_full).collect();
    let mut sacked_before = full
        .iter()
        .zip(board.sacked_after(&full, &seen.snd_una))
        .peekable();
    for ack in 0..flight.len() {
        if is_told[ack] {
            continue;
        }
        // Reordering: what is SACKed has left the network (RFC 6675 `pipe`).
        let of_all = sacked_before.next_if(|&(&full, _)| full == ack);
        let sacked = trace.sacked[ack].max(of_all.map_or(0, |of_all| of_all.1));
        flight[ack] = (flight[ack] - sacked).max(0);
        no_wider_on_duplicate(trace, seen, ack, &mut flight);
        if ack > 0 && !is_told[ack - 1] {
            waits_for_rest(trace, seen, ack, &mut flight);
        }
    }
    flight
}

/// Without SACK no window opens on a duplicate ACK: what it lets go takes the place of what has left the network
/// (RFC 3042), or, behind a timer, is sent as data of a flight that is gone (RFC 5682). Where the last ACK that moved has
/// released nothing yet, or more new data leaves than duplicates let go, it may be the other's.
fn no_wider_on_duplicate(trace: &Trace, seen: &Sequence, ack: usize, flight: &mut [i64]) {
    if trace.has_sack || !seen.is_dup(ack) {
        return;
    }
    let has_released = seen
        .last_moved(ack + 1)
        .is_some_and(|moved| !seen.released(moved).is_empty());
    let own = seen.released(ack);
    let new = own.len() - seen.again_within(own.start, own.end).len();
    if has_released && new <= LIMITED_TRANSMIT_SEGMENTS.get() {
        flight[ack] = flight[ack].min(flight[ack - 1]);
    }
}

/// What duplicates had let go beyond the window: until it is acknowledged nothing is sent, and the window is no smaller.
fn waits_for_rest(trace: &Trace, seen: &Sequence, ack: usize, flight: &mut [i64]) {
    if seen.released(ack).is_empty() && !trace.has_sack {
        flight[ack] = flight[ack].min(flight[ack - 1]);
    }
}

/// The flight within the loss events; notes which ACKs those are.
fn tell_events(view: &View, events: &[LossEvent], flight: &mut [i64], is_told: &mut [bool]) {
    let (trace, seen) = (view.trace, view.seen);
    for (number, event) in events.iter().enumerate() {
        let following = events.get(number + 1).map(|event| event.first_send);
        let part = acks_of(seen, event, following);
        if part.is_empty() {
            continue;
        }
        let has_pipe = !event.restarts && trace.has_sack;
        let behind = if has_pipe {
            view.mends_until(part.end, following)
        } else {
            part.end
        };
        // Also the duplicate ACKs that led to it: limited transmit (RFC 3042) may send for them or not.
        is_told[view.first_dupack(part.start)..behind].fill(true);
        let chosen = event.first_send..view.sent_by(behind - 1).max(event.first_send);
        if event.restarts {
            view.sent_since(event, chosen, &part, flight);
        } else if has_pipe {
            view.pipe(event, chosen, (part.start, part.end, behind), flight);
        } else {
            view.without_dupacks(&part, flight);
        }
    }
}

/// From which ACK on a loss event lasts whose first retransmission this is: the one that asked for it.
pub(in crate::infer::sender) fn begins_at(seen: &Sequence, first_send: usize) -> usize {
    (seen.acks_before_send[first_send] as usize).saturating_sub(1)
}

/// The ACKs from an event's first retransmission until it is over (or the next one begins).
pub fn acks_of(seen: &Sequence, event: &LossEvent, following: Option<usize>) -> Range<usize> {
    let first = begins_at(seen, event.first_send);
    let mut over = seen.acked_at(first, event.recover);
    if let Some(following) = following {
        over = over.min(begins_at(seen, following).max(first));
    }
    first..over
}

pub(super) struct View<'a> {
    pub(super) trace: &'a Trace<'a>,
    pub(super) seen: &'a Sequence,
    repeats: &'a [Option<u32>],
    board: &'a Scoreboard,
    pub(super) lost_up_to: &'a [i64],
    /// The least round trip: sooner nothing that was sent is answered.
    base_ns: i64,
}

impl View<'_> {
    fn sent_by(&self, ack: usize) -> usize {
        self.seen.sends_before_next_ack[ack] as usize
    }

    /// After a restart: what was sent since and has not arrived. All that was sent before counts as gone.
    fn sent_since(
        &self,
        event: &LossEvent,
        chosen: Range<usize>,
        part: &Range<usize>,
        flight: &mut [i64],
    ) {
        let mut change = vec![0; part.len() + 1];
        // From where on a duplicate ACK tells of the next segment on top.
        let mut untold = 0;
        let (again, gone_again) = self.sent_again(&chosen);
        let goes_back_behind = |send: usize| again.last().is_some_and(|&last| send < last as usize);
        let (mut rank, mut near) = (0, 0);
        let given_up = self.given_up(&chosen);
        for (send, offset, end) in chosen.flat_map(|send| self.packets(send)) {
            while again.get(rank).is_some_and(|&at| (at as usize) < send) {
                rank += 1;
            }
            let mut gone = self.acked_after(send, end);
            if again.get(rank) == Some(&(send as u32)) && self.is_below_top(send, end) {
                gone = gone.min(gone_again[rank]);
            } else if offset >= event.recover {
                // New data on top has left the network when it is SACKed or taken for lost. Without SACK, of what was sent
                // before the sender went back (RFC 5682 sends some after the first answer) each duplicate ACK that may
                // answer it tells of a segment. A sender that goes back without a timer (Tahoe) is told of what it sends
                // twice.
                let told = if self.trace.has_sack {
                    let lost = self.lost_up_to.partition_point(|&lost| lost < end);
                    Some(
                        self.board
                            .since(offset, end, &mut near)
                            .map_or(lost, |ack| ack.min(lost)),
                    )
                } else if event.detected_by == DetectedBy::Rto && goes_back_behind(send) {
                    let told = self.seen.dupack(untold.max(self.answerable_at(send)), 1);
                    untold = told.map_or(untold, |told| told + 1);
                    told
                } else {
                    None
                };
                gone = told.map_or(gone, |told| gone.min(told));
            }
            if let Ok(place) = given_up.binary_search_by_key(&send, |&(copy, _)| copy) {
                gone = gone.min(given_up[place].1);
            }
            self.count(&mut change, part, (send, end - offset), gone);
        }
        let mut left = 0;
        for (ack, changed) in part.clone().zip(change) {
            left += changed;
            flight[ack] = left;
            no_wider_on_duplicate(self.trace, self.seen, ack, flight);
            if ack > part.start {
                waits_for_rest(self.trace, self.seen, ack, flight);
            }
        }
    }

    /// What a send was on the wire: an ACK may cover a part of a super-segment.
    fn packets(&self, send: usize) -> impl Iterator<Item = (usize, i64, i64)> {
        let (offset, end) = (self.trace.send_offset[send], self.trace.send_end[send]);
        // Of a length that no host has a few are told together: work goes by rows, not by bytes.
        let smss = self.trace.smss.max(1);
        let step = smss * ((end - offset) / smss / MOST_PACKETS).max(1);
        (offset..end)
            .step_by(step as usize)
            .map(move |from| (send, from, (from + step).min(end)))
    }

    /// So many bytes of a send are part of the flight from the ACK that released it on, and of none if they had arrived
    /// before.
    pub(super) fn count(
        &self,
        change: &mut [i64],
        part: &Range<usize>,
        (send, size): (usize, i64),
        gone_at: usize,
    ) {
        let left_at = i64::from(self.seen.acks_before_send[send]) - 1;
        let place = |ack: i64| (ack - part.start as i64).clamp(0, part.len() as i64) as usize;
        change[place(left_at)] += size;
        change[place((gone_at as i64).max(left_at))] -= size;
    }

    /// The sends that were sent again, and of each the ACK that covers or SACKs it, or after which it was given up and
    /// repeated.
    pub(super) fn sent_again(&self, chosen: &Range<usize>) -> (&[u32], Vec<usize>) {
        let ranks = self.seen.again_within(chosen.start, chosen.end);
        let again = &self.seen.again[ranks.clone()];
        let known = |send: u32| self.seen.acks_before_send[send as usize] as usize;
        let mut near = 0;
        let arrived = again.iter().map(|&send| {
            let (offset, end) = (
                self.trace.send_offset[send as usize],
                self.trace.send_end[send as usize],
            );
            let acked = self.acked_after(send as usize, end);
            self.board
                .since(offset, end, &mut near)
                .map_or(acked, |ack| ack.min(acked))
        });
        let mut gone: Vec<usize> = arrived.collect();
        for (&send, copy) in again.iter().zip(&self.repeats[ranks]) {
            let before = copy.and_then(|copy| again.binary_search(&copy).ok());
            if let Some(before) = before {
                gone[before] = gone[before].min(known(send).saturating_sub(1));
            }
        }
        (again, gone)
    }

    /// Without SACK: the new data of a restarted sender that it sends again, and the ACK after which the first copy counts
    /// no more. Where it goes on over it with what was lost, it had gone back below it before (RFC 5682 section 2.1 (3a)).
    fn given_up(&self, chosen: &Range<usize>) -> Vec<(usize, usize)> {
        if self.trace.has_sack {
            return Vec::new();
        }
        let (trace, again) = (self.trace, &self.seen.again);
        let heard = |send: usize| (self.seen.acks_before_send[send] as usize).saturating_sub(1);
        let ranks = self.seen.again_within(chosen.start, chosen.end);
        let found = ranks.filter_map(|rank| {
            let send = again[rank] as usize;
            let copy = self.repeats[rank].map(|copy| copy as usize)?;
            let is_first = copy >= chosen.start && again.binary_search(&(copy as u32)).is_err();
            let behind = self.seen.again_before(copy);
            let goes_on = rank > behind
                && trace.send_offset[send] == trace.send_end[again[rank - 1] as usize]
                && trace.send_offset[send] > self.seen.una_at(send);
            let at = if goes_on {
                again[behind] as usize
            } else {
                send
            };
            is_first.then_some((copy, heard(at)))
        });
        let mut found: Vec<_> = found.collect();
        found.sort_unstable();
        found
    }

    /// Without SACK each duplicate ACK is one segment that has left the network (RFC 5681 section 3.2).
    fn without_dupacks(&self, part: &Range<usize>, flight: &mut [i64]) {
        let first = self.first_dupack(part.start);
        let smss = self.trace.smss;
        let mut jumps = 0;
        for ack in part.clone() {
            if ack > part.start {
                jumps += (self.seen.newly_acked(ack) - smss).max(0);
            }
            let gone = self.seen.dupacks(first, ack + 1) as i64 * smss;
            flight[ack] = (flight[ack] - (gone - jumps).max(0)).max(0);
        }
    }

    /// The first ACK that can tell of what was sent.
    fn answerable_at(&self, send: usize) -> usize {
        let known = self.seen.acks_before_send[send] as usize;
        let least_ns = self.trace.send_ns[send].saturating_add(self.base_ns);
        from(self.trace.ack_ns, known, |time| time < least_ns)
    }

    /// The ACK that covers what a send carried, be it an earlier copy's.
    fn acked_after(&self, send: usize, end: i64) -> usize {
        let known = self.seen.acks_before_send[send] as usize;
        self.seen.first_acked(known, end)
    }

    /// Whether it had been sent before in full.
    fn is_below_top(&self, send: usize, end: i64) -> bool {
        send > 0 && self.seen.snd_max[send - 1] >= end
    }

    pub(super) fn first_dupack(&self, ack: usize) -> usize {
        self.seen.last_moved(ack + 1).unwrap_or(0)
    }
}
