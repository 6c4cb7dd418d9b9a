//! What the table of controls says of each slow start and each window.

use super::parameters::{BOTH, ControlParameter, Parameters, Profile};
use super::{Control, Kernel, SlowStart};

pub(super) const STANDARD: &str = "standard";
pub(super) const SACK: (&str, Setting) = ("recovery", Setting::Text("sack"));
pub(super) const TIMESTAMPS: (&str, Setting) = ("timestamps", Setting::Flag(true));

/// What a run counts in: a module of Linux's computes in other integers in each.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    pub profile: Profile,
    /// Bytes in a full segment, which profile ns2's packets do not tell.
    pub segment_bytes: u32,
}

impl Counting {
    pub(super) fn kernel(self) -> Kernel {
        match self.profile {
            Profile::Ns2 => Kernel::V2_6,
            Profile::Rfc => Kernel::V6,
        }
    }
}

/// How cwnd grows below ssthresh.
#[derive(Debug)]
pub struct SlowStartRow {
    pub name: &'static str,
    pub source: &'static str,
    pub parameters: &'static [ControlParameter],
    pub build: fn(&Parameters) -> Box<dyn SlowStart>,
}

pub(super) type BuildWindow = fn(&SlowStartRow, &Parameters, Counting) -> Box<dyn Control>;

/// How cwnd grows above ssthresh, and what a loss makes of it; or a whole control that has its own slow start.
#[derive(Debug)]
pub struct WindowRow {
    pub name: &'static str,
    /// What a verdict calls it: variants of one control share it.
    pub family: &'static str,
    /// The family as its paper writes it.
    pub spelt: &'static str,
    /// The document or program whose arithmetic it is.
    pub source: &'static str,
    pub parameters: &'static [ControlParameter],
    /// Profiles that can run it.
    pub profiles: &'static [Profile],
    /// A module of the Linux kernel's: profile ns2 runs 2.6.22's on ns-2's Linux agent, profile rfc Linux 6's.
    pub is_linux_module: bool,
    /// A whole control: no other slow start goes with it.
    pub has_slow_start: bool,
    /// Its own rule for an ACK is its slow start too: no stack has run another over it.
    pub keeps_to_its_slow_start: bool,
    /// It remembers the least round trip: delays move its window.
    pub is_by_delay: bool,
    /// It remembers the longest one too.
    pub is_by_longest_delay: bool,
    /// It goes back to the window of its last loss.
    pub is_by_last_loss: bool,
    /// What the control of this name sets besides its window.
    pub sender: &'static [(&'static str, Setting)],
    pub build: BuildWindow,
}

/// A key of a scenario's control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    Text(&'static str),
    Flag(bool),
}

/// A row of a control that asks for nothing else: SACK and timestamps beside it, in both profiles, no parameter.
pub(super) const fn ours(
    name: &'static str,
    spelt: &'static str,
    source: &'static str,
    build: BuildWindow,
) -> WindowRow {
    WindowRow {
        name,
        family: name,
        spelt,
        source,
        parameters: &[],
        profiles: BOTH,
        is_linux_module: false,
        has_slow_start: false,
        keeps_to_its_slow_start: false,
        is_by_delay: false,
        is_by_longest_delay: false,
        is_by_last_loss: false,
        sender: &[SACK, TIMESTAMPS],
        build,
    }
}

/// The same of a module of Linux's.
pub(super) const fn linux(
    name: &'static str,
    spelt: &'static str,
    source: &'static str,
    build: BuildWindow,
) -> WindowRow {
    WindowRow {
        is_linux_module: true,
        ..ours(name, spelt, source, build)
    }
}

/// A row of a control that remembers the least round trip.
pub(super) const fn by_delay(row: WindowRow) -> WindowRow {
    WindowRow {
        is_by_delay: true,
        ..row
    }
}

/// A row of a control that remembers the least round trip and the longest.
pub(super) const fn by_delays(row: WindowRow) -> WindowRow {
    WindowRow {
        is_by_longest_delay: true,
        ..by_delay(row)
    }
}

/// A row of a control that remembers the window of its last loss.
pub(super) const fn by_last_loss(row: WindowRow) -> WindowRow {
    WindowRow {
        is_by_last_loss: true,
        ..row
    }
}

impl PartialEq for SlowStartRow {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl SlowStartRow {
    /// The one that a window with a slow start of its own takes the place of.
    pub fn is_standard(&self) -> bool {
        self.name == STANDARD
    }
}

impl PartialEq for WindowRow {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl WindowRow {
    /// Whether that slow start is asked beside this window.
    pub fn takes(&self, slow_start: &SlowStartRow) -> bool {
        slow_start.is_standard() || !self.has_slow_start
    }

    /// The control of this window under a slow start.
    pub fn under(
        &self,
        slow_start: &SlowStartRow,
        parameters: &Parameters,
        counting: Counting,
    ) -> Box<dyn Control> {
        (self.build)(slow_start, parameters, counting)
    }
}
