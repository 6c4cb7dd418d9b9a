//! Where things stand in columns that rise: each column is walked through once, not searched anew for every row.

/// How many of `values`, which rise, are less than each of `keys` (`or_equal`: or equal to it).
///
/// A key is looked for from the place of the one before: keys that rise cost a walk, others a search each.
pub fn places(values: &[i64], keys: &[i64], or_equal: bool) -> Vec<i64> {
    let is_before = |value: i64, key: i64| value < key || (or_equal && value == key);
    let mut place = 0;
    let each = keys.iter().map(|&key| {
        if place > 0 && !is_before(values[place - 1], key) {
            place = values[..place].partition_point(|&value| is_before(value, key));
            return place as i64;
        }
        // Twice as far each time, then back into the last step.
        let mut step = 1;
        while place + step <= values.len() && is_before(values[place + step - 1], key) {
            place += step;
            step *= 2;
        }
        let behind = (place + step).min(values.len());
        place += values[place..behind].partition_point(|&value| is_before(value, key));
        place as i64
    });
    each.collect()
}

/// The least of `values` in each range from `first` to before `behind`, in whatever order. None: a range without a value.
pub fn least_within(values: &[i64], first: &[i64], behind: &[i64]) -> Option<Vec<i64>> {
    if first.len() != behind.len() {
        return None;
    }
    let mut by_end: Vec<usize> = (0..first.len()).collect();
    by_end.sort_by_key(|&at| behind[at]);
    // Places up to the end reached whose value is less than all behind them: the first within a range has its least.
    let mut left: Vec<usize> = Vec::new();
    let mut taken = 0;
    let mut found = vec![0; first.len()];
    for at in by_end {
        let end = usize::try_from(behind[at]).ok()?.min(values.len());
        let begin = usize::try_from(first[at]).ok()?;
        for place in taken..end {
            while left
                .last()
                .is_some_and(|&last| values[last] >= values[place])
            {
                left.pop();
            }
            left.push(place);
        }
        taken = taken.max(end);
        let least = left.partition_point(|&place| place < begin);
        found[at] = values[*left.get(least)?];
    }
    Some(found)
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
                values.partition_point(|&value| value < key || (or_equal && value == key)) as i64
            });
            assert_eq!(
                places(&values, &keys, or_equal),
                searched.collect::<Vec<_>>()
            );
        }
        assert_eq!(places(&[], &[3, 1], true), [0, 0]);
    }

    #[test]
    fn the_least_within_is_found_in_every_range() {
        let values: Vec<i64> = (0..100).map(|at| (at * 61) % 97).collect();
        let first: Vec<i64> = (0..90).collect();
        let behind: Vec<i64> = first.iter().map(|first| first + 1 + first / 10).collect();
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
