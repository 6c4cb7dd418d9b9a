//! Room that the window had: what leaves late, and in a burst, was allowed when the last ACK before it came.
//!
//! Of a sender whose window is at work an ACK releases what there is to release at once. Where several segments leave
//! later than that, they were written then; the window had had room for all of them since that ACK, and since those
//! before it that released less than they acknowledged, as far as as much had been outstanding before, or more was behind
//! the burst than ACKs open a window to: no window falls and rises again between two ACKs without a loss. (BBR's does,
//! when it probes the round trip; but it goes on by ACKs.)

use crate::infer::given::HOST_NS;
use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::Trace;
use crate::threshold::threshold;

// RFC 5681 section 3.1: in slow start an ACK lets go what it acknowledges, and as much again.
threshold!(pub MOST_RELEASED: i64 = 2, Count);
// A host that stands still (a virtual machine's) reads its ACKs later by less than this.
threshold!(STALL_NS: i64 = 50_000_000, Nanoseconds);

/// What was written behind an ACK, late: no ACK released it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub ack: usize,
    /// The first segment of it.
    pub first: usize,
    /// It is more than an ACK of all that was outstanding would have let go: none that is not in the capture did.
    pub is_sure: bool,
    /// It left behind a pause.
    pub is_apart: bool,
}

/// Behind each ACK the segments that leave last before the next, where those are new, more than one, and no ACK released
/// them: they are more than it can have let go, or leave a good part of a round trip later. In the order of the ACKs.
pub fn written_late(trace: &Trace, seen: &Sequence, pause_ns: i64) -> Vec<Written> {
    let found = (0..trace.ack_ns.len()).filter_map(|ack| behind(trace, seen, ack, pause_ns));
    found.collect()
}

fn behind(trace: &Trace, seen: &Sequence, ack: usize, pause_ns: i64) -> Option<Written> {
    let (before, behind) = (
        seen.sent_before(ack),
        seen.sends_before_next_ack[ack] as usize,
    );
    if behind < before + 2 {
        return None;
    }
    let waited_ns = |send: usize| {
        let before_ns = match send.checked_sub(1) {
            Some(last) if send > before => trace.send_ns[last],
            _ => trace.ack_ns[ack],
        };
        trace.send_ns[send] - before_ns
    };
    let late = (before..behind)
        .rev()
        .find(|&send| waited_ns(send) > HOST_NS.get());
    let first = late.unwrap_or(before);
    let written = seen.newly_sent(first, behind);
    let released = MOST_RELEASED.get() * seen.newly_acked(ack);
    let is_late = match late {
        Some(first) => written > released || waited_ns(first) > pause_ns,
        // It came behind this ACK by chance: of most of it the host knew, if ACKs let it go at all. Behind a hole what
        // they let go is not what they acknowledge.
        None => {
            is_in_order(trace, ack)
                && written > released + trace.smss
                && known_ns(trace, seen, before, ack) > pause_ns.min(STALL_NS.get())
        }
    };
    let outstanding = seen.snd_max[behind - 1] - written - seen.snd_una[ack];
    (is_late && written > trace.smss).then(|| Written {
        ack,
        first,
        is_sure: written > MOST_RELEASED.get() * outstanding,
        is_apart: late.is_some_and(|first| waited_ns(first) > pause_ns),
    })
}

/// Whether nothing is SACKed behind a hole.
pub fn is_in_order(trace: &Trace, ack: usize) -> bool {
    trace.sacked.get(ack).is_none_or(|&sacked| sacked == 0)
}

/// How long before a segment that the ACK `last` may have released the first of those before came that released nothing;
/// where none is, the one before.
fn known_ns(trace: &Trace, seen: &Sequence, send: usize, last: usize) -> i64 {
    let Some(before) = last.checked_sub(1) else {
        return 0;
    };
    let silent = send
        .checked_sub(1)
        .map_or(before, |sent| seen.acks_before_send[sent] as usize);
    trace.send_ns[send] - trace.ack_ns[silent.min(before)]
}

/// The ACKs behind which the window had room for one segment more at least and none left, as what was written later
/// shows, and whether that is sure. `held`: the most that was outstanding up to each.
pub fn left_room(
    trace: &Trace,
    seen: &Sequence,
    flight: &[i64],
    held: &[i64],
    late: &[Written],
) -> Vec<Option<bool>> {
    let mut found = vec![None; flight.len()];
    for written in late {
        // What this ACK released itself left before the burst.
        let mut behind = written.first;
        for ack in (0..=written.ack).rev() {
            let first = seen.sent_before(ack);
            let released = seen.newly_sent(first, behind);
            if released > 0 && released >= seen.newly_acked(ack) {
                break;
            }
            if ack < written.ack {
                // A window opens by no more than what is acknowledged.
                let opened = seen.snd_una[written.ack] - seen.snd_una[ack];
                let had = held[ack].max(flight[written.ack] - opened);
                // What an earlier burst has told is looked at no further.
                let is_told = found[ack].is_some_and(|is_sure| is_sure || !written.is_sure);
                if is_told || flight[ack] + trace.smss > had || !is_in_order(trace, ack) {
                    break;
                }
                found[ack] = Some(written.is_sure);
            }
            behind = first;
        }
    }
    found
}

/// In slow start each ACK lets go what it acknowledges, and as much again. One that lets go no more than it acknowledges,
/// behind one that did, and before a pause or an end that waited for all of it, left room: there was no more.
pub fn left_steps(
    trace: &Trace,
    seen: &Sequence,
    exhausted: &[bool],
    has_room: &mut [Option<bool>],
) {
    let released = |ack: usize| {
        let sends = seen.released(ack);
        seen.newly_sent(sends.start, sends.end)
    };
    for ack in 1..has_room.len() {
        let (before, newly) = (seen.newly_acked(ack - 1), seen.newly_acked(ack));
        let steps = || before > 0 && released(ack - 1) >= MOST_RELEASED.get() * before;
        let is_last = exhausted[ack] && (1..=newly).contains(&released(ack));
        if is_last && steps() && is_in_order(trace, ack - 1) && is_in_order(trace, ack) {
            has_room[ack] = has_room[ack].or(Some(false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::sender::rows::sequence::Sequence;

    const SMSS: i64 = 1000;
    const MS: i64 = 1_000_000;

    /// Of four segments that the handshake's ACK let go two are acknowledged, and one more leaves; the next two, and none
    /// does; 20 ms later as many as `written`.
    fn left(written: usize) -> (Vec<Option<bool>>, Vec<Written>) {
        let mut send_ns = vec![0; 4];
        send_ns.push(10 * MS);
        send_ns.extend(vec![31 * MS; written]);
        let offsets: Vec<i64> = (0..send_ns.len() as i64).map(|each| each * SMSS).collect();
        let ends: Vec<i64> = offsets.iter().map(|offset| offset + SMSS).collect();
        let trace = Trace {
            send_ns: &send_ns,
            send_offset: &offsets,
            send_end: &ends,
            ack_ns: &[0, 10 * MS, 11 * MS],
            ack_offset: &[0, 2 * SMSS, 4 * SMSS],
            smss: SMSS,
            ..Trace::default()
        };
        let seen = Sequence::new(&trace);
        let flight = [4 * SMSS, 3 * SMSS, (1 + written as i64) * SMSS];
        let late = written_late(&trace, &seen, 5 * MS);
        let room = left_room(&trace, &seen, &flight, &[4 * SMSS; 3], &late);
        (room, late)
    }

    #[test]
    fn what_left_late_and_at_once_had_room_before() {
        let burst = Written {
            ack: 2,
            first: 5,
            is_sure: true,
            is_apart: true,
        };
        assert_eq!(left(3), (vec![None, Some(true), None], vec![burst]));
    }

    #[test]
    fn an_ack_that_is_missing_may_have_let_go_twice_what_was_outstanding() {
        assert!(!left(2).1[0].is_sure);
    }

    /// Of eight segments three are acknowledged, each `apart`, and none leaves; behind the third's ACK at once four do.
    fn behind_the_third(apart: i64) -> Vec<Option<bool>> {
        let mut send_ns = vec![0; 8];
        send_ns.extend([10 * MS + 2 * apart; 4]);
        let offsets: Vec<i64> = (0..12).map(|each| each * SMSS).collect();
        let ends: Vec<i64> = offsets.iter().map(|offset| offset + SMSS).collect();
        let trace = Trace {
            send_ns: &send_ns,
            send_offset: &offsets,
            send_end: &ends,
            ack_ns: &[0, 10 * MS, 10 * MS + apart, 10 * MS + 2 * apart],
            ack_offset: &[0, SMSS, 2 * SMSS, 3 * SMSS],
            smss: SMSS,
            ..Trace::default()
        };
        let seen = Sequence::new(&trace);
        let late = written_late(&trace, &seen, 5 * MS);
        let flight = [8 * SMSS, 7 * SMSS, 6 * SMSS, 9 * SMSS];
        left_room(&trace, &seen, &flight, &[8 * SMSS; 4], &late)
    }

    #[test]
    fn what_came_behind_an_ack_by_chance_was_not_let_go_by_those_before() {
        assert_eq!(
            behind_the_third(4 * MS),
            vec![None, Some(false), Some(false), None]
        );
    }

    #[test]
    fn a_host_that_stood_still_reads_some_acks_at_once() {
        assert_eq!(behind_the_third(2 * MS), vec![None; 4]);
    }

    /// In slow start two ACKs of a segment each; the second lets go `last` segments, the end of what there was.
    fn stepped(last: usize) -> Vec<Option<bool>> {
        let mut send_ns = vec![0; 2];
        send_ns.extend([10 * MS; 2]);
        send_ns.extend(vec![11 * MS; last]);
        let offsets: Vec<i64> = (0..send_ns.len() as i64).map(|each| each * SMSS).collect();
        let ends: Vec<i64> = offsets.iter().map(|offset| offset + SMSS).collect();
        let trace = Trace {
            send_ns: &send_ns,
            send_offset: &offsets,
            send_end: &ends,
            ack_ns: &[0, 10 * MS, 11 * MS, 20 * MS],
            ack_offset: &[0, SMSS, 2 * SMSS, 3 * SMSS],
            smss: SMSS,
            ..Trace::default()
        };
        let mut room = vec![None; 4];
        left_steps(
            &trace,
            &Sequence::new(&trace),
            &[false, false, true, true],
            &mut room,
        );
        room
    }

    #[test]
    fn a_step_of_slow_start_that_was_not_taken_was_left_open() {
        assert_eq!(stepped(1), vec![None, None, Some(false), None]);
        assert_eq!(stepped(2), vec![None; 4]);
    }

    #[test]
    fn one_segment_may_be_a_probe() {
        assert_eq!(left(1), (vec![None; 3], vec![]));
    }
}
