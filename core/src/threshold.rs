//! A number that decides a claim: it has a unit, and the script of docs/thresholds.md can halve and double it.
//!
//! In a build with the feature `vary` (`_core.vary_threshold`, nothing else is different) one of them at a time is
//! multiplied; without it `get` is the constant.

/// What a threshold counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Nanoseconds,
    Segments,
    Acks,
    /// A part of a whole, or of another quantity.
    Share,
    /// How many of what its name says.
    Count,
}

/// A named constant with its unit; made by `threshold!`.
#[derive(Clone, Copy, Debug)]
pub struct Threshold<T> {
    /// Module path and name.
    pub name: &'static str,
    pub unit: Unit,
    value: T,
}

impl<T: Copy + Scaled> Threshold<T> {
    pub const fn new(name: &'static str, value: T, unit: Unit) -> Self {
        Self { name, unit, value }
    }

    #[cfg(not(feature = "vary"))]
    #[inline(always)]
    pub const fn get(&self) -> T {
        self.value
    }

    #[cfg(feature = "vary")]
    pub fn get(&self) -> T {
        self.value.scaled(varied::factor(self.name))
    }
}

/// Whole numbers stay whole, and at least 1.
pub trait Scaled {
    fn scaled(self, factor: f64) -> Self;
}

impl Scaled for f64 {
    fn scaled(self, factor: f64) -> Self {
        self * factor
    }
}

impl Scaled for i64 {
    fn scaled(self, factor: f64) -> Self {
        ((self as f64 * factor).round() as i64).max(1)
    }
}

impl Scaled for usize {
    fn scaled(self, factor: f64) -> Self {
        ((self as f64 * factor).round() as usize).max(1)
    }
}

#[cfg(feature = "vary")]
pub mod varied {
    use std::sync::{PoisonError, RwLock};

    static VARIED: RwLock<Option<(String, f64)>> = RwLock::new(None);

    /// From now on the threshold of this name (as in `Threshold::name`) is multiplied, and no other.
    pub fn set(varied: Option<(String, f64)>) {
        *VARIED.write().unwrap_or_else(PoisonError::into_inner) = varied;
    }

    pub(super) fn factor(name: &str) -> f64 {
        let varied = VARIED.read().unwrap_or_else(PoisonError::into_inner);
        varied
            .as_ref()
            .filter(|(other, _)| other == name)
            .map_or(1.0, |(_, factor)| *factor)
    }
}

/// `threshold!(NAME: type = value, Unit);` under its comment, which says why.
macro_rules! threshold {
    ($visibility:vis $name:ident: $type:ty = $value:expr, $unit:ident) => {
        $visibility const $name: $crate::threshold::Threshold<$type> = $crate::threshold::Threshold::new(
            concat!(module_path!(), "::", stringify!($name)),
            $value,
            $crate::threshold::Unit::$unit,
        );
    };
}

pub(crate) use threshold;
