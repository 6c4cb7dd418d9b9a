//! A tape read some rows at a time, once for many candidates.

use super::evidence::Evidence;
use super::heard::TapeRow;
use super::tape::{Cursor, Tape};
use crate::congestion;
use crate::recovery::Srtt;

/// Rows read at once: they stay in the nearest cache while one candidate after the other hears them.
pub(super) const ROWS: usize = 64;

/// How far a tape has been heard.
#[derive(Clone)]
pub(super) struct Place {
    cursor: Cursor,
    srtt: Srtt,
    row: usize,
    /// The next of the pieces' ACKs, and the next of the reductions.
    at: usize,
    reduction: usize,
}

impl Place {
    pub(super) fn begin(tape: &Tape<'_>) -> Self {
        Self {
            cursor: tape.begin(),
            srtt: Srtt::default(),
            row: 0,
            at: 0,
            reduction: 0,
        }
    }
}

/// A row, and what the round trip is smoothed to.
type Smoothed = (TapeRow, Option<i64>);

/// Some rows, and which of them are asked about: the place of the ACK, with the flight behind it; the number of the
/// reduction.
#[derive(Default)]
pub(super) struct Block {
    /// Rows that are ACKs alone, in runs; behind each run one that is more.
    pub(super) alone: Vec<congestion::Heard>,
    pub(super) runs: Vec<(usize, Option<Smoothed>)>,
    /// Of all.
    rows: usize,
    pub(super) acks: Vec<(usize, usize, f64)>,
    pub(super) reductions: Vec<(usize, usize)>,
}

impl Block {
    /// The next rows; false: there are none.
    pub(super) fn read(
        &mut self,
        tape: Tape<'_>,
        evidence: &Evidence,
        place: &mut Place,
        reductions: &[(usize, usize)],
        upto: Option<usize>,
    ) -> bool {
        self.alone.clear();
        self.runs.clear();
        self.rows = 0;
        let mut run = 0;
        self.acks.clear();
        self.reductions.clear();
        while self.rows < ROWS && tape.has_more(&place.cursor, upto) {
            let ack = place.cursor.ack;
            // A control is started by the first row.
            let alone = if place.row > 0 {
                tape.take_alone(&mut place.cursor, &mut place.srtt)
            } else {
                None
            };
            if let Some(heard) = alone {
                self.alone.push(heard);
                run += 1;
            } else {
                let row = tape.take(&mut place.cursor);
                let other = Some((row, place.srtt.with(row.rtt_ns)));
                self.runs.push((std::mem::take(&mut run), other));
            }
            let is_ack = place.cursor.ack > ack;
            while let Some(&asked) = evidence.pieces.acks.get(place.at) {
                let asked = asked as usize;
                if asked > ack || (asked == ack && !is_ack) {
                    break;
                }
                // Of what came before the tape no control has heard.
                let row = if asked == ack { self.rows } else { ROWS };
                self.acks
                    .push((row, place.at, evidence.pieces.flight(place.at)));
                place.at += 1;
            }
            while let Some(&(_, reduction)) = reductions
                .get(place.reduction)
                .filter(|(at, _)| *at == place.row)
            {
                self.reductions.push((self.rows, reduction));
                place.reduction += 1;
            }
            place.row += 1;
            self.rows += 1;
        }
        self.runs.push((run, None));
        self.rows > 0
    }
}
