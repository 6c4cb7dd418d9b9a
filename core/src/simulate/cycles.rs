//! A sender's cycles (paper 000): what a run's summary and a sweep's row say of one connection.
//!
//! A cycle begins with the loss that ends a long congestion avoidance; the slow starts that follow, until avoidance
//! lasts again, belong to it.

use super::record::{DetectedBy, LossRow, SenderState, TruthRow};

/// An avoidance of this many round trips belongs to a new cycle. Between the slow starts of one cycle a Tahoe sender
/// is above ssthresh for about two (an overflow is noticed one round trip after it happens), and a cumulative ACK
/// after go-back-N may look like one more.
const LONG_AVOIDANCE_ROUNDS: u32 = 4;

/// From the loss that ends an avoidance to the next such loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    pub start_ns: i64,
    /// Acknowledged when it began.
    pub start_una: u64,
    pub slow_starts: u32,
}

/// One connection's cycles and losses, told in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cycles {
    /// The last one may not be complete; what precedes the first is the start of the connection.
    pub cycles: Vec<Cycle>,
    pub losses: u64,
    snd_una: u64,
    /// Round trips since cwnd reached ssthresh, if it is there.
    avoidance: Option<Rounds>,
    has_just_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rounds {
    /// The round is over when this is acknowledged.
    ends_at: u64,
    count: u32,
}

impl Cycles {
    /// The sender's variables after an event.
    #[inline]
    pub fn window(&mut self, row: &TruthRow) {
        let has_just_lost = std::mem::take(&mut self.has_just_lost);
        self.snd_una = row.snd_una;
        if row.cwnd < row.ssthresh {
            self.avoidance = None;
            // A window cut below ssthresh in fast recovery comes back to it without a slow start.
            if has_just_lost && row.state == SenderState::Loss {
                if let Some(cycle) = self.cycles.last_mut() {
                    cycle.slow_starts += 1;
                }
            }
            return;
        }
        let rounds = self.avoidance.get_or_insert(Rounds {
            ends_at: row.snd_nxt,
            count: 0,
        });
        if row.snd_una > rounds.ends_at {
            *rounds = Rounds {
                ends_at: row.snd_nxt,
                count: rounds.count + 1,
            };
        }
    }

    /// A loss is noticed; the window after it comes next.
    pub fn loss(&mut self, row: &LossRow) {
        // Only the first reduction of a recovery is a loss event; a hole found later belongs to it.
        if row.detected_by == DetectedBy::Partial {
            return;
        }
        self.losses += 1;
        self.has_just_lost = true;
        if self
            .avoidance
            .take()
            .is_some_and(|rounds| rounds.count >= LONG_AVOIDANCE_ROUNDS)
        {
            self.cycles.push(Cycle {
                start_ns: row.time_ns,
                start_una: self.snd_una,
                slow_starts: 0,
            });
        }
    }

    /// The complete ones: each ends where the next begins.
    pub fn full(&self) -> &[Cycle] {
        &self.cycles[..self.cycles.len().saturating_sub(1)]
    }

    /// Time and new data of the complete cycles.
    pub fn full_span(&self) -> Option<(i64, u64)> {
        let (first, last) = (self.cycles.first()?, self.cycles.last()?);
        (last.start_ns > first.start_ns).then_some((
            last.start_ns - first.start_ns,
            last.start_una - first.start_una,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Known;
    use super::*;

    const WINDOW: u64 = 10;

    /// `rounds` round trips with this window and threshold; returns the data acknowledged since.
    fn pass(
        cycles: &mut Cycles,
        cwnd: f64,
        ssthresh: f64,
        state: SenderState,
        una: &mut u64,
        rounds: u64,
    ) {
        for _ in 0..rounds * WINDOW {
            cycles.window(&TruthRow {
                time_ns: *una as i64,
                connection: 0,
                cwnd,
                usable_window: cwnd,
                ssthresh,
                flight_size: WINDOW as f64,
                state,
                snd_una: *una,
                snd_nxt: *una + WINDOW,
                rwnd: 1e9,
                known: Known::default(),
            });
            *una += 1;
        }
    }

    fn lose(cycles: &mut Cycles, una: u64) {
        cycles.loss(&LossRow {
            time_ns: una as i64,
            connection: 0,
            offset: una,
            detected_by: DetectedBy::DupAck,
            cwnd_before: 10.0,
            ssthresh_after: 5.0,
        });
    }

    #[test]
    fn a_cycle_begins_with_the_loss_that_ends_a_long_avoidance() {
        let (mut cycles, mut una) = (Cycles::default(), 0);
        for _ in 0..3 {
            // Slow start, and two round trips above ssthresh until the overflow is noticed: twice. Then avoidance.
            for above in [2, 2, 40] {
                pass(&mut cycles, 1.0, 9.0, SenderState::Loss, &mut una, 3);
                pass(&mut cycles, 9.0, 9.0, SenderState::Open, &mut una, above);
                lose(&mut cycles, una);
            }
        }
        pass(&mut cycles, 1.0, 9.0, SenderState::Loss, &mut una, 1);
        // The first avoidance ends the start of the connection; each cycle is a loss there and two in slow start.
        assert_eq!(
            cycles
                .cycles
                .iter()
                .map(|cycle| cycle.slow_starts)
                .collect::<Vec<_>>(),
            [3, 3, 1]
        );
        assert_eq!(cycles.full().len(), 2);
        assert_eq!(cycles.losses, 9);
    }

    #[test]
    fn halving_in_fast_recovery_is_no_slow_start() {
        let (mut cycles, mut una) = (Cycles::default(), 0);
        for _ in 0..4 {
            pass(&mut cycles, 9.0, 9.0, SenderState::Open, &mut una, 20);
            lose(&mut cycles, una);
            pass(&mut cycles, 8.0, 9.0, SenderState::Recovery, &mut una, 1);
        }
        assert_eq!(
            cycles
                .full()
                .iter()
                .map(|cycle| cycle.slow_starts)
                .collect::<Vec<_>>(),
            [0, 0, 0]
        );
        // 21 round trips each, and a loss is noticed at the end of the twentieth.
        assert_eq!(cycles.full_span(), Some((3 * 210, 3 * 210)));
    }
}
