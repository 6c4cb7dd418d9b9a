//! A drop-tail queue in front of a server: the buffer of every paper's bottleneck.
//!
//! It knows no clock and no rate. Whoever owns it says when service starts and ends; the simulator, the replayer and
//! the real-time path do so from their own clocks.

use std::collections::VecDeque;

/// How much may stand in the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Unlimited,
    Packets(u64),
    Bytes(u64),
}

/// What became of an arriving packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<T> {
    Queued,
    /// The buffer was full: the packet comes back to whoever accounts for the loss.
    Dropped(T),
}

/// Packets and bytes since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub packets_in: u64,
    pub packets_out: u64,
    pub packets_dropped: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub bytes_dropped: u64,
}

/// First in, first out; the packet that finds the buffer full is lost.
#[derive(Debug)]
pub struct DropTail<T> {
    limit: Limit,
    counts_in_service: bool,
    waiting: VecDeque<(T, u32)>,
    waiting_bytes: u64,
    in_service: Option<u32>,
    counters: Counters,
}

impl<T> DropTail<T> {
    /// `counts_in_service`: whether the packet being sent takes a place. ns-2's `queue-limit q` is `Packets(q)` with
    /// it; the papers' B, `Packets(B)` without: B = q - 1.
    pub fn new(limit: Limit, counts_in_service: bool) -> Self {
        Self {
            limit,
            counts_in_service,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            in_service: None,
            counters: Counters::default(),
        }
    }

    /// Whether a packet of `bytes` arriving now would be lost.
    pub fn is_full_for(&self, bytes: u32) -> bool {
        if self.in_service.is_none() && self.waiting.is_empty() && !self.counts_in_service {
            // It goes straight into service and needs no place to wait.
            return false;
        }
        let in_service = self.in_service.filter(|_| self.counts_in_service);
        match self.limit {
            Limit::Unlimited => false,
            Limit::Packets(places) => {
                self.waiting.len() as u64 + u64::from(in_service.is_some()) >= places
            }
            Limit::Bytes(places) => {
                self.waiting_bytes + u64::from(in_service.unwrap_or(0)) + u64::from(bytes) > places
            }
        }
    }

    /// A packet arrives at an idle server with nobody waiting, and goes into service at once. `false`: somebody is
    /// there, or the place it needs is not; then `arrive` decides.
    pub fn pass(&mut self, bytes: u32) -> bool {
        if self.in_service.is_some() || !self.waiting.is_empty() || self.is_full_for(bytes) {
            return false;
        }
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(bytes);
        self.in_service = Some(bytes);
        true
    }

    /// A packet arrives. The caller starts service if the server is idle.
    pub fn arrive(&mut self, packet: T, bytes: u32) -> Arrival<T> {
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(bytes);
        if self.is_full_for(bytes) {
            self.counters.packets_dropped += 1;
            self.counters.bytes_dropped += u64::from(bytes);
            return Arrival::Dropped(packet);
        }
        self.waiting_bytes += u64::from(bytes);
        self.waiting.push_back((packet, bytes));
        Arrival::Queued
    }

    /// Takes the first waiting packet into service; `None` when nothing waits or the server is busy.
    pub fn start_service(&mut self) -> Option<(T, u32)> {
        if self.in_service.is_some() {
            return None;
        }
        let (packet, bytes) = self.waiting.pop_front()?;
        self.waiting_bytes -= u64::from(bytes);
        self.in_service = Some(bytes);
        Some((packet, bytes))
    }

    /// The last bit of the packet in service has left.
    pub fn end_service(&mut self) {
        let bytes = self
            .in_service
            .take()
            .expect("service ends only after it started");
        self.counters.packets_out += 1;
        self.counters.bytes_out += u64::from(bytes);
    }

    pub fn is_busy(&self) -> bool {
        self.in_service.is_some()
    }

    /// Packets waiting, the one in service not counted.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes waiting, the packet in service not counted.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Packets and bytes in = out + queued + dropped. The names of what does not add up, for a report.
    pub fn is_conserved(&self) -> bool {
        let Counters {
            packets_in,
            packets_out,
            packets_dropped,
            bytes_in,
            bytes_out,
            bytes_dropped,
        } = self.counters;
        let in_service = self.in_service;
        packets_in
            == packets_out
                + packets_dropped
                + self.waiting.len() as u64
                + u64::from(in_service.is_some())
            && bytes_in
                == bytes_out
                    + bytes_dropped
                    + self.waiting_bytes
                    + u64::from(in_service.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_packet_in_service_takes_no_place_unless_counted() {
        // B = 2 waiting places: three packets fit while one is being sent; ns-2's limit 2 holds two in all.
        for (counts_in_service, fit) in [(false, 3), (true, 2)] {
            let mut queue = DropTail::new(Limit::Packets(2), counts_in_service);
            let mut kept = 0;
            for packet in 0..5 {
                kept += u32::from(queue.arrive(packet, 1500) == Arrival::Queued);
                queue.start_service();
            }
            assert_eq!(kept, fit);
            assert!(queue.is_conserved());
        }
    }

    #[test]
    fn a_byte_limit_refuses_the_packet_that_does_not_fit_and_takes_a_smaller_one() {
        let mut queue = DropTail::new(Limit::Bytes(2000), false);
        assert_eq!(queue.arrive('a', 1500), Arrival::Queued);
        assert!(queue.start_service().is_some());
        assert_eq!(queue.arrive('b', 1500), Arrival::Queued);
        assert_eq!(queue.arrive('c', 1500), Arrival::Dropped('c'));
        assert_eq!(queue.arrive('d', 500), Arrival::Queued);
        assert_eq!(queue.waiting_bytes(), 2000);
    }

    proptest! {
        #[test]
        fn packets_and_bytes_are_conserved_and_leave_in_order(steps in prop::collection::vec((0u8..3, 40u32..1500), 0..200),
                                                              places in 1u64..8, counted: bool) {
            let mut queue = DropTail::new(Limit::Packets(places), counted);
            let mut last = None;
            for (number, (step, bytes)) in steps.into_iter().enumerate() {
                match step {
                    0 => drop(queue.arrive(number, bytes)),
                    1 => if let Some((packet, _)) = queue.start_service() {
                        prop_assert!(last < Some(packet));
                        last = Some(packet);
                    },
                    _ => if queue.is_busy() { queue.end_service() },
                }
                prop_assert!(queue.is_conserved());
                prop_assert!(queue.waiting() as u64 <= places);
            }
        }
    }
}
