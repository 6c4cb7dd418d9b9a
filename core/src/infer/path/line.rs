//! A faster line before the bottleneck: what of a sender's bursts would wait there first.

/// Of each send, how long it waits on a line on which it takes `spent_ns`: the backlog is what came beyond what was served
/// since it was last empty (Lindley).
pub fn waits(send_ns: &[i64], spent_ns: impl Fn(usize) -> f64) -> Vec<f64> {
    let begin = send_ns.first().copied().unwrap_or(0);
    let (mut ahead, mut empty) = (0.0, f64::INFINITY);
    let each = send_ns.iter().enumerate().map(|(at, &time)| {
        let spent = spent_ns(at);
        ahead += spent;
        let now = ahead - (time - begin) as f64;
        empty = f64::min(empty, now - spent);
        now - empty - spent
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_waits_for_those_before_it_and_a_pause_empties_the_line() {
        assert_eq!(waits(&[5, 5, 5, 8, 30], |_| 2.0), [0.0, 2.0, 4.0, 3.0, 0.0]);
        assert!(waits(&[], |_| 2.0).is_empty());
    }
}
