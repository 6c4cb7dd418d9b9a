//! Taps: what a capture at a place on the path would have seen, in order of time.
//!
//! The path works out a packet's whole journey when it enters, so a tap hears of times ahead of the event loop's. It
//! holds them back until the loop has passed them: constant memory, whatever the run's length.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::wire::{Endpoint, Segment};

/// Where a tap stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The data senders' interface.
    Sender,
    /// Before a node's queue: packets that it drops are seen.
    NodeIn(usize),
    /// Behind a node's link, as the last bit leaves.
    NodeOut(usize),
    /// The receivers' interface.
    Receiver,
}

impl Place {
    /// "sender", "receiver", "node0.in", "node0.out"; the spec has checked that the node exists.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "sender" => return Some(Self::Sender),
            "receiver" => return Some(Self::Receiver),
            _ => (),
        }
        let (number, side) = name.strip_prefix("node")?.split_once('.')?;
        let number = number.parse().ok()?;
        match side {
            "in" => Some(Self::NodeIn(number)),
            "out" => Some(Self::NodeOut(number)),
            _ => None,
        }
    }
}

/// Who takes what a tap saw: a capture file, the connection table, a vector.
pub trait Sink {
    fn segment(&mut self, time_ns: i64, segment: &Segment);
}

impl Sink for Vec<(i64, Segment)> {
    fn segment(&mut self, time_ns: i64, segment: &Segment) {
        self.push((time_ns, *segment));
    }
}

/// One tap with its sink.
pub struct Tap<S> {
    place: Place,
    sink: S,
    /// Seen ahead of time: (time, order of seeing, place in `held`).
    ahead: BinaryHeap<Reverse<(i64, u64, usize)>>,
    held: Vec<Segment>,
    free: Vec<usize>,
    seen: u64,
}

impl<S: Sink> Tap<S> {
    pub fn new(place: Place, sink: S) -> Self {
        Self {
            place,
            sink,
            ahead: BinaryHeap::new(),
            held: Vec::new(),
            free: Vec::new(),
            seen: 0,
        }
    }

    pub fn place(&self) -> Place {
        self.place
    }

    /// A segment passes at `time_ns`, which may lie ahead of the event loop.
    pub fn pass(&mut self, time_ns: i64, segment: &Segment) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.held[slot] = *segment;
                slot
            }
            None => {
                self.held.push(*segment);
                self.held.len() - 1
            }
        };
        self.ahead.push(Reverse((time_ns, self.seen, slot)));
        self.seen += 1;
    }

    /// The event loop stands at `now_ns`: nothing earlier can be seen any more.
    pub fn release(&mut self, now_ns: i64) {
        while let Some(&Reverse((time_ns, _, slot))) = self.ahead.peek() {
            if time_ns >= now_ns {
                return;
            }
            self.ahead.pop();
            self.free.push(slot);
            self.sink.segment(time_ns, &self.held[slot]);
        }
    }

    /// The end of the run: what lies behind it was not seen.
    pub fn finish(mut self, end_ns: i64) -> S {
        self.release(end_ns.saturating_add(1));
        self.sink
    }
}

/// The two ends of a connection: ports tell the connections of a run apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    pub sender: Endpoint,
    pub receiver: Endpoint,
}

/// Senders' ports from here on, one per connection; all receivers listen on `RECEIVER_PORT`.
pub const FIRST_SENDER_PORT: u16 = 40_000;
pub const RECEIVER_PORT: u16 = 5001;

impl Ends {
    /// Connection `number`; with `is_reverse` its sender stands at the path's far side.
    pub fn of(number: usize, is_ipv6: bool, is_reverse: bool) -> Self {
        let near: IpAddr = if is_ipv6 {
            Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 1).into()
        } else {
            Ipv4Addr::new(10, 0, 1, 1).into()
        };
        let far: IpAddr = if is_ipv6 {
            Ipv6Addr::new(0xfd00, 0, 0, 2, 0, 0, 0, 1).into()
        } else {
            Ipv4Addr::new(10, 0, 2, 1).into()
        };
        let (sender, receiver) = if is_reverse { (far, near) } else { (near, far) };
        let port = u16::try_from(number)
            .ok()
            .and_then(|n| FIRST_SENDER_PORT.checked_add(n));
        Self {
            sender: Endpoint {
                addr: sender,
                port: port.unwrap_or(u16::MAX),
            },
            receiver: Endpoint {
                addr: receiver,
                port: RECEIVER_PORT,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::packet_counting;

    fn segment(number: i64) -> Segment {
        packet_counting::data(&Ends::of(0, false, false), number, 512)
    }

    #[test]
    fn a_place_is_read_from_its_name() {
        assert_eq!(Place::parse("sender"), Some(Place::Sender));
        assert_eq!(Place::parse("node12.out"), Some(Place::NodeOut(12)));
        for unknown in ["", "node", "node1", "node1.up", "nodex.in", "router"] {
            assert_eq!(Place::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn what_is_heard_early_is_told_in_order_of_time_and_ties_in_order_of_hearing() {
        let mut tap = Tap::new(Place::NodeOut(0), Vec::new());
        for (time, number) in [(30, 3), (10, 1), (20, 2), (10, 4)] {
            tap.pass(time, &segment(number));
        }
        tap.release(10);
        assert_eq!(tap.sink.len(), 0);
        tap.release(21);
        assert_eq!(
            tap.sink.iter().map(|row| row.0).collect::<Vec<_>>(),
            [10, 10, 20]
        );
        assert_eq!(tap.sink[1].1, segment(4));
        tap.pass(25, &segment(5));
        assert_eq!(tap.finish(29).last().unwrap().0, 25);
    }

    #[test]
    fn held_segments_reuse_their_places() {
        let mut tap = Tap::new(Place::Sender, Vec::new());
        for time in 0..1000 {
            tap.pass(time + 5, &segment(time));
            tap.release(time);
        }
        assert!(tap.held.len() < 10, "{}", tap.held.len());
    }
}
