//! The reference simulator: sender, receiver and taps over a path, event by event.

mod build;
pub mod capture_file;
mod event_loop;
mod io;
mod output;
pub mod packet_counting;
mod record;
mod replica;
mod rfc;
pub mod summary;
pub mod taps;
mod timer;
mod writes;

pub use build::{QUEUE_BIN_NS, control, paths};
pub use output::{NodeTotals, Output, OutputEvent};
pub use record::{DropRow, EventKind, LossRow, Place, SenderState, Totals, TruthRow};
pub use rfc::{initial_state, options as sender_options, rto};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use replica::ns2::Ns2Connection;
use rfc::RfcConnection;

use crate::congestion::{Control, Counting, Profile};
use crate::scenario::Scenario;
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

/// What a run writes down besides its totals, losses and drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logs {
    /// ns-style rows (send, arrive, drop, `start_tx`, recv): large.
    pub events: bool,
    /// cwnd, ssthresh, flight and state at every change; the queues in bins.
    pub truth: bool,
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            events: false,
            truth: true,
        }
    }
}

impl Logs {
    /// Whether packets are kept on their way, not only counted.
    pub fn is_watched(self, scenario: &Scenario) -> bool {
        self.events || !scenario.taps.is_empty()
    }
}

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
    fn is_piece_due(&mut self) -> bool {
        self.events += 1;
        self.events % EVENTS_PER_PIECE == 0 && self.outlet.is_some()
    }

    /// Whether the run is to end here.
    fn has_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.is_cut()
    }

    fn is_cut(&self) -> bool {
        self.most_events.is_some_and(|most| self.events >= most)
    }

    /// Whether a connection's control is written outside the core.
    fn is_own(&self, connection: usize) -> bool {
        self.own.get(connection).is_some_and(Option::is_some)
    }

    /// The control of a connection: its own, or the built-in one.
    fn take(&mut self, connection: usize, scenario: &Scenario) -> Box<dyn Control> {
        let counting = Counting {
            profile: scenario.profile,
            segment_bytes: scenario.path.packet_bytes,
        };
        let own = self.own.get_mut(connection).and_then(Option::take);
        own.unwrap_or_else(|| build::control(&scenario.connections[connection].control, counting))
    }
}

/// Runs a scenario.
pub fn run(scenario: &Scenario, mut controls: Controls) -> Output {
    let output = match scenario.profile {
        Profile::Ns2 => event_loop::run::<Ns2Connection>(scenario, &mut controls),
        Profile::Rfc => event_loop::run::<RfcConnection>(scenario, &mut controls),
    };
    Output {
        is_cut: controls.is_cut(),
        ..output
    }
}
