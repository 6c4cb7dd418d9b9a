//! A drop-tail queue in front of a server: the buffer of every paper's bottleneck.
//!
//! It knows no clock and no rate: the first packet held is in service, and whoever owns the queue says when it leaves.

use std::collections::VecDeque;

/// How much may stand in the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    Unlimited,
    Packets(u64),
    Bytes(u64),
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
    limit: Capacity,
    counts_in_service: bool,
    /// With their bytes; the first is in service, the others wait.
    held: VecDeque<(T, u32)>,
    held_bytes: u64,
    counters: Counters,
    /// Packets and bytes that came and went with nobody looking: in and out, not in `counters`.
    passed: (u64, u64),
}

impl<T> DropTail<T> {
    /// `counts_in_service`: whether the packet being sent takes a place. ns-2's `queue-limit q` is `Packets(q)` with
    /// it; the papers' B, `Packets(B)` without: B = q - 1.
    pub fn new(limit: Capacity, counts_in_service: bool) -> Self {
        Self {
            limit,
            counts_in_service,
            held: VecDeque::new(),
            held_bytes: 0,
            counters: Counters::default(),
            passed: (0, 0),
        }
    }

    pub fn is_unlimited(&self) -> bool {
        self.limit == Capacity::Unlimited
    }

    /// Whether a packet of `bytes` arriving now would be lost. One that goes straight into service needs no place to
    /// wait.
    #[inline]
    pub fn is_full_for(&self, bytes: u32) -> bool {
        match self.limit {
            Capacity::Unlimited => false,
            Capacity::Packets(places) => {
                self.held.len() as u64 >= places.saturating_add(u64::from(!self.counts_in_service))
            }
            Capacity::Bytes(places) if self.counts_in_service => {
                self.held_bytes + u64::from(bytes) > places
            }
            Capacity::Bytes(places) => {
                !self.is_idle() && self.waiting_bytes() + u64::from(bytes) > places
            }
        }
    }

    /// A packet arrives: `false` if it is lost.
    #[inline(always)]
    pub fn arrive(&mut self, packet: T, bytes: u32) -> bool {
        if self.is_full_for(bytes) {
            self.turn_away(bytes);
            return false;
        }
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(bytes);
        self.held_bytes += u64::from(bytes);
        self.held.push_back((packet, bytes));
        true
    }

    /// A packet arrives, and is lost.
    pub fn turn_away(&mut self, bytes: u32) {
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(bytes);
        self.counters.packets_dropped += 1;
        self.counters.bytes_dropped += u64::from(bytes);
    }

    /// A packet comes and goes with nobody looking.
    #[inline]
    pub fn pass(&mut self, bytes: u32) {
        self.passed.0 += 1;
        self.passed.1 += u64::from(bytes);
    }

    /// The packet in service.
    #[inline]
    pub fn in_service(&self) -> Option<&T> {
        self.held.front().map(|(packet, _)| packet)
    }

    /// The last bit of the packet in service has left; the next one's turn has come.
    #[inline]
    pub fn leave(&mut self) -> Option<T> {
        let (packet, bytes) = self.held.pop_front()?;
        self.held_bytes -= u64::from(bytes);
        self.counters.packets_out += 1;
        self.counters.bytes_out += u64::from(bytes);
        Some(packet)
    }

    /// Between two services: the packet whose turn it is does not get it.
    pub fn lose(&mut self) -> Option<T> {
        let (packet, bytes) = self.held.pop_front()?;
        self.held_bytes -= u64::from(bytes);
        self.counters.packets_dropped += 1;
        self.counters.bytes_dropped += u64::from(bytes);
        Some(packet)
    }

    /// Between two services: the packet whose turn it is, and its bytes.
    pub fn head_mut(&mut self) -> Option<(&mut T, u32)> {
        let (packet, bytes) = self.held.front_mut()?;
        Some((packet, *bytes))
    }

    /// The first of those that wait.
    pub fn first_waiting(&self) -> Option<&T> {
        self.held.get(1).map(|(packet, _)| packet)
    }

    #[inline]
    pub fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    /// Packets waiting, the one in service not counted.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.held.len().saturating_sub(1)
    }

    /// Bytes waiting, the packet in service not counted.
    pub fn waiting_bytes(&self) -> u64 {
        let in_service = self.held.front().map_or(0, |&(_, bytes)| bytes);
        self.held_bytes - u64::from(in_service)
    }

    pub fn counters(&self) -> Counters {
        let (packets, bytes) = self.passed;
        Counters {
            packets_in: self.counters.packets_in + packets,
            packets_out: self.counters.packets_out + packets,
            bytes_in: self.counters.bytes_in + bytes,
            bytes_out: self.counters.bytes_out + bytes,
            ..self.counters
        }
    }

    /// Packets and bytes in = out + queued + dropped.
    pub fn is_conserved(&self) -> bool {
        let Counters {
            packets_in,
            packets_out,
            packets_dropped,
            bytes_in,
            bytes_out,
            bytes_dropped,
        } = self.counters;
        packets_in == packets_out + packets_dropped + self.held.len() as u64
            && bytes_in == bytes_out + bytes_dropped + self.held_bytes
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
            let mut queue = DropTail::new(Capacity::Packets(2), counts_in_service);
            let kept = (0..5).filter(|&packet| queue.arrive(packet, 1500)).count();
            assert_eq!(kept, fit);
            assert!(queue.is_conserved());
        }
    }

    #[test]
    fn without_places_to_wait_only_an_idle_server_takes_a_packet() {
        for limit in [Capacity::Packets(0), Capacity::Bytes(0)] {
            let mut queue = DropTail::new(limit, false);
            assert!(queue.arrive('a', 1500));
            assert!(!queue.arrive('b', 40));
            assert_eq!(queue.leave(), Some('a'));
            assert!(queue.arrive('c', 1500));
        }
    }

    #[test]
    fn a_byte_limit_refuses_the_packet_that_does_not_fit_and_takes_a_smaller_one() {
        for (counts_in_service, places) in [(false, 2000), (true, 3500)] {
            let mut queue = DropTail::new(Capacity::Bytes(places), counts_in_service);
            assert!(queue.arrive('a', 1500));
            assert!(queue.arrive('b', 1500));
            assert!(!queue.arrive('c', 1500));
            assert!(queue.arrive('d', 500));
            assert_eq!(queue.waiting_bytes(), 2000);
        }
    }

    proptest! {
        #[test]
        fn packets_and_bytes_are_conserved_and_leave_in_order(steps in prop::collection::vec((any::<bool>(), 40u32..1500), 0..200),
                                                              places in 1u64..8, counted: bool) {
            let mut queue = DropTail::new(Capacity::Packets(places), counted);
            let mut last = None;
            for (number, (arrives, bytes)) in steps.into_iter().enumerate() {
                if arrives {
                    queue.arrive(number, bytes);
                } else if let Some(packet) = queue.leave() {
                    prop_assert!(last < Some(packet));
                    last = Some(packet);
                }
                prop_assert!(queue.is_conserved());
                prop_assert!(queue.waiting() as u64 <= places);
            }
        }
    }
}
