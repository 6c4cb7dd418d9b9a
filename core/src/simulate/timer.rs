//! A timer that is set far more often than it fires.

use crate::network::{Instant, Schedule, Stamp};

/// Setting it later costs nothing: the pending entry fires early, sees the new deadline and waits on.
#[derive(Clone, Copy, Debug)]
pub struct Timer<I> {
    source: usize,
    deadline: Option<Stamp<I>>,
}

impl<I: Instant> Timer<I> {
    pub fn new(source: usize) -> Self {
        Self {
            source,
            deadline: None,
        }
    }

    pub fn is_pending(&self) -> bool {
        self.deadline.is_some()
    }

    pub fn set(&mut self, schedule: &mut Schedule<I>, now: I, delay: I) {
        let deadline = Stamp {
            time: now.plus(delay),
            scheduled: now,
        };
        self.deadline = Some(deadline);
        if schedule
            .get(self.source)
            .is_none_or(|pending| deadline < pending)
        {
            schedule.set(self.source, Some(deadline));
        }
    }

    pub fn cancel(&mut self) {
        self.deadline = None;
    }

    /// The entry in the schedule came up. True when the deadline is really there; the timer is then idle.
    pub fn is_due(&mut self, schedule: &mut Schedule<I>, at: Stamp<I>) -> bool {
        match self.deadline {
            Some(deadline) if deadline > at => {
                schedule.set(self.source, Some(deadline));
                false
            }
            due => {
                schedule.set(self.source, None);
                self.deadline = None;
                due.is_some()
            }
        }
    }
}
