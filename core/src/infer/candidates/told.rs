//! A control that owns its window (BBR), told of a capture: the sender that the simulator drives, with what was seen
//! for events.
//!
//! What it sends is the capture's; what its window would be then follows from delivery rates, round trips and losses as
//! it would have measured them (`recovery::Sender`). Errs by what the host added between the tap and the sender: the
//! smallest round trip by microseconds, and with it when it is measured again.

use crate::congestion::{Control, State};
use crate::infer::given::HOST_NS;
use crate::infer::sender::rows::trace::Trace;
use crate::recovery::{Arrived, LEAST_RTO_NS, Options, Outgoing, Recovery, Rto, Sender};

// RFC 6298 with Linux's bounds. Its own timers decide nothing here: what they sent is seen.
const INITIAL_RTO_NS: i64 = 1_000_000_000;
const LARGEST_RTO_NS: i64 = 120_000_000_000;
const TICK_NS: i64 = 1_000_000;
/// Of a super-segment each packet is a segment; what is longer than any card takes is none.
const MOST_PACKETS: u64 = 1 << 7;
/// RFC 7323 section 2.3: no window is larger. Nor does a sender keep more segments in mind than one has.
const LARGEST_WINDOW: u64 = 1 << 30;
const MOST_OUTSTANDING: u64 = 1 << 20;
/// No connection lasts longer (three years), nor delivers more (in them, at 90 Mbit/s all the time).
const LONGEST_NS: i64 = 1 << 57;
const MOST_BYTES: i64 = 1 << 50;

/// What the capture tells beyond its rows.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    pub handshake_rtt_ns: Option<i64>,
    /// Sends that a timer released, in order.
    pub by_timer: &'a [usize],
}

/// At each ACK, in bytes, the window behind it, and how much of that bridges the time between lumps of ACKs.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    pub cwnd: Vec<f64>,
    pub bridging: Vec<f64>,
}

/// Empty where the trace does not begin with the connection, or is nobody's.
pub fn windows(trace: &Trace, control: Box<dyn Control>, start: State, told: Told) -> Windows {
    let can_be = trace.has_start && can_be_a_sender_s(trace);
    let Some(&first_ns) = trace.send_ns.first().filter(|_| can_be) else {
        return Windows::default();
    };
    let mut follower = Follower::new(trace, control, start, told, first_ns);
    let mut windows = Windows {
        cwnd: Vec::with_capacity(trace.ack_ns.len()),
        bridging: Vec::with_capacity(trace.ack_ns.len()),
    };
    let most = LARGEST_WINDOW.min(MOST_OUTSTANDING * follower.smss);
    let mut send = 0;
    for ack in 0..trace.ack_ns.len() {
        while trace
            .send_ns
            .get(send)
            .is_some_and(|&ns| ns < trace.ack_ns[ack])
        {
            follower.send(trace, send);
            send += 1;
            if follower.sender.flight_size() > most {
                return Windows::default();
            }
        }
        follower.hear(trace, ack);
        windows.cwnd.push(follower.sender.state().cwnd);
        let bridging = follower.sender.control().bridging();
        windows.bridging.push(bridging);
    }
    windows
}

/// Times and offsets of one connection, none of which any sum or product with a rate takes out of its type.
fn can_be_a_sender_s(trace: &Trace) -> bool {
    let lies_within = |columns: [&[i64]; 2], most: i64| {
        let all = || columns.iter().copied().flatten().copied();
        let (least, largest) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
        largest - least <= most
    };
    lies_within([trace.send_ns, trace.ack_ns], LONGEST_NS)
        && lies_within([trace.send_offset, trace.send_end], MOST_BYTES)
}

struct Follower<'a> {
    sender: Sender,
    /// The trace's offset that is the sender's 1.
    first: i64,
    smss: u64,
    by_timer: &'a [usize],
    heard_ns: i64,
    blocks: Vec<(u64, u64)>,
}

impl<'a> Follower<'a> {
    fn new(
        trace: &Trace,
        control: Box<dyn Control>,
        start: State,
        told: Told<'a>,
        now_ns: i64,
    ) -> Self {
        let smss = start.smss as u64;
        let options = Options {
            is_linux: true,
            recovery: if trace.has_sack {
                Recovery::Sack
            } else {
                Recovery::NewReno
            },
            smss,
            initial_window: start.cwnd as u64,
            limited_transmit: true,
            is_impatient: false,
            has_prr: false,
            has_rack: trace.has_sack,
            restarts_after_idle: false,
            max_window: u64::MAX,
        };
        let mut rto = Rto::new(
            INITIAL_RTO_NS,
            LEAST_RTO_NS.get(),
            LARGEST_RTO_NS,
            TICK_NS,
            true,
        )
        .of_linux(true);
        if let Some(rtt_ns) = told.handshake_rtt_ns {
            rto.on_sample(rtt_ns);
        }
        let first = trace.send_offset.iter().copied().min().unwrap_or(0);
        Self {
            sender: Sender::new(options, control, start, rto, 1, u64::MAX >> 1, now_ns),
            first,
            smss,
            by_timer: told.by_timer,
            heard_ns: now_ns,
            blocks: Vec::new(),
        }
    }

    fn place(&self, offset: i64) -> u64 {
        (offset.max(self.first) - self.first) as u64 + 1
    }

    fn send(&mut self, trace: &Trace, send: usize) {
        let now_ns = trace.send_ns[send];
        self.sender.on_reordering_timer(now_ns);
        if self.by_timer.first() == Some(&send) {
            self.by_timer = &self.by_timer[1..];
            self.sender.on_timeout(now_ns);
        }
        let (start, end) = (
            self.place(trace.send_offset[send]),
            self.place(trace.send_end[send]),
        );
        if self.sender.pipe() == 0 && self.is_late(now_ns) {
            // All had been answered, and nothing held it back: there was nothing to send until now.
            self.sender.on_write(now_ns, 0);
        }
        let snd_max = self.sender.snd_max();
        if start > snd_max {
            // Not captured; it left before.
            self.sent(now_ns, snd_max, start);
        }
        self.sent(now_ns, start, end);
    }

    /// Whether its pace would have let it go more than a host's own time before.
    fn is_late(&self, now_ns: i64) -> bool {
        let departs_ns = self.sender.wake_at_ns().unwrap_or(self.heard_ns);
        now_ns - self.heard_ns.max(departs_ns) > HOST_NS.get()
    }

    fn sent(&mut self, now_ns: i64, start: u64, end: u64) {
        let step = if end - start <= MOST_PACKETS * self.smss {
            self.smss
        } else {
            end - start
        };
        let mut from = start.max(self.sender.snd_una());
        while from < end {
            let until = (from + step).min(end);
            let is_retransmission = from < self.sender.snd_max();
            self.sender.on_sent(
                now_ns,
                Outgoing {
                    start: from,
                    end: until,
                    is_retransmission,
                },
            );
            from = until;
        }
    }

    fn hear(&mut self, trace: &Trace, ack: usize) {
        let now_ns = trace.ack_ns[ack];
        self.sender.on_reordering_timer(now_ns);
        let snd_max = self.sender.snd_max();
        let acked = self.place(trace.ack_offset[ack]).min(snd_max);
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.clear();
        blocks.extend(
            trace
                .blocks(ack)
                .map(|(left, right)| {
                    (
                        self.place(left).min(snd_max),
                        self.place(right).min(snd_max),
                    )
                })
                .filter(|(left, right)| left < right),
        );
        let arrived = Arrived {
            ack: acked,
            window: u64::MAX >> 1,
            blocks: &blocks,
            echo_rtt_ns: None,
        };
        self.sender.on_ack(now_ns, &arrived);
        self.heard_ns = now_ns;
        self.blocks = blocks;
    }
}
