//! What happened on the path: every drop, queue lengths in bins, how late packets were delivered.

use super::chain::{Chain, Loss, Reason};
use super::packet::Packet;

/// Width of a queue bin.
pub const BIN_NS: i64 = 10_000_000;

/// One lost packet, at the time at which the clock on the wall showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drop {
    pub time_ns: i64,
    pub node: usize,
    pub reason: Reason,
    pub is_reverse: bool,
    pub ip_id: u16,
    pub tcp_seq: u32,
    pub payload_len: u32,
    pub src_port: u16,
    pub dst_port: u16,
    pub queue_len: usize,
    pub ip_len: u32,
}

/// One node during 10 ms of the forward direction; bins in which nothing arrived are absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBin {
    pub time_ns: i64,
    pub node: usize,
    pub arrivals: u64,
    pub drops: u64,
    /// Packets waiting, the one in service not counted: most, and last seen.
    pub max: usize,
    pub last: usize,
}

/// All of it, growing while the path runs.
#[derive(Debug, Default)]
pub struct Journal {
    pub drops: Vec<Drop>,
    pub queue: Vec<QueueBin>,
    /// Delivery after the packet was due, in nanoseconds of real time.
    pub lateness_ns: Vec<i64>,
    arrivals_seen: Vec<u64>,
    open: Vec<Option<QueueBin>>,
}

impl Journal {
    /// Keeps the losses of one direction; `real_minus_virtual_ns` leads from the path's clock to the wall's.
    pub fn record_losses(
        &mut self,
        losses: &mut Vec<Loss<Packet>>,
        is_reverse: bool,
        real_minus_virtual_ns: i64,
    ) {
        for loss in losses.drain(..) {
            let time_ns = loss.time_ns + real_minus_virtual_ns;
            let packet = &loss.packet;
            self.drops.push(Drop {
                time_ns,
                node: loss.node,
                reason: loss.reason,
                is_reverse,
                ip_id: packet.ip_id,
                tcp_seq: packet.tcp_seq,
                payload_len: packet.payload_len,
                src_port: packet.src_port,
                dst_port: packet.dst_port,
                queue_len: loss.queue_len,
                ip_len: packet.bytes.len() as u32,
            });
            if !is_reverse && loss.reason == Reason::Overflow {
                self.bin(loss.node, time_ns).drops += 1;
            }
        }
    }

    /// Looks at the queues after something arrived.
    pub fn sample_queues(&mut self, chain: &Chain<Packet>, time_ns: i64) {
        for index in 0..chain.nodes() {
            self.arrivals_seen.resize(chain.nodes(), 0);
            let arrivals = chain.arrivals(index) - self.arrivals_seen[index];
            if arrivals == 0 {
                continue;
            }
            self.arrivals_seen[index] += arrivals;
            let waiting = chain.waiting(index);
            let bin = self.bin(index + 1, time_ns);
            bin.arrivals += arrivals;
            bin.max = bin.max.max(waiting);
            bin.last = waiting;
        }
    }

    /// The bin of a node at a time; the one before is closed when a new one begins.
    fn bin(&mut self, node: usize, time_ns: i64) -> &mut QueueBin {
        let start = time_ns - time_ns.rem_euclid(BIN_NS);
        if self.open.len() < node {
            self.open.resize(node, None);
        }
        let open = &mut self.open[node - 1];
        if let Some(bin) = open.take_if(|bin| bin.time_ns != start) {
            self.queue.push(bin);
        }
        open.get_or_insert(QueueBin {
            time_ns: start,
            node,
            arrivals: 0,
            drops: 0,
            max: 0,
            last: 0,
        })
    }

    /// Closes the bins that are still open.
    pub fn finish(&mut self) {
        self.queue.extend(self.open.drain(..).flatten());
        self.queue.sort_by_key(|bin| (bin.time_ns, bin.node));
    }

    /// Lateness at the given shares (0.5 the median), in nanoseconds; nothing was delivered: empty.
    pub fn lateness_percentiles(&self, shares: &[f64]) -> Vec<i64> {
        let mut sorted = self.lateness_ns.clone();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else {
            return Vec::new();
        };
        shares
            .iter()
            .map(|share| sorted[(share * last as f64).round() as usize])
            .collect()
    }
}
