//! Two TUN devices joined by the path, in real time.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

use super::chain::{Chain, Loss};
use super::clock::{Freeze, VirtualClock};
use super::log::Journal;
use super::packet::Packet;
use crate::simulate::Spec;

/// The largest packet a TUN device without offload hands over.
const READ_BYTES: usize = 65536;

/// A timer wakes a thread some 40 us late: the last stretch before an event is spent looking at the clock.
const SPIN_NS: i64 = 60_000;

/// Ends a run from another thread.
#[derive(Clone, Debug)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    pub fn stop(&self) -> io::Result<()> {
        write(&self.0, &1u64.to_ne_bytes())?;
        Ok(())
    }
}

/// What one run did.
#[derive(Debug)]
pub struct Report {
    pub journal: Journal,
    /// Times on the wall's clock.
    pub freezes: Vec<Freeze>,
    /// (in, out, lost, still inside) forward and back.
    pub forward: [u64; 4],
    pub reverse: [u64; 4],
    pub is_conserved: bool,
    /// Packets the far device would not take (its interface is down).
    pub write_errors: u64,
    /// How far the wall's clock moved against the monotonic one during the run.
    pub clock_drift_ns: i64,
}

/// The path between the sender's device and the receiver's.
#[derive(Debug)]
pub struct Tunnel {
    sender: OwnedFd,
    receiver: OwnedFd,
    stop: Stop,
    spec: Spec,
}

impl Tunnel {
    /// `sender` and `receiver` are this process's own numbers of open, non-blocking TUN descriptors. They are
    /// duplicated: whoever opened them still closes them.
    pub fn new(spec: Spec, sender: i32, receiver: i32) -> io::Result<Self> {
        Ok(Self {
            sender: duplicate(sender)?,
            receiver: duplicate(receiver)?,
            stop: Stop(Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?)),
            spec,
        })
    }

    pub fn stop_handle(&self) -> Stop {
        self.stop.clone()
    }

    /// Carries packets until stopped.
    pub fn run(&self) -> io::Result<Report> {
        // The default slack of 50 us would make every delivery that much later.
        set_current_timer_slack(NonZeroU64::new(1))?;
        Run::new(self).carry()
    }
}

/// A second descriptor of the same open file, without an unsafe conversion from a number.
fn duplicate(number: i32) -> io::Result<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(own, number, PidfdGetfdFlags::empty())?)
}

struct Run<'a> {
    tunnel: &'a Tunnel,
    clock: VirtualClock,
    forward: Chain<Packet>,
    reverse: Chain<Packet>,
    journal: Journal,
    wall_minus_monotonic_ns: i64,
    write_errors: u64,
    arrived: Vec<(i64, Packet)>,
    losses: Vec<Loss<Packet>>,
    buffer: Vec<u8>,
}

impl<'a> Run<'a> {
    fn new(tunnel: &'a Tunnel) -> Self {
        let path = &tunnel.spec.path;
        let seed = tunnel.spec.seed;
        Self {
            tunnel,
            clock: VirtualClock::default(),
            forward: Chain::new(&path.nodes, 0, 0.0, seed),
            reverse: Chain::new(
                &path.reverse,
                path.return_delay_ns.round() as i64,
                path.ack_loss,
                // Another stream than the data's losses.
                !seed,
            ),
            journal: Journal::default(),
            wall_minus_monotonic_ns: wall_minus_monotonic(),
            write_errors: 0,
            arrived: Vec::new(),
            losses: Vec::new(),
            buffer: vec![0; READ_BYTES],
        }
    }

    fn carry(mut self) -> io::Result<Report> {
        loop {
            let now = self.clock.wake(monotonic(), self.next_event());
            self.deliver_due(now)?;
            self.read_device(Direction::Forward)?;
            self.read_device(Direction::Reverse)?;
            if self.wait()? {
                return Ok(self.report());
            }
        }
    }

    fn next_event(&self) -> Option<i64> {
        let forward = self.forward.next_event();
        forward.into_iter().chain(self.reverse.next_event()).min()
    }

    /// Sleeps until a packet comes, an event is due, or someone calls stop (then true).
    fn wait(&self) -> io::Result<bool> {
        let timeout = self.next_event().map(|due| {
            let left = (self.clock.to_real(due) - monotonic() - SPIN_NS).max(0);
            Timespec {
                tv_sec: left / 1_000_000_000,
                tv_nsec: left % 1_000_000_000,
            }
        });
        let mut watched = [
            PollFd::new(&self.tunnel.sender, PollFlags::IN),
            PollFd::new(&self.tunnel.receiver, PollFlags::IN),
            PollFd::new(&*self.tunnel.stop.0, PollFlags::IN),
        ];
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(watched[2].revents().contains(PollFlags::IN)),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes every packet that waits in a device; each arrives at the instant at which it is read.
    fn read_device(&mut self, direction: Direction) -> io::Result<()> {
        let device = match direction {
            Direction::Forward => self.tunnel.sender.as_fd(),
            Direction::Reverse => self.tunnel.receiver.as_fd(),
        };
        while let Some(bytes) = read_packet(device, &mut self.buffer)? {
            let packet = Packet::new(bytes);
            let now = self.clock.wake(monotonic(), self.next_event());
            self.deliver_due(now)?;
            let chain = match direction {
                Direction::Forward => &mut self.forward,
                Direction::Reverse => &mut self.reverse,
            };
            chain.enter(now, packet, &mut self.losses);
            self.record(direction, now);
        }
        Ok(())
    }

    fn deliver_due(&mut self, now: i64) -> io::Result<()> {
        for direction in [Direction::Forward, Direction::Reverse] {
            let (chain, device) = match direction {
                Direction::Forward => (&mut self.forward, self.tunnel.receiver.as_fd()),
                Direction::Reverse => (&mut self.reverse, self.tunnel.sender.as_fd()),
            };
            chain.advance(now, &mut self.arrived, &mut self.losses);
            for (due, packet) in self.arrived.drain(..) {
                // Before the write: within it the kernel already processes the packet and sends its answer.
                let late = monotonic() - self.clock.to_real(due);
                self.journal.lateness_ns.push(late);
                match write(device, &packet.bytes) {
                    Ok(_) => {}
                    Err(Errno::IO | Errno::INVAL | Errno::NOBUFS | Errno::AGAIN) => {
                        self.write_errors += 1;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            self.record(direction, now);
        }
        Ok(())
    }

    fn record(&mut self, direction: Direction, now: i64) {
        let offset = self.clock.to_real(0) + self.wall_minus_monotonic_ns;
        let is_reverse = direction == Direction::Reverse;
        self.journal
            .record_losses(&mut self.losses, is_reverse, offset);
        if !is_reverse {
            self.journal.sample_queues(&self.forward, now + offset);
        }
    }

    fn report(mut self) -> Report {
        self.journal.finish();
        let counts = |chain: &Chain<Packet>| {
            let (entered, left, lost) = chain.counts();
            [entered, left, lost, chain.inside()]
        };
        let offset = self.wall_minus_monotonic_ns;
        Report {
            forward: counts(&self.forward),
            reverse: counts(&self.reverse),
            is_conserved: self.forward.is_conserved() && self.reverse.is_conserved(),
            freezes: self
                .clock
                .freezes()
                .iter()
                .map(|freeze| Freeze {
                    noticed_ns: freeze.noticed_ns + offset,
                    ..*freeze
                })
                .collect(),
            journal: self.journal,
            write_errors: self.write_errors,
            clock_drift_ns: wall_minus_monotonic() - offset,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Reverse,
}

/// The next packet of a device, `None` when none waits.
fn read_packet(device: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<Vec<u8>>> {
    match read(device, &mut *buffer) {
        Ok(length) => Ok(Some(buffer[..length].to_vec())),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn monotonic() -> i64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// The clock of packet captures against the one that schedules; the closest of a few readings.
fn wall_minus_monotonic() -> i64 {
    (0..8)
        .map(|_| {
            let before = monotonic();
            let wall = nanoseconds(clock_gettime(ClockId::Realtime));
            let after = monotonic();
            (after - before, wall - (before + after) / 2)
        })
        .min()
        .map_or(0, |(_, offset)| offset)
}

fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
