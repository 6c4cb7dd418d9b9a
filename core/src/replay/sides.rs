//! Which hosts stand on the near side of the path, and which pair of endpoints a packet belongs to.

use std::collections::HashSet;
use std::net::IpAddr;

use rustc_hash::FxHashMap;

use crate::wire::{Endpoint, Plain};

/// Endpoints of one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    pub near: Endpoint,
    pub far: Endpoint,
}

/// Direction and pair of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sided {
    pub is_reverse: bool,
    pub pair: u32,
}

/// Addresses and ports of a packet, and what was found.
type Last = ((u64, u32), Option<Sided>);

/// The near hosts, and the pairs met so far by number.
#[derive(Debug, Default)]
pub struct Sides {
    near: HashSet<IpAddr>,
    /// Where both ends have one address: the near endpoints.
    near_ends: HashSet<Endpoint>,
    pairs: Vec<Pair>,
    numbers: FxHashMap<Pair, u32>,
    /// Packets of the usual form: addresses and ports to what was found; `None`: it does not cross the path.
    plain: FxHashMap<(u64, u32), Option<Sided>>,
    /// Data one way and ACKs the other take turns.
    last: [Option<Last>; 2],
}

impl Sides {
    pub fn new(near: HashSet<IpAddr>, near_ends: HashSet<Endpoint>) -> Self {
        Self {
            near,
            near_ends,
            ..Self::default()
        }
    }

    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Whether a packet between two hosts runs back (towards the near side); `None`: it does not cross the path.
    pub fn is_reverse(&self, src: IpAddr, dst: IpAddr) -> Option<bool> {
        match (self.near.contains(&src), self.near.contains(&dst)) {
            (true, false) => Some(false),
            (false, true) => Some(true),
            _ => None,
        }
    }

    pub fn find(&mut self, src: Endpoint, dst: Endpoint) -> Option<Sided> {
        let is_reverse = if self.near_ends.contains(&src) {
            false
        } else if self.near_ends.contains(&dst) {
            true
        } else {
            self.is_reverse(src.addr, dst.addr)?
        };
        let pair = if is_reverse {
            Pair {
                near: dst,
                far: src,
            }
        } else {
            Pair {
                near: src,
                far: dst,
            }
        };
        let next = self.pairs.len() as u32;
        let number = *self.numbers.entry(pair).or_insert(next);
        if number == next {
            self.pairs.push(pair);
        }
        Some(Sided {
            is_reverse,
            pair: number,
        })
    }

    #[inline]
    pub fn find_plain(&mut self, plain: &Plain) -> Option<Sided> {
        let key = (plain.addresses, plain.ports);
        for (known, found) in self.last.iter().flatten() {
            if *known == key {
                return *found;
            }
        }
        let found = match self.plain.get(&key) {
            Some(found) => *found,
            None => {
                let found = self.find(plain.src(), plain.dst());
                self.plain.insert(key, found);
                found
            }
        };
        self.last = [Some((key, found)), self.last[0]];
        found
    }
}
