//! One direction of the path, with the packets in it.

use std::collections::VecDeque;

use super::journal::Journal;
use super::packet::{Label, Packet};
use crate::network::{Nanos, Path, Random};

/// Which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Forward,
    Reverse,
}

/// `network::Path` works out a packet's whole journey when it enters; the bytes wait here until it is due.
#[derive(Debug)]
pub struct Lane {
    path: Path<Nanos, Label>,
    way: Way,
    /// In step with the path, which delivers in order.
    packets: VecDeque<Packet>,
    entered: u64,
    left: u64,
}

impl Lane {
    pub fn new(path: Path<Nanos, Label>, way: Way) -> Self {
        Self {
            path,
            way,
            packets: VecDeque::new(),
            entered: 0,
            left: 0,
        }
    }

    /// A packet enters at the virtual time `now`.
    pub fn enter(&mut self, now: i64, packet: Packet, random: &mut Random, journal: &mut Journal) {
        self.entered += 1;
        let mut observer = journal.observer(self.way);
        self.path
            .enter(Nanos(now), packet.label, random, &mut observer);
        if self.path.on_the_way() > self.packets.len() {
            self.packets.push_back(packet);
        }
    }

    /// When the next packet comes out.
    pub fn next_event(&self) -> Option<i64> {
        self.path.next().map(|at| at.time.0)
    }

    /// The next packet out, if it is due at `now`, with the time at which it is.
    pub fn leave(&mut self, now: i64) -> Option<(i64, Packet)> {
        let due = self.next_event().filter(|&due| due <= now)?;
        self.path.leave();
        self.left += 1;
        let packet = self.packets.pop_front();
        Some((due, packet.expect("one for each on the path's way")))
    }

    /// Lets the nodes serve what is due until `now`.
    pub fn finish(&mut self, now: i64) {
        self.path.finish(Nanos(now));
    }

    pub fn entered(&self) -> u64 {
        self.entered
    }

    pub fn left(&self) -> u64 {
        self.left
    }

    /// Packets that are on their way.
    pub fn inside(&self) -> u64 {
        self.packets.len() as u64
    }

    /// Whether every queue has handed on, dropped or still holds what came in.
    pub fn is_conserved(&self) -> bool {
        self.path.nodes().iter().all(|node| node.is_conserved())
    }
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
