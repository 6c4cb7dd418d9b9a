//! What the sender is given to send: as a scenario says it, and as an engine reads it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ns;

/// What the sender is given to send.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApplicationSpec {
    /// bulk: always more; bytes: once; on_off: bytes, then a pause, again and again; schedule: writes at their times;
    /// turns (profile rfc): writes as answers to requests.
    pub kind: ApplicationKind,
    /// With kind bytes or on_off: each write.
    #[schemars(range(min = 0, max = 9_007_199_254_740_992_u64), extend("x-unit" = "bytes"))]
    pub bytes: u64,
    /// With kind on_off: from one write to the next.
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1e9, "x-unit" = "s"))]
    pub off_s: f64,
    /// With kind on_off: how many writes; 0: for ever.
    #[schemars(range(min = 0, max = 1_073_741_824))]
    pub repeats: u64,
    /// With kind schedule: pairs of seconds after the connection's start and bytes, in order of time.
    pub writes: Vec<(f64, u64)>,
    /// With kind turns: pairs of seconds after everything before was acknowledged and bytes, as answers to requests
    /// come.
    #[schemars(extend("x-profiles" = ["rfc"]))]
    pub turns: Vec<(f64, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ApplicationKind {
    #[default]
    Bulk,
    Bytes,
    OnOff,
    Schedule,
    Turns,
}

impl ApplicationKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Bytes => "bytes",
            Self::OnOff => "on_off",
            Self::Schedule => "schedule",
            Self::Turns => "turns",
        }
    }
}

/// The same with what its kind needs, and nothing else.
#[derive(Clone, Debug, PartialEq)]
pub enum Application {
    /// Always has data.
    Bulk,
    Bytes {
        bytes: u64,
    },
    /// Writes `on_bytes`, then waits `off_ns` after the write (`repeats`: how often; `None`: for ever).
    OnOff {
        on_bytes: u64,
        off_ns: i64,
        repeats: Option<u64>,
    },
    /// (time since the start in nanoseconds, bytes) in order of time.
    Schedule {
        writes: Vec<(i64, u64)>,
    },
    /// (wait in nanoseconds, bytes): each write comes its wait after everything before was acknowledged, the first
    /// after the start. Answers to requests: the other side asks when it has the last one.
    Turns {
        turns: Vec<(i64, u64)>,
    },
}

impl From<&ApplicationSpec> for Application {
    fn from(spec: &ApplicationSpec) -> Self {
        let timed =
            |rows: &[(f64, u64)]| rows.iter().map(|&(at_s, size)| (ns(at_s), size)).collect();
        match spec.kind {
            ApplicationKind::Bulk => Self::Bulk,
            ApplicationKind::Bytes => Self::Bytes { bytes: spec.bytes },
            ApplicationKind::OnOff => Self::OnOff {
                on_bytes: spec.bytes,
                off_ns: ns(spec.off_s),
                repeats: (spec.repeats > 0).then_some(spec.repeats),
            },
            ApplicationKind::Schedule => Self::Schedule {
                writes: timed(&spec.writes),
            },
            ApplicationKind::Turns => Self::Turns {
                turns: timed(&spec.turns),
            },
        }
    }
}
