//! What a tap's stamps tell of its clock, in the order of capture: steps back, and what shares a stamp.

/// Counts of neighbours, for both ways together and for each (`is_sent` first: what goes one way, then the other).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamped {
    /// Stamps that are before the one in front of them, and by how much at the most.
    pub back: i64,
    pub most_back_ns: i64,
    /// Two of one stamp, by the ways of the first and of the second.
    pub alike: [[i64; 2]; 2],
    /// Two that differ by no more than was asked for.
    pub near: i64,
    pub ways: [Way; 2],
}

/// What goes one way. An answer shares its stamp with what came the other way in front of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    pub stamps: i64,
    pub unprompted: i64,
    /// Unprompted ones that have the stamp of the unprompted one before.
    pub equal: i64,
    last_ns: Option<i64>,
}

impl Stamped {
    pub fn new(stamps: &[i64], is_sent: &[bool], near_ns: i64) -> Self {
        let mut found = Self::default();
        let mut before: Option<(i64, bool)> = None;
        // Which way the first of those with one stamp went.
        let mut leads = false;
        for (&stamp, &is_sent) in stamps.iter().zip(is_sent) {
            let gap = before.map(|(before, _)| stamp.saturating_sub(before));
            match (gap, before) {
                (Some(0), Some((_, was_sent))) => {
                    found.alike[usize::from(!was_sent)][usize::from(!is_sent)] += 1;
                }
                _ => leads = is_sent,
            }
            if let Some(gap) = gap {
                found.near += i64::from(gap > 0 && gap <= near_ns);
                found.back += i64::from(gap < 0);
                found.most_back_ns = found.most_back_ns.max(gap.saturating_neg());
            }
            let way = &mut found.ways[usize::from(!is_sent)];
            way.stamps += 1;
            if is_sent == leads {
                way.unprompted += 1;
                way.equal += i64::from(way.last_ns == Some(stamp));
                way.last_ns = Some(stamp);
            }
            before = Some((stamp, is_sent));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shares_the_stamp_of_the_other_way_is_its_answer() {
        let stamps = [10, 10, 10, 20, 20, 15, 18];
        let is_sent = [false, true, true, true, false, true, true];
        let found = Stamped::new(&stamps, &is_sent, 3);
        assert_eq!((found.back, found.most_back_ns, found.near), (1, 5, 1));
        assert_eq!(found.alike, [[1, 1], [1, 0]]);
        let [sent, heard] = found.ways;
        assert_eq!((sent.stamps, sent.unprompted, sent.equal), (5, 3, 0));
        assert_eq!((heard.stamps, heard.unprompted, heard.equal), (2, 1, 0));
        let alike = Stamped::new(&[7, 7, 7], &[true; 3], 1);
        assert_eq!((alike.ways[0].unprompted, alike.ways[0].equal), (3, 2));
    }
}
