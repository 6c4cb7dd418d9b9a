//! What the timestamps of segments and ACKs tell of the way between a sender and a tap (RFC 7323 section 4.3).

use crate::infer::ordered::from;

/// A 32-bit clock without its wraps, from 0 at the first stamp; it may step back by less than half its range.
pub fn unwrapped(stamps: &[i64]) -> Vec<i64> {
    let mut before = stamps.first().copied().unwrap_or(0);
    let mut since = 0;
    let each = stamps.iter().map(|&stamp| {
        since += signed(stamp, before);
        before = stamp;
        since
    });
    each.collect()
}

/// A difference of 32-bit numbers, between minus and plus half the range.
fn signed(stamp: i64, before: i64) -> i64 {
    i64::from(stamp.wrapping_sub(before) as i32)
}

/// Columns of the segments of one side as they passed the tap, in order of time.
#[derive(Clone, Copy, Debug)]
pub struct Segments<'a> {
    pub time_ns: &'a [i64],
    pub offset: &'a [i64],
    pub length: &'a [i64],
    pub ts_ecr: &'a [i64],
}

/// The ACKs that came to it. `offered`: the right edge of the window after each; empty: not known.
#[derive(Clone, Copy, Debug)]
pub struct Acks<'a> {
    pub time_ns: &'a [i64],
    pub ts_val: &'a [i64],
    pub offered: &'a [i64],
}

/// What counts: a full segment, long after the first ACK that was not echoed yet, a share of stale echoes.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub smss: i64,
    pub long_ns: i64,
    pub most_stale: f64,
}

/// From an ACK to the data, and to the full segment, that echoes it, the least; how many waited to pass, of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echoed {
    pub turn_ns: Option<i64>,
    pub full_turn_ns: Option<i64>,
    pub waited: usize,
    pub of: usize,
}

/// Echoes that are judged together: where most of so many are stale, all are.
const AT_ONCE: usize = 1 << 16;

/// None: without timestamps, or where echoes are stale: segments lie above the right edge of the newest ACK they name.
///
/// Of several ACKs with one TSval the first counts for a turn, so that none is too short.
pub fn echoed(segments: Segments<'_>, acks: Acks<'_>, asked: Asked) -> Option<Echoed> {
    let clock = Clock::new(acks.ts_val)?;
    let mut found = Echoed::default();
    let (mut known, mut stale) = (0_usize, 0_usize);
    let mut behind = 0;
    // The first ACK with the stamp that the segment before named.
    let (mut named, mut low) = (None, 0);
    let mut is_stale = false;
    clock.each_echo(segments.length, segments.ts_ecr, |row, echo| {
        if found.of % AT_ONCE == 0 {
            is_stale |= is_more(stale, known, asked.most_stale);
            (known, stale) = (0, 0);
        }
        found.of += 1;
        behind = clock.upto(behind, echo);
        let Some(high) = behind.checked_sub(1) else {
            return;
        };
        known += 1;
        let time_ns = segments.time_ns[row];
        if let Some(&offered) = acks.offered.get(high) {
            let end = segments.offset[row].saturating_add(segments.length[row]);
            stale += usize::from(end > offered.saturating_add(asked.smss));
        }
        if named != Some(clock.stamps[high]) {
            named = Some(clock.stamps[high]);
            low = clock.first_like(high);
        }
        // A clock that jumped may name an ACK of later.
        let turn = Some(time_ns - acks.time_ns[low]).filter(|&turn| turn >= 0);
        found.turn_ns = least(found.turn_ns, turn);
        if segments.length[row] >= asked.smss {
            found.full_turn_ns = least(found.full_turn_ns, turn);
        }
        let newer = acks.time_ns.get(behind);
        found.waited += usize::from(newer.is_some_and(|newer| time_ns - newer > asked.long_ns));
    })?;
    is_stale |= is_more(stale, known, asked.most_stale);
    (!is_stale && found.of > 0).then_some(found)
}

fn is_more(some: usize, of: usize, share: f64) -> bool {
    of > 0 && some as f64 / of as f64 > share
}

/// The receiver's TSvals as ACKs passed, without wraps; a stamp is no less than one before it.
struct Clock {
    first: i64,
    stamps: Vec<i64>,
    /// It never steps back.
    is_rising: bool,
}

impl Clock {
    /// None: without timestamps.
    fn new(ts_val: &[i64]) -> Option<Self> {
        let first = *ts_val.first()?;
        if ts_val.iter().any(|&stamp| stamp < 0) {
            return None;
        }
        let (mut before, mut since, mut newest) = (first, 0, 0);
        let mut is_rising = true;
        let each = ts_val.iter().map(|&stamp| {
            since += signed(stamp, before);
            before = stamp;
            is_rising &= since >= newest;
            newest = since.max(newest);
            newest
        });
        let stamps = each.collect();
        Some(Self {
            first,
            stamps,
            is_rising,
        })
    }

    /// Of each segment with data what it echoes on this clock. None: a segment has no timestamp.
    fn each_echo(
        &self,
        length: &[i64],
        ts_ecr: &[i64],
        mut look: impl FnMut(usize, i64),
    ) -> Option<()> {
        let (mut before, mut echo) = (self.first, 0);
        for (row, (_, &stamp)) in (0..).zip(length.iter().zip(ts_ecr)).filter(has_data) {
            if stamp < 0 {
                return None;
            }
            echo += signed(stamp, before);
            before = stamp;
            look(row, echo);
        }
        Some(())
    }

    /// How many stamps are no later, of which so many were the last time.
    fn upto(&self, place: usize, echo: i64) -> usize {
        from(&self.stamps, place, |stamp| stamp <= echo)
    }

    /// The first ACK with the stamp of another.
    fn first_like(&self, ack: usize) -> usize {
        from(&self.stamps, ack, |stamp| stamp < self.stamps[ack])
    }
}

fn has_data((_, (&length, _)): &(usize, (&i64, &i64))) -> bool {
    length > 0
}

/// TSvals that segments echo: how many no ACK carries, and of the others the first ACK that does and the first segment
/// that names it, in the order of the stamps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    pub unheard: usize,
    pub ack: Vec<i64>,
    pub segment: Vec<i64>,
    /// Ticks of the receiver's clock from the first ACK to the last.
    pub ticks: i64,
}

/// None: without timestamps, or without segments that carry data.
pub fn named(length: &[i64], ts_ecr: &[i64], ts_val: &[i64]) -> Option<Named> {
    let clock = Clock::new(ts_val)?;
    // Without what repeats the one before it; each with the first segment that names it.
    let mut echoes: Vec<(i64, u32)> = Vec::new();
    clock.each_echo(length, ts_ecr, |row, echo| {
        if echoes.last().is_none_or(|&(last, _)| last != echo) {
            echoes.push((echo, row as u32));
        }
    })?;
    if echoes.is_empty() {
        return None;
    }
    // Most often they are in order.
    echoes.sort_unstable();
    let own = (!clock.is_rising).then(|| all_heard(ts_val));
    let heard = own.as_ref().unwrap_or(&clock.stamps);
    let mut found = Named {
        ticks: clock.stamps.last().copied().unwrap_or(0),
        ..Named::default()
    };
    let (mut behind, mut low, mut of_all, mut last) = (0, 0, 0, None);
    for (echo, row) in echoes {
        if last.replace(echo) == Some(echo) {
            continue;
        }
        of_all = from(heard, of_all, |stamp| stamp <= echo);
        // What was heard before the capture began is no loss.
        found.unheard += usize::from(echo > 0 && (of_all == 0 || heard[of_all - 1] != echo));
        behind = clock.upto(behind, echo);
        if behind > 0 && clock.stamps[behind - 1] == echo {
            low = from(&clock.stamps, low, |stamp| stamp < echo);
            found.ack.push(low as i64);
            found.segment.push(row.into());
        }
    }
    Some(found)
}

/// The different stamps of a clock that steps back, in order.
fn all_heard(ts_val: &[i64]) -> Vec<i64> {
    let mut found = unwrapped(ts_val);
    found.dedup();
    found.sort_unstable();
    found
}

fn least(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_passes_zero_and_steps_back() {
        let stamps = [4_294_967_290, 4_294_967_295, 3, 1, 1];
        assert_eq!(unwrapped(&stamps), [0, 5, 9, 7, 7]);
        assert!(unwrapped(&[]).is_empty());
    }

    #[test]
    fn a_turn_is_from_the_first_ack_of_a_stamp_to_what_echoes_it() {
        let segments = Segments {
            time_ns: &[5, 30, 31, 90],
            offset: &[0, 100, 100, 200],
            length: &[100, 0, 40, 100],
            ts_ecr: &[7, -1, 8, 8],
        };
        let acks = Acks {
            time_ns: &[10, 20, 60],
            ts_val: &[8, 8, 9],
            offered: &[],
        };
        let asked = Asked {
            smss: 100,
            long_ns: 20,
            most_stale: 0.01,
        };
        let found = Echoed {
            turn_ns: Some(21),
            full_turn_ns: Some(80),
            waited: 1,
            of: 3,
        };
        assert_eq!(echoed(segments, acks, asked), Some(found));
        let offered = Acks {
            offered: &[90, 90, 400],
            ..acks
        };
        assert_eq!(echoed(segments, offered, asked), None);
        let without = Acks {
            ts_val: &[8, -1, 9],
            ..acks
        };
        assert_eq!(echoed(segments, without, asked), None);
    }

    #[test]
    fn a_stamp_that_no_ack_carries_was_not_captured() {
        // 10 and 11 were heard, 12 not; 9 was heard before the capture began.
        let (length, ts_ecr) = ([1, 1, 0, 1, 1, 1], [9, 10, -1, 10, 12, 11]);
        let found = Named {
            unheard: 1,
            ack: vec![0, 2],
            segment: vec![1, 5],
            ticks: 4,
        };
        assert_eq!(named(&length, &ts_ecr, &[10, 10, 11, 14]), Some(found));
        assert_eq!(named(&length, &[-1; 6], &[10, 10, 11, 14]), None);
        assert_eq!(named(&[0; 6], &ts_ecr, &[10, 10, 11, 14]), None);
    }
}
