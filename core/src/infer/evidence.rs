//! What a capture says of one candidate: its replayed window beside what was outstanding, piece by piece.
//!
//! A sender held back by its window has floor(cwnd) segments outstanding, so the candidate's window less the flight lies
//! between nothing and a segment; what lies outside is the candidate's error.

/// Sixteenths of a segment with which an epoch may have begun, where no fraction explains every ACK of it.
pub const FRACTIONS: [f64; 16] = {
    let mut found = [0.0; 16];
    let mut place = 0;
    while place < found.len() {
        found[place] = place as f64 / 16.0;
        place += 1;
    }
    found
};
/// Where a candidate is off by more than a segment, a finer fraction helps nobody.
const COARSE: usize = 4;

/// The ACKs at which candidates are compared with what was sent: runs of them, each judged by itself.
#[derive(Clone, Debug)]
pub struct Pieces {
    pub acks: Vec<u32>,
    /// Outstanding after each, in segments, and whether it released anything.
    pub flight: Vec<f64>,
    pub has_sent: Vec<bool>,
    /// Where in `acks` each piece ends; none is empty.
    pub ends: Vec<usize>,
    pub is_slow_start: Vec<bool>,
}

impl Pieces {
    /// `of_ack`: segments outstanding after an ACK, and whether it released anything. None: no runs of ACKs.
    pub fn new(
        acks: &[i64],
        ends: &[i64],
        is_slow_start: &[bool],
        of_ack: impl Fn(usize) -> Option<(f64, bool)>,
    ) -> Option<Self> {
        let is_rising = ends.first().is_none_or(|&first| first > 0)
            && ends.windows(2).all(|pair| pair[0] < pair[1])
            && ends.last().copied().unwrap_or(0) == acks.len() as i64;
        if !is_rising || ends.len() != is_slow_start.len() {
            return None;
        }
        let each = acks.iter().map(|&ack| of_ack(usize::try_from(ack).ok()?));
        let (flight, has_sent) = each.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        Some(Self {
            acks: acks
                .iter()
                .map(|&ack| u32::try_from(ack).ok())
                .collect::<Option<_>>()?,
            flight,
            has_sent,
            ends: ends.iter().map(|&end| end as usize).collect(),
            is_slow_start: is_slow_start.to_vec(),
        })
    }

    /// Each piece's place among the ACKs, and whether it is of a slow start.
    fn each(&self) -> impl Iterator<Item = (std::ops::Range<usize>, bool)> + '_ {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let places = begins.zip(&self.ends).map(|(begin, &end)| begin..end);
        places.zip(self.is_slow_start.iter().copied())
    }

    /// What the error of each is held against, in segments: the window reached, or the growth within.
    pub fn scales(&self) -> Vec<f64> {
        let each = self.each().map(|(place, is_slow_start)| {
            let (least, most) = bounds(self.flight[place].iter().copied());
            if is_slow_start { most } else { most - least }
        });
        each.collect()
    }

    /// Segments outstanding at the end of each.
    pub fn observed(&self) -> Vec<f64> {
        self.ends.iter().map(|&end| self.flight[end - 1]).collect()
    }

    /// Per piece the candidate's error (root mean square, in segments) and its window at the end. `window` gives its
    /// window in segments after an ACK.
    pub fn errors(&self, mut window: impl FnMut(usize) -> f64) -> Vec<(f64, f64)> {
        let mut difference = Vec::new();
        let each = self.each().zip(self.scales());
        let judged = each.map(|((place, is_slow_start), scale)| {
            difference.clear();
            let mut own = 0.0;
            for at in place.clone() {
                own = window(self.acks[at] as usize);
                difference.push(self.flight[at] - own);
            }
            // In slow start an error grows with the window: it counts as if it were made at its end.
            let scale = is_slow_start.then_some(scale);
            let piece = Piece {
                difference: &difference,
                flight: &self.flight[place.clone()],
                has_sent: &self.has_sent[place],
                scale,
            };
            (piece.error(), own)
        });
        judged.collect()
    }
}

/// One piece of a replay: flight less window at each ACK.
struct Piece<'a> {
    difference: &'a [f64],
    flight: &'a [f64],
    has_sent: &'a [bool],
    scale: Option<f64>,
}

impl Piece<'_> {
    /// The fraction of a segment with which an epoch began is not seen: the least that explains all, or any.
    fn error(&self) -> f64 {
        let sent = self.difference.iter().zip(self.has_sent);
        let least = sent
            .filter(|(_, has_sent)| **has_sent)
            .fold(0.0, |least: f64, (&each, _)| least.max(each));
        let excess = least - bounds(self.difference.iter().copied()).0 - 1.0;
        if least < 1.0 && excess <= 0.0 {
            return self.error_from(least);
        }
        let step = if excess < 1.0 { 1 } else { COARSE };
        let begun = FRACTIONS.iter().step_by(step);
        begun
            .map(|&begun| self.error_from(begun))
            .fold(f64::INFINITY, f64::min)
    }

    fn error_from(&self, begun: f64) -> f64 {
        let rows = self.difference.iter().zip(self.flight).zip(self.has_sent);
        let squares = rows.map(|((&difference, &flight), &has_sent)| {
            let off = outside(difference - begun, has_sent);
            let share = self.scale.map_or(1.0, |scale| scale / flight.max(1.0));
            (share * off).powi(2)
        });
        (squares.sum::<f64>() / self.difference.len() as f64).sqrt()
    }
}

/// By how much flight less window lies outside of what a whole number of segments leaves open: (-1, 0].
///
/// A sender that sends nothing may have more outstanding than its window allows, never a whole segment less.
fn outside(difference: f64, has_sent: bool) -> f64 {
    let above = if has_sent { difference } else { 0.0 };
    above.max((-1.0 - difference).max(0.0))
}

/// The least and the greatest.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), each| {
        (least.min(each), most.max(each))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(flight: &[f64], is_slow_start: bool) -> Pieces {
        Pieces {
            acks: (0..flight.len() as u32).collect(),
            flight: flight.to_vec(),
            has_sent: vec![true; flight.len()],
            ends: vec![flight.len()],
            is_slow_start: vec![is_slow_start],
        }
    }

    #[test]
    fn a_window_whose_whole_segments_were_outstanding_is_not_off() {
        let windows = [10.0, 10.4, 10.8, 11.2];
        let found = pieces(&[10.0, 10.0, 10.0, 11.0], false).errors(|ack| windows[ack]);
        assert_eq!(found, [(0.0, 11.2)]);
    }

    #[test]
    fn an_epoch_may_have_begun_with_a_fraction_that_is_not_seen() {
        // 0.5 more explains that the third ACK already released the eleventh.
        let windows = [10.0, 10.3, 10.6, 10.9];
        let found = pieces(&[10.0, 10.0, 11.0, 11.0], false).errors(|ack| windows[ack]);
        assert_eq!(found, [(0.0, 10.9)]);
    }

    #[test]
    fn in_slow_start_an_error_counts_as_if_made_at_the_end() {
        // Two segments short of two, at a window of 16: 7 of 8 parts too many, two ACKs of which one is off.
        let windows = [4.0, 16.0];
        let found = pieces(&[8.0, 16.0], true).errors(|ack| windows[ack]);
        // Off by 4 at 8 less what a fraction of 0.75 explains: 3.25 * 16 / 8 = 6.5, over two ACKs.
        assert!((found[0].0 - (6.5_f64.powi(2) / 2.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn an_ack_that_released_nothing_may_leave_more_outstanding_than_the_window_allows() {
        let mut late = pieces(&[12.0, 10.0], false);
        late.has_sent[0] = false;
        assert_eq!(late.errors(|_| 10.0), [(0.0, 10.0)]);
    }
}
