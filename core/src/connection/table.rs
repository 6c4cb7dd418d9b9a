//! The connection table: segments to connections by their four-tuple (RFC 9293 section 3.3.1) and their network.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::hint::black_box;
use std::net::IpAddr;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::brief::{self, KeptPacket};
use super::columns::Keep;
use super::connection::{Connection, End};
use super::flow::Flow;
use super::packet::Packet;
use crate::wire::{Endpoint, Plain, Segment, TcpOptions};

/// Of which connections rows are kept.
#[derive(Clone, Debug, Default)]
pub enum Wanted {
    #[default]
    None,
    /// Tables of both directions.
    All,
    /// Rows of both directions.
    Rows,
    Only(BTreeSet<usize>),
    /// Rows of what the first connection's main sender sent: a guess at what will be asked for.
    First,
    /// Only rows of what these ends (by their place in `Connection::ends`) of these connections sent.
    Ends(BTreeSet<(usize, usize)>),
}

impl Wanted {
    /// For each end of a connection what is kept of the rows that it sent.
    fn of(&self, id: usize) -> [Keep; 2] {
        let kept = |is_wanted, keep| if is_wanted { keep } else { Keep::Nothing };
        match self {
            Self::None => [Keep::Nothing; 2],
            Self::All => [Keep::Tables; 2],
            Self::Rows => [Keep::Rows; 2],
            Self::First => [kept(id == 0, Keep::Rows); 2],
            Self::Only(ids) => [kept(ids.contains(&id), Keep::Tables); 2],
            Self::Ends(ends) => [0, 1].map(|from| kept(ends.contains(&(id, from)), Keep::Rows)),
        }
    }
}

/// When a connection may leave a table that is read on the way (`Table::leave`), in capture time.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// After its end: what may still come is the retransmission of a FIN or a reset (RFC 9293's 2 MSL).
    pub closed_ns: i64,
    /// Without an end.
    pub idle_ns: i64,
}

/// Where a pair of IPv4 endpoints was last found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    addresses: u64,
    ports: u32,
    begun: u32,
}

/// Places in the shortcut at first, and at the most (16 MB), each for two pairs. It grows with the connections.
const SHORTCUTS: usize = 1 << 11;
const MOST_SHORTCUTS: usize = 1 << 19;
/// Packets whose connections are looked at together before they are followed.
pub const AHEAD: usize = 16;
/// With more connections than this their state is larger than the caches next to the core.
const MANY: usize = 256;
/// Rows that are held of a direction that nobody may ask for: some megabytes.
const MANY_ROWS: usize = 1 << 14;
/// Connections of one pair of endpoints that are looked through for the right network.
const MOST_NETWORKS: usize = 64;
const NOBODY: u32 = u32::MAX;

/// How much of a connection is kept.
#[derive(Clone, Debug)]
enum State {
    Brief(Vec<KeptPacket>),
    /// Its place in `begun`.
    Begun(u32),
    Left,
}

/// What stands for a connection in the table.
#[derive(Clone, Debug)]
struct Slot {
    /// The sender of the first packet, and its peer.
    ends: [Endpoint; 2],
    /// The network of what each end sent, once it has sent something: a mirrored port may tag each direction its own way.
    networks: [Option<u32>; 2],
    /// The connection before this one with the same pair (or, rarely, another pair with the same hash).
    previous: u32,
    state: State,
}

/// Follows every connection of a stream of segments in captured order. Ids are the order of first packets.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// From id `first` on.
    slots: VecDeque<Slot>,
    first: u32,
    begun: Vec<Connection>,
    /// Places of `begun` that are free again.
    free: Vec<u32>,
    /// The newest connection of each pair of endpoints, by the pair's hash.
    newest: FxHashMap<u64, u32>,
    /// The connection of the segment before: most segments follow one of their own.
    last: Option<u32>,
    /// By a hash of the pair, the same for both directions; addresses and ports of 0: empty.
    shortcuts: Vec<[Found; 2]>,
    wanted: Wanted,
    segments: u64,
    /// Connections that left without an end, and those that went on after they had.
    left_idle: u64,
    resumed: u64,
}

impl Table {
    /// A table that keeps detail for the connections wanted (by id, in order of appearance from 0).
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            ..Self::default()
        }
    }

    /// Connections in the table.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Segments that were followed.
    pub fn segments(&self) -> u64 {
        self.segments
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Connections that left the table idle, without an end, and how many were opened anew by a packet of such a one.
    pub fn left_idle(&self) -> (u64, u64) {
        (self.left_idle, self.resumed)
    }

    /// One connection; `None`: no such id, or it has left.
    pub fn connection(&self, id: usize) -> Option<Cow<'_, Connection>> {
        let place = id.checked_sub(self.first as usize)?;
        self.followed(id, self.slots.get(place)?)
    }

    /// All connections in order of their ids.
    pub fn connections(&self) -> impl Iterator<Item = Cow<'_, Connection>> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(place, slot)| self.followed(self.first as usize + place, slot))
    }

    /// A connection with per-segment detail, to take it out.
    pub fn detailed(&mut self, id: usize) -> Option<&mut Connection> {
        match self.slot(id as u32)?.state {
            State::Begun(place) => Some(&mut self.begun[place as usize]),
            _ => None,
        }
    }

    /// Of the first connection's two directions one lets its rows go, once they are many, where no more is wanted.
    pub fn settle_first(&mut self) {
        let is_wanted = matches!(self.wanted, Wanted::First);
        let Some(first) = is_wanted.then(|| self.detailed(0)).flatten() else {
            return;
        };
        let [one, other] = first.flows.each_ref().map(|flow| flow.counts.unique_bytes);
        let lesser = &mut first.flows[usize::from(one >= other)].detail;
        if lesser
            .as_ref()
            .is_some_and(|detail| detail.acks.time_ns.len() > MANY_ROWS)
        {
            *lesser = None;
        }
    }

    /// Without the rows of any connection.
    pub fn without_rows(mut self) -> Self {
        for flow in self.begun.iter_mut().flat_map(|each| &mut each.flows) {
            flow.detail = None;
        }
        self
    }

    fn followed(&self, id: usize, slot: &Slot) -> Option<Cow<'_, Connection>> {
        Some(match &slot.state {
            State::Begun(place) => Cow::Borrowed(&self.begun[*place as usize]),
            State::Brief(kept) => Cow::Owned(follow_again(id, slot.ends, kept, [Keep::Nothing; 2])),
            State::Left => return None,
        })
    }

    fn slot(&self, id: u32) -> Option<&Slot> {
        self.slots.get(id.checked_sub(self.first)? as usize)
    }

    fn slot_mut(&mut self, id: u32) -> &mut Slot {
        &mut self.slots[(id - self.first) as usize]
    }

    /// The next segment; `time_ns` is when it was captured. The record number is counted here.
    pub fn push(&mut self, time_ns: i64, segment: &Segment) {
        self.push_record(time_ns, self.segments, segment);
    }

    /// The next segment, found in record `index` of its capture; returns its connection's id.
    pub fn push_record(&mut self, time_ns: i64, index: u64, segment: &Segment) -> u32 {
        self.segments += 1;
        let packet = Packet::new(time_ns, index, segment);
        let options = Some(&segment.options);
        let pair = plain_pair(segment.src, segment.dst).filter(|_| segment.network == 0);
        match pair.and_then(|pair| self.push_known(pair, &packet, options)) {
            Some(id) => id,
            None => {
                let ends = [segment.src, segment.dst];
                self.follow(ends, segment.network, &packet, options)
            }
        }
    }

    /// The next segment, of the usual form; returns its connection's id.
    #[inline]
    pub fn push_plain(&mut self, time_ns: i64, index: u64, plain: &Plain) -> u32 {
        self.segments += 1;
        let packet = Packet::plain(time_ns, index, plain);
        match self.push_known((plain.addresses, plain.ports), &packet, None) {
            Some(id) => id,
            None => self.push_found(plain, &packet),
        }
    }

    /// Looks at what the next packets will touch, so that the memory behind it comes for all of them at once.
    #[inline]
    pub fn look_ahead<'a>(&self, next: impl Iterator<Item = &'a Plain>) {
        if self.begun.len() < MANY {
            return;
        }
        let mut places = [NOBODY; AHEAD];
        for (place, plain) in places.iter_mut().zip(next) {
            let there = (plain.addresses, plain.ports);
            let back = reversed(there);
            *place = self.known(there, back).map_or(NOBODY, |found| found.begun);
        }
        let connections = || places.iter().filter_map(|&at| self.begun.get(at as usize));
        for connection in connections() {
            black_box(connection.flows.each_ref().map(Flow::hot));
        }
        for connection in connections() {
            black_box(connection.flows.each_ref().map(Flow::hot_heap));
        }
    }

    /// Where a pair was last found, as either direction has it.
    #[inline]
    fn known(&self, there: (u64, u32), back: (u64, u32)) -> Option<Found> {
        let two = self
            .shortcuts
            .get(place(self.shortcuts.len(), there, back))?;
        two.iter()
            .find(|found| [there, back].contains(&(found.addresses, found.ports)))
            .copied()
    }

    fn note(&mut self, found: Found) {
        if self.shortcuts.len() < self.begun.len().clamp(SHORTCUTS, MOST_SHORTCUTS) {
            let places = (2 * self.begun.len()).next_power_of_two();
            let places = vec![<[Found; 2]>::default(); places.clamp(SHORTCUTS, MOST_SHORTCUTS)];
            let before = std::mem::replace(&mut self.shortcuts, places);
            for found in before.into_iter().flatten() {
                if found != Found::default() {
                    self.put_first(found);
                }
            }
        }
        self.put_first(found);
    }

    /// The one that was found last stands first.
    fn put_first(&mut self, found: Found) {
        let pair = (found.addresses, found.ports);
        let place = place(self.shortcuts.len(), pair, reversed(pair));
        let [first, second] = &mut self.shortcuts[place];
        if (first.addresses, first.ports) != pair {
            *second = *first;
        }
        *first = found;
    }

    /// The shortcut would lead to a connection that is not the pair's any more.
    fn forget(&mut self, [src, dst]: [Endpoint; 2]) {
        let Some(there) = plain_pair(src, dst) else {
            return;
        };
        let back = reversed(there);
        let place = place(self.shortcuts.len(), there, back);
        for found in self.shortcuts.get_mut(place).into_iter().flatten() {
            if [there, back].contains(&(found.addresses, found.ports)) {
                *found = Found::default();
            }
        }
    }

    /// By the shortcut, if it holds the pair; a SYN may open a connection and goes through the map.
    #[inline]
    fn push_known(
        &mut self,
        there: (u64, u32),
        packet: &Packet<'_>,
        options: Option<&TcpOptions>,
    ) -> Option<u32> {
        let back = reversed(there);
        let found = self.known(there, back)?;
        if packet.is_syn() || there == (0, 0) {
            return None;
        }
        // The shortcut holds the pair as `ends` has it.
        let from = usize::from((found.addresses, found.ports) != there);
        let connection = &mut self.begun[found.begun as usize];
        connection.push(from, packet, options);
        Some(connection.id as u32)
    }

    /// Through the map, and noted in the shortcut.
    #[cold]
    fn push_found(&mut self, plain: &Plain, packet: &Packet<'_>) -> u32 {
        let id = self.follow([plain.src(), plain.dst()], 0, packet, None);
        let slot = self.slot(id).expect("a segment was followed");
        let State::Begun(begun) = slot.state else {
            return id;
        };
        if slot.networks != [Some(0); 2] {
            return id;
        }
        let there = (plain.addresses, plain.ports);
        let back = reversed(there);
        let is_there = slot.ends[0] == plain.src();
        let (addresses, ports) = if is_there { there } else { back };
        self.note(Found {
            addresses,
            ports,
            begun,
        });
        id
    }

    /// Returns the id of the connection that the packet belongs to.
    fn follow(
        &mut self,
        [src, dst]: [Endpoint; 2],
        network: u32,
        packet: &Packet<'_>,
        options: Option<&TcpOptions>,
    ) -> u32 {
        let id = match self.find([src, dst], network) {
            Some(id) if !(packet.is_syn() && self.is_reused(id, src, packet)) => id,
            _ => self.open([src, dst]),
        };
        self.last = Some(id);
        let slot = self.slot_mut(id);
        // A connection from an endpoint to itself: told apart by nothing, all of it is one direction.
        let from = usize::from(slot.ends[0] != src);
        slot.networks[from].get_or_insert(network);
        match &mut slot.state {
            State::Brief(kept) if kept.len() < brief::MOST && packet.sack.is_none() => {
                kept.push(KeptPacket::new(from, packet, options));
            }
            _ => self.begin(id).push(from, packet, options),
        }
        id
    }

    /// The connection in full.
    fn begin(&mut self, id: u32) -> &mut Connection {
        let place = match &self.slot_mut(id).state {
            State::Begun(place) => *place,
            State::Brief(kept) => {
                let (kept, ends) = (kept.clone(), self.slot_mut(id).ends);
                let wanted = self.wanted.of(id as usize);
                let connection = follow_again(id as usize, ends, &kept, wanted);
                let place = self.put(connection);
                self.slot_mut(id).state = State::Begun(place);
                place
            }
            State::Left => unreachable!("a connection that has left is not found"),
        };
        &mut self.begun[place as usize]
    }

    fn put(&mut self, connection: Connection) -> u32 {
        if let Some(place) = self.free.pop() {
            self.begun[place as usize] = connection;
            place
        } else {
            self.begun.push(connection);
            self.begun.len() as u32 - 1
        }
    }

    /// The connection that a packet from `src` to `dst` in a network belongs to, if there is one.
    fn find(&mut self, [src, dst]: [Endpoint; 2], network: u32) -> Option<u32> {
        let is_pair = |slot: &Slot| slot.ends == [src, dst] || slot.ends == [dst, src];
        let is_exact = |slot: &Slot| {
            let from = usize::from(slot.ends[0] != src);
            is_pair(slot) && slot.networks[from] == Some(network)
        };
        if let Some(last) = self.last {
            // Only if none is newer: a pair's newest is found by the map.
            if self.slot(last).is_some_and(|slot| {
                is_exact(slot)
                    && !matches!(slot.state, State::Left)
                    && self.newest.get(&hash(src, dst)) == Some(&last)
            }) {
                return Some(last);
            }
        }
        let mut id = *self.newest.get(&hash(src, dst))?;
        let mut open = None;
        for _ in 0..MOST_NETWORKS {
            let Some(slot) = self.slot(id) else { break };
            if !matches!(slot.state, State::Left) && is_pair(slot) {
                if is_exact(slot) {
                    return Some(id);
                }
                // The other side has not been heard yet: it may be tagged otherwise, but one of its own network first.
                let from = usize::from(slot.ends[0] != src);
                if slot.networks[from].is_none() {
                    if slot.networks[1 - from] == Some(network) {
                        return Some(id);
                    }
                    open.get_or_insert(id);
                }
            } else if matches!(slot.state, State::Left) && is_pair(slot) {
                self.resumed += 1;
                break;
            }
            id = slot.previous;
        }
        open
    }

    /// Whether a SYN opens a new connection on the pair of a known one.
    fn is_reused(&self, id: u32, src: Endpoint, syn: &Packet<'_>) -> bool {
        let known = self.connection(id as usize);
        known.is_some_and(|connection| connection.is_reused_by(src, syn))
    }

    fn open(&mut self, ends: [Endpoint; 2]) -> u32 {
        let id = self.first + u32::try_from(self.slots.len()).expect("connections fit memory");
        let wanted = self.wanted.of(id as usize);
        let state = if wanted != [Keep::Nothing; 2] {
            State::Begun(self.put(Connection::new(id as usize, ends, wanted)))
        } else {
            State::Brief(Vec::with_capacity(1))
        };
        let [src, dst] = ends;
        let previous = self.newest.insert(hash(src, dst), id).unwrap_or(NOBODY);
        self.slots.push_back(Slot {
            ends,
            networks: [None; 2],
            previous,
            state,
        });
        // It may be a new connection on a known pair.
        self.forget(ends);
        id
    }

    /// Takes out what is over at `now`, in order of ids: closed and quiet, or idle for longer than one may wait.
    ///
    /// A packet that comes later all the same opens a new connection. Costs a look at every connection in the table.
    pub fn leave(&mut self, now: i64, patience: Patience) -> Vec<Connection> {
        let mut gone = Vec::new();
        for place in 0..self.slots.len() {
            let id = self.first + place as u32;
            let Some(connection) = self.connection(id as usize) else {
                continue;
            };
            let idle = now - connection.last_time();
            let is_over = connection.end() != End::Open && idle >= patience.closed_ns;
            if !is_over && idle < patience.idle_ns {
                continue;
            }
            self.left_idle += u64::from(!is_over);
            let slot = &mut self.slots[place];
            let ends = slot.ends;
            match std::mem::replace(&mut slot.state, State::Left) {
                State::Begun(at) => {
                    let empty = Connection::new(id as usize, ends, [Keep::Nothing; 2]);
                    gone.push(std::mem::replace(&mut self.begun[at as usize], empty));
                    self.free.push(at);
                    self.forget(ends);
                }
                State::Brief(kept) => {
                    let nothing = [Keep::Nothing; 2];
                    gone.push(follow_again(id as usize, ends, &kept, nothing));
                }
                State::Left => {}
            }
            if is_over {
                // Nothing of it is expected any more; one that was merely idle is remembered as such.
                let key = hash(ends[0], ends[1]);
                if self.newest.get(&key) == Some(&id) {
                    self.newest.remove(&key);
                }
            }
        }
        while let Some(slot) = self.slots.front() {
            if !matches!(slot.state, State::Left) {
                break;
            }
            let key = hash(slot.ends[0], slot.ends[1]);
            if self.newest.get(&key) == Some(&self.first) {
                self.newest.remove(&key);
            }
            self.slots.pop_front();
            self.first += 1;
        }
        self.last = None;
        gone
    }
}

/// A connection from the packets kept of it.
fn follow_again(
    id: usize,
    ends: [Endpoint; 2],
    kept: &[KeptPacket],
    wanted: [Keep; 2],
) -> Connection {
    let mut connection = Connection::new(id, ends, wanted);
    for packet in kept {
        packet.push_to(&mut connection);
    }
    connection
}

/// The same for both directions.
fn hash(src: Endpoint, dst: Endpoint) -> u64 {
    let pair = if src <= dst { (src, dst) } else { (dst, src) };
    FxBuildHasher.hash_one(pair)
}

/// The pair as the other direction has it.
#[inline]
fn reversed((addresses, ports): (u64, u32)) -> (u64, u32) {
    (addresses.rotate_left(32), ports.rotate_left(16))
}

/// A place among so many (a power of two) that both directions of a pair share.
#[inline]
fn place(places: usize, there: (u64, u32), back: (u64, u32)) -> usize {
    // The halves of each are the same: what differs between the two ends, twice.
    let differs = (there.0 ^ back.0) >> 32 << 32 | u64::from(there.1 ^ back.1);
    let bits = places.max(2).trailing_zeros();
    (differs.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize
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
