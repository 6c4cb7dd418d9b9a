//! Where in a stretch of ACKs the flight is the window, and which of them released something that shows it.

/// An entry per ACK.
#[derive(Clone, Copy, Debug)]
pub struct Acks<'a> {
    /// Whether it may open the window.
    pub opens: &'a [bool],
    pub is_limited: &'a [bool],
    pub has_sent: &'a [bool],
    /// Outstanding after it.
    pub flight: &'a [i64],
}

/// For how many ACKs in a row, or what share of those before, something else than its window may hold a sender back.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub acks: f64,
    pub share: f64,
}

impl Acks<'_> {
    /// Of the ACKs behind `first` up to `last` those at which the flight is what the sender made of its window, up to
    /// where something else has held it back for long. `slack`: bytes that one read late leaves.
    pub fn released(
        &self,
        (first, last): (i64, i64),
        slack: i64,
        patience: Patience,
        found: &mut Vec<i32>,
    ) {
        let begin = usize::try_from(first + 1).unwrap_or(0);
        let end = usize::try_from(last + 1).unwrap_or(0).min(self.opens.len());
        let (mut heard, mut idle, mut most) = (0_u32, 0_u32, i64::MIN);
        for ack in (begin..end).filter(|&ack| self.opens[ack]) {
            let (is_limited, has_sent) = (self.is_limited[ack], self.has_sent[ack]);
            most = most.max(self.flight[ack]);
            // Nor is it the window where an ACK releases nothing and less is outstanding than before.
            let is_dry = !has_sent && self.flight[ack].saturating_add(slack) < most;
            idle += u32::from(!is_limited || is_dry);
            if f64::from(idle) > patience.acks + patience.share * f64::from(heard) {
                return;
            }
            heard += 1;
            if is_limited && has_sent {
                found.push(ack as i32);
            }
        }
    }
}

/// By how many bytes the flight jumps to and fro from one ACK to the next, root mean square: each less the middle one of
/// itself and its neighbours. `ends`: where each run of the ACKs ends; None: an ACK that is none.
pub fn unsteady(flight: &[i64], acks: &[i32], ends: &[i64]) -> Option<f64> {
    let (mut sum, mut count, mut begin) = (0.0, 0, 0);
    for &end in ends {
        let end = usize::try_from(end).ok()?;
        for three in acks.get(begin..end)?.windows(3) {
            let at = |place: usize| flight.get(usize::try_from(three[place]).ok()?).copied();
            let (before, own, after) = (at(0)?, at(1)?, at(2)?);
            let middle = before.min(own).max(before.max(own).min(after));
            sum += ((own - middle) as f64).powi(2);
            count += 1;
        }
        begin = end;
    }
    Some((sum / f64::from(count.max(1))).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn released(is_limited: &[bool], has_sent: &[bool], flight: &[i64]) -> Vec<i32> {
        let acks = Acks {
            opens: &vec![true; flight.len()],
            is_limited,
            has_sent,
            flight,
        };
        let patience = Patience {
            acks: 1.0,
            share: 0.1,
        };
        let mut found = Vec::new();
        acks.released((0, flight.len() as i64), 2000, patience, &mut found);
        found
    }

    #[test]
    fn a_stretch_ends_where_something_else_held_the_sender_back_for_long() {
        let has_sent = [true; 6];
        let flight = [9000; 6];
        let is_limited = [true, true, false, true, true, true];
        assert_eq!(released(&is_limited, &has_sent, &flight), [1, 3, 4, 5]);
        let is_limited = [true, true, false, false, true, true];
        assert_eq!(released(&is_limited, &has_sent, &flight), [1]);
    }

    #[test]
    fn a_flight_that_rises_is_steady_and_runs_are_apart() {
        let acks: Vec<i32> = (0..6).collect();
        let (rising, jumping) = ([1, 2, 3, 9, 8, 7], [1, 4, 1, 9, 8, 7]);
        assert_eq!(unsteady(&rising, &acks, &[3, 6]), Some(0.0));
        assert_eq!(unsteady(&jumping, &acks, &[3, 6]), Some(4.5_f64.sqrt()));
        assert_eq!(unsteady(&rising, &acks, &[3, 7]), None);
    }

    #[test]
    fn an_ack_that_releases_nothing_is_none_and_with_less_outstanding_it_is_idle() {
        let has_sent = [true, true, false, false, true, true];
        let nearly = [9000, 9000, 8000, 7000, 9000, 9000];
        assert_eq!(released(&[true; 6], &has_sent, &nearly), [1, 4, 5]);
        let dry = [9000, 9000, 6000, 6000, 9000, 9000];
        assert_eq!(released(&[true; 6], &has_sent, &dry), [1]);
    }
}
