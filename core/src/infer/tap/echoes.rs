//! What the timestamps of segments and ACKs tell of the way between a sender and a tap (RFC 7323 section 4.3).

use crate::infer::ordered::places;

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

/// Segments looked at in one go.
const AT_ONCE: usize = 1 << 16;

/// None: without timestamps, or where echoes are stale: segments lie above the right edge of the newest ACK they name.
///
/// Of several ACKs with one TSval the first counts for a turn, so that none is too short.
pub fn echoed(segments: Segments<'_>, acks: Acks<'_>, asked: Asked) -> Option<Echoed> {
    let has_data = (0..segments.length.len()).filter(|&row| segments.length[row] > 0);
    let rows: Vec<u32> = has_data.map(|row| row as u32).collect();
    let echoes: Vec<i64> = rows
        .iter()
        .map(|&row| segments.ts_ecr[row as usize])
        .collect();
    let is_without = |stamps: &[i64]| stamps.iter().any(|&stamp| stamp < 0);
    let (&first, &stamp) = (echoes.first()?, acks.ts_val.first()?);
    if is_without(&echoes) || is_without(acks.ts_val) {
        return None;
    }
    let mut clock = unwrapped(acks.ts_val);
    let mut newest = i64::MIN;
    for each in &mut clock {
        newest = newest.max(*each);
        *each = newest;
    }
    let mut echo = unwrapped(&echoes);
    drop(echoes);
    let ahead = signed(first, stamp);
    for each in &mut echo {
        *each += ahead;
    }
    let mut found = Echoed {
        of: rows.len(),
        ..Echoed::default()
    };
    for (rows, echo) in rows.chunks(AT_ONCE).zip(echo.chunks(AT_ONCE)) {
        found.add(segments, acks, asked, &clock, rows, echo)?;
    }
    Some(found)
}

impl Echoed {
    fn add(
        &mut self,
        segments: Segments<'_>,
        acks: Acks<'_>,
        asked: Asked,
        clock: &[i64],
        rows: &[u32],
        echo: &[i64],
    ) -> Option<()> {
        let behind = places(clock, echo, true);
        let (mut known, mut stale) = (0_usize, 0_usize);
        // The first ACK with the stamp that the segment before named.
        let (mut named, mut low) = (None, 0);
        for (&row, &behind) in rows.iter().zip(&behind) {
            let (row, behind) = (row as usize, behind as usize);
            let Some(high) = behind.checked_sub(1) else {
                continue;
            };
            known += 1;
            let time_ns = segments.time_ns[row];
            if let Some(&offered) = acks.offered.get(high) {
                let end = segments.offset[row].saturating_add(segments.length[row]);
                stale += usize::from(end > offered.saturating_add(asked.smss));
            }
            if named != Some(clock[high]) {
                named = Some(clock[high]);
                low = clock[..behind].partition_point(|&stamp| stamp < clock[high]);
            }
            // A clock that jumped may name an ACK of later.
            let turn = Some(time_ns - acks.time_ns[low]).filter(|&turn| turn >= 0);
            self.turn_ns = least(self.turn_ns, turn);
            if segments.length[row] >= asked.smss {
                self.full_turn_ns = least(self.full_turn_ns, turn);
            }
            let newer = acks.time_ns.get(behind);
            self.waited += usize::from(newer.is_some_and(|newer| time_ns - newer > asked.long_ns));
        }
        let is_stale = known > 0 && stale as f64 / known as f64 > asked.most_stale;
        (!is_stale).then_some(())
    }
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
}
