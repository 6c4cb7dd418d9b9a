//! TUN descriptors, clocks and waiting, without unsafe code.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

/// The largest packet a TUN device without offload hands over.
pub const LARGEST_PACKET: usize = 65536;

/// Ends a run from another thread.
#[derive(Clone, Debug)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?)))
    }

    pub fn stop(&self) -> io::Result<()> {
        write(&self.0, &1u64.to_ne_bytes())?;
        Ok(())
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A second descriptor of the same open file, without an unsafe conversion from a number.
pub fn duplicate(number: i32) -> io::Result<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(own, number, PidfdGetfdFlags::empty())?)
}

/// For this thread: the default slack of 50 us would make every delivery that much later.
pub fn no_timer_slack() -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Sleeps until one of the descriptors is ready, or for so many nanoseconds (`None`: for ever).
pub fn wait_until(watched: &mut [PollFd<'_>], left_ns: Option<i64>) -> io::Result<()> {
    let timeout = left_ns.map(|left| Timespec {
        tv_sec: left.max(0) / 1_000_000_000,
        tv_nsec: left.max(0) % 1_000_000_000,
    });
    match poll(watched, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The next packet of a device, `None` when none waits.
pub fn read_packet(device: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<Vec<u8>>> {
    match read(device, &mut *buffer) {
        Ok(length) => Ok(Some(buffer[..length].to_vec())),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub fn monotonic() -> i64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// The clock of packet captures against the one that schedules; the closest of a few readings.
pub fn wall_minus_monotonic() -> i64 {
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
