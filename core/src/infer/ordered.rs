//! Where things stand in columns that rise: each column is walked through once, not searched anew for every row.

use rustc_hash::FxHashMap;

/// Keys are looked for so many places on before a search: where both columns rise at one pace they stand there.
const NEAR: usize = 4;

/// How many of `values`, which rise, are less than each of `keys` (`or_equal`: or equal to it).
///
/// A key is looked for from the place of the one before: keys that rise cost a walk, others a search each.
pub fn places(values: &[i64], keys: &[i64], or_equal: bool) -> Vec<i32> {
    if or_equal {
        walked(values, keys, |value, key| value <= key)
    } else {
        walked(values, keys, |value, key| value < key)
    }
}

fn walked(values: &[i64], keys: &[i64], is_before: impl Fn(i64, i64) -> bool) -> Vec<i32> {
    let mut place = 0;
    let each = keys.iter().map(|&key| {
        place = from(values, place, |value| is_before(value, key));
        place as i32
    });
    each.collect()
}

/// How many of `values` are before something, of which `place` were before what was looked for last.
pub fn from<T: Copy>(values: &[T], mut place: usize, is_before: impl Fn(T) -> bool) -> usize {
    if place > 0 && !is_before(values[place - 1]) {
        // Twice as far back each time, then on within the last step.
        let (mut behind, mut step) = (place - 1, 1);
        while step <= behind && !is_before(values[behind - step]) {
            behind -= step;
            step *= 2;
        }
        let begin = behind.saturating_sub(step);
        return begin + values[begin..behind].partition_point(|&value| is_before(value));
    }
    let near = values[place..].iter().take(NEAR);
    let passed = near.take_while(|&&value| is_before(value)).count();
    place += passed;
    if passed < NEAR {
        return place;
    }
    // Twice as far each time, then back into the last step.
    let mut step = 1;
    while place + step <= values.len() && is_before(values[place + step - 1]) {
        place += step;
        step *= 2;
    }
    let behind = (place + step).min(values.len());
    place + values[place..behind].partition_point(|&value| is_before(value))
}

/// The least of `values` in each range from `first` to before `behind`, in whatever order. None: a range without a value.
pub fn least_within(values: &[i64], first: &[i32], behind: &[i32]) -> Option<Vec<i64>> {
    if first.len() != behind.len() {
        return None;
    }
    let mut by_end: Vec<u32> = (0..first.len() as u32).collect();
    by_end.sort_by_key(|&at| behind[at as usize]);
    // Places up to the end reached with none behind them that is less: the first within a range has its least.
    let mut left: Vec<u32> = Vec::new();
    let mut taken = 0;
    let mut found = vec![0; first.len()];
    for at in by_end {
        let at = at as usize;
        let end = usize::try_from(behind[at]).ok()?.min(values.len());
        let begin = usize::try_from(first[at]).ok()?;
        for place in taken..end {
            while left
                .last()
                .is_some_and(|&last| values[place] <= values[last as usize])
            {
                left.pop();
            }
            left.push(place as u32);
        }
        taken = taken.max(end);
        let least = left.partition_point(|&place| (place as usize) < begin);
        found[at] = values[*left.get(least)? as usize];
    }
    Some(found)
}

/// The different values in order, and how often each comes: as numpy's `unique`, without sorting what is repeated.
pub fn counts(values: &[i64]) -> Vec<(i64, i64)> {
    let mut found: FxHashMap<i64, i64> = FxHashMap::default();
    for run in values.chunk_by(|one, other| one == other) {
        *found.entry(run[0]).or_default() += run.len() as i64;
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_unstable();
    found
}

/// How many holes none of the segments sent again covers, of those from place `begin` to before `upto`: of each hole,
/// none of which (nor of their places) is below the one before it.
pub fn unfilled(holes: &[i64], begin: &[i64], upto: &[i64], offset: &[i64], end: &[i64]) -> usize {
    // A tree over the holes: each node has the last segment that covers all of them.
    let count = holes.len();
    let mut last = vec![-1; 2 * count];
    let mut again = 0;
    let mut unfilled = 0;
    for (number, &hole) in holes.iter().enumerate() {
        while again < offset.len() && (again as i64) < upto[number] {
            let mut first = count + holes.partition_point(|&each| each < offset[again]);
            let mut behind = count + holes.partition_point(|&each| each < end[again]);
            while first < behind {
                if first % 2 == 1 {
                    last[first] = again as i64;
                    first += 1;
                }
                if behind % 2 == 1 {
                    behind -= 1;
                    last[behind] = again as i64;
                }
                (first, behind) = (first / 2, behind / 2);
            }
            again += 1;
        }
        debug_assert!(holes[..number].last().is_none_or(|&before| before <= hole));
        let mut node = count + number;
        let mut newest = -1;
        while node > 0 {
            newest = last[node].max(newest);
            node /= 2;
        }
        unfilled += usize::from(newest < begin[number]);
    }
    unfilled
}

/// The number of each ACK's round trip: one is over when what had been sent at its beginning (`nxt`) is acknowledged
/// (`una`, which rises).
pub fn rounds(una: &[i64], nxt: &[i64]) -> Vec<i32> {
    let (mut number, mut upto) = (-1, i64::MIN);
    let each = una.iter().zip(nxt).map(|(&una, &nxt)| {
        if number < 0 || una >= upto {
            (number, upto) = (number + 1, nxt);
        }
        number
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_that_of_a_search_whatever_the_order_of_the_keys() {
        let values: Vec<i64> = (0..200).map(|at| at * at / 7).collect();
        let keys: Vec<i64> = (0..300)
            .map(|at| (at * 37) % 6000 - 40)
            .chain(0..90)
            .collect();
        for or_equal in [false, true] {
            let searched = keys.iter().map(|&key| {
                values.partition_point(|&value| value < key || (or_equal && value == key)) as i32
            });
            assert_eq!(
                places(&values, &keys, or_equal),
                searched.collect::<Vec<_>>()
            );
        }
        assert_eq!(places(&[], &[3, 1], true), [0, 0]);
    }

    #[test]
    fn values_are_counted_in_order() {
        assert_eq!(counts(&[5, 5, -1, 5, 2, 2, -1]), [(-1, 2), (2, 2), (5, 3)]);
        assert!(counts(&[]).is_empty());
    }

    #[test]
    fn a_hole_is_filled_by_what_covers_it_within_its_time() {
        let holes: Vec<i64> = (0..60).map(|at| at * 3).collect();
        let begin: Vec<i64> = (0..60).map(|at| at / 2).collect();
        let upto: Vec<i64> = (0..60).map(|at| at * 2 / 3 + 4).collect();
        let offset: Vec<i64> = (0..40).map(|at| (at * 53) % 150).collect();
        let end: Vec<i64> = offset
            .iter()
            .zip(0..)
            .map(|(at, by)| at + by % 30)
            .collect();
        let covers = |hole: i64, row: usize| offset[row] <= hole && end[row] > hole;
        let each = holes.iter().zip(begin.iter().zip(&upto));
        let open = each.filter(|(hole, (begin, upto))| {
            !(**begin as usize..40.min(**upto as usize)).any(|row| covers(**hole, row))
        });
        let open = open.count();
        assert!(open > 5 && open < 55);
        assert_eq!(unfilled(&holes, &begin, &upto, &offset, &end), open);
        assert_eq!(unfilled(&[], &[], &[], &offset, &end), 0);
    }

    #[test]
    fn a_round_ends_where_what_was_sent_at_its_beginning_is_acknowledged() {
        let una = [0, 0, 2, 3, 5, 6, 6];
        let nxt = [3, 3, 5, 7, 8, 6, 9];
        assert_eq!(rounds(&una, &nxt), [0, 0, 0, 1, 1, 1, 1]);
        // Nothing outstanding: the next ACK is a round of its own.
        assert_eq!(rounds(&[4, 4, 4], &[4, 4, 4]), [0, 1, 2]);
        assert!(rounds(&[], &[]).is_empty());
    }

    #[test]
    fn the_least_within_is_found_in_every_range() {
        let values: Vec<i64> = (0..100).map(|at| (at * 61) % 97).collect();
        let first: Vec<i32> = (0..90).collect();
        let behind: Vec<i32> = first.iter().map(|first| first + 1 + first / 10).collect();
        let each = first.iter().zip(&behind);
        let found = each.map(|(&first, &behind)| {
            values[first as usize..behind as usize]
                .iter()
                .copied()
                .min()
        });
        assert_eq!(
            least_within(&values, &first, &behind),
            found.collect::<Option<Vec<_>>>()
        );
        assert_eq!(
            least_within(&values, &[40, 2, 3], &[60, 9, 7]),
            Some(vec![values[43], values[8], values[5]])
        );
        assert_eq!(
            least_within(&values, &[3, 1], &[8, 2]),
            Some(vec![14, values[1]])
        );
        assert_eq!(least_within(&values, &[3], &[3]), None);
        assert_eq!(least_within(&values, &[99], &[120]), Some(vec![values[99]]));
    }
}
