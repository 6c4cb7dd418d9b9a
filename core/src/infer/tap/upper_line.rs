//! The line above all points that lies nearest to them: a clock's, read off the ends of its ticks.

/// A point of a line may lie so far above it.
const ABOVE: f64 = 1.0;

/// Slope, and height at 0. `at` does not fall; None: there is no point, or not as many of each.
pub fn upper_line(at: &[f64], above: &[f64]) -> Option<(f64, f64)> {
    let (first, last) = (at.first()?, at.last()?);
    if at.len() != above.len() {
        return None;
    }
    let highest = above.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lowest = above.iter().copied().fold(f64::INFINITY, f64::min);
    let most = (highest - lowest).max(1.0) * 2.0;
    let mut best: Option<(f64, f64, f64)> = None;
    let mut room = vec![0.0; at.len()];
    for one in 0..at.len() {
        for other in one + 1..at.len() {
            if at[other] <= at[one] {
                continue;
            }
            let slope = (above[other] - above[one]) / (at[other] - at[one]);
            let height = above[one] - slope * at[one];
            if slope.abs() * (last - first) >= most {
                continue;
            }
            for ((room, at), above) in room.iter_mut().zip(at).zip(above) {
                *room = height + slope * at - above;
            }
            if room.iter().any(|room| *room < -ABOVE) {
                continue;
            }
            let found = (sum(&room), slope, height);
            if best.is_none_or(|best| found < best) {
                best = Some(found);
            }
        }
    }
    Some(best.map_or((0.0, highest), |(_, slope, height)| (slope, height)))
}

/// In eight parts, as numpy adds up: which of two lines is the nearer may hang on the last bit.
fn sum(values: &[f64]) -> f64 {
    let whole = values.chunks_exact(8);
    let (rest, mut parts) = (whole.remainder(), [0.0; 8]);
    for chunk in whole {
        for (part, value) in parts.iter_mut().zip(chunk) {
            *part += value;
        }
    }
    let [a, b, c, d, e, f, g, h] = parts;
    let total = ((a + b) + (c + d)) + ((e + f) + (g + h));
    rest.iter().fold(total, |total, value| total + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_the_highest_points_and_is_below_none() {
        let found = upper_line(&[0.0, 10.0, 20.0, 30.0], &[100.0, 95.0, 120.0, 130.0]);
        assert_eq!(found, Some((1.0, 100.0)));
    }

    #[test]
    fn one_point_alone_has_no_slope() {
        assert_eq!(upper_line(&[5.0], &[7.0]), Some((0.0, 7.0)));
        assert_eq!(upper_line(&[], &[]), None);
    }
}
