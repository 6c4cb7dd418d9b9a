//! Candidates replayed side by side over the readings of one capture, as far as is asked for.
//!
//! What stands on a tape is read once for many candidates, and no candidate's windows are kept but those of the piece
//! that is being heard. Who is dropped on the way is decided outside.

use rayon::prelude::*;

use super::evidence::Evidence;
use super::replay::{Player, TapeRow, smoothed};
use super::tape::{Cursor, Tape};
use crate::congestion::{Control, State};
use crate::recovery::Rto;

/// Rows read at once: they stay in the nearest cache while one candidate after the other hears them.
const ROWS: usize = 128;
/// Candidates that hear the same rows at once.
const TOGETHER: usize = 12;

/// A candidate before its first row, every time of which is `later_ns` later.
pub struct Entry {
    pub control: Box<dyn Control>,
    pub start: State,
    pub later_ns: i64,
}

/// Everyone who is still heard.
pub struct Contest {
    readings: Vec<Reading>,
}

/// One tape, how far it has been heard, and who hears it.
struct Reading {
    place: Place,
    /// The row of each reduction with its number, in the order of the rows.
    reductions: Vec<(usize, usize)>,
    contestants: Vec<Contestant>,
}

#[derive(Clone)]
struct Place {
    cursor: Cursor,
    rto: Rto,
    row: usize,
    /// The next of the pieces' ACKs, and the next of the reductions.
    at: usize,
    reduction: usize,
}

struct Contestant {
    number: usize,
    control: Box<dyn Control>,
    player: Player,
    later_ns: i64,
    smss: f64,
    piece: usize,
    /// Flight less window at each ACK of the piece so far.
    difference: Vec<f64>,
    /// Of each piece and reduction; NaN: not judged yet.
    errors: Vec<f64>,
    expected: Vec<f64>,
}

/// What one candidate is judged by, piece by piece, as far as it was heard; in segments.
pub struct Judged<'a> {
    pub number: usize,
    /// By how much it is off; NaN: not judged yet.
    pub errors: &'a [f64],
    /// Its own window, or threshold, there.
    pub expected: &'a [f64],
}

/// Some rows, and which of them are asked about: the place of the ACK, the number of the reduction.
#[derive(Default)]
struct Heard {
    rows: Vec<(TapeRow, Option<i64>)>,
    acks: Vec<(usize, usize)>,
    reductions: Vec<(usize, usize)>,
}

impl Contest {
    /// `rows`: per tape the row of each reduction. Entries are numbered as they come; each names its tape.
    pub fn new(
        tapes: &[Tape<'_>],
        rows: Vec<Vec<usize>>,
        entries: impl IntoIterator<Item = (usize, Entry)>,
    ) -> Option<Self> {
        let each = tapes.iter().zip(rows).map(|(tape, rows)| {
            let mut reductions: Vec<_> = rows.into_iter().zip(0..).collect();
            reductions.sort_unstable();
            Reading {
                place: Place {
                    cursor: tape.begin(),
                    rto: smoothed(),
                    row: 0,
                    at: 0,
                    reduction: 0,
                },
                reductions,
                contestants: Vec::new(),
            }
        });
        let mut readings: Vec<_> = each.collect();
        for (number, (tape, entry)) in entries.into_iter().enumerate() {
            readings.get_mut(tape)?.contestants.push(Contestant {
                number,
                smss: entry.start.smss,
                player: Player::new(entry.start),
                control: entry.control,
                later_ns: entry.later_ns,
                piece: 0,
                difference: Vec::new(),
                errors: Vec::new(),
                expected: Vec::new(),
            });
        }
        Some(Self { readings })
    }

    /// Everyone hears all rows up to that of ACK `upto` (None: to the end).
    pub fn advance(&mut self, tapes: &[Tape<'_>], evidence: &Evidence, upto: Option<usize>) {
        self.readings
            .par_iter_mut()
            .zip(tapes)
            .for_each(|(reading, &tape)| {
                let Reading {
                    place,
                    reductions,
                    contestants,
                } = reading;
                let ends = contestants.par_chunks_mut(TOGETHER).map(|together| {
                    let mut place = place.clone();
                    let mut heard = Heard::default();
                    while heard.read(tape, evidence, &mut place, reductions, upto) {
                        for each in &mut *together {
                            each.hear(&heard, evidence);
                        }
                    }
                    place
                });
                if let Some(end) = ends.collect::<Vec<_>>().pop() {
                    *place = end;
                }
            });
    }

    /// Only these go on.
    pub fn keep(&mut self, numbers: &[usize]) {
        for reading in &mut self.readings {
            reading
                .contestants
                .retain(|each| numbers.contains(&each.number));
        }
    }

    /// Everyone, in order of their numbers.
    pub fn judged(&self) -> Vec<Judged<'_>> {
        let readings = self.readings.iter().flat_map(|each| &each.contestants);
        let mut found: Vec<_> = readings
            .map(|each| Judged {
                number: each.number,
                errors: &each.errors,
                expected: &each.expected,
            })
            .collect();
        found.sort_unstable_by_key(|each| each.number);
        found
    }
}

impl Heard {
    /// The next rows; false: there are none.
    fn read(
        &mut self,
        tape: Tape<'_>,
        evidence: &Evidence,
        place: &mut Place,
        reductions: &[(usize, usize)],
        upto: Option<usize>,
    ) -> bool {
        self.rows.clear();
        self.acks.clear();
        self.reductions.clear();
        while self.rows.len() < ROWS && tape.has_more(&place.cursor, upto) {
            let ack = place.cursor.ack;
            let row = tape.take(&mut place.cursor);
            if let Some(rtt_ns) = row.rtt_ns {
                place.rto.on_sample(rtt_ns);
            }
            let is_ack = place.cursor.ack > ack;
            while let Some(&asked) = evidence.pieces.acks.get(place.at) {
                let asked = asked as usize;
                if asked > ack || (asked == ack && !is_ack) {
                    break;
                }
                // Of what came before the tape no control has heard.
                let row = if asked == ack { self.rows.len() } else { ROWS };
                self.acks.push((row, place.at));
                place.at += 1;
            }
            while let Some(&(_, reduction)) = reductions
                .get(place.reduction)
                .filter(|(at, _)| *at == place.row)
            {
                self.reductions.push((self.rows.len(), reduction));
                place.reduction += 1;
            }
            place.row += 1;
            self.rows.push((row, place.rto.srtt_ns()));
        }
        !self.rows.is_empty()
    }
}

impl Contestant {
    fn hear(&mut self, heard: &Heard, evidence: &Evidence) {
        let mut own = [(0.0, 0.0); ROWS];
        let control = self.control.as_mut();
        for ((row, srtt_ns), own) in heard.rows.iter().zip(&mut own) {
            *own = if self.later_ns == 0 {
                self.player.hear(control, row, *srtt_ns)
            } else {
                self.player
                    .hear(control, &row.later(self.later_ns), *srtt_ns)
            };
        }
        for &(row, at) in &heard.acks {
            let window = own.get(row).map_or(0.0, |(cwnd, _)| cwnd / self.smss);
            self.difference.push(evidence.pieces.flight[at] - window);
            if at + 1 == evidence.pieces.ends[self.piece] {
                let error = evidence.pieces.error(self.piece, &self.difference);
                self.put(evidence.followed[self.piece], (error, window));
                self.difference.clear();
                self.piece += 1;
            }
        }
        for &(row, reduction) in &heard.reductions {
            let (cwnd, ssthresh) = own[row];
            let reduction = &evidence.reductions[reduction];
            let judged = reduction.judged(cwnd / self.smss, ssthresh / self.smss);
            self.put(reduction.place, judged);
        }
    }

    fn put(&mut self, place: usize, (error, expected): (f64, f64)) {
        if self.errors.len() <= place {
            self.errors.resize(place + 1, f64::NAN);
            self.expected.resize(place + 1, f64::NAN);
        }
        self.errors[place] = error;
        self.expected[place] = expected;
    }
}
