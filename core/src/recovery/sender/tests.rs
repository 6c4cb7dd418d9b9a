//! One sender, two drivers: asked what it may send, or told what was sent.

use std::collections::{BTreeSet, VecDeque};

use super::{Arrived, Options, Outgoing, Recovery, RecoveryPhase, Sender};
use crate::congestion::{self, Counting, Parameters, Profile, State, WINDOWS};
use crate::recovery::Rto;

pub(super) const SMSS: u64 = 1000;
pub(super) const RTT_NS: i64 = 40_000_000;

pub(super) fn sender(recovery: Recovery, window: &str) -> Sender {
    let options = Options {
        is_linux: false,
        recovery,
        smss: SMSS,
        initial_window: 4 * SMSS,
        limited_transmit: true,
        is_impatient: false,
        has_prr: true,
        has_rack: true,
        restarts_after_idle: true,
        max_window: u64::MAX,
    };
    let row = congestion::window(window).expect("a row of the table");
    let slow_start = congestion::slow_start("standard").expect("a row of the table");
    let counting = Counting {
        profile: Profile::Rfc,
        segment_bytes: SMSS as u32,
    };
    let control = row.under(slow_start, &Parameters::default(), counting);
    let state = State {
        cwnd: 4.0 * SMSS as f64,
        ssthresh: f64::INFINITY,
        smss: SMSS as f64,
    };
    let rto = Rto::new(1_000_000_000, 200_000_000, 60_000_000_000, 1_000_000, true);
    Sender::new(options, control, state, rto, 1, 1 << 20, 0)
}

type Blocks = Vec<(u64, u64)>;

/// A path that loses one segment in ten, and a receiver that acknowledges every segment with SACK blocks.
struct Path {
    random: u64,
    on_the_way: VecDeque<(i64, u64, u64)>,
    rcv_nxt: u64,
    beyond: BTreeSet<(u64, u64)>,
}

impl Path {
    fn loses(&mut self) -> bool {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % 10 == 0
    }

    fn take(&mut self, now_ns: i64, sent: Outgoing) {
        if !self.loses() {
            self.on_the_way
                .push_back((now_ns + RTT_NS, sent.start, sent.end));
        }
    }

    /// The next ACK: when, the number; and its blocks.
    fn answer(&mut self) -> Option<((i64, u64), Blocks)> {
        let (at_ns, start, end) = self.on_the_way.pop_front()?;
        self.beyond.insert((start, end));
        while let Some(&(_, end)) = self
            .beyond
            .iter()
            .find(|&&(start, _)| start <= self.rcv_nxt)
        {
            self.rcv_nxt = self.rcv_nxt.max(end);
            let rcv_nxt = self.rcv_nxt;
            self.beyond.retain(|&(_, end)| end > rcv_nxt);
        }
        let mut blocks = Blocks::new();
        for &(start, end) in &self.beyond {
            match blocks.last_mut() {
                Some(last) if last.1 >= start => last.1 = last.1.max(end),
                _ => blocks.push((start, end)),
            }
        }
        blocks.truncate(3);
        Some(((at_ns, self.rcv_nxt), blocks))
    }
}

/// Both drivers through the same 300 events; the sender that was told must be the one that chose, bit for bit.
fn told_is_asked(recovery: Recovery, window: &str, seed: u64) -> u32 {
    let mut path = Path {
        random: seed,
        on_the_way: VecDeque::new(),
        rcv_nxt: 1,
        beyond: BTreeSet::new(),
    };
    let (mut asked, mut told) = (sender(recovery, window), sender(recovery, window));
    let mut now_ns = 0;
    let mut timeouts = 0;
    for sender in [&mut asked, &mut told] {
        sender.on_write(0, u64::MAX / 2);
    }
    for _ in 0..300 {
        loop {
            let before = format!("{asked:?}");
            let chosen = asked.may_send();
            assert_eq!(format!("{asked:?}"), before, "asking changes nothing");
            if chosen.is_some() {
                now_ns = now_ns.max(asked.wake_at_ns().unwrap_or(now_ns));
            }
            assert_eq!(asked.next_send(now_ns), chosen);
            let Some(sent) = chosen else { break };
            told.on_sent(now_ns, sent);
            path.take(now_ns, sent);
        }
        assert_eq!(format!("{told:?}"), format!("{asked:?}"));
        let Some(((at_ns, ack), blocks)) = path.answer() else {
            now_ns = asked.timer_ns().expect("something is outstanding");
            timeouts += 1;
            asked.on_timeout(now_ns);
            told.on_timeout(now_ns);
            continue;
        };
        now_ns = now_ns.max(at_ns);
        let has_board = recovery == Recovery::Sack || recovery == Recovery::Fack;
        let arrived = Arrived {
            ack,
            window: 1 << 20,
            blocks: if has_board { &blocks } else { &[] },
            echo_rtt_ns: None,
        };
        asked.on_ack(now_ns, &arrived);
        told.on_ack(now_ns, &arrived);
    }
    assert!(path.rcv_nxt > 50 * SMSS, "{recovery:?} {seed}");
    timeouts
}

#[test]
fn a_sender_told_what_was_sent_is_the_one_that_chose_it() {
    for recovery in [
        Recovery::Tahoe,
        Recovery::Reno,
        Recovery::NewReno,
        Recovery::Sack,
        Recovery::Fack,
    ] {
        let timeouts: u32 = (1..4)
            .map(|seed| told_is_asked(recovery, "cubic", seed))
            .sum();
        assert!(timeouts > 0, "{recovery:?}: the timer belongs to it");
    }
    for row in WINDOWS {
        told_is_asked(Recovery::Sack, row.name, 4);
    }
}

#[test]
fn whatever_a_capture_shows_is_taken() {
    let mut random = 7_u64;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    for recovery in [Recovery::Tahoe, Recovery::NewReno, Recovery::Sack] {
        let mut sender = sender(recovery, "cubic");
        sender.on_write(0, u64::MAX / 2);
        for now_ns in 0..3000 {
            let (start, length) = (next(50_000), 1 + next(3000));
            let sent = Outgoing {
                start,
                end: start + length,
                is_retransmission: next(2) == 0,
            };
            let block = (next(50_000), next(50_000));
            match next(8) {
                0 => sender.on_timeout(now_ns),
                1..=3 => sender.on_sent(now_ns, sent),
                _ => sender.on_ack(
                    now_ns,
                    &Arrived {
                        ack: next(50_000),
                        window: next(100_000),
                        blocks: &[block],
                        echo_rtt_ns: Some(1000),
                    },
                ),
            }
            assert!(sender.snd_una() <= sender.snd_nxt());
            assert!(sender.snd_nxt() <= sender.snd_max());
        }
    }
}

#[test]
fn a_fork_goes_its_own_way() {
    let mut one = sender(Recovery::Sack, "reno");
    one.on_write(0, 1 << 20);
    let mut other = one.clone();
    while one.next_send(0).is_some() {}
    assert_eq!(other.snd_max(), 1);
    let shown = Outgoing {
        start: 1,
        end: 1 + SMSS,
        is_retransmission: false,
    };
    other.on_sent(5, shown);
    assert_eq!(
        (one.snd_max(), other.snd_max()),
        (1 + 4 * SMSS, 1 + SMSS),
        "a hypothesis is told of other segments"
    );
}

/// Ten segments, the first and the fifth lost: eight duplicate ACKs tell of the eight others, the partial ACK, which
/// covers four, of the first, and the last one, which covers six, of the fifth.
#[test]
fn without_sack_each_ack_that_fills_a_hole_delivers_the_hole() {
    let mut sender = sender(Recovery::NewReno, "bbr");
    sender.on_write(0, 1 << 30);
    for number in 0..10 {
        let start = 1 + number * SMSS;
        let sent = Outgoing {
            start,
            end: start + SMSS,
            is_retransmission: false,
        };
        sender.on_sent(0, sent);
    }
    let mut delivered = Vec::new();
    let acks = [1; 8].into_iter().chain([1 + 4 * SMSS, 1 + 10 * SMSS]);
    for (number, ack) in acks.enumerate() {
        let now_ns = RTT_NS + number as i64 * 1_000_000;
        let arrived = Arrived {
            ack,
            window: 1 << 20,
            blocks: &[],
            echo_rtt_ns: None,
        };
        sender.on_ack(now_ns, &arrived);
        let told = sender.delivery.as_ref().expect("it wants rates");
        delivered.push(told.rate.delivered() / SMSS);
    }
    assert_eq!(delivered, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

/// Linux without SACK: of 20 segments outstanding at a window of 20 the first and the ninth are lost. The first two
/// duplicates release a segment each, the third the hole; then ssthresh is 10, so of n arrivals ceil(n / 2) go out, the
/// hole among them. The partial ACK releases the next hole; nothing is inflated. Recovery lasts until something above
/// what was outstanding is acknowledged, and the window ends at ssthresh.
#[test]
fn linux_without_sack_reduces_in_proportion_to_what_duplicates_tell() {
    let mut linux = sender(Recovery::NewReno, "reno-linux");
    linux.options.is_linux = true;
    linux.state.cwnd = 20.0 * SMSS as f64;
    linux.on_write(0, 1 << 30);
    while linux.next_send(0).is_some() {}
    let mut hear = |ack: u64, at_ms: i64| {
        let arrived = Arrived {
            ack: 1 + ack * SMSS,
            window: 1 << 20,
            blocks: &[],
            echo_rtt_ns: None,
        };
        let now_ns = RTT_NS + at_ms * 1_000_000;
        linux.on_ack(now_ns, &arrived);
        let mut sent = Vec::new();
        while let Some(out) = linux.next_send(now_ns) {
            sent.push((out.start / SMSS, out.is_retransmission));
        }
        (sent, linux.phase(), linux.cwnd() / SMSS)
    };
    let duplicates: Vec<_> = (0..20).map(|at_ms| hear(0, at_ms).0).collect();
    let new = |number| vec![(number, false)];
    assert_eq!(duplicates[..3], [new(20), new(21), vec![(0, true)]]);
    for (number, pair) in (22..).zip(duplicates[3..17].chunks(2)) {
        assert_eq!(pair, [vec![], new(number)]);
    }
    let (sent, ..) = hear(8, 50);
    assert_eq!(sent[0], (8, true));
    let (_, phase, _) = hear(22, 90);
    assert_eq!(phase, RecoveryPhase::Recovery);
    let (_, phase, cwnd) = hear(23, 91);
    assert_eq!((phase, cwnd), (RecoveryPhase::Open, 10));
}

/// Twenty segments sent over 40 ms, the first lost; the timer expires when the last have been under way for less than a
/// round trip. RFC 8985 section 6.3 leaves those alone, RFC 6298 (5.4) sends the first again all the same.
#[test]
fn an_expired_timer_sends_the_first_segment_whatever_is_under_way() {
    let mut sender = sender(Recovery::Sack, "reno");
    sender.on_write(0, 1 << 30);
    for number in 0..20 {
        let start = 1 + number * SMSS;
        let sent = Outgoing {
            start,
            end: start + SMSS,
            is_retransmission: false,
        };
        sender.on_sent(number as i64 * 2_000_000, sent);
    }
    let heard = Arrived {
        ack: 1,
        window: 1 << 20,
        blocks: &[(1 + SMSS, 1 + 2 * SMSS)],
        echo_rtt_ns: Some(RTT_NS),
    };
    sender.on_ack(RTT_NS + 2_000_000, &heard);
    sender.on_timeout(RTT_NS + 3_000_000);
    assert!(sender.pipe() > sender.cwnd());
    let first = Outgoing {
        start: 1,
        end: 1 + SMSS,
        is_retransmission: true,
    };
    assert_eq!(sender.may_send(), Some(first));
    sender.on_sent(RTT_NS + 3_000_000, first);
    assert_eq!(sender.may_send(), None);
}
