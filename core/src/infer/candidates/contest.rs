//! Candidates replayed side by side over the readings of one capture, as far as is asked for.
//!
//! What stands on a tape is read once for many candidates, and no candidate's windows are kept. Who is dropped on the way
//! is decided outside.

use std::sync::OnceLock;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use super::block::{Block, Place, ROWS};
use super::evidence::Evidence;
use super::heard::TapeRow;
use super::own_times::{Begins, ByItself};
use super::piece::Piece;
use super::player::Player;
use super::tape::Tape;
use crate::congestion::{Control, Heard, State};

/// Candidates whose windows after those rows stay there too.
const TOGETHER: usize = 16;
/// Of those that go by themselves: when what they have outstanding left would not stay there of more.
const TOGETHER_BY_THEMSELVES: usize = 4;
/// Parts of the candidates for each thread, of all readings together.
const PARTS: usize = 2;

/// Of a process that is one of several: its contests are heard on the one thread that it has.
static ALONE: OnceLock<ThreadPool> = OnceLock::new();

/// From now on this process uses one core: others of its kind use the others. Whoever was forked has none of the
/// threads that its parent had, and would wait for them.
pub fn stay_alone() -> Result<(), ThreadPoolBuildError> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread()
        .build()?;
    // A second time changes nothing.
    drop(ALONE.set(pool));
    Ok(())
}

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

struct Contestant {
    number: usize,
    control: Box<dyn Control>,
    player: Player,
    /// Whose round trips are its own window's.
    by_itself: Option<ByItself>,
    later_ns: i64,
    smss: f64,
    piece: usize,
    /// Flight less window in the piece so far.
    so_far: Piece,
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

impl Contest {
    /// `rows`: per tape the row of each reduction. Entries are numbered as they come; each names its tape. `by_themselves`:
    /// where they begin, if their round trips are those of their own windows.
    pub fn new(
        tapes: &[Tape<'_>],
        rows: Vec<Vec<usize>>,
        entries: impl IntoIterator<Item = (usize, Entry)>,
        by_themselves: Option<Begins>,
    ) -> Option<Self> {
        let each = tapes.iter().zip(rows).map(|(tape, rows)| {
            let mut reductions: Vec<_> = rows.into_iter().zip(0..).collect();
            reductions.sort_unstable();
            Reading {
                place: Place::begin(tape),
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
                by_itself: by_themselves.map(|begins| {
                    ByItself::new(begins.later(entry.later_ns), entry.start, tapes[tape].opens)
                }),
                control: entry.control,
                later_ns: entry.later_ns,
                piece: 0,
                so_far: Piece::default(),
                errors: Vec::new(),
                expected: Vec::new(),
            });
        }
        Some(Self { readings })
    }

    /// Everyone hears all rows up to that of ACK `upto` (None: to the end).
    pub fn advance(&mut self, tapes: &[Tape<'_>], evidence: &Evidence, upto: Option<usize>) {
        match ALONE.get() {
            Some(pool) => pool.install(|| self.hear(tapes, evidence, upto)),
            None => self.hear(tapes, evidence, upto),
        }
    }

    fn hear(&mut self, tapes: &[Tape<'_>], evidence: &Evidence, upto: Option<usize>) {
        let heard = self
            .readings
            .iter()
            .filter(|each| !each.contestants.is_empty());
        // Who replays more of them reads the rows for all of those once; more parts than threads even out.
        let most = (PARTS * rayon::current_num_threads()).div_ceil(heard.count().max(1));
        self.readings
            .par_iter_mut()
            .zip(tapes)
            .for_each(|(reading, &tape)| {
                let Reading {
                    place,
                    reductions,
                    contestants,
                } = reading;
                let groups = contestants.len().div_ceil(TOGETHER).clamp(1, most);
                let size = contestants.len().div_ceil(groups).max(1);
                let is_by_itself = contestants.iter().any(|each| each.by_itself.is_some());
                let together = if is_by_itself {
                    TOGETHER_BY_THEMSELVES
                } else {
                    TOGETHER
                };
                let ends = contestants.par_chunks_mut(size).map(|own| {
                    let mut place = place.clone();
                    let mut block = Block::default();
                    let mut windows = vec![[(0.0, 0.0); ROWS]; own.len().min(together)];
                    let mut differences = Vec::new();
                    while block.read(tape, evidence, &mut place, reductions, upto) {
                        for together in own.chunks_mut(together) {
                            hear_together(together, &block, &mut windows);
                            for (each, own) in together.iter_mut().zip(&windows) {
                                each.judge(&block, own, evidence, &mut differences);
                            }
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

/// Everyone's window and threshold after each row.
type Windows = Vec<[(f64, f64); ROWS]>;

/// Row by row: what one control works out at an ACK hangs on what it did at the last, but not on the others.
fn hear_together(together: &mut [Contestant], block: &Block, windows: &mut Windows) {
    let (mut alone, mut at) = (block.alone.iter(), 0);
    for (run, row) in &block.runs {
        for row in alone.by_ref().take(*run) {
            for (each, own) in together.iter_mut().zip(&mut *windows) {
                own[at] = each.hear_alone(row);
            }
            at += 1;
        }
        let Some((row, srtt_ns)) = row else { continue };
        for (each, own) in together.iter_mut().zip(&mut *windows) {
            own[at] = each.hear(&row.later(each.later_ns), *srtt_ns);
        }
        at += 1;
    }
}

impl Contestant {
    fn hear_alone(&mut self, row: &Heard) -> (f64, f64) {
        let (player, control) = (&mut self.player, self.control.as_mut());
        match &mut self.by_itself {
            None => player.hear_alone(control, row, self.later_ns),
            Some(by_itself) => by_itself.hear_alone(player, control, row, self.later_ns),
        }
    }

    /// `row` is as much later as its clock is.
    fn hear(&mut self, row: &TapeRow, srtt_ns: Option<i64>) -> (f64, f64) {
        let (player, control) = (&mut self.player, self.control.as_mut());
        match &mut self.by_itself {
            None => player.hear(control, row, srtt_ns),
            Some(by_itself) => by_itself.hear(player, control, row),
        }
    }

    /// `differences`: room for the flight less the window at each ACK, used again and again.
    fn judge(
        &mut self,
        block: &Block,
        own: &[(f64, f64); ROWS],
        evidence: &Evidence,
        differences: &mut Vec<f64>,
    ) {
        let smss = self.smss;
        let window = |row: usize| own.get(row).map_or(0.0, |(cwnd, _)| cwnd / smss);
        differences.clear();
        differences.extend(
            block
                .acks
                .iter()
                .map(|&(row, _, flight)| flight - window(row)),
        );
        let (mut done, first) = (0, block.acks.first().map_or(0, |&(_, at, _)| at));
        while done < differences.len() {
            // To the end of the piece, or as far as was heard of it.
            let end = evidence.pieces.ends[self.piece] - first;
            let upto = end.min(differences.len());
            let shares = evidence.pieces.shares_from(first + done);
            self.so_far.add(&differences[done..upto], shares);
            if upto == end {
                let piece = std::mem::take(&mut self.so_far);
                let (row, ..) = block.acks[end - 1];
                self.put(evidence.followed[self.piece], (piece.error(), window(row)));
                self.piece += 1;
            }
            done = upto;
        }
        for &(row, reduction) in &block.reductions {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::{Kernel, Pair, Reno, Standard, Vegas};
    use crate::infer::candidates::evidence::{Pieces, Reduction};
    use crate::infer::candidates::heard::{Room, TapeEvent};
    use crate::infer::candidates::own_times::play_by_itself;
    use crate::infer::candidates::tape::{Heard, Mark};

    const SMSS: f64 = 1000.0;
    const ACKS: usize = 700;

    /// Columns of a sender whose every ACK acknowledges a segment, 1 ms apart.
    struct Columns {
        now_ns: Vec<i64>,
        una: Vec<i64>,
        top: Vec<i64>,
        flight: Vec<i64>,
        event: Vec<u8>,
        newly_acked: Vec<i64>,
        zeros: Vec<i64>,
        flags: Vec<bool>,
    }

    fn columns() -> Columns {
        let each = || 0..ACKS as i64;
        let flight: Vec<i64> = each().map(|ack| 10_000 + ack / 12 * 1000).collect();
        Columns {
            now_ns: each().map(|ack| (ack + 1) * 1_000_000).collect(),
            una: each().map(|ack| ack * 1000).collect(),
            top: each()
                .zip(&flight)
                .map(|(ack, flight)| ack * 1000 + flight)
                .collect(),
            flight,
            event: vec![0; ACKS],
            newly_acked: vec![1000; ACKS],
            zeros: vec![0; ACKS],
            flags: vec![true; ACKS],
        }
    }

    impl Columns {
        fn heard(&self) -> Heard<'_> {
            Heard {
                now_ns: &self.now_ns,
                una: &self.una,
                top: &self.top,
                newly_acked: &self.newly_acked,
                sacked: &self.zeros,
                rtt_ns: &self.now_ns,
                event: &self.event,
                is_cwnd_limited: &self.flags,
                most_after: &[],
                flight: &self.flight,
                is_shown: &[false; ACKS],
                first: 0,
                zero_ns: 0,
            }
        }
    }

    fn loss(ack: i64) -> Mark {
        Mark {
            ack,
            event: TapeEvent::Loss,
            now_ns: (ack + 1) * 1_000_000,
            rtt_ns: 0,
            newly_acked: 0.0,
            flight_size: 20_000.0,
            cwnd: Some(20_000.0),
            ssthresh: None,
            room: Room::default(),
        }
    }

    fn entry(byte_counting: bool) -> Entry {
        Entry {
            control: Box::new(Pair {
                slow_start: Standard { byte_counting },
                window: Reno::new(byte_counting),
            }),
            start: State {
                cwnd: 10.0 * SMSS,
                ssthresh: 12.0 * SMSS,
                smss: SMSS,
            },
            later_ns: 0,
        }
    }

    fn evidence(columns: &Columns) -> Evidence {
        let acks: Vec<i64> = (0..ACKS as i64).collect();
        let of_ack = |ack: usize| columns.flight.get(ack).copied();
        let ends: Vec<i64> = (1..=7).map(|piece| piece * 100).collect();
        let pieces = Pieces::new(&acks, &ends, &[false; 7], of_ack, SMSS).expect("runs of ACKs");
        let reduction = |place| Reduction {
            place,
            observed: 10.0,
            is_threshold: false,
        };
        Evidence {
            pieces,
            followed: vec![0, 1, 3, 4, 5, 7, 8],
            reductions: vec![reduction(2), reduction(6)],
        }
    }

    /// Everyone's errors, heard in stages that end at these ACKs.
    fn errors(stages: &[usize], keep: &[usize]) -> Vec<(usize, Vec<f64>)> {
        let columns = columns();
        let (first, second) = ([loss(199), loss(499)], [loss(249), loss(549)]);
        let tape = |marks| Tape {
            heard: columns.heard(),
            before: &[],
            marks,
            chosen: &[0],
            opens: false,
        };
        let (tapes, evidence) = ([tape(&first), tape(&second)], evidence(&columns));
        let rows = vec![vec![200, 501], vec![250, 551]];
        let entries = (0..40).map(|number| (number % 2, entry(number % 4 < 2)));
        let mut contest = Contest::new(&tapes, rows, entries, None).expect("tapes that are there");
        for &upto in stages {
            contest.advance(&tapes, &evidence, Some(upto));
        }
        contest.keep(keep);
        contest.advance(&tapes, &evidence, None);
        let each = contest.judged();
        each.iter()
            .map(|each| (each.number, each.errors.to_vec()))
            .collect()
    }

    #[test]
    fn stages_and_who_else_is_heard_change_nothing() {
        let all: Vec<usize> = (0..40).collect();
        let at_once = errors(&[], &all);
        assert_eq!(at_once.len(), 40);
        assert!(at_once.iter().all(|(_, errors)| errors.len() == 9));
        assert!(
            at_once
                .iter()
                .flat_map(|(_, errors)| errors)
                .all(|error| error.is_finite())
        );
        assert_eq!(errors(&[0, 99, 100, 357], &all), at_once);
        let few: Vec<_> = [3, 17, 38].map(|number| at_once[number].clone()).into();
        assert_eq!(errors(&[128], &[3, 17, 38]), few);
        // One tape's loss comes later than the other's.
        assert_ne!(at_once[0], (0, at_once[1].1.clone()));
    }

    #[test]
    fn side_by_side_each_goes_by_itself_as_alone() {
        let (columns, marks, later_ns) = (columns(), [loss(199), loss(499)], 7_000_000);
        let evidence = evidence(&columns);
        let tape = Tape {
            heard: columns.heard(),
            before: &[],
            marks: &marks,
            chosen: &[0, 1],
            opens: false,
        };
        let begins = Begins {
            begins_ns: 500_000,
            since_ns: None,
        };
        let rows = vec![200, 501];
        let by_delay = || Entry {
            control: Box::new(Pair {
                slow_start: Standard {
                    byte_counting: false,
                },
                window: Vegas::new(Kernel::V6),
            }),
            later_ns,
            ..entry(false)
        };
        let mut heard = [None, Some(begins)].map(|begins| {
            let entries = [(0, by_delay()), (0, entry(true)), (0, by_delay())];
            Contest::new(&[tape], vec![rows.clone()], entries, begins)
                .expect("a tape that is there")
        });
        for contest in &mut heard {
            contest.advance(&[tape], &evidence, None);
        }
        let [as_seen, by_themselves] = heard.each_ref().map(Contest::judged);
        assert_ne!(as_seen[0].expected, by_themselves[0].expected);
        for each in [&by_themselves[0], &by_themselves[2]] {
            let Entry {
                mut control, start, ..
            } = by_delay();
            let alone = play_by_itself(
                control.as_mut(),
                start,
                tape.rows(later_ns),
                begins.later(later_ns),
                tape.opens,
            );
            let windows = [2, 6].map(|place| each.expected[place] * SMSS);
            assert_eq!(windows, [200, 501].map(|row: usize| alone[row]));
        }
    }
}
