//! What was sent again after something sent later than its copy before had arrived: on a path that keeps the order that
//! copy was lost (RFC 8985 section 3).

use super::scoreboard::Scoreboard;
use super::sequence::Sequence;
use super::trace::{LossEvent, Trace};
use crate::infer::ordered::from;

// Sends that are looked at before a restart for what was outstanding then: a limit of work.
const MOST_BEFORE: usize = 1 << 14;

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
        is_lost: vec![false; trace.send_ns.len()],
        newest: None,
    };
    let bounds = events.iter().skip(1).map(|event| event.first_send);
    let mut done = 0;
    for (event, bound) in events.iter().zip(bounds.chain([trace.send_ns.len()])) {
        if event.restarts {
            race.run(
                event.first_send.saturating_sub(MOST_BEFORE).max(done),
                bound,
            );
            done = bound;
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
    /// By send: sent again, and outrun by then.
    is_lost: Vec<bool>,
    /// The last send that is known to have arrived.
    newest: Option<usize>,
}

impl Race<'_> {
    /// Goes through sends `first` to before `bound`, and what is known of them at each that is sent again.
    fn run(&mut self, first: usize, bound: usize) {
        let ranks = self.seen.again_within(first, bound);
        let Some(&last) = self.seen.again[ranks.clone()].last() else {
            return;
        };
        let mut arrivals: Vec<(u32, u32)> = (first..last as usize)
            .map(|send| (self.arrival(send) as u32, send as u32))
            .collect();
        arrivals.sort_unstable();
        let mut arrivals = arrivals.into_iter().peekable();
        // What is sent again and was not outrun may be answered by either copy.
        let mut is_open = vec![false; last as usize + 1 - first];
        for rank in ranks {
            let send = self.seen.again[rank] as usize;
            let known = self.seen.acks_before_send[send];
            while let Some((_, arrived)) = arrivals.next_if(|&(ack, _)| ack < known) {
                let arrived = arrived as usize;
                if !self.is_lost[arrived] && !is_open[arrived - first] {
                    self.newest = self.newest.max(Some(arrived));
                }
            }
            let copy = self.repeats[rank].map(|copy| copy as usize);
            let is_outrun = copy.is_some_and(|copy| {
                self.newest > Some(copy) && self.arrival(copy) >= known as usize
            });
            if let Some(copy) = copy.filter(|_| is_outrun) {
                self.is_lost[copy] = true;
            }
            self.is_outrun[rank] = is_outrun;
            is_open[send - first] = !is_outrun;
        }
    }

    /// The first ACK that covers a send or SACKs it, not sooner than it can be answered.
    fn arrival(&self, send: usize) -> usize {
        let (trace, seen) = (self.trace, self.seen);
        let (offset, end) = (trace.send_offset[send], trace.send_end[send]);
        let known = seen.acks_before_send[send] as usize;
        let soonest_ns = trace.send_ns[send].saturating_add(self.base_ns / 2);
        let told = self.board.since(offset, end).filter(|&ack| ack >= known);
        let arrival = told.unwrap_or(usize::MAX).min(seen.first_acked(known, end));
        arrival.max(from(trace.ack_ns, known, |time| time < soonest_ns))
    }
}
