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

use super::clock::{Freeze, VirtualClock};
use super::journal::{Bin, Drop, Journal};
use super::lane::{Lane, Way};
use super::packet::Packet;
use crate::network::Random;
use crate::simulate::{Spec, paths};

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

/// Packets of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub entered: u64,
    pub left: u64,
    pub lost: u64,
    pub inside: u64,
}

impl Counts {
    fn is_conserved(self) -> bool {
        self.entered == self.left + self.lost + self.inside
    }
}

/// What one run did, on the captures' clock.
#[derive(Debug)]
pub struct Report {
    pub drops: Vec<Drop>,
    pub bins: Vec<Bin>,
    pub freezes: Vec<Freeze>,
    pub forward: Counts,
    pub reverse: Counts,
    /// In = out + lost + inside, for each direction and each queue.
    pub is_conserved: bool,
    /// Packets that the far device would not take (its interface is down).
    pub write_errors: u64,
    /// How far the wall's clock moved against the monotonic one during the run.
    pub clock_drift_ns: i64,
    pub journal: Journal,
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
    forward: Lane,
    reverse: Lane,
    random: Random,
    journal: Journal,
    /// The clock runs on the wall's time as it was at the start, and steadily.
    wall_minus_monotonic_ns: i64,
    write_errors: u64,
    buffer: Vec<u8>,
}

impl<'a> Run<'a> {
    fn new(tunnel: &'a Tunnel) -> Self {
        let [forward, reverse] = paths(&tunnel.spec);
        Self {
            tunnel,
            clock: VirtualClock::default(),
            forward: Lane::new(forward, Way::Forward),
            reverse: Lane::new(reverse, Way::Reverse),
            random: Random::new(tunnel.spec.seed),
            journal: Journal::default(),
            wall_minus_monotonic_ns: wall_minus_monotonic(),
            write_errors: 0,
            buffer: vec![0; READ_BYTES],
        }
    }

    fn carry(mut self) -> io::Result<Report> {
        loop {
            let now = self.clock.wake(self.real(), self.next_event());
            self.deliver_due(now)?;
            self.read_device(Way::Forward)?;
            self.read_device(Way::Reverse)?;
            if self.wait()? {
                return Ok(self.report());
            }
        }
    }

    fn real(&self) -> i64 {
        monotonic() + self.wall_minus_monotonic_ns
    }

    fn next_event(&self) -> Option<i64> {
        let forward = self.forward.next_event();
        forward.into_iter().chain(self.reverse.next_event()).min()
    }

    /// Sleeps until a packet comes, an event is due, or someone calls stop (then true).
    fn wait(&self) -> io::Result<bool> {
        let timeout = self.next_event().map(|due| {
            let left = (self.clock.to_real(due) - self.real() - SPIN_NS).max(0);
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

    /// Takes every packet that waits in a device; each enters the path at the instant at which it is read.
    fn read_device(&mut self, way: Way) -> io::Result<()> {
        let device = match way {
            Way::Forward => self.tunnel.sender.as_fd(),
            Way::Reverse => self.tunnel.receiver.as_fd(),
        };
        while let Some(bytes) = read_packet(device, &mut self.buffer)? {
            let packet = Packet::new(bytes, way == Way::Reverse);
            let now = self.clock.wake(self.real(), self.next_event());
            self.deliver_due(now)?;
            let lane = match way {
                Way::Forward => &mut self.forward,
                Way::Reverse => &mut self.reverse,
            };
            lane.enter(now, packet, &mut self.random, &mut self.journal);
        }
        Ok(())
    }

    fn deliver_due(&mut self, now: i64) -> io::Result<()> {
        for way in [Way::Forward, Way::Reverse] {
            let (lane, device) = match way {
                Way::Forward => (&mut self.forward, self.tunnel.receiver.as_fd()),
                Way::Reverse => (&mut self.reverse, self.tunnel.sender.as_fd()),
            };
            while let Some((due, packet)) = lane.leave(now) {
                // Before the write: within it the kernel already processes the packet and sends its answer.
                let real = monotonic() + self.wall_minus_monotonic_ns;
                self.journal.delivered(real - self.clock.to_real(due));
                match write(device, &packet.bytes) {
                    Ok(_) => {}
                    Err(Errno::IO | Errno::INVAL | Errno::NOBUFS | Errno::AGAIN) => {
                        self.write_errors += 1;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn report(mut self) -> Report {
        let now = self.clock.wake(self.real(), None);
        let counts = |lane: &Lane, is_reverse| Counts {
            entered: lane.entered(),
            left: lane.left(),
            lost: self.journal.lost(is_reverse),
            inside: lane.inside(),
        };
        let (forward, reverse) = (counts(&self.forward, false), counts(&self.reverse, true));
        self.forward.finish(now);
        self.reverse.finish(now);
        Report {
            forward,
            reverse,
            is_conserved: forward.is_conserved()
                && reverse.is_conserved()
                && self.forward.is_conserved()
                && self.reverse.is_conserved(),
            drops: self.journal.drops_on(|time| self.clock.to_real_past(time)),
            bins: self.journal.bins_on(|time| self.clock.to_real_past(time)),
            freezes: self.clock.freezes().to_vec(),
            write_errors: self.write_errors,
            clock_drift_ns: wall_minus_monotonic() - self.wall_minus_monotonic_ns,
            journal: self.journal,
        }
    }
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
