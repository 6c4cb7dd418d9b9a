//! Rules over several keys at once.

use toml::Value;

use super::fit::below;
use super::{
    ApplicationKind, ApplicationSpec, ControlSpec, Profile, RtoSpec, Scenario, ScenarioError,
};

/// Linux's least segment, 48 bytes, behind the headers.
const LEAST_PACKET_BYTES: u32 = 88;

impl Scenario {
    pub(super) fn check(&self) -> Result<(), ScenarioError> {
        let bytes = self.path.packet_bytes;
        if self.profile == Profile::Rfc && bytes < LEAST_PACKET_BYTES {
            let wanted = format!(">= {LEAST_PACKET_BYTES} in profile rfc");
            return Err(ScenarioError::value(
                "path.packet_bytes",
                i64::from(bytes),
                wanted,
            ));
        }
        for (number, tap) in self.taps.iter().enumerate() {
            let key = format!("taps.{number}");
            if self.taps[..number].contains(tap) {
                return Err(ScenarioError::value(&key, tap.as_str(), "named once"));
            }
            if !self.has_place(tap) {
                let last = self.path.nodes.len() - 1;
                let wanted = format!("sender, receiver, or node0.in, node0.out ... node{last}.out");
                return Err(ScenarioError::value(&key, tap.as_str(), wanted));
            }
        }
        Ok(())
    }

    fn has_place(&self, tap: &str) -> bool {
        let node = tap
            .strip_prefix("node")
            .and_then(|rest| rest.split_once('.'));
        match (tap, node) {
            ("sender" | "receiver", _) => true,
            (_, Some((number, "in" | "out"))) => number
                .parse()
                .is_ok_and(|number: usize| number < self.path.nodes.len()),
            _ => false,
        }
    }
}

impl ControlSpec {
    /// Its slow start goes with its window, and every parameter is one of either.
    pub(super) fn check(&self, at: &str) -> Result<(), ScenarioError> {
        if !self.window.takes(self.slow_start) {
            let wanted = format!("standard: {} has a slow start of its own", self.window.name);
            let at = below(at, "slow_start");
            return Err(ScenarioError::value(&at, self.slow_start.name, wanted));
        }
        let known = || {
            self.window
                .parameters
                .iter()
                .chain(self.slow_start.parameters)
        };
        for (name, value) in self.parameters.iter() {
            if known().all(|known| known.name != name) {
                let mut names: Vec<&str> = known().map(|known| known.name).collect();
                names.sort_unstable();
                names.dedup();
                let names = if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                };
                let (slow_start, window) = (self.slow_start.name, self.window.name);
                let wanted = format!("absent: slow start {slow_start} over {window} knows {names}");
                return Err(ScenarioError::value(&below(at, name), value, wanted));
            }
        }
        self.rto.check(&below(at, "rto"))
    }

    pub(super) fn check_profile(&self, at: &str, profile: Profile) -> Result<(), ScenarioError> {
        if self.window.profiles.contains(&profile) {
            return Ok(());
        }
        let wanted = format!("one for profile {}", profile.name());
        Err(ScenarioError::value(
            &below(at, "window"),
            self.window.name,
            wanted,
        ))
    }
}

/// A connection's pauses: each behind the one before.
pub(super) fn check_pauses(pauses: &[(f64, f64)], at: &str) -> Result<(), ScenarioError> {
    let is_row = |&(at_s, lasts_s): &(f64, f64)| {
        (0.0..1e9).contains(&at_s) && lasts_s > 0.0 && lasts_s < 1e9
    };
    let are_apart = |pair: &[(f64, f64)]| pair[0].0 + pair[0].1 <= pair[1].0;
    if pauses.iter().all(is_row) && pauses.windows(2).all(are_apart) {
        return Ok(());
    }
    let found = Value::try_from(pauses).unwrap_or_else(|_| Value::from("..."));
    let wanted = "in order of time, from 0 and below 1e9 s, none within another, lengths > 0";
    Err(ScenarioError::value(&below(at, "pauses"), found, wanted))
}

impl RtoSpec {
    pub(super) fn check(&self, at: &str) -> Result<(), ScenarioError> {
        if self.max_s >= self.min_s {
            return Ok(());
        }
        let wanted = format!(">= min_s ({})", self.min_s);
        Err(ScenarioError::value(
            &below(at, "max_s"),
            self.max_s,
            wanted,
        ))
    }
}

impl ApplicationSpec {
    /// Each key is there with the kinds that use it, and with no other.
    pub(super) fn check(&self, at: &str) -> Result<(), ScenarioError> {
        use ApplicationKind::{Bytes, OnOff, Schedule, Turns};
        let pairs =
            |rows: &[(f64, u64)]| Value::try_from(rows).unwrap_or_else(|_| Value::from("..."));
        self.used(
            at,
            "bytes",
            Value::from(self.bytes as i64),
            self.bytes > 0,
            &[Bytes, OnOff],
        )?;
        self.used(
            at,
            "off_s",
            Value::from(self.off_s),
            self.off_s > 0.0,
            &[OnOff],
        )?;
        self.used(
            at,
            "writes",
            pairs(&self.writes),
            !self.writes.is_empty(),
            &[Schedule],
        )?;
        self.used(
            at,
            "turns",
            pairs(&self.turns),
            !self.turns.is_empty(),
            &[Turns],
        )?;
        let is_row = |&(at_s, size): &(f64, u64)| {
            (0.0..1e9).contains(&at_s) && (1..=1 << 53).contains(&size)
        };
        let in_order = self.writes.windows(2).all(|pair| pair[0].0 <= pair[1].0);
        if !in_order || !self.writes.iter().all(is_row) {
            let wanted = "in order of time from 0 and below 1e9 s, bytes > 0 and <= 2^53";
            return Err(ScenarioError::value(
                &below(at, "writes"),
                pairs(&self.writes),
                wanted,
            ));
        }
        if !self.turns.iter().all(is_row) {
            let wanted = "waits >= 0 and below 1e9 s, bytes > 0 and <= 2^53";
            return Err(ScenarioError::value(
                &below(at, "turns"),
                pairs(&self.turns),
                wanted,
            ));
        }
        Ok(())
    }

    pub(super) fn check_profile(&self, at: &str, profile: Profile) -> Result<(), ScenarioError> {
        if self.kind != ApplicationKind::Turns || profile == Profile::Rfc {
            return Ok(());
        }
        Err(ScenarioError::value(
            &below(at, "kind"),
            "turns",
            "another in profile ns2",
        ))
    }

    fn used(
        &self,
        at: &str,
        key: &str,
        found: Value,
        is_there: bool,
        kinds: &[ApplicationKind],
    ) -> Result<(), ScenarioError> {
        let is_wanted = kinds.contains(&self.kind);
        if is_there == is_wanted {
            return Ok(());
        }
        let kind = self.kind.name();
        let wanted = match is_wanted {
            true => format!("> 0 with kind {kind}"),
            false => format!("absent with kind {kind}"),
        };
        Err(ScenarioError::value(&below(at, key), found, wanted))
    }
}
