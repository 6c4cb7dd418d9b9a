//! The way there and back: nodes, links, losses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ns;

/// A chain of nodes and the way back.
///
/// The way back is a pure delay, `return_delay_s`, after the nodes of `reverse`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// From the senders' side to the receivers'.
    #[schemars(length(min = 1))]
    pub nodes: Vec<NodeSpec>,
    /// Propagation of the way back, behind its nodes.
    #[serde(default)]
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub return_delay_s: f64,
    /// What one full data packet occupies on the wire (the papers' packet size; the MTU in profile rfc).
    #[serde(default = "packet_bytes")]
    #[schemars(range(min = 1, max = 65_535), extend("x-unit" = "bytes"))]
    pub packet_bytes: u32,
    /// What an ACK occupies on the wire.
    #[serde(default = "ack_bytes")]
    #[schemars(range(min = 1, max = 65_535), extend("x-unit" = "bytes"))]
    pub ack_bytes: u32,
    /// The link before the first node, which never drops; infinite without a delay: there is none.
    #[serde(default = "infinite")]
    #[schemars(extend("exclusiveMinimum" = 0, "x-unit" = "bit/s"))]
    pub access_rate_bps: f64,
    /// Propagation of the access link.
    #[serde(default)]
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub access_delay_s: f64,
    /// What an ACK meets on the way back, in that order.
    #[serde(default)]
    pub reverse: Vec<NodeSpec>,
    /// Probability that an ACK is lost at the end of the way back.
    #[serde(default)]
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1))]
    pub ack_loss: f64,
}

/// One node: a policer, if any, a queue, then a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Of the link behind the queue; infinite: packets take no time to be sent.
    #[schemars(extend("exclusiveMinimum" = 0, "x-unit" = "bit/s"))]
    pub rate_bps: f64,
    /// Waiting places, the one in service not counted unless `counts_in_service`.
    #[serde(default = "infinite")]
    #[schemars(range(min = 1), extend("x-whole-up-to" = 9_007_199_254_740_992_u64, "x-unit" = "buffer_unit"))]
    pub buffer: f64,
    /// What `buffer` counts.
    #[serde(default)]
    pub buffer_unit: BufferUnit,
    /// The packet in service takes a place as well (ns-2's queue-limit).
    #[serde(default)]
    pub counts_in_service: bool,
    /// Propagation behind the node.
    #[serde(default)]
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub delay_s: f64,
    /// Probability that a data packet is lost after service, seeded by the scenario.
    #[serde(default)]
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1))]
    pub loss: f64,
    /// Data packets lost after service, by number, the first served being 1.
    #[serde(default)]
    #[schemars(inner(range(min = 1, max = 9_007_199_254_740_992_u64)))]
    pub drop_packets: Vec<u64>,
    /// Who of those that wait is lost: nobody (drop_tail), or, by RFC 8289 without ECN, those whose turn comes while every
    /// wait of `interval_s` was longer than `target_s` (codel).
    #[serde(default)]
    pub queue: Queue,
    /// With queue codel: the wait that is short enough (RFC 8289 section 4.4).
    #[serde(default = "target_s")]
    #[schemars(extend("minimum" = 1e-9, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub target_s: f64,
    /// With queue codel: for how long no wait has to be that short.
    #[serde(default = "interval_s")]
    #[schemars(extend("minimum" = 1e-9, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub interval_s: f64,
    /// What arrives above this rate is lost at once, once `policer_burst` is used up; infinite: nobody polices.
    #[serde(default = "infinite")]
    #[schemars(extend("exclusiveMinimum" = 0, "x-unit" = "bit/s"))]
    pub policer_bps: f64,
    /// With a policer: what it lets pass at once after a silence.
    #[serde(default = "policer_burst")]
    #[schemars(range(min = 1), extend("x-unit" = "bytes"))]
    pub policer_burst: u32,
}

/// How a node's queue is managed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Queue {
    #[default]
    DropTail,
    /// RFC 8289.
    Codel,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum BufferUnit {
    #[default]
    Packets,
    Bytes,
}

impl PathSpec {
    /// Nodes of the engine before `nodes`: 1 with an access link.
    pub fn nodes_before(&self) -> usize {
        usize::from(self.access_rate_bps.is_finite() || self.access_delay_s > 0.0)
    }

    /// What a data packet meets: the access link, where there is one, then `nodes`.
    pub fn there(&self) -> Vec<NodeSpec> {
        let access = NodeSpec::link(self.access_rate_bps, self.access_delay_s);
        let before = std::iter::repeat_n(access, self.nodes_before());
        before.chain(self.nodes.iter().cloned()).collect()
    }

    /// What an ACK meets. A delay behind nodes is one more, so that ACKs stay in order.
    pub fn back(&self) -> Vec<NodeSpec> {
        let mut nodes = self.reverse.clone();
        if !nodes.is_empty() && self.return_delay_s > 0.0 {
            nodes.push(NodeSpec::link(f64::INFINITY, self.return_delay_s));
        }
        nodes
    }

    /// The delay of a way back without nodes.
    pub fn pure_return_ns(&self) -> f64 {
        if self.reverse.is_empty() {
            self.return_delay_s * 1e9
        } else {
            0.0
        }
    }
}

impl NodeSpec {
    /// A link without a limit to its queue.
    fn link(rate_bps: f64, delay_s: f64) -> Self {
        Self {
            rate_bps,
            buffer: f64::INFINITY,
            buffer_unit: BufferUnit::default(),
            counts_in_service: false,
            delay_s,
            loss: 0.0,
            drop_packets: Vec::new(),
            queue: Queue::default(),
            target_s: target_s(),
            interval_s: interval_s(),
            policer_bps: f64::INFINITY,
            policer_burst: policer_burst(),
        }
    }

    /// Fractions of a nanosecond count in profile ns2.
    pub fn delay_ns(&self) -> f64 {
        self.delay_s * 1e9
    }

    pub fn target_ns(&self) -> i64 {
        ns(self.target_s)
    }

    pub fn interval_ns(&self) -> i64 {
        ns(self.interval_s)
    }
}

fn target_s() -> f64 {
    0.005
}

fn interval_s() -> f64 {
    0.1
}

fn policer_burst() -> u32 {
    65_536
}

fn infinite() -> f64 {
    f64::INFINITY
}

fn packet_bytes() -> u32 {
    1500
}

fn ack_bytes() -> u32 {
    40
}
