//! What a scenario may set of a control: each number once, with its unit, default, range and profiles.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// How a run counts (core/src/simulate).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Profile {
    /// ns-2.35's packet-counting agents on a clock of doubles, event for event.
    Ns2,
    /// Bytes, handshake and options as a modern stack sends them, on integer nanoseconds.
    #[default]
    Rfc,
}

impl Profile {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ns2 => "ns2",
            Self::Rfc => "rfc",
        }
    }
}

pub(super) const BOTH: &[Profile] = &[Profile::Ns2, Profile::Rfc];
pub(super) const RFC: &[Profile] = &[Profile::Rfc];
pub(super) const NS2: &[Profile] = &[Profile::Ns2];

/// A number that a scenario may set; a flag is 0 or 1.
#[derive(Debug)]
pub struct ControlParameter {
    pub name: &'static str,
    /// "flag" for one that is on or off.
    pub unit: &'static str,
    pub default: f64,
    /// Both ends are allowed.
    pub range: (f64, f64),
    pub profiles: &'static [Profile],
    pub what: &'static str,
}

/// The range of a number that must only be greater than 0.
const POSITIVE: (f64, f64) = (f64::MIN_POSITIVE, f64::MAX);

impl ControlParameter {
    const fn flag(
        name: &'static str,
        profiles: &'static [Profile],
        default: bool,
        what: &'static str,
    ) -> Self {
        Self {
            name,
            unit: "flag",
            default: if default { 1.0 } else { 0.0 },
            range: (0.0, 1.0),
            profiles,
            what,
        }
    }

    pub fn is_flag(&self) -> bool {
        self.unit == "flag"
    }

    /// The range as an error says it.
    pub fn wanted(&self) -> String {
        let (low, high) = self.range;
        match (low == f64::MIN_POSITIVE, high == f64::MAX) {
            _ if self.is_flag() => "true or false".to_owned(),
            (true, true) => "> 0".to_owned(),
            (false, true) => format!(">= {low}"),
            (true, false) => format!("> 0 and <= {high}"),
            (false, false) => format!(">= {low} and <= {high}"),
        }
    }
}

pub(super) const BYTE_COUNTING: ControlParameter = ControlParameter::flag(
    "byte_counting",
    RFC,
    false,
    "acknowledged segments open the window, not ACKs (RFC 3465)",
);

const MICROSECONDS_HZ: f64 = 1e6;

pub(super) const KERNEL_HZ: ControlParameter = ControlParameter {
    name: "kernel_hz",
    unit: "Hz",
    default: 250.0,
    range: (100.0, 1000.0),
    profiles: RFC,
    what: "ticks of the kernel's clock per second (CONFIG_HZ)",
};

pub(super) const MODULE_HZ: ControlParameter = ControlParameter {
    name: "module_hz",
    unit: "Hz",
    default: MICROSECONDS_HZ,
    range: (100.0, MICROSECONDS_HZ),
    profiles: RFC,
    what: "ticks of the module's clock per second: Linux's own counts jiffies (CONFIG_HZ), its rules in microseconds a million",
};

pub(super) const KERNEL_HYSTART: ControlParameter = ControlParameter::flag(
    "kernel_hystart",
    RFC,
    true,
    "slow start ends by the module's own HyStart",
);

pub(super) const FAST_CONVERGENCE: ControlParameter = ControlParameter::flag(
    "fast_convergence",
    BOTH,
    true,
    "a loss below the last plateau lowers it further (RFC 9438 section 4.7)",
);

pub(super) const GAMMA: ControlParameter = ControlParameter {
    name: "gamma",
    unit: "packets",
    default: 30.0,
    range: POSITIVE,
    profiles: BOTH,
    what: "packets in the queue at which the delay window gives way",
};

pub(super) const DWND_BY_CWND: ControlParameter = ControlParameter::flag(
    "dwnd_by_cwnd",
    RFC,
    false,
    "the delay window opens by the window of now, and not by the round in which a recovery ended",
);

pub(super) const MAX_SSTHRESH: ControlParameter = ControlParameter {
    name: "max_ssthresh",
    unit: "segments",
    default: 100.0,
    range: (1.0, f64::MAX),
    profiles: BOTH,
    what: "window above which slow start slows down",
};

pub(super) const ZERO_STEP: ControlParameter = ControlParameter::flag(
    "zero_step",
    BOTH,
    false,
    "a step of 0 after 10, 9, ..., 1: an 11-ACK cycle, as the paper's pseudo-code has it",
);

pub(super) const BBR_SEED: ControlParameter = ControlParameter {
    name: "bbr_seed",
    unit: "number",
    default: 1.0,
    range: (0.0, 4_294_967_295.0),
    profiles: RFC,
    what: "draws the phase with which ProbeBW begins; flows with different seeds do not probe together",
};

pub(super) const HTCP_FROM_RECOVERY: ControlParameter = ControlParameter::flag(
    "htcp_from_recovery",
    RFC,
    false,
    "the time without a loss begins when recovery ends, as in Linux's module, not with the loss",
);

/// What a scenario sets of a control's parameters, by name; the others have their defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(BTreeMap<String, f64>);

impl Parameters {
    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    pub fn value(&self, parameter: &ControlParameter) -> f64 {
        let given = self.0.get(parameter.name);
        given.copied().unwrap_or(parameter.default)
    }

    pub fn is_set(&self, parameter: &ControlParameter) -> bool {
        self.value(parameter) != 0.0
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl<'de> Deserialize<'de> for Parameters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Flag(bool),
            Number(f64),
        }
        let given = BTreeMap::<String, Given>::deserialize(deserializer)?;
        let number = |given| match given {
            Given::Flag(flag) => f64::from(u8::from(flag)),
            Given::Number(number) => number,
        };
        let given = given.into_iter();
        Ok(Self(
            given.map(|(name, value)| (name, number(value))).collect(),
        ))
    }
}
