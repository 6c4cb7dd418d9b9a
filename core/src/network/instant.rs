//! Time as the path sees it: integer nanoseconds, or the doubles of ns-2.

use super::Link;

/// A point in time, or a length of it.
pub trait Instant: Copy + PartialOrd + std::fmt::Debug {
    const ZERO: Self;
    /// Later than every time there is.
    const NEVER: Self;
    fn from_ns(ns: f64) -> Self;
    /// For columns: the nearest nanosecond.
    fn to_ns(self) -> i64;
    fn plus(self, length: Self) -> Self;
    /// The length of time from `earlier`.
    fn since(self, earlier: Self) -> Self;
    fn service(link: &Link, bytes: u32) -> Self;
    fn propagation(link: &Link) -> Self;
}

/// Nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub i64);

impl Instant for Nanos {
    const ZERO: Self = Self(0);
    const NEVER: Self = Self(i64::MAX);

    fn from_ns(ns: f64) -> Self {
        Self(ns.round() as i64)
    }

    fn to_ns(self) -> i64 {
        self.0
    }

    #[inline]
    fn plus(self, length: Self) -> Self {
        // Behind the last nanosecond there is is never.
        Self(self.0.saturating_add(length.0))
    }

    #[inline]
    fn since(self, earlier: Self) -> Self {
        Self(self.0 - earlier.0)
    }

    fn service(link: &Link, bytes: u32) -> Self {
        Self(link.service_ns(bytes))
    }

    fn propagation(link: &Link) -> Self {
        Self(link.propagation_ns())
    }
}

/// Seconds as a double, added in the order in which ns-2 adds them: which of two events comes first may hang on the
/// last bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

impl Instant for Seconds {
    const ZERO: Self = Self(0.0);
    const NEVER: Self = Self(f64::INFINITY);

    fn from_ns(ns: f64) -> Self {
        Self(ns / 1e9)
    }

    fn to_ns(self) -> i64 {
        // No time is negative: rounding without the library's call, which a run would make for every packet.
        (self.0 * 1e9 + 0.5) as i64
    }

    #[inline]
    fn plus(self, length: Self) -> Self {
        Self(self.0 + length.0)
    }

    #[inline]
    fn since(self, earlier: Self) -> Self {
        Self(self.0 - earlier.0)
    }

    fn service(link: &Link, bytes: u32) -> Self {
        Self(link.service_s(bytes))
    }

    fn propagation(link: &Link) -> Self {
        Self(link.propagation_s())
    }
}

/// When something happens, and when that was decided: of two things at one time, the one decided first comes first
/// (ns-2's order of scheduling).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Stamp<I> {
    pub time: I,
    pub scheduled: I,
}

impl<I: Instant> Stamp<I> {
    pub const NEVER: Self = Self {
        time: I::NEVER,
        scheduled: I::NEVER,
    };
}
