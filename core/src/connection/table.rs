//! The connection table: segments to connections by their four-tuple (RFC 9293 section 3.3.1).

use std::collections::BTreeSet;
use std::net::IpAddr;

use rustc_hash::FxHashMap;

use super::connection::Connection;
use super::packet::Packet;
use crate::wire::{Endpoint, Plain, Segment, TcpOptions};

/// Which connections keep per-segment columns.
#[derive(Clone, Debug, Default)]
pub enum Wanted {
    #[default]
    None,
    All,
    Only(BTreeSet<usize>),
}

impl Wanted {
    fn has(&self, id: usize) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Only(ids) => ids.contains(&id),
        }
    }
}

/// Both endpoints, the lower one first.
type Key = (Endpoint, Endpoint);

/// Where a pair of IPv4 endpoints was last found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    addresses: u64,
    ports: u32,
    id: u32,
}

/// Places in the shortcut: enough for a few thousand connections at once without the map.
const SHORTCUTS: usize = 1 << 12;

/// Follows every connection of a stream of segments in captured order.
#[derive(Clone, Debug, Default)]
pub struct Table {
    connections: Vec<Connection>,
    /// The newest connection of each pair of endpoints.
    newest: FxHashMap<Key, u32>,
    /// The connection of the segment before: most segments follow one of their own.
    last: Option<(Key, u32)>,
    /// By a hash of the pair, the same for both directions; addresses and ports of 0: empty.
    shortcuts: Vec<Found>,
    wanted: Wanted,
    segments: u64,
}

impl Table {
    /// A table that keeps detail for the connections wanted (by id, in order of appearance from 0).
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            ..Self::default()
        }
    }

    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    pub fn into_connections(self) -> Vec<Connection> {
        self.connections
    }

    /// The next segment; `time_ns` is when it was captured. The record number is counted here.
    pub fn push(&mut self, time_ns: i64, segment: &Segment) {
        self.push_record(time_ns, self.segments, segment);
    }

    /// The next segment, found in record `index` of its capture.
    pub fn push_record(&mut self, time_ns: i64, index: u64, segment: &Segment) {
        self.segments += 1;
        let packet = Packet::new(time_ns, index, segment);
        let options = Some(&segment.options);
        let pair = plain_pair(segment.src, segment.dst);
        if pair.is_none_or(|pair| !self.push_known(pair, &packet, options)) {
            self.follow(segment.src, segment.dst, &packet, options);
        }
    }

    /// The next segment, of the usual form.
    #[inline]
    pub fn push_plain(&mut self, time_ns: i64, index: u64, plain: &Plain) {
        self.segments += 1;
        let packet = Packet::plain(time_ns, index, plain);
        if !self.push_known((plain.addresses, plain.ports), &packet, None) {
            self.push_found(plain, &packet);
        }
    }

    /// By the shortcut, if it holds the pair; a SYN may open a connection and goes through the map.
    #[inline]
    fn push_known(
        &mut self,
        there: (u64, u32),
        packet: &Packet<'_>,
        options: Option<&TcpOptions>,
    ) -> bool {
        let back = reversed(there);
        let Some(found) = self.shortcuts.get(shortcut(there, back)) else {
            return false;
        };
        let pair = (found.addresses, found.ports);
        if packet.is_syn() || (pair != there && pair != back) || there == (0, 0) {
            return false;
        }
        // The shortcut holds the pair as `ends` has it.
        let from = usize::from(pair != there);
        self.connections[found.id as usize].push(from, packet, options);
        true
    }

    /// Through the map, and noted in the shortcut.
    #[cold]
    fn push_found(&mut self, plain: &Plain, packet: &Packet<'_>) {
        self.follow(plain.src(), plain.dst(), packet, None);
        let id = self.last.expect("a segment was followed").1;
        let there = (plain.addresses, plain.ports);
        let back = reversed(there);
        let is_there = self.connections[id as usize].ends[0] == plain.src();
        let (addresses, ports) = if is_there { there } else { back };
        if self.shortcuts.is_empty() {
            self.shortcuts = vec![Found::default(); SHORTCUTS];
        }
        self.shortcuts[shortcut(there, back)] = Found {
            addresses,
            ports,
            id,
        };
    }

    fn follow(
        &mut self,
        src: Endpoint,
        dst: Endpoint,
        packet: &Packet<'_>,
        options: Option<&TcpOptions>,
    ) {
        let is_forward = src <= dst;
        let key = if is_forward { (src, dst) } else { (dst, src) };
        let known = match self.last {
            Some((last, id)) if last == key => Some(id),
            _ => self.newest.get(&key).copied(),
        };
        let id = match known {
            Some(id)
                if !(packet.is_syn()
                    && self.connections[id as usize].is_reused_by(src, packet)) =>
            {
                id
            }
            _ => self.open(key, src, dst),
        };
        self.last = Some((key, id));
        let connection = &mut self.connections[id as usize];
        let from = usize::from(connection.ends[0] != src);
        // A connection from an endpoint to itself: told apart by nothing, all of it is one direction.
        connection.push(from, packet, options);
    }

    fn open(&mut self, key: Key, src: Endpoint, dst: Endpoint) -> u32 {
        let id = self.connections.len();
        self.connections
            .push(Connection::new(id, [src, dst], self.wanted.has(id)));
        let id = u32::try_from(id).expect("fewer connections than fit memory");
        self.newest.insert(key, id);
        // A new connection on a known pair: the shortcut would still lead to the old one.
        if let Some(pair) = plain_pair(src, dst) {
            if let Some(found) = self.shortcuts.get_mut(shortcut(pair, reversed(pair))) {
                *found = Found::default();
            }
        }
        id
    }
}

/// The pair as the other direction has it.
#[inline]
fn reversed((addresses, ports): (u64, u32)) -> (u64, u32) {
    (addresses.rotate_left(32), ports.rotate_left(16))
}

/// A place that both directions of a pair share.
#[inline]
fn shortcut(there: (u64, u32), back: (u64, u32)) -> usize {
    let mixed = (there.0 ^ back.0 ^ u64::from(there.1 ^ back.1)) as u32;
    (mixed.wrapping_mul(0x9e37_79b9) >> (u32::BITS - SHORTCUTS.trailing_zeros())) as usize
}

/// IPv4 endpoints as the shortcut has them.
fn plain_pair(src: Endpoint, dst: Endpoint) -> Option<(u64, u32)> {
    match (src.addr, dst.addr) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let addresses = u64::from(from.to_bits()) << 32 | u64::from(to.to_bits());
            Some((addresses, u32::from(src.port) << 16 | u32::from(dst.port)))
        }
        _ => None,
    }
}
