//! ACKs that came at once behind a silence in which they were due, as where a tap had held them back.

use crate::infer::quantile::median;

/// What comes at once: gaps of no more than this, per packet that is read between two, and of no more than this share of
/// what they take. Fewer gaps than `fewest` tell no pace; of so many segments an ACK tells.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce {
    pub ns: i64,
    pub share: f64,
    pub fewest: usize,
    pub segments: i64,
}

/// A run of ACKs that moved, each at once behind the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Together {
    pub begins_ns: i64,
    pub ends_ns: i64,
    /// How many came behind the first.
    pub more: i64,
    /// The silence before it; 0: there is none before the capture's first.
    pub before_ns: i64,
    /// What all of them would have taken at the others' pace, and the first alone.
    pub due_ns: f64,
    pub first_ns: f64,
}

/// The runs in order; `newly_acked`: bytes by which each ACK moves, `smss` to a segment.
pub fn together(ack_ns: &[i64], newly_acked: &[i64], smss: i64, at_once: AtOnce) -> Vec<Together> {
    let acks = ack_ns.iter().zip(newly_acked);
    let moving = || acks.clone().filter(|(_, newly)| **newly > 0);
    // An ACK that tells of two comes as much later.
    let told = |newly: i64| (newly as f64 / smss as f64).clamp(1.0, at_once.segments as f64);
    let mut paces: Vec<f64> = moving()
        .zip(moving().skip(1))
        .map(|((before, _), (now, newly))| now.saturating_sub(*before) as f64 / told(*newly))
        .collect();
    let pace = match median(&mut paces) {
        Some(pace) if paces.len() >= at_once.fewest => pace,
        _ => return Vec::new(),
    };
    drop(paces);
    let mut found = Vec::new();
    let mut open: Option<Together> = None;
    // What all before would have taken, and how long ago the last of them came; of the first it is not known.
    let (mut asked, mut before_ns) = (0.0, 0);
    let following = moving().skip(1).map(Some).chain([None]);
    for ((&now, &newly), next) in moving().zip(following) {
        let usual = told(newly) * pace;
        let gap_ns = next.map(|(later, _)| later.saturating_sub(now));
        let is_soon = next.zip(gap_ns).is_some_and(|((_, &newly), gap_ns)| {
            // The segments beside it, which it answers or releases, are read between two: one in a row may have more.
            let packets = 1 + (newly / smss).min(at_once.segments);
            let most = ((at_once.ns * packets) as f64).min(at_once.share * (told(newly) * pace));
            gap_ns as f64 <= most
        });
        match (&mut open, is_soon) {
            (Some(run), true) => run.more += 1,
            (None, true) => {
                open = Some(Together {
                    begins_ns: now,
                    ends_ns: now,
                    more: 1,
                    before_ns,
                    due_ns: asked,
                    first_ns: usual,
                });
            }
            (_, false) => found.extend(open.take().map(|run| Together {
                ends_ns: now,
                due_ns: asked + usual - run.due_ns,
                ..run
            })),
        }
        asked += usual;
        before_ns = gap_ns.unwrap_or(0);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_back_comes_at_once_behind_the_silence_in_which_it_was_due() {
        // A segment a millisecond; those of the 4th to 6th are read with the 7th.
        let ack_ns = [0, 1, 2, 3, 7, 7, 7, 7, 8, 9].map(|ms| ms * 1_000_000);
        let at_once = AtOnce {
            ns: 10_000,
            share: 0.5,
            fewest: 4,
            segments: 2,
        };
        let run = Together {
            begins_ns: 7_000_000,
            ends_ns: 7_000_000,
            more: 3,
            before_ns: 4_000_000,
            due_ns: 4_000_000.0,
            first_ns: 1_000_000.0,
        };
        assert_eq!(together(&ack_ns, &[1000; 10], 1000, at_once), [run]);
        // ACKs that move nothing are none of them.
        let mut newly = [1000; 10];
        newly[..2].fill(0);
        assert_eq!(together(&ack_ns, &newly, 1000, at_once), [run]);
        assert!(together(&ack_ns, &[0; 10], 1000, at_once).is_empty());
    }
}
