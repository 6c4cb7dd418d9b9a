//! Our own sender on a TUN device, in real time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, write};

use super::device::{
    LARGEST_PACKET, Stop, duplicate, monotonic, no_timer_slack, read_packet, wait_until,
    wall_minus_monotonic,
};
use super::own_sender::OwnSender;
use super::own_truth::KernelRow;
use crate::wire::{decode, encode};

const LINKTYPE_RAW: u16 = 101;
/// The loop comes round at least so often: a packet may wait unread for this long beyond a stall that shows.
const ROUND_NS: i64 = 500_000;
/// A round that took so much longer than it was to sleep: the thread had to wait for a processor.
const STALL_NS: i64 = 500_000;

/// What a connection came to.
#[derive(Debug)]
pub struct SendReport {
    /// On the captures' clock.
    pub rows: Vec<KernelRow>,
    pub acknowledged: u64,
    pub has_ended: bool,
    pub is_reset: bool,
    /// When this thread stood still, and for how many nanoseconds: ACKs waited, and a burst answered them.
    pub stalls: Vec<(i64, i64)>,
}

/// Sends from `device` for `duration_ns`, then waits for the end for `drain_ns` at most, or until stopped.
pub fn send(
    sender: &mut OwnSender,
    device: i32,
    duration_ns: i64,
    drain_ns: i64,
    stop: &Stop,
) -> io::Result<SendReport> {
    no_timer_slack()?;
    let device = duplicate(device)?;
    let wall = wall_minus_monotonic();
    let mut buffer = vec![0; LARGEST_PACKET];
    let began = monotonic();
    let mut stalls = Vec::new();
    let mut note = |expected: i64, came: i64| {
        if came - expected > STALL_NS {
            stalls.push((expected + wall, came - expected));
        }
    };
    let mut expected = began;
    sender.open(began);
    loop {
        let round = monotonic();
        note(expected, round);
        while let Some(bytes) = read_packet(device.as_fd(), &mut buffer)? {
            // What is not TCP is not for us.
            if let Ok(segment) = decode(LINKTYPE_RAW, &bytes, bytes.len() as u32) {
                sender.on_segment(monotonic(), &segment);
                transmit(sender, &device)?;
            }
        }
        let now = monotonic();
        note(round, now);
        sender.on_time(now);
        if now >= began + duration_ns {
            sender.close(now);
        }
        transmit(sender, &device)?;
        if sender.has_ended() || now >= began + duration_ns + drain_ns {
            break;
        }
        let end = if now < began + duration_ns {
            began + duration_ns
        } else {
            began + duration_ns + drain_ns
        };
        let due = sender.next_event().map_or(end, |due| due.min(end));
        let mut watched = [
            PollFd::new(&device, PollFlags::IN),
            PollFd::new(stop, PollFlags::IN),
        ];
        let sleep = (due - now).clamp(0, ROUND_NS);
        expected = now + sleep;
        wait_until(&mut watched, Some(sleep))?;
        if watched[1].revents().contains(PollFlags::IN) {
            break;
        }
    }
    let on_the_wall = |row: &KernelRow| KernelRow {
        time_ns: row.time_ns + wall,
        ..*row
    };
    Ok(SendReport {
        rows: sender.rows().iter().map(on_the_wall).collect(),
        acknowledged: sender.acknowledged(),
        has_ended: sender.has_ended(),
        is_reset: sender.is_reset(),
        stalls,
    })
}

fn transmit(sender: &mut OwnSender, device: &OwnedFd) -> io::Result<()> {
    let mut frame = Vec::new();
    for segment in sender.outgoing() {
        encode(&segment, &[], LINKTYPE_RAW, u32::MAX, &mut frame).map_err(io::Error::other)?;
        match write(device, &frame) {
            // A packet that the device would not take is lost, as on any link.
            Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
