//! The sender against a receiver of a few lines, on a path of one segment a millisecond.

use super::*;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

fn end(last: u8, port: u16) -> Endpoint {
    Endpoint {
        addr: Ipv4Addr::new(10, 9, last, 1).into(),
        port,
    }
}

fn sender(recovery: &str, application: &str) -> OwnSender {
    let text = format!(
        "duration_s = 1
         path.nodes = [{{ rate_bps = 1e7, buffer = 9 }}]
         application = {{ {application} }}
         control = {{ recovery = \"{recovery}\", initial_window = 2 }}"
    );
    let scenario = Scenario::from_table(text.parse().unwrap()).unwrap();
    OwnSender::new(&scenario, 0, end(1, 40000), end(2, 5001)).unwrap()
}

/// Answers every segment at once with an ACK of all that is there in order; loses the n-th data segments named.
struct Receiver {
    rcv_nxt: u32,
    above: BTreeSet<(u32, u32)>,
    data_segments: usize,
    lose: Vec<usize>,
    window: u16,
}

impl Receiver {
    fn answer(&mut self, segment: &Segment) -> Option<Segment> {
        let mut flags = TcpFlags::ACK;
        if segment.flags.has(TcpFlags::SYN) {
            self.rcv_nxt = segment.seq.wrapping_add(1);
            flags = flags.with(TcpFlags::SYN);
        }
        if segment.payload_len > 0 {
            self.data_segments += 1;
            if self.lose.contains(&self.data_segments) {
                return None;
            }
        } else if !segment.flags.has(TcpFlags::SYN) && !segment.flags.has(TcpFlags::FIN) {
            return None;
        }
        let end = segment.seq.wrapping_add(segment.seq_len());
        self.above.insert((segment.seq, end));
        while let Some(&range) = self.above.iter().find(|range| range.0 == self.rcv_nxt) {
            self.above.remove(&range);
            self.rcv_nxt = range.1;
        }
        if segment.flags.has(TcpFlags::FIN) && self.rcv_nxt == end {
            flags = flags.with(TcpFlags::FIN);
        }
        let is_syn = flags.has(TcpFlags::SYN);
        Some(Segment {
            src: segment.dst,
            dst: segment.src,
            seq: u32::from(!is_syn),
            ack: self.rcv_nxt,
            flags,
            window: self.window,
            payload_len: 0,
            options: TcpOptions {
                wscale: is_syn.then_some(3),
                ..TcpOptions::default()
            },
            ..*segment
        })
    }
}

/// Runs to the end; a segment and its answer take 10 ms.
fn run(sender: &mut OwnSender, lose: &[usize]) -> Receiver {
    let mut receiver = Receiver {
        rcv_nxt: 0,
        above: BTreeSet::new(),
        data_segments: 0,
        lose: lose.to_vec(),
        window: 60_000,
    };
    let mut now = 0;
    sender.open(now);
    for _ in 0..2000 {
        let sent: Vec<_> = sender.outgoing().collect();
        now += 10_000_000;
        let answers: Vec<_> = sent
            .iter()
            .filter_map(|sent| receiver.answer(sent))
            .collect();
        for answer in &answers {
            sender.on_segment(now, answer);
        }
        if answers.is_empty() {
            now = now.max(sender.next_event().unwrap_or(now));
        }
        sender.on_time(now);
        if sender.has_ended() {
            return receiver;
        }
    }
    panic!("never ended: {:?}", sender.rows().last());
}

/// (event, ca_state, cwnd, ssthresh) of the state changes.
fn states(sender: &OwnSender) -> Vec<(u8, u32, Option<u32>)> {
    let changes = sender
        .rows()
        .iter()
        .filter(|row| row.event == RowKind::State);
    changes
        .map(|row| (row.ca_state, row.cwnd, row.ssthresh))
        .collect()
}

use super::super::own_truth::RowKind;

#[test]
fn all_bytes_arrive_and_both_sides_close() {
    let mut sender = sender("newreno", r#"kind = "bytes", bytes = 100000"#);
    let receiver = run(&mut sender, &[]);
    assert_eq!(sender.acknowledged(), 100_000);
    // 100000 / 1460 = 68.5: 69 segments, none twice; SYN and FIN take a number each.
    assert_eq!(receiver.data_segments, 69);
    assert_eq!(receiver.rcv_nxt, sender.isn.wrapping_add(100_002));
    assert!(!sender.is_reset());
}

#[test]
fn tahoe_starts_again_from_one_segment_at_the_third_duplicate_ack() {
    // RFC 5681's predecessor: ssthresh = half the flight, cwnd = 1, go back to the hole.
    let mut sender = sender("tahoe", r#"kind = "bytes", bytes = 300000"#);
    run(&mut sender, &[20]);
    let (state, cwnd, ssthresh) = *states(&sender)
        .iter()
        .find(|(state, ..)| *state == 3)
        .expect("a loss by duplicate ACKs");
    assert_eq!((state, cwnd), (3, 1));
    assert!(ssthresh.is_some_and(|segments| segments >= 2));
    assert_eq!(sender.acknowledged(), 300_000);
}

#[test]
fn newreno_halves_its_window() {
    let mut sender = sender("newreno", r#"kind = "bytes", bytes = 300000"#);
    run(&mut sender, &[20]);
    let reduced = states(&sender)
        .into_iter()
        .find(|(state, ..)| *state == 3)
        .expect("a loss by duplicate ACKs");
    assert!(reduced.1 >= reduced.2.unwrap(), "{reduced:?}");
    // One segment lost, one sent again: 300000 / 1460 = 205.5.
    let again = sender
        .rows()
        .iter()
        .filter(|row| row.event == RowKind::Retransmission);
    assert_eq!(again.count(), 1);
}

#[test]
fn a_lost_window_is_found_by_the_timer() {
    let mut sender = sender("tahoe", r#"kind = "bytes", bytes = 8000"#);
    // Two segments in the initial window, both lost.
    run(&mut sender, &[1, 2]);
    let timeouts: Vec<_> = states(&sender)
        .into_iter()
        .filter(|(state, ..)| *state == 4)
        .collect();
    // RFC 5681 equation (4): ssthresh is 2 segments at least.
    assert_eq!(timeouts, [(4, 1, Some(2))]);
    assert_eq!(sender.acknowledged(), 8000);
}

#[test]
fn a_bulk_transfer_ends_with_what_has_been_sent_when_it_is_closed() {
    let mut sender = sender("newreno", r#"kind = "bulk""#);
    sender.open(0);
    sender.close(5);
    let receiver = run(&mut sender, &[]);
    assert_eq!(receiver.data_segments, 0);
    assert_eq!(sender.acknowledged(), 0);
}

#[test]
fn what_it_cannot_write_is_refused() {
    let text = r#"duration_s = 1
        path.nodes = [{ rate_bps = 1e7, buffer = 9 }]
        application = { kind = "on_off", bytes = 9, off_s = 9e-9 }"#;
    let scenario = Scenario::from_table(text.parse().unwrap()).unwrap();
    let made = OwnSender::new(&scenario, 0, end(1, 1), end(2, 2));
    assert_eq!(made.err(), Some(NotSendable::Application));
}
