//! Loss cycles and the slow starts in each (Barakat & Altman 1998, section 1: one, two or three per cycle).
//!
//! A cycle begins with a loss in congestion avoidance (the first one with the connection) and lasts until the next such
//! loss. A loss that slow start has made belongs to the cycle, and the slow start behind it is the second or third of
//! that cycle; so does a timeout within a recovery. The simulator, the recorder's truth and a capture's windows are
//! counted here, in the order of time.

use super::stretches::Stretch;
use crate::infer::sender::rows::before::Begin;
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::LossEvent;

/// From the loss that ends an avoidance (or the beginning) to the next such loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cycle {
    pub start_ns: i64,
    /// Acknowledged when it began.
    pub start_una: u64,
    pub slow_starts: u32,
}

/// A sender's variables after an event: a row of the table `windows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub snd_una: u64,
    pub snd_nxt: u64,
    /// `cwnd` is below `ssthresh`.
    pub is_slow_start: bool,
    /// It has gone back to one segment, and not yet recovered what it lost.
    pub has_restarted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CyclePhase {
    SlowStart,
    /// `cwnd` has reached `ssthresh` when this was next to be sent.
    Reached(u64),
    /// What is lost below this was sent in slow start, or in the round trip behind it.
    Avoidance(u64),
    /// Until this is acknowledged (RFC 6582 `recover`).
    Recovery(u64),
}

/// One sender's cycles.
#[derive(Clone, Debug, PartialEq)]
pub struct Cycles {
    cycles: Vec<Cycle>,
    pub losses: u64,
    /// In all cycles.
    slow_starts: u32,
    phase: CyclePhase,
    snd_una: u64,
    /// The highest so far: a sender that goes back sets it back.
    snd_max: u64,
    /// A restart counts when it is answered: a timer that backs off is one restart (RFC 6298 section 5.6).
    is_unanswered: bool,
}

impl Default for Cycles {
    /// Of a connection seen from its beginning.
    fn default() -> Self {
        Self::new(true)
    }
}

impl Cycles {
    /// `begins`: the first cycle has the slow start that a connection begins with.
    pub fn new(begins: bool) -> Self {
        Self {
            cycles: vec![Cycle {
                slow_starts: u32::from(begins),
                ..Cycle::default()
            }],
            losses: 0,
            slow_starts: u32::from(begins),
            phase: CyclePhase::SlowStart,
            snd_una: 0,
            snd_max: 0,
            is_unanswered: false,
        }
    }

    #[inline]
    pub fn window(&mut self, row: Moment) {
        if matches!(self.phase, CyclePhase::Recovery(_)) && row.has_restarted {
            self.phase = CyclePhase::SlowStart;
            self.is_unanswered = true;
        }
        let has_moved = row.snd_una > self.snd_una;
        self.snd_una = row.snd_una;
        self.snd_max = self.snd_max.max(row.snd_nxt);
        if self.is_unanswered && has_moved {
            self.is_unanswered = false;
            self.slow_starts += 1;
            self.last().slow_starts += 1;
        }
        self.phase = match self.phase {
            CyclePhase::Recovery(recover) if row.snd_una < recover => self.phase,
            // What a recovery leaves is no slow start: its next loss begins a cycle.
            CyclePhase::Recovery(_) => CyclePhase::Avoidance(0),
            // One segment is below any threshold.
            CyclePhase::SlowStart if self.is_unanswered => self.phase,
            _ if row.is_slow_start => CyclePhase::SlowStart,
            CyclePhase::SlowStart => CyclePhase::Reached(row.snd_nxt),
            CyclePhase::Reached(next) if row.snd_una >= next => CyclePhase::Avoidance(row.snd_nxt),
            CyclePhase::Reached(_) | CyclePhase::Avoidance(_) => self.phase,
        };
    }

    /// A loss is noticed: `snd_una` is missing. The window after it comes next.
    pub fn loss(&mut self, time_ns: i64, snd_una: u64) {
        self.losses += 1;
        // What was acknowledged before a timer expired answers no restart.
        self.snd_una = self.snd_una.max(snd_una);
        if matches!(self.phase, CyclePhase::Avoidance(from) if self.snd_una >= from) {
            self.cycles.push(Cycle {
                start_ns: time_ns,
                start_una: self.snd_una,
                slow_starts: 0,
            });
        }
        self.phase = CyclePhase::Recovery(self.snd_max);
    }

    /// All cycles: the first begins with the connection, the last may not be complete.
    pub fn all(&self) -> &[Cycle] {
        &self.cycles
    }

    /// The complete ones of the steady state: each begins with a loss, and ends where the next begins.
    pub fn full(&self) -> &[Cycle] {
        &self.cycles[1..self.cycles.len().max(2) - 1]
    }

    /// Time and new data of the complete cycles.
    pub fn full_span(&self) -> Option<(i64, u64)> {
        let (first, last) = (self.cycles.get(1)?, self.cycles.last()?);
        (last.start_ns > first.start_ns).then_some((
            last.start_ns - first.start_ns,
            last.start_una - first.start_una,
        ))
    }

    fn last(&mut self) -> &mut Cycle {
        self.cycles
            .last_mut()
            .expect("the first cycle begins with the connection")
    }
}

/// The cycle of a stretch, and whether the stretch is one of its slow starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InCycle {
    pub cycle: usize,
    pub is_counted: bool,
    /// The ACK up to which it is slow start; None: it has none.
    pub slow_start_end: Option<usize>,
}

/// The cycles of what a capture shows: where each stretch belongs. Its slow starts are those that were seen to grow.
pub fn places(
    seen: &Sequence,
    events: &[LossEvent],
    parts: &[Stretch],
    flight: &[i64],
) -> Vec<InCycle> {
    // Lost again before it could grow, the first flight was a slow start all the same.
    let begins = parts.first().is_some_and(|part| {
        part.begin == Begin::Connection && (part.peak.is_some() || part.ended_by.is_some())
    });
    let mut cycles = Cycles::new(begins);
    let mut of_event = Vec::with_capacity(events.len());
    let mut of_part = Vec::with_capacity(parts.len());
    let ends: Vec<Option<usize>> = parts
        .iter()
        .map(|part| slow_start_end(seen, part, flight))
        .collect();
    let mut restarts = false;
    for ack in 0..=flight.len() {
        let is_before = |event: &&LossEvent| {
            ack == flight.len() || seen.acks_before_send[event.first_send] as usize <= ack
        };
        while let Some(event) = events.get(of_event.len()).filter(is_before) {
            // RFC 8985 section 7: a probe is no loss.
            if event.detected_by.is_loss() {
                cycles.loss(event.time_ns, from_first(seen, event.una));
                cycles.phase = CyclePhase::Recovery(from_first(seen, event.recover));
                restarts = event.restarts;
            }
            of_event.push((cycles.cycles.len() - 1, cycles.slow_starts));
        }
        while parts
            .get(of_part.len())
            .is_some_and(|part| row_from(part) <= ack)
        {
            of_part.push(cycles.cycles.len() - 1);
        }
        if let Some((una, nxt)) = variables(seen, ack) {
            let part = of_part.len().checked_sub(1);
            cycles.window(Moment {
                snd_una: una,
                snd_nxt: nxt,
                is_slow_start: part.is_some_and(|part| is_below(&parts[part], ends[part], ack)),
                has_restarted: restarts,
            });
        }
    }
    let total = cycles.slow_starts;
    let place = |((part, &cycle), &slow_start_end): ((&Stretch, &usize), &Option<usize>)| match part
        .started_by
    {
        None => InCycle {
            cycle,
            is_counted: begins && part.begin == Begin::Connection,
            slow_start_end,
        },
        Some(event) => InCycle {
            cycle: of_event[event].0,
            is_counted: of_event.get(event + 1).map_or(total, |next| next.1) > of_event[event].1,
            slow_start_end,
        },
    };
    parts.iter().zip(&of_part).zip(&ends).map(place).collect()
}

/// The first ACK that belongs to a stretch. A restart's first is the last that was known when it came.
fn row_from(part: &Stretch) -> usize {
    part.first + usize::from(part.begin == Begin::Restart)
}

/// `snd_una` and `snd_nxt` after an ACK and what it released, from the first byte on.
fn variables(seen: &Sequence, ack: usize) -> Option<(u64, u64)> {
    let una = *seen.snd_una.get(ack)?;
    let sent = seen.sends_before_next_ack[ack] as usize;
    let top = sent.checked_sub(1).map_or(una, |last| seen.snd_max[last]);
    Some((from_first(seen, una), from_first(seen, top.max(una))))
}

fn from_first(seen: &Sequence, number: i64) -> u64 {
    number.max(seen.first_offset).abs_diff(seen.first_offset)
}

/// Whether `cwnd` is below `ssthresh` after an ACK: the one with which slow start ended has reached it.
fn is_below(part: &Stretch, end: Option<usize>, ack: usize) -> bool {
    let reached = part.peak.filter(|_| part.has_threshold);
    end.is_some_and(|end| ack <= end && reached != Some(ack))
}

fn slow_start_end(seen: &Sequence, part: &Stretch, flight: &[i64]) -> Option<usize> {
    match (part.begin, part.peak) {
        (Begin::Recovery | Begin::Lost, _) => None,
        // RFC 5681 section 3.1: ssthresh starts arbitrarily high. Held back by the receiver's window or for want of
        // data, the sender is in slow start until its first loss.
        (Begin::Connection, Some(_)) if !part.has_threshold => Some(part.last),
        (_, Some(peak)) => Some(peak),
        // Started, and lost a segment before it could grow; or ssthresh was so low that its growth cannot be told.
        (Begin::Connection | Begin::Restart, None) => {
            (!outlasts_slow_start(seen, part, flight)).then_some(part.last)
        }
        (Begin::Capture | Begin::Idle, None) => None,
    }
}

/// Whether more was acknowledged than slow start needs to the window that was reached.
fn outlasts_slow_start(seen: &Sequence, part: &Stretch, flight: &[i64]) -> bool {
    // Half as much again per round trip, with an ACK for every second segment: 1 + 2/3 + 4/9 + ... = 3 windows.
    let acked = seen.snd_una[part.last] - seen.snd_una[part.first];
    let most = flight[part.first..=part.last].iter().copied().max();
    acked > 3 * most.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 10;

    /// `rounds` round trips in this phase, and the data acknowledged since.
    fn pass(cycles: &mut Cycles, una: &mut u64, is_slow_start: bool, rounds: u64) {
        for _ in 0..rounds * WINDOW {
            cycles.window(Moment {
                snd_una: *una,
                snd_nxt: *una + WINDOW,
                is_slow_start,
                has_restarted: is_slow_start,
            });
            *una += 1;
        }
    }

    fn counts(cycles: &[Cycle]) -> Vec<u32> {
        cycles.iter().map(|cycle| cycle.slow_starts).collect()
    }

    #[test]
    fn a_cycle_begins_with_the_loss_that_ends_a_long_avoidance() {
        let (mut cycles, mut una) = (Cycles::default(), 0);
        for _ in 0..3 {
            // Slow start, and two round trips above ssthresh until the overflow is noticed: twice. Then avoidance.
            for above in [2, 2, 40] {
                pass(&mut cycles, &mut una, true, 3);
                pass(&mut cycles, &mut una, false, above);
                cycles.loss(una as i64, una - 1);
            }
        }
        pass(&mut cycles, &mut una, true, 1);
        // The connection's own slow start and two more; each later cycle is a loss in avoidance and two in slow start.
        assert_eq!(counts(cycles.all()), [3, 3, 3, 1]);
        assert_eq!(cycles.full().len(), 2);
        assert_eq!(cycles.losses, 9);
    }

    #[test]
    fn halving_in_fast_recovery_is_no_slow_start() {
        let (mut cycles, mut una) = (Cycles::default(), 0);
        for _ in 0..4 {
            pass(&mut cycles, &mut una, false, 21);
            cycles.loss(una as i64, una - 1);
        }
        // Of the connection, and of each loss.
        assert_eq!(counts(cycles.all()), [1, 0, 0, 0, 0]);
        assert_eq!(cycles.full_span(), Some((3 * 210, 3 * 210)));
    }

    #[test]
    fn a_timer_that_backs_off_is_one_restart_and_one_in_a_recovery_belongs_to_its_loss() {
        let (mut cycles, mut una) = (Cycles::default(), 0);
        pass(&mut cycles, &mut una, false, 21);
        let silent = |has_restarted| Moment {
            snd_una: una,
            snd_nxt: una + WINDOW,
            is_slow_start: has_restarted,
            has_restarted,
        };
        cycles.loss(1, una);
        cycles.window(silent(false));
        for now in 2..5 {
            cycles.loss(now, una);
            cycles.window(silent(true));
        }
        assert_eq!(counts(cycles.all()), [1, 0]);
        pass(&mut cycles, &mut una, true, 2);
        assert_eq!(counts(cycles.all()), [1, 1]);
    }

    #[test]
    fn what_was_acknowledged_before_a_timer_expired_answers_no_restart() {
        let mut cycles = Cycles::default();
        let moment = |snd_una| Moment {
            snd_una,
            snd_nxt: snd_una + WINDOW,
            is_slow_start: true,
            has_restarted: true,
        };
        // As the window did not change, no row tells of these ACKs.
        cycles.loss(1, 5);
        cycles.window(moment(5));
        assert_eq!(counts(cycles.all()), [1]);
        cycles.window(moment(6));
        assert_eq!(counts(cycles.all()), [2]);
    }
}
