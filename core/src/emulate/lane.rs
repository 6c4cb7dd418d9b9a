//! One direction of the path, with the packets in it.

use std::collections::VecDeque;

use super::journal::Journal;
use super::packet::{Label, LabelledPacket, Way};
use crate::network::{Nanos, Path, Random};

/// `network::Path` works out a packet's journey; the bytes wait here until it is due, or until one behind it is: then it
/// was lost.
#[derive(Debug)]
pub struct Lane {
    path: Path<Nanos, Label>,
    way: Way,
    /// By number; the path delivers in order.
    packets: VecDeque<LabelledPacket>,
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
    pub fn enter(
        &mut self,
        now: i64,
        mut packet: LabelledPacket,
        random: &mut Random,
        journal: &mut Journal,
    ) {
        self.entered += 1;
        packet.label.number = self.entered;
        let mut observer = journal.observer(self.way);
        let label = packet.label;
        self.packets.push_back(packet);
        self.path.enter(Nanos(now), label, random, &mut observer);
    }

    /// When the next packet comes out, or something is decided on the way.
    pub fn next_event(&self) -> Option<i64> {
        self.path.next().map(|at| at.time.0)
    }

    /// The next packet out, if one is due at `now`, with the time at which it is.
    pub fn leave(
        &mut self,
        now: i64,
        random: &mut Random,
        journal: &mut Journal,
    ) -> Option<(i64, LabelledPacket)> {
        let mut observer = journal.observer(self.way);
        let (due, label) = loop {
            let at = self.path.next().filter(|at| at.time.0 <= now)?;
            if let Some(label) = self.path.leave_at(at, random, &mut observer) {
                break (at.time.0, label);
            }
        };
        self.left += 1;
        let lost = self
            .packets
            .partition_point(|row| row.label.number < label.number);
        self.packets.drain(..lost);
        let packet = self.packets.pop_front();
        Some((due, packet.expect("all that are in the path are here")))
    }

    /// Packets that are on their way.
    pub fn inside(&self) -> u64 {
        self.path.inside() as u64
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

    /// Whether every queue has handed on, dropped or still holds what came in.
    pub fn is_conserved(&self) -> bool {
        self.path.nodes().iter().all(|node| node.is_conserved())
    }
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
