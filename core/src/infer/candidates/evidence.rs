//! What a capture says of one candidate: its replayed window beside what was outstanding, piece by piece.
//!
//! A sender held back by its window has floor(cwnd) segments outstanding, so the candidate's window less the flight lies
//! between nothing and a segment; what lies outside is the candidate's error. Only ACKs that released something are
//! looked at: behind one that did not, more may be outstanding than the window allows, or less, where the host is late
//! or waits until a larger segment fits; the next one that does tells of both.

use super::piece::bounds;

/// Everything that one replay is judged by: pieces and reductions, each with its place among all.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub pieces: Pieces,
    /// The place of each piece.
    pub followed: Vec<usize>,
    pub reductions: Vec<Reduction>,
}

/// A loss event whose answer is seen: by the threshold kept at the loss, to a segment either way; else by the window
/// left, of which whole segments are seen.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    pub place: usize,
    /// In segments.
    pub observed: f64,
    pub is_threshold: bool,
}

impl Reduction {
    /// By how many segments a candidate is off, and its own window or threshold.
    pub fn judged(&self, cwnd: f64, ssthresh: f64) -> (f64, f64) {
        let (own, below) = if self.is_threshold {
            (ssthresh, 1.0)
        } else {
            (cwnd, 0.0)
        };
        let nearest = own.max(self.observed - below).min(self.observed + 1.0);
        (nearest - own, own)
    }
}

impl Evidence {
    /// Whether there is a place of its own for each, `misfits` together.
    pub fn is_whole(&self, misfits: usize) -> bool {
        let reductions = self.reductions.iter().map(|each| each.place);
        let mut places: Vec<_> = self.followed.iter().copied().chain(reductions).collect();
        places.sort_unstable();
        self.followed.len() == self.pieces.ends.len() && places.into_iter().eq(0..misfits)
    }
}

/// The ACKs at which candidates are compared with what they released: runs of them, each judged by itself.
#[derive(Clone, Debug)]
pub struct Pieces {
    pub acks: Vec<u32>,
    /// Outstanding after each, in bytes; more than fits is no window.
    flight: Vec<u32>,
    smss: f64,
    /// Where in `acks` each piece ends; none is empty.
    pub ends: Vec<usize>,
    pub is_slow_start: Vec<bool>,
    /// What an error at each counts: in slow start it grows with the window, and counts as if it were made at its end.
    /// Behind the last one: 1.
    shares: Vec<f64>,
}

impl Pieces {
    /// `flight`: bytes outstanding after an ACK. None: no runs of ACKs.
    pub fn new(
        acks: &[i64],
        ends: &[i64],
        is_slow_start: &[bool],
        flight: impl Fn(usize) -> Option<i64>,
        smss: f64,
    ) -> Option<Self> {
        let is_rising = ends.first().is_none_or(|&first| first > 0)
            && ends.windows(2).all(|pair| pair[0] < pair[1])
            && ends.last().copied().unwrap_or(0) == acks.len() as i64
            && acks.windows(2).all(|pair| pair[0] < pair[1]);
        if !is_rising || ends.len() != is_slow_start.len() {
            return None;
        }
        let each = acks.iter().map(|&ack| {
            let bytes = flight(usize::try_from(ack).ok()?)?;
            Some(u32::try_from(bytes.max(0)).unwrap_or(u32::MAX))
        });
        let mut found = Self {
            acks: acks
                .iter()
                .map(|&ack| u32::try_from(ack).ok())
                .collect::<Option<_>>()?,
            flight: each.collect::<Option<_>>()?,
            smss,
            ends: ends.iter().map(|&end| end as usize).collect(),
            is_slow_start: is_slow_start.to_vec(),
            shares: Vec::new(),
        };
        let scales = found.scales();
        let slow_starts: Vec<_> = found
            .each()
            .zip(scales)
            .filter(|((_, is_slow_start), _)| *is_slow_start)
            .map(|((place, _), scale)| (place, scale))
            .collect();
        for (place, scale) in slow_starts {
            found.shares.resize(place.start, 1.0);
            let shares = place.map(|at| scale / found.flight(at).max(1.0));
            let shares: Vec<_> = shares.collect();
            found.shares.extend(shares);
        }
        Some(found)
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
            let (least, most) = bounds(place.map(|at| self.flight(at)));
            if is_slow_start { most } else { most - least }
        });
        each.collect()
    }

    /// Segments outstanding at the end of each.
    pub fn observed(&self) -> Vec<f64> {
        self.ends.iter().map(|&end| self.flight(end - 1)).collect()
    }

    /// What an error at an ACK and at those behind it counts, by its place among all; behind the last one: 1.
    pub fn shares_from(&self, at: usize) -> &[f64] {
        self.shares.get(at..).unwrap_or_default()
    }

    /// Segments outstanding after an ACK, by its place among all.
    pub fn flight(&self, at: usize) -> f64 {
        f64::from(self.flight[at]) / self.smss
    }
}
