//! Two TUN devices joined by the path, in real time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, write};

use super::clock::{Freeze, VirtualClock};
use super::device::{
    LARGEST_PACKET, Stop, duplicate, monotonic, no_timer_slack, read_packet, wait_until,
    wall_minus_monotonic,
};
use super::journal::{Bin, Dropped, Journal};
use super::lane::Lane;
use super::packet::{LabelledPacket, Way};
use crate::network::Random;
use crate::scenario::Scenario;
use crate::simulate::{Logs, paths};

/// A timer wakes a thread some 40 us late: the last stretch before an event is spent looking at the clock.
const SPIN_NS: i64 = 60_000;

/// Packets of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    pub entered: u64,
    pub left: u64,
    pub lost: u64,
    pub inside: u64,
}

impl Carried {
    fn is_conserved(self) -> bool {
        self.entered == self.left + self.lost + self.inside
    }
}

/// What one run did, on the captures' clock.
#[derive(Debug)]
pub struct Report {
    pub drops: Vec<Dropped>,
    pub bins: Vec<Bin>,
    pub freezes: Vec<Freeze>,
    pub forward: Carried,
    pub reverse: Carried,
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
    scenario: Scenario,
}

impl Tunnel {
    /// `sender` and `receiver` are this process's own numbers of open, non-blocking TUN descriptors. They are
    /// duplicated: whoever opened them still closes them.
    pub fn new(scenario: Scenario, sender: i32, receiver: i32) -> io::Result<Self> {
        Ok(Self {
            sender: duplicate(sender)?,
            receiver: duplicate(receiver)?,
            stop: Stop::new()?,
            scenario,
        })
    }

    pub fn stop_handle(&self) -> Stop {
        self.stop.clone()
    }

    /// Carries packets until stopped.
    pub fn run(&self) -> io::Result<Report> {
        no_timer_slack()?;
        Run::new(self).carry()
    }
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
        let [forward, reverse] = paths(&tunnel.scenario, Logs::default());
        Self {
            tunnel,
            clock: VirtualClock::default(),
            forward: Lane::new(forward, Way::Forward),
            reverse: Lane::new(reverse, Way::Reverse),
            random: Random::new(tunnel.scenario.seed),
            journal: Journal::default(),
            wall_minus_monotonic_ns: wall_minus_monotonic(),
            write_errors: 0,
            buffer: vec![0; LARGEST_PACKET],
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
        let due = self.next_event().map(|due| self.clock.to_real(due));
        let left = due.map(|due| due - self.real() - SPIN_NS);
        let mut watched = [
            PollFd::new(&self.tunnel.sender, PollFlags::IN),
            PollFd::new(&self.tunnel.receiver, PollFlags::IN),
            PollFd::new(&self.tunnel.stop, PollFlags::IN),
        ];
        wait_until(&mut watched, left)?;
        Ok(watched[2].revents().contains(PollFlags::IN))
    }

    /// Takes every packet that waits in a device; each enters the path at the instant at which it is read.
    fn read_device(&mut self, way: Way) -> io::Result<()> {
        let device = match way {
            Way::Forward => self.tunnel.sender.as_fd(),
            Way::Reverse => self.tunnel.receiver.as_fd(),
        };
        while let Some(bytes) = read_packet(device, &mut self.buffer)? {
            let packet = LabelledPacket::new(bytes, way == Way::Reverse);
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
            while let Some((due, packet)) = lane.leave(now, &mut self.random, &mut self.journal) {
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
        let counts = |lane: &Lane, is_reverse| Carried {
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
