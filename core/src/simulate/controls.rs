//! What a run is given besides its scenario, and where its rows go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::output::Output;
use super::record::Logs;
use crate::congestion::Control;
use crate::wire::Segment;

/// Where a run's rows go while it goes on, in order of time, instead of being held until its end.
pub trait Outlet: Send {
    /// What a tap (by number in the spec's order) saw next.
    fn packets(&mut self, tap: usize, rows: &mut dyn Iterator<Item = (i64, Segment)>);
    /// The tables' next rows; what the last piece leaves is in the run's output.
    fn piece(&mut self, piece: Output);
}

/// What a run may do before its rows are passed on: some megabytes of them.
const EVENTS_PER_PIECE: u64 = 1 << 16;

/// A stop is noticed after so many at the latest: a millisecond.
const EVENTS_PER_LOOK: u64 = 1 << 12;

/// What a run is given besides its scenario.
#[derive(Default)]
pub struct Controls<'a> {
    /// Controls written outside the core, by number of connection.
    pub own: Vec<Option<Box<dyn Control>>>,
    /// Set by whoever no longer wants the result.
    pub stop: Arc<AtomicBool>,
    pub outlet: Option<&'a mut dyn Outlet>,
    pub logs: Logs,
    /// Work without a known end is not done: after so many events the run is cut.
    pub most_events: Option<u64>,
    /// Events since the beginning.
    pub events: u64,
    /// The event before which it is looked at next whether the run is to end or rows are to be passed on.
    pub next_look: u64,
}

impl Controls<'_> {
    /// Another event; whether it is one to look up at (`look`).
    #[inline]
    pub(super) fn is_look_due(&mut self) -> bool {
        let is_due = self.events == self.next_look;
        // Not checked: a count from 0 in steps of one, on every event's way.
        self.events = self.events.wrapping_add(1);
        is_due
    }

    /// Before an event: whether rows are to be passed on; `None`: the run ends here.
    #[cold]
    pub(super) fn look(&mut self) -> Option<bool> {
        let event = self.next_look;
        if self.stop.load(Ordering::Relaxed) || self.most_events.is_some_and(|most| event >= most) {
            self.events = event;
            return None;
        }
        self.next_look += EVENTS_PER_LOOK;
        if let Some(most) = self.most_events {
            self.next_look = self.next_look.min(most);
        }
        Some(event > 0 && event % EVENTS_PER_PIECE == 0 && self.outlet.is_some())
    }

    pub(super) fn is_cut(&self) -> bool {
        self.most_events.is_some_and(|most| self.events >= most)
    }

    /// Whether a connection's control is written outside the core.
    pub(super) fn is_own(&self, connection: usize) -> bool {
        self.own.get(connection).is_some_and(Option::is_some)
    }
}
