//! Sequence numbers unwrapped to 64 bits (RFC 9293 section 3.4).

/// The 64-bit offset of `seq` that lies nearest to `near`, where offset 0 is wire number `base`.
///
/// Right as long as the true distance to `near` is below 2^31, which a window of at most 2^30 bytes
/// (RFC 7323 section 2.3) guarantees for every valid segment.
#[inline]
pub fn unwrap(seq: u32, base: u32, near: i64) -> i64 {
    let near_seq = base.wrapping_add(near as u32);
    near + i64::from(seq.wrapping_sub(near_seq) as i32)
}

/// The wire number of an offset.
#[inline]
pub fn wrap(offset: i64, base: u32) -> u32 {
    base.wrapping_add(offset as u32)
}

/// `a` is later than `b` in 32-bit serial arithmetic; for timestamps (RFC 7323 section 5.2).
#[inline]
pub fn is_later(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn crossing_zero_keeps_counting() {
        assert_eq!(unwrap(5, 0xffff_fff0, 0), 21);
        assert_eq!(unwrap(0xffff_ffff, 0xffff_fff0, 21), 15);
        // A byte before the first one seen: a capture that starts in the middle.
        assert_eq!(unwrap(99, 100, 0), -1);
    }

    #[test]
    fn timestamps_compare_across_zero() {
        assert!(is_later(3, u32::MAX));
        assert!(!is_later(u32::MAX, 3));
    }

    proptest! {
        #[test]
        fn a_walk_of_any_steps_below_half_the_space_is_unwrapped_exactly(
            base: u32,
            steps in prop::collection::vec(-0x4000_0000_i64..0x4000_0000, 1..200),
        ) {
            let mut truth = 0_i64;
            for step in steps {
                let near = truth;
                truth += step;
                prop_assert_eq!(unwrap(wrap(truth, base), base, near), truth);
            }
        }
    }
}
