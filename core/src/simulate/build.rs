//! From a spec to paths and controls.

use super::spec::{BufferUnit, NodeSpec, SenderSpec, SlowStartKind, Spec, WindowKind};
use crate::congestion::{
    Compound, CompoundDraft, Control, Cubic, CubicLinux, HystartPlusPlus, LimitedSlowStart, MStart,
    Pair, Reno, SlowStart, Standard, Window,
};
use crate::network::{Instant, Limit, Link, Node, Path, Traveller};

/// Bins of the queue record, as in this project's captures of kernel runs.
pub const QUEUE_BIN_NS: i64 = 10_000_000;

/// The way of forward connections' data, and the way back.
pub fn paths<I: Instant, P: Traveller>(spec: &Spec) -> [Path<I, P>; 2] {
    let bin_ns = if spec.record_truth { QUEUE_BIN_NS } else { 0 };
    let nodes = |specs: &[NodeSpec]| specs.iter().map(|node| self::node(node, bin_ns)).collect();
    [
        Path::new(nodes(&spec.path.nodes), 0.0),
        Path::new(nodes(&spec.path.reverse), spec.path.return_delay_ns)
            .with_ack_loss(spec.path.ack_loss),
    ]
}

fn node<I: Instant>(spec: &NodeSpec, bin_ns: i64) -> Node<I> {
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
    .with_loss(spec.loss, &spec.drop_packets)
    .with_bins(bin_ns)
}

/// The built-in control of a sender; `None` if it is written elsewhere.
pub fn control(sender: &SenderSpec) -> Option<Box<dyn Control>> {
    let byte_counting = sender.byte_counting;
    let slow_start: Box<dyn SlowStart> = match sender.slow_start {
        SlowStartKind::Standard => Box::new(Standard { byte_counting }),
        SlowStartKind::Limited => Box::new(LimitedSlowStart {
            max_ssthresh: sender.max_ssthresh,
        }),
        SlowStartKind::Hystart => Box::new(HystartPlusPlus::new()),
        SlowStartKind::MStart => Box::new(MStart::new(sender.zero_step)),
    };
    let window: Box<dyn Window> = match sender.window {
        WindowKind::Reno => Box::new(Reno::new(byte_counting)),
        WindowKind::Cubic => Box::new(Cubic::new()),
        WindowKind::CubicLinux => Box::new(CubicLinux::new()),
        WindowKind::Compound => Box::new(Compound::new(sender.gamma)),
        WindowKind::CompoundDraft => Box::new(CompoundDraft::new(sender.gamma)),
        WindowKind::External => return None,
    };
    Some(Box::new(Pair { slow_start, window }))
}
