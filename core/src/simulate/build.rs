//! From a spec to paths and controls.

use super::spec::{BufferUnit, NodeSpec, Queue, SenderSpec, Spec};
use crate::congestion::{Control, Counting};
use crate::network::{CoDel, Discipline, Instant, Limit, Link, Node, Path, Traveller};

/// Bins of the queue record, as in this project's captures of kernel runs.
pub const QUEUE_BIN_NS: i64 = 10_000_000;

/// The way of forward connections' data, and the way back.
pub fn paths<I: Instant, P: Traveller>(spec: &Spec) -> [Path<I, P>; 2] {
    let bin_ns = if spec.record_truth { QUEUE_BIN_NS } else { 0 };
    let end = if spec.is_watched() {
        0
    } else {
        spec.duration_ns
    };
    let nodes = |specs: &[NodeSpec]| {
        let nodes = specs
            .iter()
            .map(|row| node(row, bin_ns, spec.path.packet_bytes));
        nodes
            .map(|node: Node<I>| node.unwatched_until(I::from_ns(end as f64)))
            .collect()
    };
    [
        Path::new(nodes(&spec.path.nodes), 0.0),
        Path::new(nodes(&spec.path.reverse), spec.path.return_delay_ns)
            .with_ack_loss(spec.path.ack_loss),
    ]
}

fn node<I: Instant>(spec: &NodeSpec, bin_ns: i64, packet_bytes: u32) -> Node<I> {
    let discipline: Option<Box<dyn Discipline>> = match spec.queue {
        Queue::DropTail => None,
        Queue::Codel => {
            let codel = CoDel::new(spec.target_ns, spec.interval_ns, packet_bytes);
            Some(Box::new(codel))
        }
    };
    let limit = match (spec.buffer, spec.buffer_unit) {
        (None, _) => Limit::Unlimited,
        (Some(packets), BufferUnit::Packets) => Limit::Packets(packets),
        (Some(bytes), BufferUnit::Bytes) => Limit::Bytes(bytes),
    };
    Node::new(
        Link {
            rate_bps: spec.rate_bps,
            delay_ns: spec.delay_ns,
        },
        limit,
        spec.counts_in_service,
    )
    .with_discipline(discipline)
    .with_loss(spec.loss, &spec.drop_packets)
    .with_bins(bin_ns)
}

/// The built-in control of a sender; `None` if it is written elsewhere.
pub fn control(sender: &SenderSpec, counting: Counting) -> Option<Box<dyn Control>> {
    let window = sender.window?;
    Some(window.under(sender.slow_start, &sender.parameters, counting))
}
