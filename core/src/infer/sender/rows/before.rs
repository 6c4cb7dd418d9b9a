//! What rows of a trace leave behind when they are dropped: the state of every pass at that place, of constant size. What
//! each pass does with its own stands with the pass.

use crate::infer::duplicate::AckContent;
use crate::infer::samples::Samples;

/// Of an ACK at which nothing was lost, out of order or open, and of all before it.
#[derive(Clone, Debug)]
pub struct Before {
    /// `snd_una`, and the first byte of the segments that are kept.
    pub una: i64,
    pub top: i64,
    pub answer: AckContent,
    pub rtt: Sampled,
    pub told: Told,
    pub votes: Votes,
    /// The largest segment.
    pub largest: i64,
    pub loss_events: u64,
    pub stretch: Open,
    pub starving: Starving,
    pub work: Work,
}

/// The samples of rows that are kept no more: all of them, and those of full segments.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    pub all: Samples,
    pub full: Samples,
}

/// ACKs that released a segment that tells, and those of them that did so at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    pub all: u64,
    pub prompt: u64,
    /// How many since the last prompt one were not.
    pub late_in_a_row: u64,
}

/// Recoveries without a timer that are sure, and those of them that went back to one segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Votes {
    pub sure: usize,
    pub restarts: usize,
}

/// What a stretch begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Begin {
    Connection,
    Capture,
    /// A window of one segment after a loss.
    Restart,
    Recovery,
    /// A recovery that a timeout ended.
    Lost,
    Idle,
}

impl Begin {
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Connection, "connection"),
        (Self::Capture, "capture"),
        (Self::Restart, "restart"),
        (Self::Recovery, "recovery"),
        (Self::Lost, "lost"),
        (Self::Idle, "idle"),
    ];
}

/// A stretch of which the first rows are kept no more.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    pub begin: Begin,
    pub growth: ExcessGrowth,
    /// The least and the most that was outstanding in it.
    pub least: i64,
    pub held: i64,
    /// As of then: what its slow start grew from and to, if it had ended, and whether avoidance followed.
    pub has_peak: bool,
    pub grown_from: i64,
    pub grown_to: i64,
    pub has_threshold: bool,
    pub resumed: i64,
    /// No data was left when it began.
    pub was_exhausted: bool,
}

/// Growth per ACK in segments, less what lies between slow start and avoidance, added up along a stretch.
#[derive(Clone, Copy, Debug)]
pub struct ExcessGrowth {
    pub score: f64,
    pub best: f64,
    /// What was outstanding after the last ACK that moved `snd_una`.
    pub before: Option<i64>,
}

impl Default for ExcessGrowth {
    fn default() -> Self {
        Self {
            score: 0.0,
            best: f64::NEG_INFINITY,
            before: None,
        }
    }
}

/// What `starved` knows of a stretch so far; ACKs by number, -1: one that is kept no more.
#[derive(Clone, Copy, Debug)]
pub struct Starving {
    pub held: i64,
    /// The last ACK that released a segment, and the last at which the receiver's window may have been the reason.
    pub released: isize,
    pub closed: isize,
    pub is_short: bool,
    pub was_short: bool,
    pub round: Option<Round>,
}

/// A round of ACKs behind a pause that has kept outstanding what left first: the first of them, what was outstanding and
/// sent before it, and how many ACKs have released segments at once.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub since: isize,
    pub met: i64,
    pub top: i64,
    pub prompt: usize,
}

/// The window as it was last seen at work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// What was outstanding then, and whether that was in a recovery.
    pub last: Option<(i64, bool)>,
    pub shown: Shown,
}

/// The window's upper bound since it was last seen at work.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    pub last: Option<i64>,
    pub is_at_work: bool,
    /// ACKs in a row that were answered.
    pub answers: i64,
}

impl Default for Shown {
    fn default() -> Self {
        Self {
            last: None,
            is_at_work: true,
            answers: 0,
        }
    }
}
