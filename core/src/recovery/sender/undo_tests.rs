//! Reductions taken back, and those that stand: by D-SACKs, by timestamps, by what arrives after a timeout.

use super::tests::{RTT_NS, SMSS, sender};
use super::{Arrived, Recovery, RecoveryPhase, Sender};

const WINDOW: u64 = 20;

/// Linux's sender with twenty segments on the way, the first at 0, each a microsecond after the one before it.
fn on_the_way(recovery: Recovery) -> Sender {
    let mut linux = sender(recovery, "reno-linux");
    linux.options.is_linux = true;
    linux.state.cwnd = (WINDOW * SMSS) as f64;
    linux.state.ssthresh = linux.state.cwnd / 4.0;
    linux.on_write(0, 1 << 30);
    for number in 0..WINDOW {
        linux.next_send(number as i64 * 1000).expect("a window");
    }
    linux
}

/// Of whole segments: an ACK, the blocks, and the number of the segment whose echo it brings with when that had left.
fn hear(linux: &mut Sender, now_ns: i64, ack: u64, blocks: &[(u64, u64)], echo_ns: Option<i64>) {
    let offset = |number: u64| 1 + number * SMSS;
    let blocks: Vec<_> = (blocks.iter())
        .map(|&(start, end)| (offset(start), offset(end)))
        .collect();
    let arrived = Arrived {
        ack: offset(ack),
        window: 1 << 20,
        blocks: &blocks,
        echo_rtt_ns: echo_ns.map(|echo_ns| now_ns - echo_ns),
    };
    linux.on_ack(now_ns, &arrived);
}

/// What goes out now, in segments; and whether it had been sent before.
fn out(linux: &mut Sender, now_ns: i64) -> Vec<(u64, bool)> {
    std::iter::from_fn(|| linux.next_send(now_ns))
        .map(|sent| (sent.start / SMSS, sent.is_retransmission))
        .collect()
}

/// SACKs for all but `holes`, as the receiver reports them; the sender answers each as it may.
fn overtaken(linux: &mut Sender, holes: &[u64]) -> i64 {
    let mut now_ns = RTT_NS;
    let mut blocks: Vec<(u64, u64)> = Vec::new();
    for number in (0..WINDOW).filter(|number| !holes.contains(number)) {
        now_ns += 1_000_000;
        match blocks.first_mut() {
            Some(first) if first.1 == number => first.1 = number + 1,
            _ => blocks.insert(0, (number, number + 1)),
        }
        blocks.truncate(3);
        hear(linux, now_ns, holes[0], &blocks, None);
        out(linux, now_ns);
    }
    assert_eq!(linux.phase(), RecoveryPhase::Recovery);
    now_ns
}

fn windows(linux: &Sender) -> (u64, u64) {
    let ssthresh = linux.state().ssthresh as u64;
    (linux.cwnd() / SMSS, ssthresh / SMSS)
}

/// RFC 3708 section 2, RFC 4015 section 3.2: segment 0 was late, its second copy needless. The late one ends the
/// recovery at half of the window; the D-SACK for the copy, a round trip later, restores it.
#[test]
fn a_dsack_after_the_recovery_takes_the_reduction_back() {
    let mut linux = on_the_way(Recovery::Sack);
    let now_ns = overtaken(&mut linux, &[0]);
    let sent = linux.snd_nxt() / SMSS;
    hear(&mut linux, now_ns + 1_000_000, sent, &[], None);
    assert_eq!(
        (linux.phase(), windows(&linux).1),
        (RecoveryPhase::Open, WINDOW / 2)
    );
    out(&mut linux, now_ns + 1_000_000);
    hear(&mut linux, now_ns + RTT_NS, sent, &[(0, 1)], None);
    let (cwnd, ssthresh) = windows(&linux);
    assert!(cwnd >= WINDOW, "{cwnd}");
    // Three quarters of what the window was: nothing had set a threshold before.
    assert_eq!(ssthresh, WINDOW / 2 + WINDOW / 4);
}

/// RFC 9438 section 4.9.2 (SHOULD): proof that comes when the window has grown beyond what it was changes nothing.
#[test]
fn a_window_that_has_grown_beyond_is_not_taken_back_to_what_it_was() {
    let mut linux = on_the_way(Recovery::Sack);
    let now_ns = overtaken(&mut linux, &[0]);
    let sent = linux.snd_nxt() / SMSS;
    hear(&mut linux, now_ns + 1_000_000, sent, &[], None);
    let grown = 2 * WINDOW;
    linux.set_cwnd((grown * SMSS) as f64);
    linux.state.ssthresh = (grown * SMSS) as f64;
    out(&mut linux, now_ns + 1_000_000);
    hear(&mut linux, now_ns + RTT_NS, sent, &[(0, 1)], None);
    assert_eq!(windows(&linux), (grown, grown));
}

/// Two segments were late and sent again. The D-SACK for one is half of the proof; with the other's the recovery is over,
/// though the last that was outstanding when it began has not arrived.
#[test]
fn dsacks_for_all_that_was_sent_again_end_the_recovery() {
    let mut linux = on_the_way(Recovery::Sack);
    let now_ns = overtaken(&mut linux, &[0, 4]);
    hear(&mut linux, now_ns + 1_000_000, WINDOW, &[], None);
    hear(&mut linux, now_ns + 2_000_000, WINDOW + 1, &[(0, 1)], None);
    assert_eq!(
        (linux.phase(), windows(&linux).1),
        (RecoveryPhase::Recovery, WINDOW / 2)
    );
    hear(&mut linux, now_ns + 3_000_000, WINDOW + 1, &[(4, 5)], None);
    assert_eq!(
        (linux.phase(), windows(&linux).0),
        (RecoveryPhase::Open, WINDOW)
    );
}

/// RFC 3522 section 3.2: the ACK that covers segment 0 echoes what that carried before the recovery began. Another
/// hole is open, but nothing that was sent again is on its way.
#[test]
fn an_echo_from_before_the_retransmission_takes_it_back_within_the_recovery() {
    let mut linux = on_the_way(Recovery::Sack);
    let now_ns = overtaken(&mut linux, &[0]);
    let mut real = linux.clone();
    let late_ns = now_ns + 1_000_000;
    hear(&mut linux, late_ns, WINDOW - 1, &[], Some(0));
    assert_eq!(
        (linux.phase(), windows(&linux).0),
        (RecoveryPhase::Open, WINDOW)
    );
    // The copy's echo proves nothing.
    let again_ns = RTT_NS + 3_000_000;
    hear(&mut real, late_ns, WINDOW - 1, &[], Some(again_ns));
    assert_eq!(
        (real.phase(), windows(&real).1),
        (RecoveryPhase::Recovery, WINDOW / 2)
    );
}

/// While one of two copies is on its way the recovery goes on (Linux's `tcp_try_undo_partial`).
#[test]
fn within_the_recovery_nothing_is_taken_back_while_a_copy_is_on_its_way() {
    let mut linux = on_the_way(Recovery::Sack);
    let now_ns = overtaken(&mut linux, &[0, 4]);
    hear(&mut linux, now_ns + 1_000_000, 4, &[(5, WINDOW)], Some(0));
    assert_eq!(
        (linux.phase(), windows(&linux).1),
        (RecoveryPhase::Recovery, WINDOW / 2)
    );
    hear(&mut linux, now_ns + 2_000_000, WINDOW, &[], Some(4_000));
    assert_eq!(
        (linux.phase(), windows(&linux).0),
        (RecoveryPhase::Open, WINDOW)
    );
}

/// RFC 5682 section 2.1: without SACK the first ACK after the timeout lets two new segments out; the second, of data
/// sent once, says that nothing was lost (3b).
#[test]
fn without_sack_two_acks_that_move_take_the_timeout_back() {
    let mut linux = on_the_way(Recovery::NewReno);
    linux.on_timeout(RTT_NS * 10);
    assert_eq!(out(&mut linux, RTT_NS * 10), [(0, true)]);
    hear(&mut linux, RTT_NS * 11, 1, &[], None);
    let probes = [(WINDOW, false), (WINDOW + 1, false)];
    assert_eq!(out(&mut linux, RTT_NS * 11), probes);
    hear(&mut linux, RTT_NS * 11 + 1000, 2, &[], None);
    assert_eq!(
        (linux.phase(), windows(&linux).0),
        (RecoveryPhase::Open, WINDOW)
    );
    assert!(
        out(&mut linux, RTT_NS * 11 + 1000)
            .iter()
            .all(|sent| !sent.1)
    );
}

/// Step 3a: a duplicate ACK instead. What was outstanding is sent again from the ACK on.
#[test]
fn without_sack_a_duplicate_ack_of_the_probe_confirms_the_timeout() {
    let mut linux = on_the_way(Recovery::NewReno);
    linux.on_timeout(RTT_NS * 10);
    out(&mut linux, RTT_NS * 10);
    hear(&mut linux, RTT_NS * 11, 1, &[], None);
    out(&mut linux, RTT_NS * 11);
    hear(&mut linux, RTT_NS * 12, 1, &[], None);
    assert_eq!(out(&mut linux, RTT_NS * 12), [(1, true), (2, true)]);
    assert_eq!(
        (linux.phase(), windows(&linux).1),
        (RecoveryPhase::Loss, WINDOW / 2)
    );
}

/// One ACK for the segment sent again and what lay behind it: that may have come before, and proves nothing.
#[test]
fn without_sack_what_lies_behind_a_segment_sent_again_proves_nothing() {
    let mut linux = on_the_way(Recovery::NewReno);
    linux.on_timeout(RTT_NS * 10);
    out(&mut linux, RTT_NS * 10);
    hear(&mut linux, RTT_NS * 11, WINDOW - 2, &[], None);
    assert_eq!(
        (linux.phase(), windows(&linux).1),
        (RecoveryPhase::Loss, WINDOW / 2)
    );
}

/// Nothing new to send, or no room for it: the conventional way (RFC 5682 section 2.1 step 2b).
#[test]
fn without_sack_and_without_new_data_everything_is_sent_again() {
    let mut linux = on_the_way(Recovery::NewReno);
    linux.written = linux.snd_max();
    linux.on_timeout(RTT_NS * 10);
    out(&mut linux, RTT_NS * 10);
    hear(&mut linux, RTT_NS * 11, 1, &[], None);
    assert_eq!(out(&mut linux, RTT_NS * 11), [(1, true), (2, true)]);
}
