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
}

impl Controls<'_> {
    /// An event more; whether rows are to be passed on before it.
    #[inline]
    pub(super) fn is_piece_due(&mut self) -> bool {
        self.events += 1;
        self.events % EVENTS_PER_PIECE == 0 && self.outlet.is_some()
    }

    /// Whether the run is to end here.
    pub(super) fn has_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.is_cut()
    }

    pub(super) fn is_cut(&self) -> bool {
        self.most_events.is_some_and(|most| self.events >= most)
    }

    /// Whether a connection's control is written outside the core.
    pub(super) fn is_own(&self, connection: usize) -> bool {
        self.own.get(connection).is_some_and(Option::is_some)
    }
}
