//! A control fed the ACKs that a run's kernel had (`../shared/captures`): its windows beside the kernel's own.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::Path;

use super::reference;
use tcptrace_core::congestion::{self, Counting, Parameters, Profile, State, Values};
use tcptrace_core::infer::candidates::heard::{Room, TapeEvent, TapeRow};
use tcptrace_core::infer::candidates::replay::watch;
use tcptrace_core::wire::SackBlocks;
use tcptrace_core::{capture, wire};

const INITIAL_WINDOW: f64 = 10.0;

/// A row of the kernel's account is this much later than its ACK at most, and the next ACK is not so soon.
const MOST_LATE_NS: i64 = 100_000;

/// ca_state of the truth's rows.
const RECOVERY: u8 = 3;

/// A row of the kernel's own account.
#[derive(Clone, Copy)]
struct Truth {
    event: char,
    time_ns: i64,
    cwnd: f64,
    ssthresh: f64,
    snd_una: u32,
    snd_nxt: u32,
    packets_out: f64,
    sacked_out: f64,
    ca_state: u8,
    arg: i64,
    /// What the module holds in mind; NaN for one that does not tell.
    memory: [f64; 2],
}

/// When each segment was sent, and the ACKs.
#[derive(Default)]
struct Sends {
    by_end: HashMap<u32, Vec<i64>>,
    /// Ends in order of first sending.
    ends: Vec<u32>,
    /// When each TSval was first sent.
    by_stamp: HashMap<u32, i64>,
    acks: Vec<Answer>,
    /// The largest payload.
    smss: u32,
}

struct Answer {
    time_ns: i64,
    sack: SackBlocks,
    ts_ecr: Option<u32>,
}

impl Sends {
    /// Sent once before the ACK came.
    fn sent_once(&self, end: u32, now_ns: i64) -> Option<i64> {
        let times = &self.by_end[&end];
        let is_once = times.iter().filter(|&&at| at < now_ns).count() == 1;
        is_once.then(|| times[0])
    }

    /// The ACK of a row of the kernel's account, which came microseconds before it.
    fn answer(&self, now_ns: i64) -> Option<&Answer> {
        let after = self.acks.partition_point(|ack| ack.time_ns <= now_ns);
        let last = self.acks[..after].last();
        last.filter(|ack| now_ns - ack.time_ns < MOST_LATE_NS)
    }
}

fn truth(path: &Path) -> Vec<Truth> {
    let file = std::fs::File::open(path).expect("truth beside the capture");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("gzip of text");
    let number = |cell: &str| -> f64 { cell.parse().expect("a number") };
    text.lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let (seconds, fraction) = cells[0].split_once('.').expect("a time");
            let whole = |cell: &str| cell.parse::<i64>().expect("a number");
            Truth {
                event: cells[1].chars().next().expect("an event"),
                time_ns: whole(seconds) * 1_000_000_000 + whole(fraction) * 1000,
                cwnd: number(cells[3]),
                ssthresh: number(cells[4]),
                snd_una: whole(cells[6]) as u32,
                snd_nxt: whole(cells[7]) as u32,
                packets_out: number(cells[8]),
                sacked_out: number(cells[9]),
                ca_state: whole(cells[12]) as u8,
                arg: whole(cells[14]),
                memory: [15, 16].map(|n: usize| cells[n].parse().unwrap_or(f64::NAN)),
            }
        })
        .collect()
}

fn sends(path: &Path) -> Sends {
    let mut reader = capture::open(path).expect("a capture");
    let mut sends = Sends::default();
    while let Some(record) = reader.next_record().expect("whole") {
        let segment = wire::decode(record.link_type, record.data, record.orig_len).expect("TCP");
        if segment.payload_len > 0 {
            let end = segment.seq.wrapping_add(segment.payload_len);
            let times = sends.by_end.entry(end).or_default();
            if times.is_empty() {
                sends.ends.push(end);
            }
            times.push(record.time_ns);
            sends.smss = sends.smss.max(segment.payload_len);
            if let Some((ts_val, _)) = segment.options.timestamps {
                sends.by_stamp.entry(ts_val).or_insert(record.time_ns);
            }
        } else {
            sends.acks.push(Answer {
                time_ns: record.time_ns,
                sack: segment.options.sack,
                ts_ecr: segment.options.timestamps.map(|(_, ts_ecr)| ts_ecr),
            });
        }
    }
    sends
}

/// What a control heard, and the kernel's window and threshold afterwards.
struct Told {
    row: TapeRow,
    cwnd: f64,
    ssthresh: f64,
    memory: [f64; 2],
}

fn tape(truth: &[Truth], sends: &Sends, smss: f64) -> Vec<Told> {
    let base = truth
        .iter()
        .find(|row| row.event == 'A')
        .expect("an ACK")
        .snd_una;
    let offset = |seq: u32| u64::from(seq.wrapping_sub(base));
    let mut rows = Vec::new();
    // Established: nothing sent, nothing acknowledged.
    let begin = TapeRow {
        event: TapeEvent::Set,
        now_ns: truth[0].time_ns,
        newly_acked: 0.0,
        newly_sacked: 0.0,
        rtt_ns: None,
        flight_size: 0.0,
        snd_una: 0,
        snd_nxt: 0,
        is_cwnd_limited: true,
        cwnd: None,
        ssthresh: None,
        room: Room::default(),
    };
    rows.push(Told {
        row: begin,
        cwnd: INITIAL_WINDOW,
        ssthresh: f64::INFINITY,
        memory: truth[0].memory,
    });
    let mut next_end = 0;
    let mut sacked = HashSet::new();
    let acks: Vec<usize> = (0..truth.len())
        .filter(|&n| truth[n].event == 'A')
        .collect();
    for pair in acks.windows(2) {
        let (now, after) = (truth[pair[0]], truth[pair[1]]);
        if now.arg < 0 {
            continue;
        }
        let snd_una = now.snd_una.wrapping_add(now.arg as u32);
        // Linux: the last segment SACKed now or, if nothing is, the last acknowledged, unless sent twice; else timestamps.
        let mut newest = None;
        let mut sent_twice = false;
        while next_end < sends.ends.len() && offset(sends.ends[next_end]) <= offset(snd_una) {
            let end = sends.ends[next_end];
            let at_ns = sends.sent_once(end, now.time_ns);
            sent_twice |= at_ns.is_none();
            if !sacked.contains(&end) {
                newest = at_ns;
            }
            next_end += 1;
        }
        newest = newest.filter(|_| !sent_twice);
        let answer = sends.answer(now.time_ns);
        for &(left, right) in answer.map_or(&[][..], |answer| answer.sack.as_slice()) {
            let beyond = sends.ends[next_end..].iter();
            for &end in beyond.take_while(|&&end| offset(end) <= offset(right)) {
                if offset(end) > offset(left) && sacked.insert(end) {
                    newest = sends.sent_once(end, now.time_ns).or(newest);
                }
            }
        }
        if newest.is_none() && now.arg > 0 {
            let ts_ecr = answer.and_then(|answer| answer.ts_ecr);
            newest = ts_ecr.and_then(|stamp| sends.by_stamp.get(&stamp).copied());
        }
        let changes = || {
            truth[pair[0]..pair[1]]
                .iter()
                .filter(|row| row.event == 'C')
        };
        let enters = changes().find(|row| row.ca_state == RECOVERY);
        let leaves = now.ca_state == RECOVERY && changes().any(|row| row.ca_state == 0);
        let row = TapeRow {
            event: if leaves {
                TapeEvent::Recovered
            } else if now.ca_state == RECOVERY || enters.is_some() || now.arg == 0 {
                TapeEvent::Arrival
            } else {
                TapeEvent::Ack
            },
            now_ns: now.time_ns,
            newly_acked: now.arg as f64,
            newly_sacked: (after.sacked_out - now.sacked_out).max(0.0) * smss,
            rtt_ns: newest.map(|at_ns| now.time_ns - at_ns),
            flight_size: now.packets_out * smss,
            snd_una: offset(snd_una),
            snd_nxt: offset(now.snd_nxt),
            is_cwnd_limited: true,
            cwnd: leaves.then_some(after.ssthresh * smss),
            ssthresh: leaves.then_some(after.ssthresh * smss),
            room: Room::default(),
        };
        rows.push(Told {
            row,
            cwnd: if leaves { after.ssthresh } else { after.cwnd },
            ssthresh: after.ssthresh,
            memory: after.memory,
        });
        if leaves {
            let opening = TapeRow {
                event: TapeEvent::Opening,
                newly_acked: (now.arg as f64 - now.sacked_out * smss).max(0.0),
                rtt_ns: None,
                cwnd: None,
                ssthresh: None,
                ..row
            };
            rows.push(Told {
                row: opening,
                cwnd: after.cwnd,
                ssthresh: after.ssthresh,
                memory: after.memory,
            });
        }
        if let Some(change) = enters {
            let loss = TapeRow {
                event: TapeEvent::Loss,
                cwnd: Some(now.cwnd * smss),
                ssthresh: Some(change.ssthresh * smss),
                ..row
            };
            rows.push(Told {
                row: loss,
                cwnd: after.cwnd,
                ssthresh: change.ssthresh,
                memory: change.memory,
            });
        }
    }
    rows
}

/// Differences to the kernel after each such event, in segments.
#[derive(Default)]
pub struct Off {
    pub slow_start: Vec<f64>,
    pub avoidance: Vec<f64>,
    pub ssthresh: Vec<f64>,
    pub recovered: Vec<f64>,
    /// After each ACK that may open the window, the control's values and what the kernel's module holds in mind.
    pub memory: Vec<(Values, [f64; 2])>,
}

pub fn beside(window: &str, folder: &str, run: &str) -> Off {
    let of = |suffix: &str| reference(&format!("captures/{folder}/{run}.{suffix}"));
    let truth = truth(&of("truth.csv.gz"));
    let sends = sends(&of("pcap.gz"));
    let smss = f64::from(sends.smss);
    let tape = tape(&truth, &sends, smss);
    let counting = Counting {
        profile: Profile::Rfc,
        segment_bytes: smss as u32,
    };
    let row = congestion::window(window).expect("a row of the table");
    let standard = congestion::slow_start("standard").expect("a row of the table");
    let mut control = row.under(standard, &Parameters::default(), counting);
    let start = State {
        cwnd: INITIAL_WINDOW * smss,
        ssthresh: f64::INFINITY,
        smss,
    };
    let mut off = Off::default();
    let mut tellers = tape.iter();
    let (mut cwnd, mut ssthresh) = (Vec::new(), Vec::new());
    watch(
        &mut *control,
        start,
        tape.iter().map(|told| told.row),
        None,
        |control, own| {
            cwnd.push(own.0);
            ssthresh.push(own.1);
            let told = tellers.next().expect("one for each row");
            if matches!(told.row.event, TapeEvent::Ack | TapeEvent::Opening) {
                off.memory.push((control.values(), told.memory));
            }
        },
    );
    let (mut cwnd_before, mut ssthresh_before) = (INITIAL_WINDOW, f64::INFINITY);
    for (n, told) in tape.iter().enumerate() {
        let (ours, ours_ssthresh) = (cwnd[n] / smss, ssthresh[n] / smss);
        match told.row.event {
            TapeEvent::Ack if cwnd_before < ssthresh_before => {
                off.slow_start.push(ours - told.cwnd)
            }
            TapeEvent::Ack | TapeEvent::Opening => off.avoidance.push(ours - told.cwnd),
            TapeEvent::Loss => off.ssthresh.push(ours_ssthresh - told.ssthresh),
            TapeEvent::Recovered => off.recovered.push(ours - told.cwnd),
            _ => {}
        }
        (cwnd_before, ssthresh_before) = (told.cwnd, told.ssthresh);
    }
    // For docs/make_controls.py.
    println!(
        "TOLD {window} {run} {} {} {} {} {} {:.4} {}",
        off.slow_start.len(),
        most(&off.slow_start),
        off.ssthresh.len(),
        most(&off.ssthresh),
        off.avoidance.len(),
        off.avoidance.iter().filter(|off| **off == 0.0).count() as f64 / off.avoidance.len() as f64,
        most(&off.avoidance),
    );
    off
}

pub fn most(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, value| value.abs().max(most))
}

/// The share of values that are within a segment.
pub fn within_one(values: &[f64]) -> f64 {
    values.iter().filter(|value| value.abs() <= 1.0).count() as f64 / values.len() as f64
}
