//! What was sent again needlessly, by the stamps that answers echo (Eifel detection, RFC 3522).

use std::collections::HashMap;

use super::sequence::Sequence;
use super::trace::Trace;

/// Sends again, in order, whose answer echoes an older stamp than theirs: an earlier copy had arrived.
///
/// A receiver echoes the stamp of what moved its RCV.NXT, of several segments that of the first (RFC 7323 section 4.3):
/// told is of the last copy of what begins where the ACK before stood.
pub(in crate::infer::sender) fn outdated(trace: &Trace, seen: &Sequence) -> Vec<usize> {
    let mut found = Vec::new();
    let mut last = HashMap::new();
    let mut rank = 0;
    for (ack, _) in trace.echoes_older.iter().enumerate().filter(|told| *told.1) {
        let sent = seen.sent_before(ack);
        while let Some(&send) = seen.again.get(rank).filter(|&&send| (send as usize) < sent) {
            last.insert(trace.send_offset[send as usize], send as usize);
            rank += 1;
        }
        let stood = ack.checked_sub(1).map(|before| seen.snd_una[before]);
        found.extend(stood.and_then(|una| last.remove(&una)));
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_copy_of_what_an_ack_stood_in_front_of_is_outdated() {
        // Three segments, the first sent again twice.
        let trace = Trace {
            send_ns: &[0, 1, 2, 50, 55],
            send_offset: &[0, 1000, 2000, 0, 0],
            send_end: &[1000, 2000, 3000, 1000, 1000],
            ack_ns: &[40, 60, 70],
            ack_offset: &[0, 2000, 3000],
            rwnd: &[0; 3],
            is_bare: &[true; 3],
            sack_high: &[0; 3],
            sacked: &[0; 3],
            smss: 1000,
            ..Trace::default()
        };
        for (echoes_older, expected) in [
            ([false, true, false], vec![4]),
            ([false, false, true], vec![]),
            ([true, false, false], vec![]),
        ] {
            let told = Trace {
                echoes_older: &echoes_older,
                ..trace
            };
            assert_eq!(outdated(&told, &Sequence::new(&told)), expected);
        }
    }
}
