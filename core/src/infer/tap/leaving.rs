//! Between which ACKs each send lies, away from its sender: in the order of leaving.

/// Behind a send that was put back any ACK may have come, as far as it alone tells.
const LAST_PLACE: i32 = i32::MAX;

/// Sends in the order of leaving; `row`: below zero, it was put back.
#[derive(Clone, Copy, Debug)]
pub struct Sends<'a> {
    pub row: &'a [i32],
    pub offset: &'a [i64],
    pub end: &'a [i64],
}

/// Bounds (of ACKs) of sends, no later one's before an earlier one's; what was put back left between its neighbours, with
/// one or the other: with the one before where the sender recovers from there on, or nothing behind has arrived.
pub fn in_order(sends: Sends<'_>, low: &[i32], high: &[i32]) -> (Vec<i32>, Vec<i32>) {
    let mut low = low.to_vec();
    let mut found = high.to_vec();
    let mut is_again = vec![false; low.len()];
    let mut top = sends.offset.first().copied().unwrap_or_default();
    let (mut least, mut before) = (i32::MIN, None);
    for at in 0..low.len() {
        least = least.max(low[at]);
        low[at] = least;
        is_again[at] = sends.offset[at] < top;
        top = top.max(sends.end[at]);
        if sends.row[at] >= 0 {
            before = Some(high[at]);
        } else {
            found[at] = before.unwrap_or(least);
        }
    }
    let (mut most, mut is_followed) = (LAST_PLACE, false);
    for at in (0..low.len()).rev() {
        let is_put_back = sends.row[at] < 0;
        if !is_put_back || is_again[at] {
            is_followed = !is_put_back && !is_again[at];
        }
        most = most.min(if is_put_back && is_followed {
            LAST_PLACE
        } else {
            found[at]
        });
        found[at] = most.max(low[at]);
    }
    (low, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_back_lies_between_its_neighbours() {
        let sends = Sends {
            row: &[0, -1, 1, -1, 2, -1],
            offset: &[0, 10, 20, 10, 30, 40],
            end: &[10, 20, 30, 20, 40, 50],
        };
        let (low, high) = in_order(sends, &[0, -1, 3, -1, 2, -1], &[1, -1, 4, -1, 6, -1]);
        assert_eq!(low, [0, 0, 3, 3, 3, 3]);
        // The first hole may have left with the segment behind it; what is sent again, and the last, with the one before.
        assert_eq!(high, [1, 4, 4, 4, 6, 6]);
    }
}
