//! From a scenario to paths and controls.

use super::controls::Controls;
use super::record::Logs;
use crate::congestion::{Control, Counting};
use crate::network::{Capacity, CoDel, Discipline, Instant, Link, Node, Path, Policer, Traveller};
use crate::scenario::{BufferUnit, ControlSpec, NodeSpec, Queue, Scenario};

/// Bins of the queue record, as in this project's captures of kernel runs.
pub const QUEUE_BIN_NS: i64 = 10_000_000;

/// The way of forward connections' data, and the way back.
pub fn paths<I: Instant, P: Traveller>(scenario: &Scenario, logs: Logs) -> [Path<I, P>; 2] {
    let bin_ns = if logs.truth { QUEUE_BIN_NS } else { 0 };
    let end = if logs.is_watched(scenario) {
        0
    } else {
        scenario.duration_ns()
    };
    let nodes = |given: &[NodeSpec]| {
        let nodes = given
            .iter()
            .map(|row| node(row, bin_ns, scenario.path.packet_bytes));
        nodes
            .map(|node: Node<I>| node.unwatched_until(I::from_ns(end as f64)))
            .collect()
    };
    let path = &scenario.path;
    [
        Path::new(nodes(&path.there()), 0.0),
        Path::new(nodes(&path.back()), path.pure_return_ns()).with_ack_loss(path.ack_loss),
    ]
}

fn node<I: Instant>(given: &NodeSpec, bin_ns: i64, packet_bytes: u32) -> Node<I> {
    let discipline: Option<Box<dyn Discipline>> = match given.queue {
        Queue::DropTail => None,
        Queue::Codel => {
            let codel = CoDel::new(given.target_ns(), given.interval_ns(), packet_bytes);
            Some(Box::new(codel))
        }
    };
    let is_policed = given.policer_bps.is_finite();
    let policer = is_policed.then(|| Policer::new(given.policer_bps, given.policer_burst));
    let limit = match given.buffer_unit {
        _ if given.buffer.is_infinite() => Capacity::Unlimited,
        BufferUnit::Packets => Capacity::Packets(given.buffer as u64),
        BufferUnit::Bytes => Capacity::Bytes(given.buffer as u64),
    };
    Node::new(
        Link {
            rate_bps: Some(given.rate_bps).filter(|rate| rate.is_finite()),
            delay_ns: given.delay_ns(),
        },
        limit,
        given.counts_in_service,
    )
    .with_policer(policer)
    .with_discipline(discipline)
    .with_loss(given.loss, &given.drop_packets)
    .with_bins(bin_ns)
}

/// The built-in control of a sender.
pub fn control(sender: &ControlSpec, counting: Counting) -> Box<dyn Control> {
    sender
        .window
        .under(sender.slow_start, &sender.parameters, counting)
}

impl Controls<'_> {
    /// The control of a connection: its own, or the built-in one.
    pub(super) fn take(&mut self, connection: usize, scenario: &Scenario) -> Box<dyn Control> {
        let own = self.own.get_mut(connection).and_then(Option::take);
        own.unwrap_or_else(|| built_in(connection, scenario))
    }

    /// By connection, what its control calls what it holds in mind.
    pub(super) fn names_of_values(&self, scenario: &Scenario) -> Vec<Vec<&'static str>> {
        let names =
            |control: &dyn Control| control.values().iter().map(|(name, _)| *name).collect();
        let connections = 0..scenario.connections.len();
        let of = connections.map(|connection| match self.own.get(connection) {
            Some(Some(own)) => names(&**own),
            _ => names(&*built_in(connection, scenario)),
        });
        of.collect()
    }
}

fn built_in(connection: usize, scenario: &Scenario) -> Box<dyn Control> {
    let counting = Counting {
        profile: scenario.profile,
        segment_bytes: scenario.path.packet_bytes,
    };
    control(&scenario.connections[connection].control, counting)
}
