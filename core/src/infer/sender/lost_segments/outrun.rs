//! What was sent again after something sent later than its copy before had arrived: on a path that keeps the order that
//! copy was lost (RFC 8985 section 3).

use crate::infer::ordered::from;
use crate::infer::sender::rows::scoreboard::Scoreboard;
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::{LossEvent, Trace};

// Sends that are looked at before a restart for what was outstanding then: a limit of work.
const MOST_BEFORE: usize = 1 << 14;
/// No send.
const NONE: u32 = u32::MAX;

/// For each retransmission of a restarted sender with SACK, whether the copy before was outrun (empty: none was).
pub fn outrun(
    trace: &Trace,
    seen: &Sequence,
    repeats: &[Option<u32>],
    events: &[LossEvent],
    board: &Scoreboard,
    base_ns: i64,
) -> Vec<bool> {
    if !trace.has_sack || trace.hides_blocks || !events.iter().any(|event| event.restarts) {
        return Vec::new();
    }
    let mut race = Race {
        trace,
        seen,
        repeats,
        board,
        base_ns,
        is_outrun: vec![false; seen.again.len()],
        tells_nothing: vec![false; trace.send_ns.len()],
        arriving: vec![NONE; trace.ack_ns.len()],
        beside: vec![NONE; trace.send_ns.len()],
        heard: 0,
        done: 0,
        newest: None,
        near: 0,
    };
    let bounds = events.iter().skip(1).map(|event| event.first_send);
    for (event, bound) in events.iter().zip(bounds.chain([trace.send_ns.len()])) {
        if event.restarts {
            race.run(event.first_send.saturating_sub(MOST_BEFORE), bound);
        }
    }
    race.is_outrun
}

struct Race<'a> {
    trace: &'a Trace<'a>,
    seen: &'a Sequence,
    repeats: &'a [Option<u32>],
    board: &'a Scoreboard,
    base_ns: i64,
    is_outrun: Vec<bool>,
    /// By send: outrun when it was sent again, or sent again though the copy before was not, so that either may be
    /// answered.
    tells_nothing: Vec<bool>,
    /// By ACK: the last of the sends before `done` that arrive there. By send: the one before it that arrives with it.
    arriving: Vec<u32>,
    beside: Vec<u32>,
    /// ACKs gone through.
    heard: usize,
    done: usize,
    /// The last send that is known to have arrived.
    newest: Option<usize>,
    /// Where the scoreboard was asked last.
    near: usize,
}

impl Race<'_> {
    /// Goes through sends `first` to before `bound`, and what is known of them at each that is sent again.
    fn run(&mut self, first: usize, bound: usize) {
        let first = first.max(self.done);
        let ranks = self.seen.again_within(first, bound);
        let Some(&last) = self.seen.again[ranks.clone()].last() else {
            return;
        };
        self.done = last as usize + 1;
        for send in first..self.done {
            // None that arrives sooner than it was sent: never at an ACK that was gone through.
            let arrival = self.arrival(send);
            if let Some(last) = self.arriving.get_mut(arrival) {
                self.beside[send] = std::mem::replace(last, send as u32);
            }
        }
        for rank in ranks {
            let send = self.seen.again[rank] as usize;
            let known = self.seen.acks_before_send[send] as usize;
            self.hear(known);
            let copy = self.repeats[rank].map(|copy| copy as usize);
            let outrun =
                copy.filter(|&copy| self.newest > Some(copy) && self.arrival(copy) >= known);
            if let Some(copy) = outrun {
                self.tells_nothing[copy] = true;
            }
            self.is_outrun[rank] = outrun.is_some();
            self.tells_nothing[send] = outrun.is_none();
        }
    }

    /// What the ACKs before number `known` tell to have arrived.
    fn hear(&mut self, known: usize) {
        for ack in self.heard..known {
            let mut arrived = self.arriving[ack];
            while arrived != NONE {
                if !self.tells_nothing[arrived as usize] {
                    self.newest = self.newest.max(Some(arrived as usize));
                }
                arrived = self.beside[arrived as usize];
            }
        }
        self.heard = self.heard.max(known);
    }

    /// The first ACK that covers a send or SACKs it, not sooner than it can be answered.
    fn arrival(&mut self, send: usize) -> usize {
        let (trace, seen) = (self.trace, self.seen);
        let (offset, end) = (trace.send_offset[send], trace.send_end[send]);
        let known = seen.acks_before_send[send] as usize;
        let soonest_ns = trace.send_ns[send].saturating_add(self.base_ns / 2);
        let told = self.board.since(offset, end, &mut self.near);
        let told = told.filter(|&ack| ack >= known);
        let arrival = told.unwrap_or(usize::MAX).min(seen.first_acked(known, end));
        arrival.max(from(trace.ack_ns, known, |time| time < soonest_ns))
    }
}
