//! The connection table: segments to connections by their four-tuple (RFC 9293 section 3.3.1).

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::connection::Connection;
use super::packet::Packet;
use crate::wire::{Endpoint, Segment, TcpOptions};

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

/// Follows every connection of a stream of segments in captured order.
#[derive(Clone, Debug, Default)]
pub struct Table {
    connections: Vec<Connection>,
    /// The newest connection of each pair of endpoints.
    newest: FxHashMap<Key, u32>,
    /// The connection of the segment before: most segments follow one of their own.
    last: Option<(Key, u32)>,
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
        self.follow(segment.src, segment.dst, &packet, &segment.options);
    }

    fn follow(&mut self, src: Endpoint, dst: Endpoint, packet: &Packet<'_>, options: &TcpOptions) {
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
        id
    }
}
