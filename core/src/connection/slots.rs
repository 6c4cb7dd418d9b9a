//! Which connections there are: each with its two ends, and found by them and by its network.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::brief::KeptPacket;
use crate::wire::Endpoint;

/// Connections of one pair of endpoints that are looked through for the right network.
const MOST_NETWORKS: usize = 64;
const NOBODY: u32 = u32::MAX;

/// How much of a connection is kept.
#[derive(Clone, Debug)]
pub(super) enum Keeping {
    Brief(Vec<KeptPacket>),
    /// Its place in `Table::begun`.
    Begun(u32),
    Left,
}

/// What stands for a connection in the table.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The sender of the first packet, and its peer.
    pub ends: [Endpoint; 2],
    /// The network of what each end sent, once it has sent something: a mirrored port may tag each direction its own way.
    pub networks: [Option<u32>; 2],
    pub state: Keeping,
    /// The record of its first packet.
    record: u64,
    /// The connection before this one with the same pair (or, rarely, another pair with the same hash).
    previous: u32,
}

impl Slot {
    fn has_left(&self) -> bool {
        matches!(self.state, Keeping::Left)
    }

    /// Which of its ends sent; a connection from an endpoint to itself, told apart by nothing, is all one direction.
    pub fn from(&self, src: Endpoint) -> usize {
        usize::from(self.ends[0] != src)
    }

    fn is_pair(&self, [src, dst]: [Endpoint; 2]) -> bool {
        self.ends == [src, dst] || self.ends == [dst, src]
    }

    fn is_exact(&self, pair: [Endpoint; 2], network: u32) -> bool {
        self.is_pair(pair) && self.networks[self.from(pair[0])] == Some(network)
    }
}

/// Connections in order of their first packets, which is the order of their ids.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    /// From id `first` on.
    slots: VecDeque<Slot>,
    first: u32,
    /// The newest connection of each pair of endpoints, by the pair's hash.
    newest: FxHashMap<u64, u32>,
    /// The connection of the segment before: most segments follow one of their own.
    pub last: Option<u32>,
    /// Connections that went on after they had left without an end.
    pub resumed: u64,
}

impl Slots {
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Ids in the table, of those that have left too.
    pub fn ids(&self) -> std::ops::Range<u32> {
        self.first..self.next_id()
    }

    fn next_id(&self) -> u32 {
        self.first + u32::try_from(self.slots.len()).expect("connections fit memory")
    }

    pub fn get(&self, id: u32) -> Option<&Slot> {
        self.slots.get(id.checked_sub(self.first)? as usize)
    }

    pub fn get_mut(&mut self, id: u32) -> &mut Slot {
        &mut self.slots[(id - self.first) as usize]
    }

    /// The connection that a packet of a pair (from, to) in a network belongs to, if there is one.
    pub fn find(&mut self, pair: [Endpoint; 2], network: u32) -> Option<u32> {
        if let Some(last) = self.last {
            // Only if none is newer: a pair's newest is found by the map.
            if self.get(last).is_some_and(|slot| {
                slot.is_exact(pair, network)
                    && !slot.has_left()
                    && self.newest.get(&hash(pair)) == Some(&last)
            }) {
                return Some(last);
            }
        }
        let mut id = *self.newest.get(&hash(pair))?;
        let mut open = None;
        for _ in 0..MOST_NETWORKS {
            let Some(slot) = self.get(id) else { break };
            if !slot.has_left() && slot.is_pair(pair) {
                if slot.is_exact(pair, network) {
                    return Some(id);
                }
                // The other side has not been heard yet: it may be tagged otherwise, but one of its own network first.
                let from = slot.from(pair[0]);
                if slot.networks[from].is_none() {
                    if slot.networks[1 - from] == Some(network) {
                        return Some(id);
                    }
                    open.get_or_insert(id);
                }
            } else if slot.has_left() && slot.is_pair(pair) {
                self.resumed += 1;
                break;
            }
            id = slot.previous;
        }
        open
    }

    /// A new connection; the id is its place in the order of all.
    pub fn open(&mut self, ends: [Endpoint; 2], record: u64) -> u32 {
        let id = self.next_id();
        let slot = Slot {
            ends,
            networks: [None; 2],
            record,
            previous: self.newest.insert(hash(ends), id).unwrap_or(NOBODY),
            // Most of many have one packet: room for four would be most of their memory.
            state: Keeping::Brief(Vec::with_capacity(1)),
        };
        self.slots.push_back(slot);
        id
    }

    /// Takes in connections of other pairs, in the order of all first packets; `place`: where those begun begin now.
    ///
    /// Nothing has left in either: both count from 0.
    pub fn join(&mut self, mut other: Self, place: u32) {
        let (ids, others) = (self.ids_beside(&other), other.ids_beside(self));
        self.rename(&ids, 0);
        other.rename(&others, place);
        self.newest.extend(other.newest);
        self.slots.append(&mut other.slots);
        let slots = self.slots.make_contiguous();
        slots.sort_unstable_by_key(|slot| slot.record);
    }

    /// What becomes of each id where those of another are counted, too.
    fn ids_beside(&self, other: &Self) -> Vec<u32> {
        let mut before = 0;
        let beside = self.slots.iter().enumerate().map(|(id, slot)| {
            let is_before = |other: &Slot| other.record < slot.record;
            while other.slots.get(before).is_some_and(is_before) {
                before += 1;
            }
            (id + before) as u32
        });
        beside.collect()
    }

    fn rename(&mut self, ids: &[u32], place: u32) {
        for slot in &mut self.slots {
            let previous = ids.get(slot.previous as usize);
            slot.previous = previous.copied().unwrap_or(NOBODY);
            if let Keeping::Begun(at) = &mut slot.state {
                *at += place;
            }
        }
        for id in self.newest.values_mut() {
            *id = ids[*id as usize];
        }
    }

    /// Nothing of a connection is expected any more.
    pub fn forget(&mut self, id: u32) {
        let Some(slot) = self.get(id) else { return };
        let key = hash(slot.ends);
        if self.newest.get(&key) == Some(&id) {
            self.newest.remove(&key);
        }
    }

    /// The oldest that have left need no place.
    pub fn close_up(&mut self) {
        while self.slots.front().is_some_and(Slot::has_left) {
            self.forget(self.first);
            self.slots.pop_front();
            self.first += 1;
        }
        self.last = None;
    }
}

/// The same for both directions.
pub(super) fn hash([src, dst]: [Endpoint; 2]) -> u64 {
    let pair = if src <= dst { (src, dst) } else { (dst, src) };
    FxBuildHasher.hash_one(pair)
}
