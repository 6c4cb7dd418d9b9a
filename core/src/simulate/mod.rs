//! The reference simulator: sender, receiver and taps over a path, event by event.

mod build;
pub mod capture_file;
mod io;
mod ns2;
mod output;
pub mod packet_counting;
mod record;
mod rfc;
mod spec;
pub mod summary;
pub mod taps;
mod timer;
mod writes;

pub use build::{QUEUE_BIN_NS, control, paths};
pub use output::{NodeTotals, Output, OutputEvent};
pub use record::{DetectedBy, DropRow, EventKind, LossRow, Place, SenderState, Totals, TruthRow};
pub use rfc::{initial_state, options as sender_options, rto};
pub use spec::*;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::congestion::{Control, Counting};
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

/// What a run is given besides its spec.
#[derive(Default)]
pub struct Controls<'a> {
    /// Controls written outside the core, by number of connection.
    pub own: Vec<Option<Box<dyn Control>>>,
    /// Set by whoever no longer wants the result.
    pub stop: Arc<AtomicBool>,
    pub outlet: Option<&'a mut dyn Outlet>,
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

    /// The control of a connection: its own, or the built-in one.
    fn take(&mut self, connection: usize, spec: &Spec) -> Box<dyn Control> {
        let counting = Counting {
            profile: spec.profile,
            segment_bytes: spec.path.packet_bytes,
        };
        let own = self.own.get_mut(connection).and_then(Option::take);
        own.or_else(|| build::control(&spec.connections[connection].sender, counting))
            .expect("`run` has checked that an external control is there")
    }
}

/// Runs a scenario.
pub fn run(spec: &Spec, mut controls: Controls) -> Result<Output, SpecError> {
    spec.validate()?;
    for (number, connection) in spec.connections.iter().enumerate() {
        let has_own = controls.own.get(number).is_some_and(Option::is_some);
        if connection.sender.window.is_none() && !has_own {
            return Err(SpecError {
                key: format!("connections.{number}.sender.window"),
                found: "external".to_owned(),
                wanted: "accompanied by a control".to_owned(),
            });
        }
    }
    let output = match spec.profile {
        Profile::Ns2 => ns2::run(spec, &mut controls),
        Profile::Rfc => rfc::run(spec, &mut controls),
    };
    Ok(Output {
        is_cut: controls.is_cut(),
        ..output
    })
}
