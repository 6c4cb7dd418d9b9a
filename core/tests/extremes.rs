//! Columns at the edges of what 64 bits hold: the inference refuses them by name or works through them, and never wraps
//! nor panics (overflow checks are on where tests run).

use proptest::prelude::*;
use tcptrace_core::congestion::{
    self, Counting, Parameters, Profile, SlowStartRow, State, WindowRow,
};
use tcptrace_core::infer::candidates::heard::{Room, TapeEvent};
use tcptrace_core::infer::candidates::replay::{Unseen, play};
use tcptrace_core::infer::candidates::tape::{Heard, Mark, Tape};
use tcptrace_core::infer::candidates::told::{self, Told};
use tcptrace_core::infer::{FATES, Trace, causes, observe, reported};

/// Rows of a trace: enough for a few loss events.
const ROWS: usize = 40;

/// Numbers as a capture has them, at the edges of what the door lets in, and beyond it.
fn number(least: i64, most: i64) -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => 0_i64..200_000,
        4 => Just(most),
        4 => Just(least),
        2 => least..=most,
        1 => prop::sample::select(vec![i64::MIN, i64::MAX, -1, most.saturating_add(1)]),
    ]
}

fn column(least: i64, most: i64, rows: usize) -> impl Strategy<Value = Vec<i64>> {
    prop_oneof![
        3 => prop::collection::vec(0_i64..200_000, rows),
        // One value of all is at an edge, or all are anywhere.
        3 => (prop::collection::vec(0_i64..200_000, rows), number(least, most), 0..rows.max(1))
            .prop_map(|(mut column, value, at)| {
                if let Some(place) = column.get_mut(at) {
                    *place = value;
                }
                column
            }),
        1 => prop::collection::vec(number(least, most), rows),
    ]
}

/// In the order of time, but for one of eight.
fn times(rows: usize) -> impl Strategy<Value = Vec<i64>> {
    (column(-(1 << 61), 1 << 62, rows), 0..8_u8).prop_map(|(mut column, order)| {
        if order > 0 {
            column.sort_unstable();
        }
        column
    })
}

#[derive(Debug)]
struct Columns {
    send_ns: Vec<i64>,
    send_offset: Vec<i64>,
    length: Vec<i64>,
    ack_ns: Vec<i64>,
    ack_offset: Vec<i64>,
    rwnd: Vec<i64>,
    is_bare: Vec<bool>,
    edges: Vec<(i64, i64)>,
    smss: i64,
    has_start: bool,
    has_sack: bool,
}

fn columns() -> impl Strategy<Value = Columns> {
    let most = 1_i64 << 58;
    (0..ROWS, 0..ROWS).prop_flat_map(move |(sends, acks)| {
        (
            (
                times(sends),
                column(-most, most, sends),
                column(0, most, sends),
            ),
            (
                times(acks),
                column(-most, most, acks),
                column(0, most, acks),
            ),
            prop::collection::vec(any::<bool>(), acks),
            prop::collection::vec((number(-most, most), number(-most, most)), acks),
            number(1, 1 << 24),
            any::<(bool, bool)>(),
        )
            .prop_map(
                |(
                    (send_ns, send_offset, length),
                    (ack_ns, ack_offset, rwnd),
                    is_bare,
                    edges,
                    smss,
                    has,
                )| Columns {
                    send_ns,
                    send_offset,
                    length,
                    ack_ns,
                    ack_offset,
                    rwnd,
                    is_bare,
                    edges,
                    smss,
                    has_start: has.0,
                    has_sack: has.1,
                },
            )
    })
}

impl Columns {
    /// Everything that a trace is asked for; whether the door let it in.
    fn work_through(&self) -> bool {
        let ends = self.send_offset.iter().zip(&self.length);
        let send_end: Vec<i64> = ends
            .map(|(offset, length)| offset.saturating_add(*length))
            .collect();
        let fate: Vec<u8> = self
            .send_offset
            .iter()
            .map(|offset| offset.rem_euclid(FATES.len() as i64) as u8)
            .collect();
        let sack_first: Vec<i64> = (0..=self.ack_ns.len() as i64).map(|ack| 2 * ack).collect();
        let sack_edges: Vec<i64> = self.edges.iter().flat_map(|&(l, r)| [l, r]).collect();
        let sacked: Vec<i64> = self
            .edges
            .iter()
            .map(|&(l, r)| r.saturating_sub(l).max(0))
            .collect();
        let sack_high: Vec<i64> = self.edges.iter().map(|edge| edge.1).collect();
        let trace = Trace {
            send_ns: &self.send_ns,
            send_offset: &self.send_offset,
            send_end: &send_end,
            fate: &fate,
            ack_ns: &self.ack_ns,
            ack_offset: &self.ack_offset,
            rwnd: &self.rwnd,
            is_bare: &self.is_bare,
            sack_high: &sack_high,
            sacked: &sacked,
            sack_first: &sack_first,
            sack_edges: &sack_edges,
            slack: &self.rwnd,
            dsacks: &[],
            echoes_older: &self.is_bare,
            set_ns: &self.ack_ns[..self.ack_ns.len().min(1)],
            smss: self.smss,
            has_start: self.has_start,
            has_sack: self.has_sack,
            before: None,
            hides_blocks: !self.has_sack,
        };
        let twice = trace.received_twice();
        let Ok(trace) = Trace {
            dsacks: &twice,
            ..trace
        }
        .checked() else {
            return false;
        };
        let seen = observe(&trace);
        for event in &seen.events {
            seen.window_before(event);
            seen.window_after(event);
        }
        seen.pipe_at_sends(&trace);
        causes(&trace, &seen.sequence, &seen.events);
        reported(&trace);
        let by_timer: Vec<usize> = seen.events.iter().map(|event| event.first_send).collect();
        let window = congestion::window("bbr").expect("a row of the table");
        let start = State {
            cwnd: 10.0 * trace.smss as f64,
            ssthresh: f64::INFINITY,
            smss: trace.smss as f64,
        };
        let control = window.under(
            congestion::slow_start("standard").expect("a row of the table"),
            &Parameters::default(),
            Counting {
                profile: Profile::Rfc,
                segment_bytes: trace.smss as u32,
            },
        );
        let told = Told {
            handshake_rtt_ns: self.ack_ns.first().copied().filter(|&ns| ns > 0),
            by_timer: &by_timer,
        };
        let windows = told::windows(&trace, control, start, told);
        assert!(windows.cwnd.iter().all(|&cwnd| cwnd > 0.0));
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn a_trace_is_refused_or_worked_through(columns in columns()) {
        columns.work_through();
    }

    #[test]
    fn every_control_is_played_over_any_tape(
        (rows, marks) in (1..ROWS).prop_flat_map(|rows| (
            (
                prop::collection::vec(times(rows), 1),
                prop::collection::vec(column(-(1 << 48), 1 << 48, rows), 5),
                column(-1, 1 << 62, rows),
                prop::collection::vec(0..TapeEvent::ALL.len() as u8, rows),
            ),
            prop::collection::vec((-1..rows as i64, 0..TapeEvent::ALL.len(), number(-(1 << 62), 1 << 62)), 0..6),
        )),
        later_ns in 0..4_000_000_i64,
    ) {
        let (now, bytes, rtt_ns, event) = rows;
        let count = event.len();
        let heard = Heard {
            now_ns: &now[0],
            una: &bytes[0],
            top: &bytes[1],
            newly_acked: &bytes[2],
            sacked: &bytes[3],
            rtt_ns: &rtt_ns,
            event: &event,
            is_cwnd_limited: &vec![true; count],
            most_after: &vec![f64::INFINITY; count],
            flight: &bytes[4],
            is_shown: &vec![false; count],
            first: 0,
            zero_ns: -1_000_000_000_000,
        };
        if heard.checked().is_err() {
            return Ok(());
        }
        let mut marks: Vec<Mark> = marks
            .into_iter()
            .map(|(ack, event, at)| Mark {
                ack,
                event: TapeEvent::ALL[event],
                now_ns: at,
                rtt_ns: at,
                newly_acked: 1448.0,
                flight_size: 14_480.0,
                cwnd: Some(14_480.0),
                ssthresh: None,
                room: Room::default(),
            })
            .collect();
        marks.sort_by_key(|mark| mark.ack);
        let chosen: Vec<u32> = (0..marks.len() as u32).collect();
        let tape = Tape { heard, before: &[], marks: &marks, chosen: &chosen, opens: true };
        for (slow_start, window) in pairs() {
            let counting = Counting { profile: Profile::Rfc, segment_bytes: 1448 };
            let mut control = window.under(slow_start, &Parameters::default(), counting);
            let start = State { cwnd: 14_480.0, ssthresh: f64::INFINITY, smss: 1448.0 };
            let played = play(control.as_mut(), start, tape.rows(later_ns), Unseen::AsSeen);
            prop_assert_eq!(played.cwnd.len(), tape.len());
        }
    }
}

/// Every window over the usual slow start, and every slow start under Reno's.
fn pairs() -> impl Iterator<Item = (&'static SlowStartRow, &'static WindowRow)> {
    let starts = congestion::SLOW_STARTS
        .iter()
        .map(|row| (row, &congestion::WINDOWS[0]));
    let windows = congestion::WINDOWS
        .iter()
        .map(|row| (&congestion::SLOW_STARTS[0], row));
    starts.chain(windows)
}

#[test]
fn the_door_lets_in_what_is_at_its_edges() {
    let edge = Columns {
        send_ns: vec![-(1 << 61), 1 << 62],
        send_offset: vec![-(1 << 58), 0],
        length: vec![1448, 1448],
        ack_ns: vec![-(1 << 61), 1 << 62],
        ack_offset: vec![-(1 << 58), 1 << 58],
        rwnd: vec![0, 1 << 58],
        is_bare: vec![true; 2],
        edges: vec![(0, 1 << 58); 2],
        smss: 1 << 24,
        has_start: true,
        has_sack: true,
    };
    assert!(edge.work_through());
}
