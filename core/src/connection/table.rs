//! The connection table: segments to connections by their four-tuple (RFC 9293 section 3.3.1) and their network.

use std::borrow::Cow;
use std::hint::black_box;
use std::ops::Range;

use super::brief::{self, KeptPacket};
use super::columns::Keep;
use super::connection::{Connection, End};
use super::packet::TcpPacket;
use super::shortcuts::{Found, Known, Shortcuts, plain_pair, reversed};
use super::slots::{Keeping, Slots};
use super::wanted::{Patience, Wanted};
use crate::wire::{Endpoint, Plain, Segment, TcpOptions};

/// Packets whose connections are looked at together before they are followed.
pub const AHEAD: usize = 16;
/// With more connections than this their state is larger than the caches next to the core.
const MANY: usize = 256;
/// Rows that are held of a direction that nobody may ask for: some megabytes.
const MANY_ROWS: usize = 1 << 14;

/// Where the next packets' connections are.
pub struct Ahead {
    known: [Option<Known>; AHEAD],
    /// They are there until a pair's place is given up.
    forgotten: u64,
}

/// Follows every connection of a stream of segments in captured order. Ids are the order of first packets.
#[derive(Clone, Debug, Default)]
pub struct ConnectionTable {
    slots: Slots,
    #[expect(
        clippy::vec_box,
        reason = "they stand at lines of the cache: a vector of them could not be remapped as it grows, but is copied"
    )]
    begun: Vec<Box<Connection>>,
    /// Places of `begun` that are free again.
    free: Vec<u32>,
    shortcuts: Shortcuts,
    wanted: Wanted,
    segments: u64,
    /// Connections that left without an end.
    left_idle: u64,
}

impl ConnectionTable {
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
        self.len() == 0
    }

    /// Connections that left the table idle, without an end, and how many were opened anew by a packet of such a one.
    pub fn left_idle(&self) -> (u64, u64) {
        (self.left_idle, self.slots.resumed)
    }

    /// Their ids, and those of some that have left.
    pub fn ids(&self) -> Range<usize> {
        let ids = self.slots.ids();
        ids.start as usize..ids.end as usize
    }

    /// One connection; `None`: no such id, or it has left.
    pub fn connection(&self, id: usize) -> Option<Cow<'_, Connection>> {
        self.followed(u32::try_from(id).ok()?)
    }

    /// All connections in order of their ids.
    pub fn connections(&self) -> impl Iterator<Item = Cow<'_, Connection>> {
        self.ids().filter_map(|id| self.connection(id))
    }

    /// A connection with per-segment detail, to take it out.
    pub fn detailed(&mut self, id: usize) -> Option<&mut Connection> {
        match self.slots.get(id as u32)?.state {
            Keeping::Begun(place) => Some(&mut self.begun[place as usize]),
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

    fn followed(&self, id: u32) -> Option<Cow<'_, Connection>> {
        let slot = self.slots.get(id)?;
        Some(match &slot.state {
            Keeping::Begun(place) => Cow::Borrowed(&*self.begun[*place as usize]),
            Keeping::Brief(kept) => {
                Cow::Owned(follow_again(id, slot.ends, kept, [Keep::Nothing; 2]))
            }
            Keeping::Left => return None,
        })
    }

    /// Takes in the connections of a table of other pairs; nothing has left either. Ids are in the order of first packets.
    pub(super) fn join(&mut self, other: Self) {
        let place = self.begun.len() as u32;
        self.begun.extend(other.begun);
        self.slots.join(other.slots, place);
        for id in self.slots.ids() {
            if let Some(&Keeping::Begun(place)) = self.slots.get(id).map(|slot| &slot.state) {
                self.begun[place as usize].id = id as usize;
            }
        }
        self.segments += other.segments;
    }

    /// The next segment; `time_ns` is when it was captured. The record number is counted here.
    pub fn push(&mut self, time_ns: i64, segment: &Segment) {
        self.push_record(time_ns, self.segments, segment);
    }

    /// The next segment, found in record `index` of its capture; returns its connection's id.
    pub fn push_record(&mut self, time_ns: i64, index: u64, segment: &Segment) -> u32 {
        self.segments += 1;
        let packet = TcpPacket::new(time_ns, index, segment);
        let options = Some(&segment.options);
        let pair = plain_pair(segment.src, segment.dst).filter(|_| segment.network == 0);
        match pair.and_then(|pair| self.shortcuts.known(pair)) {
            Some(known) if !packet.is_syn() => self.push_known(known, &packet, options),
            _ => {
                let ends = [segment.src, segment.dst];
                self.follow(ends, segment.network, &packet, options)
            }
        }
    }

    /// The next segment, of the usual form; returns its connection's id.
    #[inline]
    pub fn push_plain(&mut self, time_ns: i64, index: u64, plain: &Plain) -> u32 {
        let known = self.shortcuts.known((plain.addresses, plain.ports));
        self.push_at(known, time_ns, index, plain)
    }

    /// The same of number `at` of those that were looked at.
    #[inline]
    pub fn push_next(&mut self, ahead: &Ahead, at: usize, time_ns: i64, index: u64, plain: &Plain) {
        if ahead.forgotten == self.shortcuts.forgotten {
            self.push_at(ahead.known[at], time_ns, index, plain);
        } else {
            self.push_plain(time_ns, index, plain);
        }
    }

    #[inline]
    fn push_at(&mut self, known: Option<Known>, time_ns: i64, index: u64, plain: &Plain) -> u32 {
        self.segments += 1;
        let packet = TcpPacket::plain(time_ns, index, plain);
        match known {
            // A SYN may open a connection and goes through the map.
            Some(known) if !packet.is_syn() => self.push_known(known, &packet, None),
            _ => self.push_found(plain, &packet),
        }
    }

    /// Finds the connections of the next packets and looks at what these will touch there, so that the memory comes for
    /// all of them at once.
    #[inline]
    pub fn look_ahead<'a>(&self, next: impl Iterator<Item = &'a Plain> + Clone) -> Ahead {
        let mut known = [None; AHEAD];
        for (known, plain) in known.iter_mut().zip(next.clone()) {
            *known = self.shortcuts.known((plain.addresses, plain.ports));
        }
        if self.begun.len() >= MANY {
            let touched = || {
                known.iter().zip(next.clone()).filter_map(|(known, plain)| {
                    let Known { begun, from } = (*known)?;
                    let flows = &self.begun.get(begun as usize)?.flows;
                    let (mine, other) =
                        (&flows[from as usize & 1], &flows[1 - (from as usize & 1)]);
                    Some((mine, other, plain.payload_len > 0))
                })
            };
            let lines = touched().map(|(mine, other, has_data)| {
                let sender = if has_data { mine } else { other };
                if sender.extends {
                    mine.sends_in(has_data) ^ other.hears_in(has_data)
                } else {
                    mine.any_in() ^ other.any_in()
                }
            });
            black_box(lines.fold(0, |all, line| all ^ line));
            let behind = touched().map(|(mine, other, has_data)| {
                if has_data {
                    mine.sends_behind()
                } else {
                    other.hears_behind()
                }
            });
            black_box(behind.fold(0, |all, line| all ^ line));
        }
        Ahead {
            known,
            forgotten: self.shortcuts.forgotten,
        }
    }

    #[inline]
    fn push_known(
        &mut self,
        known: Known,
        packet: &TcpPacket<'_>,
        options: Option<&TcpOptions>,
    ) -> u32 {
        let connection = &mut self.begun[known.begun as usize];
        connection.push(known.from as usize, packet, options);
        connection.id as u32
    }

    /// Through the map, and noted in the shortcut.
    #[cold]
    fn push_found(&mut self, plain: &Plain, packet: &TcpPacket<'_>) -> u32 {
        let id = self.follow([plain.src(), plain.dst()], 0, packet, None);
        let slot = self.slots.get(id).expect("a segment was followed");
        let Keeping::Begun(begun) = slot.state else {
            return id;
        };
        if slot.networks != [Some(0); 2] {
            return id;
        }
        let there = (plain.addresses, plain.ports);
        let back = reversed(there);
        let is_there = slot.ends[0] == plain.src();
        let (addresses, ports) = if is_there { there } else { back };
        let found = Found {
            addresses,
            ports,
            begun,
        };
        self.shortcuts.note(found, self.begun.len());
        id
    }

    /// Returns the id of the connection that the packet belongs to.
    fn follow(
        &mut self,
        pair: [Endpoint; 2],
        network: u32,
        packet: &TcpPacket<'_>,
        options: Option<&TcpOptions>,
    ) -> u32 {
        let src = pair[0];
        let id = match self.slots.find(pair, network) {
            Some(id) if !(packet.is_syn() && self.is_reused(id, src, packet)) => id,
            _ => self.open(pair, packet.index),
        };
        self.slots.last = Some(id);
        let slot = self.slots.get_mut(id);
        let from = slot.from(src);
        slot.networks[from].get_or_insert(network);
        match &mut slot.state {
            Keeping::Brief(kept) if kept.len() < brief::MOST && packet.sack.is_none() => {
                // No room for more: there may be a million of them.
                kept.reserve_exact(1);
                kept.push(KeptPacket::new(from, packet, options));
            }
            _ => self.begin(id).push(from, packet, options),
        }
        id
    }

    /// The connection in full.
    fn begin(&mut self, id: u32) -> &mut Connection {
        let place = match &self.slots.get_mut(id).state {
            Keeping::Begun(place) => *place,
            Keeping::Brief(kept) => {
                let (kept, ends) = (kept.clone(), self.slots.get_mut(id).ends);
                let wanted = self.wanted.of(id as usize);
                let connection = follow_again(id, ends, &kept, wanted);
                let place = self.put(connection);
                self.slots.get_mut(id).state = Keeping::Begun(place);
                place
            }
            Keeping::Left => unreachable!("a connection that has left is not found"),
        };
        &mut self.begun[place as usize]
    }

    fn put(&mut self, connection: Connection) -> u32 {
        if let Some(place) = self.free.pop() {
            *self.begun[place as usize] = connection;
            place
        } else {
            self.begun.push(Box::new(connection));
            self.begun.len() as u32 - 1
        }
    }

    /// Whether a SYN opens a new connection on the pair of a known one.
    fn is_reused(&self, id: u32, src: Endpoint, syn: &TcpPacket<'_>) -> bool {
        let known = self.connection(id as usize);
        known.is_some_and(|connection| connection.is_reused_by(src, syn))
    }

    fn open(&mut self, ends: [Endpoint; 2], record: u64) -> u32 {
        let id = self.slots.open(ends, record);
        let wanted = self.wanted.of(id as usize);
        if wanted != [Keep::Nothing; 2] {
            let place = self.put(Connection::new(id as usize, ends, wanted));
            self.slots.get_mut(id).state = Keeping::Begun(place);
        }
        // It may be a new connection on a known pair.
        self.shortcuts.forget(ends);
        id
    }

    /// Takes out what is over at `now`, in order of ids: closed and quiet, or idle for longer than one may wait.
    ///
    /// A packet that comes later all the same opens a new connection. Costs a look at every connection in the table.
    pub fn leave(&mut self, now: i64, patience: Patience) -> Vec<Connection> {
        let mut gone = Vec::new();
        for id in self.slots.ids() {
            let Some(connection) = self.followed(id) else {
                continue;
            };
            let idle = now - connection.last_time();
            let is_over = connection.end() != End::Open && idle >= patience.closed_ns;
            if !is_over && idle < patience.idle_ns {
                continue;
            }
            self.left_idle += u64::from(!is_over);
            let slot = self.slots.get_mut(id);
            let ends = slot.ends;
            match std::mem::replace(&mut slot.state, Keeping::Left) {
                Keeping::Begun(at) => {
                    let empty = Connection::new(id as usize, ends, [Keep::Nothing; 2]);
                    gone.push(std::mem::replace(&mut *self.begun[at as usize], empty));
                    self.free.push(at);
                    self.shortcuts.forget(ends);
                }
                Keeping::Brief(kept) => {
                    let nothing = [Keep::Nothing; 2];
                    gone.push(follow_again(id, ends, &kept, nothing));
                }
                Keeping::Left => {}
            }
            if is_over {
                // Nothing of it is expected any more; one that was merely idle is remembered as such.
                self.slots.forget(id);
            }
        }
        self.slots.close_up();
        gone
    }
}

/// A connection from the packets kept of it.
fn follow_again(
    id: u32,
    ends: [Endpoint; 2],
    kept: &[KeptPacket],
    wanted: [Keep; 2],
) -> Connection {
    let mut connection = Connection::new(id as usize, ends, wanted);
    for packet in kept {
        packet.push_to(&mut connection);
    }
    connection
}
