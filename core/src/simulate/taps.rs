//! Taps: what a capture at a place on the path would have seen, in order of time.
//!
//! The path works out a packet's whole journey when it enters, so a tap hears of times ahead of the event loop's: rows
//! are put in order at the end. They are the profile's own packets; a `Segment` is made when a row is read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::scenario::{NodeSpec, Scenario};
use crate::wire::{Endpoint, Segment};

/// Where a tap stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapPlace {
    /// The data senders' interface.
    Sender,
    /// Before a node's queue: packets that it drops are seen.
    NodeIn(usize),
    /// Behind a node's link, as the last bit leaves.
    NodeOut(usize),
    /// The receivers' interface.
    Receiver,
}

impl TapPlace {
    /// "sender", "receiver", "node0.in", "node0.out"; the scenario has checked that the node exists. The
    /// engine has `nodes_before` before the scenario's first.
    fn parse(name: &str, nodes_before: usize) -> Option<Self> {
        match name {
            "sender" => return Some(Self::Sender),
            "receiver" => return Some(Self::Receiver),
            _ => (),
        }
        let (number, side) = name.strip_prefix("node")?.split_once('.')?;
        let number = nodes_before + number.parse::<usize>().ok()?;
        match side {
            "in" => Some(Self::NodeIn(number)),
            "out" => Some(Self::NodeOut(number)),
            _ => None,
        }
    }
}

/// A packet of one of the profiles, as a capture shows it.
pub trait Captured: Copy {
    /// `packet_bytes`: of a full packet of the path, which the `ns2` profile's numbers count.
    fn segment(&self, ends: &[Ends], packet_bytes: u32) -> Segment;
    /// The wire's number of a connection's first byte of data.
    fn first_seq(connection: u32) -> u32;
}

/// What one tap saw.
#[derive(Debug)]
struct Tap<P> {
    place: TapPlace,
    rows: Vec<(i64, P)>,
}

/// All taps of a run. Direction 0 is the path, 1 the way back.
#[derive(Debug)]
pub struct Taps<P> {
    taps: Vec<Tap<P>>,
    ends: Vec<Ends>,
    /// Nodes there and back, and the propagation from the near side up to each node there.
    nodes: [usize; 2],
    before_ns: Vec<i64>,
    return_ns: i64,
    packet_bytes: u32,
    /// How far behind the event loop's time a row may lie that a tap has yet to hear of.
    behind_ns: i64,
}

impl<P: Captured> Taps<P> {
    pub fn new(scenario: &Scenario) -> Self {
        let path = &scenario.path;
        let mut before_ns = Vec::new();
        let mut sum = 0.0;
        let (there, back) = (path.there(), path.back());
        for node in &there {
            before_ns.push(sum as i64);
            sum += node.delay_ns();
        }
        let ends = scenario.connections.iter().enumerate();
        // What `delivered` takes off where the way back has no routers.
        let behind_ns = before_ns.iter().copied().max().unwrap_or(0);
        Self {
            behind_ns,
            taps: scenario
                .taps
                .iter()
                .filter_map(|name| TapPlace::parse(name, path.nodes_before()))
                .map(|place| Tap {
                    place,
                    rows: Vec::new(),
                })
                .collect(),
            ends: ends
                .map(|(number, row)| Ends::of(number, scenario.ipv6, row.reverse))
                .collect(),
            nodes: [there.len(), back.len()],
            before_ns,
            return_ns: (path.pure_return_ns() + back.iter().map(NodeSpec::delay_ns).sum::<f64>())
                as i64,
            packet_bytes: path.packet_bytes,
        }
    }

    /// Whether the way back passes the same routers.
    fn is_mirrored(&self) -> bool {
        self.nodes[0] == self.nodes[1]
    }

    pub fn is_empty(&self) -> bool {
        self.taps.is_empty()
    }

    /// A packet as any tap would show it.
    pub fn segment(&self, packet: &P) -> Segment {
        packet.segment(&self.ends, self.packet_bytes)
    }

    /// An endpoint sends.
    #[inline]
    pub fn entered(&mut self, direction: usize, at_ns: i64, packet: &P) {
        if self.taps.is_empty() {
            return;
        }
        let place = if direction == 0 {
            TapPlace::Sender
        } else {
            TapPlace::Receiver
        };
        self.see(place, at_ns, packet);
    }

    /// An endpoint will receive.
    #[inline]
    pub fn delivered(&mut self, direction: usize, at_ns: i64, packet: &P) {
        if self.taps.is_empty() {
            return;
        }
        let place = if direction == 0 {
            TapPlace::Receiver
        } else {
            TapPlace::Sender
        };
        self.see(place, at_ns, packet);
        if direction == 0 {
            return;
        }
        if self.is_mirrored() {
            self.see(TapPlace::NodeIn(0), at_ns, packet);
            self.see(TapPlace::NodeOut(0), at_ns, packet);
        } else {
            // The way back has no routers at the nodes' places: a delay, spread as the way there is.
            for tap in &mut self.taps {
                if let TapPlace::NodeIn(node) | TapPlace::NodeOut(node) = tap.place {
                    let ahead_ns = self.before_ns[node].min(self.return_ns);
                    tap.rows.push((at_ns - ahead_ns, *packet));
                }
            }
        }
    }

    /// A packet reaches a node's queue.
    #[inline]
    pub fn arrived(&mut self, direction: usize, node: usize, at_ns: i64, packet: &P) {
        if self.taps.is_empty() {
            return;
        }
        if direction == 0 {
            self.see(TapPlace::NodeIn(node), at_ns, packet);
        } else if node > 0 && self.is_mirrored() {
            // Behind the mirrored link of the way back: the router that node `nodes - node` there belongs to.
            self.see(TapPlace::NodeOut(self.nodes[0] - node), at_ns, packet);
        }
    }

    /// A packet's last bit leaves a node.
    #[inline]
    pub fn left(&mut self, direction: usize, node: usize, at_ns: i64, packet: &P) {
        if self.taps.is_empty() {
            return;
        }
        if direction == 0 {
            self.see(TapPlace::NodeOut(node), at_ns, packet);
        } else if node > 0 && self.is_mirrored() {
            self.see(TapPlace::NodeIn(self.nodes[0] - node), at_ns, packet);
        }
    }

    fn see(&mut self, place: TapPlace, at_ns: i64, packet: &P) {
        for tap in self.taps.iter_mut().filter(|tap| tap.place == place) {
            tap.rows.push((at_ns, *packet));
        }
    }

    /// Passes on what no row can come before any more, at this time of the event loop: each tap's in order of time.
    pub fn pass_on(
        &mut self,
        now_ns: i64,
        mut give: impl FnMut(usize, &mut dyn Iterator<Item = (i64, Segment)>),
    ) {
        let before_ns = now_ns.saturating_sub(self.behind_ns);
        for (number, tap) in self.taps.iter_mut().enumerate() {
            // Stable, as in `finish`: nothing at the time of a row that is passed on is still to come.
            tap.rows.sort_by_key(|row| row.0);
            let count = tap.rows.partition_point(|row| row.0 < before_ns);
            let rows = tap.rows.drain(..count);
            let (ends, packet_bytes) = (&self.ends, self.packet_bytes);
            let mut rows =
                rows.map(|(time_ns, packet)| (time_ns, packet.segment(ends, packet_bytes)));
            give(number, &mut rows);
        }
    }

    /// The end of the run: rows in order of time, those behind the end were not seen.
    pub fn finish(&mut self, end_ns: i64) {
        for tap in &mut self.taps {
            tap.rows.retain(|row| row.0 <= end_ns);
            // Stable: what an endpoint receives comes before what it sends at the same time in answer.
            tap.rows.sort_by_key(|row| row.0);
        }
    }
}

/// The taps of a finished run, whatever its profile's packets are. Numbers are those of the scenario's order.
pub trait FinishedTaps: Send + Sync + std::fmt::Debug {
    fn count(&self) -> usize;
    fn ends(&self) -> &[Ends];
    /// The wire's number of each connection's first byte of data.
    fn first_seqs(&self) -> Vec<u32>;
    /// What a tap saw, in order of time.
    fn segments(&self, tap: usize) -> Box<dyn Iterator<Item = (i64, Segment)> + '_>;
}

impl<P: Captured + Send + Sync + std::fmt::Debug> FinishedTaps for Taps<P> {
    fn count(&self) -> usize {
        self.taps.len()
    }

    fn ends(&self) -> &[Ends] {
        &self.ends
    }

    fn first_seqs(&self) -> Vec<u32> {
        (0..self.ends.len() as u32).map(P::first_seq).collect()
    }

    fn segments(&self, tap: usize) -> Box<dyn Iterator<Item = (i64, Segment)> + '_> {
        let rows = self.taps[tap].rows.iter();
        Box::new(
            rows.map(|(time_ns, packet)| (*time_ns, packet.segment(&self.ends, self.packet_bytes))),
        )
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
pub const RECEIVER_PORT: u16 = 5777;

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

    #[derive(Clone, Copy, Debug)]
    struct Numbered(i64);

    impl Captured for Numbered {
        fn segment(&self, ends: &[Ends], _packet_bytes: u32) -> Segment {
            packet_counting::data(&ends[0], self.0, self.0 as u16, 512)
        }

        fn first_seq(_connection: u32) -> u32 {
            1
        }
    }

    fn taps(back: &str, names: &str) -> Taps<Numbered> {
        let node = "{ rate_bps = 1e6, buffer = 5, delay_s = 1e-6 }";
        let text = format!(
            "profile = \"ns2\"
             duration_s = 1e-4
             taps = [{names}]
             path = {{ nodes = [{node}, {node}], {back} }}"
        );
        Taps::new(&Scenario::from_table(text.parse().unwrap()).unwrap())
    }

    fn seen(taps: &mut Taps<Numbered>, tap: usize) -> Vec<(i64, u16)> {
        taps.finish(50_000);
        taps.segments(tap)
            .map(|(time, segment)| (time, segment.ip_id))
            .collect()
    }

    #[test]
    fn a_place_is_read_from_its_name() {
        assert_eq!(TapPlace::parse("sender", 1), Some(TapPlace::Sender));
        assert_eq!(
            TapPlace::parse("node12.out", 1),
            Some(TapPlace::NodeOut(13))
        );
        for unknown in ["", "node", "node1", "node1.up", "nodex.in", "router"] {
            assert_eq!(TapPlace::parse(unknown, 0), None, "{unknown}");
        }
    }

    #[test]
    fn what_is_heard_early_is_told_in_order_of_time_and_ties_in_order_of_hearing() {
        let mut taps = taps("return_delay_s = 9e-9", r#""sender""#);
        for (time, number) in [(30, 3), (10, 1), (20, 2), (10, 4), (60_000, 5)] {
            taps.entered(0, time, &Numbered(number));
        }
        assert_eq!(seen(&mut taps, 0), [(10, 1), (10, 4), (20, 2), (30, 3)]);
    }

    #[test]
    fn the_two_sides_see_both_directions_and_nothing_of_the_nodes() {
        let mut taps = taps("return_delay_s = 9e-9", r#""sender", "receiver""#);
        taps.entered(0, 0, &Numbered(1));
        taps.arrived(0, 0, 1, &Numbered(1));
        taps.left(0, 1, 2, &Numbered(1));
        taps.delivered(0, 3, &Numbered(1));
        taps.entered(1, 3, &Numbered(2));
        taps.delivered(1, 5, &Numbered(2));
        assert_eq!(seen(&mut taps, 0), [(0, 1), (5, 2)]);
        assert_eq!(seen(&mut taps, 1), [(3, 1), (3, 2)]);
    }

    #[test]
    fn on_a_way_back_without_routers_an_ack_passes_a_node_as_long_before_the_end_as_data_needs_to_reach_it()
     {
        let mut taps = taps("return_delay_s = 5e-6", r#""node0.in", "node1.in""#);
        taps.delivered(1, 9000, &Numbered(7));
        assert_eq!(seen(&mut taps, 0), [(9000, 7)]);
        assert_eq!(seen(&mut taps, 1), [(8000, 7)]);
    }

    #[test]
    fn on_a_way_back_with_the_same_routers_an_ack_passes_them_in_the_opposite_order() {
        let back = "reverse = [{ rate_bps = 1e6, buffer = 5 }, { rate_bps = 1e6, buffer = 5 }]";
        let mut taps = taps(back, r#""node1.in", "node1.out", "node0.in""#);
        // Reverse node 0 stands at the far side; its link ends at the router of node 1.
        taps.arrived(1, 0, 10, &Numbered(7));
        taps.left(1, 0, 11, &Numbered(7));
        taps.arrived(1, 1, 12, &Numbered(7));
        taps.left(1, 1, 13, &Numbered(7));
        taps.delivered(1, 14, &Numbered(7));
        assert_eq!(seen(&mut taps, 1), [(12, 7)]);
        assert_eq!(seen(&mut taps, 0), [(13, 7)]);
        assert_eq!(seen(&mut taps, 2), [(14, 7)]);
    }
}
