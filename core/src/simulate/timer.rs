//! A timer that is set far more often than it fires.

use crate::network::{Instant, Schedule, Stamp};

/// Setting it later costs nothing: the pending entry fires early, sees the new deadline and waits on.
#[derive(Clone, Copy, Debug)]
pub struct Timer<I> {
    source: usize,
    /// `NEVER` while idle.
    deadline: Stamp<I>,
    /// Of its entry in the schedule; `NEVER` for none.
    entry: I,
}

impl<I: Instant> Timer<I> {
    pub fn new(source: usize) -> Self {
        Self {
            source,
            deadline: Stamp::NEVER,
            entry: I::NEVER,
        }
    }

    #[inline]
    pub fn is_pending(&self) -> bool {
        self.deadline.time < I::NEVER
    }

    /// `NEVER` while idle.
    pub fn deadline(&self) -> I {
        self.deadline.time
    }

    #[inline]
    pub fn set(&mut self, schedule: &mut Schedule<I>, now: I, delay: I) {
        self.deadline = Stamp {
            time: now.plus(delay),
            scheduled: now,
        };
        if self.deadline.time < self.entry {
            self.enter(schedule, Some(self.deadline));
        }
    }

    #[inline]
    pub fn cancel(&mut self) {
        self.deadline.time = I::NEVER;
    }

    /// The entry in the schedule came up. True when the deadline is really there; the timer is then idle.
    pub fn is_due(&mut self, schedule: &mut Schedule<I>, at: Stamp<I>) -> bool {
        let is_pending = self.is_pending();
        if is_pending && self.deadline > at {
            self.enter(schedule, Some(self.deadline));
            return false;
        }
        self.enter(schedule, None);
        self.cancel();
        is_pending
    }

    fn enter(&mut self, schedule: &mut Schedule<I>, at: Option<Stamp<I>>) {
        self.entry = at.map_or(I::NEVER, |at| at.time);
        schedule.set(self.source, at);
    }
}
