//! Short ways from a pair of IPv4 endpoints to its connection: what most packets need, in few cache lines.

use std::net::IpAddr;

use crate::wire::Endpoint;

/// A packet's connection, by its place in `Table::begun`, and which of its ends sent the packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub begun: u32,
    pub from: u32,
}

/// Where a pair of IPv4 endpoints was last found, as the connection's `ends` have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub addresses: u64,
    pub ports: u32,
    pub begun: u32,
}

/// Places in the shortcut at first, and at the most (16 MB), each for two pairs. It grows with the connections.
const SHORTCUTS: usize = 1 << 11;
const MOST_SHORTCUTS: usize = 1 << 19;

/// By a hash of the pair, the same for both directions; addresses and ports of 0: empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Shortcuts {
    places: Vec<[Found; 2]>,
    /// How often a pair's place was given up.
    pub forgotten: u64,
}

impl Shortcuts {
    /// Where the pair of a packet (from, to) was last found.
    #[inline]
    pub fn known(&self, there: (u64, u32)) -> Option<Known> {
        let back = reversed(there);
        let two = self.places.get(place(self.places.len(), there, back))?;
        let found = two.iter().find_map(|found| {
            let pair = (found.addresses, found.ports);
            let known = Known {
                begun: found.begun,
                from: u32::from(pair != there),
            };
            (pair == there || pair == back).then_some(known)
        });
        // An empty place stands for no pair.
        found.filter(|_| there != (0, 0))
    }

    /// `begun`: how many connections there are, with whom it grows.
    pub fn note(&mut self, found: Found, begun: usize) {
        if self.places.len() < begun.clamp(SHORTCUTS, MOST_SHORTCUTS) {
            let places = (2 * begun).next_power_of_two();
            let places = vec![<[Found; 2]>::default(); places.clamp(SHORTCUTS, MOST_SHORTCUTS)];
            let before = std::mem::replace(&mut self.places, places);
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
        let place = place(self.places.len(), pair, reversed(pair));
        let [first, second] = &mut self.places[place];
        if (first.addresses, first.ports) != pair {
            *second = *first;
        }
        *first = found;
    }

    /// It would lead to a connection that is not the pair's any more.
    pub fn forget(&mut self, [src, dst]: [Endpoint; 2]) {
        let Some(there) = plain_pair(src, dst) else {
            return;
        };
        let back = reversed(there);
        let place = place(self.places.len(), there, back);
        self.forgotten += 1;
        for found in self.places.get_mut(place).into_iter().flatten() {
            if [there, back].contains(&(found.addresses, found.ports)) {
                *found = Found::default();
            }
        }
    }
}

/// The pair as the other direction has it.
#[inline]
pub(super) fn reversed((addresses, ports): (u64, u32)) -> (u64, u32) {
    (addresses.rotate_left(32), ports.rotate_left(16))
}

/// A place among so many (a power of two) that both directions of a pair share.
#[inline]
fn place(places: usize, there: (u64, u32), back: (u64, u32)) -> usize {
    let bits = places.max(2).trailing_zeros();
    (mixed(there, back) >> (u64::BITS - bits)) as usize
}

/// A hash of a pair, the same for both directions: the upper bits are the best mixed.
#[inline]
pub(super) fn mixed(there: (u64, u32), back: (u64, u32)) -> u64 {
    // What differs between the two ends: of the addresses, in both halves, and of the ports.
    let differs = (there.0 ^ back.0) ^ u64::from(there.1 ^ back.1);
    differs.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// IPv4 endpoints as the shortcuts have them.
pub(super) fn plain_pair(src: Endpoint, dst: Endpoint) -> Option<(u64, u32)> {
    match (src.addr, dst.addr) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let addresses = u64::from(from.to_bits()) << 32 | u64::from(to.to_bits());
            Some((addresses, u32::from(src.port) << 16 | u32::from(dst.port)))
        }
        _ => None,
    }
}
