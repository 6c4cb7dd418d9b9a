//! Which ACK released each send, where only bounds of it are known, and how many bytes behind each ACK are open.
//!
//! Between the ACKs at which it is certain what had been sent, what is in the network is taken to change evenly: each ACK
//! releases what it says has left, and its share of the growth.

/// Sends in the order of leaving: how many bytes each is, and between which ACKs (-1: before all) the one lies that
/// released it; both rise.
#[derive(Clone, Copy, Debug)]
pub struct Sends<'a> {
    pub bytes: &'a [i64],
    pub low: &'a [i32],
    pub high: &'a [i32],
    /// It never reached the tap.
    pub is_put_back: &'a [bool],
}

/// Bytes sent, and how many of the sends were put back, by the ACK reached.
#[derive(Clone, Copy, Default)]
struct Reached {
    sends: usize,
    bytes: i64,
    put_back: usize,
}

impl Reached {
    fn walk(&mut self, sends: Sends<'_>, bound: &[i32], ack: i32) {
        while self.sends < bound.len() && bound[self.sends] <= ack {
            self.bytes += sends.bytes[self.sends];
            self.put_back += usize::from(sends.is_put_back[self.sends]);
            self.sends += 1;
        }
    }
}

/// What may have been sent before the first ACK, and behind each: the most and the least, and whether a send that was put
/// back is open there.
fn bounds(sends: Sends<'_>, acks: usize) -> impl Iterator<Item = (i64, i64, bool)> + '_ {
    let (mut most, mut least) = (Reached::default(), Reached::default());
    (-1..acks as i32).map(move |ack| {
        most.walk(sends, sends.low, ack);
        least.walk(sends, sends.high, ack);
        (most.bytes, least.bytes, most.put_back > least.put_back)
    })
}

/// What is in the network at places where that is certain, and between them.
struct Certain {
    known: Vec<(usize, f64)>,
    behind: usize,
}

impl Certain {
    /// The one up to a place (the first, where it is before all) and the next; behind the last, that; places rise.
    fn around(&mut self, place: usize) -> ((usize, f64), (usize, f64)) {
        while self.behind < self.known.len() && self.known[self.behind].0 <= place {
            self.behind += 1;
        }
        let before = self.known[self.behind.saturating_sub(1)];
        let after = self.known[self.behind.min(self.known.len() - 1)];
        (before, after)
    }

    /// From the one up to the place last asked for to the next; behind the last, up to it.
    fn change(&self) -> i64 {
        let after = self.behind.min(self.known.len() - 1);
        let before = self.known[after.saturating_sub(1)];
        (self.known[after].1 - before.1).abs() as i64
    }

    /// A window that grows by a segment per round trip grows by its inverse per ACK: its square grows evenly. One that
    /// more than doubles was in slow start: it grows evenly itself.
    fn at(&mut self, place: usize) -> f64 {
        let (before, after) = self.around(place);
        if before.0 >= place || before.0 == after.0 {
            // Certain itself, or beyond the last; the root of a square is what was squared.
            return before.1;
        }
        let evenly = |from: f64, to: f64| {
            let slope = (to - from) / (after.0 as f64 - before.0 as f64);
            slope * (place as f64 - before.0 as f64) + from
        };
        if after.1 > 2.0 * before.1 {
            evenly(before.1, after.1)
        } else {
            evenly(before.1 * before.1, after.1 * after.1).sqrt()
        }
    }
}

/// Of each send the ACK that released it, and behind each ACK how many bytes may belong to others. `delivered`: what is
/// known to have arrived at each, `first`: the first byte. `by_echo`: each segment that arrived names its ACK; where only
/// what was put back is open, what is in the network lies between what it was and what it becomes.
pub fn released(
    sends: Sends<'_>,
    delivered: &[i64],
    first: i64,
    smss: i64,
    by_echo: bool,
) -> (Vec<i32>, Vec<i64>) {
    let gone = |place: usize| place.checked_sub(1).map_or(first, |ack| delivered[ack]);
    let certain = bounds(sends, delivered.len()).enumerate();
    let certain = certain.filter(|(_, (most, least, _))| most == least);
    let known: Vec<_> = certain
        .map(|(place, (most, _, _))| (place, (most - gone(place)).max(0) as f64))
        .collect();
    let mut certain = Certain { known, behind: 0 };
    let mut slack = Vec::with_capacity(delivered.len());
    let mut most_so_far = f64::NEG_INFINITY;
    let each = bounds(sends, delivered.len()).enumerate();
    let each = each.map(|(place, (most, least, is_open))| {
        let mut open = most - least;
        let within = if certain.known.is_empty() {
            (most - gone(place)) as f64
        } else {
            let within = certain.at(place);
            if by_echo && is_open {
                open = open.min(certain.change());
            }
            within
        };
        if place > 0 {
            slack.push(open);
        }
        let so_far = (within + gone(place) as f64)
            .max(least as f64)
            .min(most as f64);
        most_so_far = so_far.max(most_so_far);
        most_so_far
    });
    let sent: Vec<f64> = each.collect();
    let half = smss as f64 / 2.0;
    let (mut bytes, mut place) = (0, 0);
    let found = sends.bytes.iter().enumerate().map(|(at, own)| {
        bytes += own;
        while place < sent.len() && sent[place] < bytes as f64 - half {
            place += 1;
        }
        (place as i32 - 1).max(sends.low[at]).min(sends.high[at])
    });
    (found.collect(), slack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_is_that_of_the_ack_that_says_as_much_has_left() {
        // Two at first; then each ACK of one releases one, but which of the last two released which is open.
        let sends = Sends {
            bytes: &[10; 6],
            low: &[-1, -1, 0, 1, 1, 3],
            high: &[-1, -1, 0, 2, 2, 3],
            is_put_back: &[false; 6],
        };
        let (found, slack) = released(sends, &[10, 20, 30, 40], 0, 10, false);
        assert_eq!(found, [-1, -1, 0, 1, 2, 3]);
        assert_eq!(slack, [0, 20, 0, 0]);
    }

    #[test]
    fn beside_what_was_put_back_the_network_holds_what_it_did_or_will() {
        let sends = Sends {
            bytes: &[10; 6],
            low: &[-1, -1, 0, 1, 1, 3],
            high: &[-1, -1, 0, 2, 2, 3],
            is_put_back: &[false, false, false, true, false, false],
        };
        let (_, slack) = released(sends, &[10, 20, 30, 40], 0, 10, true);
        assert_eq!(slack, [0, 0, 0, 0]);
    }
}
