//! The reference simulator: sender, receiver and taps over a path, event by event.

mod build;
pub mod capture_file;
mod controls;
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
pub use controls::{Controls, Outlet};
pub use output::{NodeTotals, Output, OutputEvent};
pub use record::{DropRow, EventKind, Logs, LossRow, SenderState, Site, Totals, TruthRow};
pub use rfc::{initial_state, options as sender_options, rto};

use replica::ns2::Ns2Connection;
use rfc::RfcConnection;

use crate::congestion::Profile;
use crate::scenario::Scenario;

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
