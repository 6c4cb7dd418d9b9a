//! A table in parts, each followed on a thread of its own: all packets of a pair of endpoints belong to one part.
//!
//! Of thousands of connections whose packets take turns, following mostly waits for the memory of the next one: two
//! threads wait at the same time.

use std::thread;

use super::shortcuts::{mixed, plain_pair, reversed};
use super::slots;
use super::table::ConnectionTable;
use super::wanted::Wanted;
use crate::wire::{Plain, Segment};

/// Reading on one thread feeds no more than this.
const MOST_PARTS: usize = 4;
/// Values of the bits of a hash that tell the part.
const KINDS: usize = 1 << 8;

/// Which part a packet belongs to.
pub(super) struct Parts {
    count: usize,
    /// The first packet's pair is in part 0, and so is connection 0.
    shift: Option<usize>,
}

impl Parts {
    pub fn new(count: usize) -> Self {
        Self { count, shift: None }
    }

    #[inline]
    pub fn of_plain(&mut self, plain: &Plain) -> usize {
        self.of_pair((plain.addresses, plain.ports))
    }

    pub fn of(&mut self, segment: &Segment) -> usize {
        match plain_pair(segment.src, segment.dst) {
            Some(pair) => self.of_pair(pair),
            None => self.of_hash(slots::hash([segment.src, segment.dst])),
        }
    }

    #[inline]
    fn of_pair(&mut self, there: (u64, u32)) -> usize {
        self.of_hash(mixed(there, reversed(there)))
    }

    #[inline]
    fn of_hash(&mut self, hash: u64) -> usize {
        if self.count == 1 {
            return 0;
        }
        // Bits that no table takes for its own places.
        let part = usize::from((hash >> 24) as u8);
        (KINDS + part - *self.shift.get_or_insert(part)) % self.count
    }
}

/// Tables to follow in: one for each part that is worth a thread here.
pub(super) fn tables(wanted: Wanted) -> Vec<ConnectionTable> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    tables_in(wanted, cores.min(MOST_PARTS))
}

/// Where rows are wanted of more than the first connection, their ids must be known on the way: one part.
pub(super) fn tables_in(wanted: Wanted, parts: usize) -> Vec<ConnectionTable> {
    let others = match wanted {
        Wanted::None | Wanted::First => parts - 1,
        _ => 0,
    };
    let mut tables = vec![ConnectionTable::new(wanted)];
    tables.resize_with(1 + others, ConnectionTable::default);
    tables
}

/// The one table of all parts, in which nothing has left: ids are in the order of first packets again.
pub(super) fn merged(parts: Vec<ConnectionTable>) -> ConnectionTable {
    let mut parts = parts.into_iter();
    let mut table = parts.next().unwrap_or_default();
    for part in parts {
        table.join(part);
    }
    table
}
