//! Both ways of a connection in the order of capture: their stamps, and what was never captured.

/// The stamps of segments and ACKs as they were captured, and which are the segments'. `passed`: how many ACKs had
/// passed before each segment. None: there are not so many, or the numbers fall.
pub fn merged(sent_ns: &[i64], heard_ns: &[i64], passed: &[i32]) -> Option<(Vec<i64>, Vec<bool>)> {
    let count = sent_ns.len() + heard_ns.len();
    let (mut stamps, mut is_sent) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut heard = 0;
    for (&time_ns, &passed) in sent_ns.iter().zip(passed) {
        let before = heard_ns.get(heard..usize::try_from(passed).ok()?)?;
        stamps.extend_from_slice(before);
        is_sent.resize(stamps.len(), false);
        stamps.push(time_ns);
        is_sent.push(true);
        heard += before.len();
    }
    stamps.extend_from_slice(&heard_ns[heard..]);
    is_sent.resize(stamps.len(), false);
    Some((stamps, is_sent))
}

/// The stamps that come so much later than the one before, by the place of that, and how much later.
pub fn long_gaps(stamps: &[i64], least_ns: i64) -> (Vec<i64>, Vec<i64>) {
    let gaps = stamps
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]));
    (0..).zip(gaps).filter(|&(_, gap)| gap > least_ns).unzip()
}

/// Whether a segment passed more than so long after the last ACK that had passed before it.
pub fn is_left_later(sent_ns: &[i64], heard_ns: &[i64], passed: &[i32], patience_ns: i64) -> bool {
    let last = |passed: i32| heard_ns.get(usize::try_from(passed).ok()?.checked_sub(1)?);
    sent_ns.iter().zip(passed).any(|(&time_ns, &passed)| {
        last(passed).is_some_and(|&heard| time_ns.saturating_sub(heard) > patience_ns)
    })
}

/// Bytes below `most` in holes of the ranges, from the lowest of them on: of holes that end by `first_new`, and above.
pub fn never_captured(offset: &[i64], length: &[i64], most: i64, first_new: i64) -> (i64, i64) {
    // What goes on above all before it is in order; the rest, most often a few, is put in order beside.
    let mut top = i64::MIN;
    let mut again = Vec::new();
    for (&offset, &length) in offset.iter().zip(length) {
        if offset < top {
            again.push((offset, offset.saturating_add(length)));
        }
        top = top.max(offset);
    }
    again.sort_unstable();
    let (mut below, mut above, mut covered) = (0_i64, 0_i64, None);
    let mut take = |(offset, end): (i64, i64)| {
        let hole = covered.map_or(0, |covered: i64| offset.min(most).saturating_sub(covered));
        let side = if offset <= first_new {
            &mut below
        } else {
            &mut above
        };
        *side = side.saturating_add(hole.max(0));
        covered = Some(covered.map_or(end.min(most), |covered| covered.max(end.min(most))));
    };
    let mut again = again.into_iter().peekable();
    top = i64::MIN;
    for (&offset, &length) in offset.iter().zip(length) {
        if offset >= top {
            while let Some(before) = again.next_if(|&(before, _)| before < offset) {
                take(before);
            }
            take((offset, offset.saturating_add(length)));
            top = offset;
        }
    }
    again.for_each(take);
    (below, above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_stand_as_they_were_captured() {
        let found = merged(&[10, 12, 30], &[11, 20, 40], &[0, 1, 2]).expect("as many as there are");
        assert_eq!(found.0, [10, 11, 12, 20, 30, 40]);
        assert_eq!(found.1, [true, false, true, false, true, false]);
        for passed in [[0, 1, 4], [0, 2, 1], [0, -1, 1]] {
            assert!(merged(&[10, 12, 30], &[11, 20, 40], &passed).is_none());
        }
        assert_eq!(long_gaps(&found.0, 8), (vec![3, 4], vec![10, 10]));
    }

    #[test]
    fn what_left_long_after_the_last_ack_is_told() {
        let (sent, heard) = ([10, 95, 300], [20, 290]);
        assert!(is_left_later(&sent, &heard, &[0, 1, 2], 74));
        assert!(!is_left_later(&sent, &heard, &[0, 1, 2], 75));
    }

    #[test]
    fn holes_are_counted_on_the_side_on_which_they_end() {
        // 0..100, 200..300 (filled later by half), 400..500; then acknowledged up to 450.
        let (offset, length) = ([0, 200, 400, 100], [100, 100, 100, 50]);
        assert_eq!(never_captured(&offset, &length, 450, 0), (0, 150));
        assert_eq!(never_captured(&offset, &length, 450, 200), (50, 100));
        assert_eq!(never_captured(&offset, &length, 350, 0), (0, 100));
        assert_eq!(never_captured(&[], &[], 350, 0), (0, 0));
    }
}
