//! A token bucket by what passed it: the level that parts best who was lost from who was not.

use crate::infer::ordered::from;

/// Of each packet: what had passed before it, how long after the first it left, in ns, and whether it was lost.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'a> {
    pub before: &'a [f64],
    pub after_ns: &'a [f64],
    pub is_lost: &'a [bool],
}

/// How full a bucket that empties at a rate (packets/s) has to be to lose one, and how well that tells who was lost (1:
/// wholly). None: nobody was.
pub fn depth(packets: Packets<'_>, rate: f64) -> Option<(f64, f64)> {
    let (mut lost, mut kept) = (Vec::new(), Vec::new());
    let mut empty = f64::INFINITY;
    let times = packets.before.iter().zip(packets.after_ns);
    for ((before, after_ns), &is_lost) in times.zip(packets.is_lost) {
        // Lindley's recursion of what passed.
        let over = before - rate * after_ns / 1e9;
        empty = empty.min(over);
        let levels = if is_lost { &mut lost } else { &mut kept };
        levels.push(over - empty);
    }
    lost.sort_unstable_by(f64::total_cmp);
    // Of those that passed how many found it less full than each that was lost: those are few, these are not sorted.
    let (mut counts, mut place) = (vec![0_u32; lost.len() + 1], 0);
    for &level in &kept {
        place = from(&lost, place, |each| each <= level);
        counts[place] += 1;
    }
    let (mut below, mut best) = (0, None);
    for (at, (&level, &count)) in lost.iter().zip(&counts).enumerate() {
        below += count;
        let told = f64::from(below) / kept.len() as f64 - at as f64 / lost.len() as f64;
        if best.is_none_or(|(_, most)| told > most) {
            best = Some((level, told));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_met_it_full_was_lost() {
        // A packet a second empties; three at once fill it, and so do three more.
        let after_ns = [0.0, 0.0, 0.0, 0.0, 5e9, 5e9, 5e9, 5e9];
        let before = [0.0, 1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 6.0];
        let is_lost = [false, false, false, true, false, false, false, true];
        let packets = Packets {
            before: &before,
            after_ns: &after_ns,
            is_lost: &is_lost,
        };
        assert_eq!(depth(packets, 1.0), Some((3.0, 1.0)));
        // One that empties at a tenth of it is fuller before the second three than it was at the first loss.
        assert!(depth(packets, 0.1).is_some_and(|(_, told)| told < 1.0));
        let is_lost = &[false; 8];
        assert_eq!(depth(Packets { is_lost, ..packets }, 1.0), None);
    }
}
