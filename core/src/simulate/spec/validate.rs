//! What a run must be so that it can be run: the first value that cannot stand is named by its key.

use super::{
    Application, ConnectionSpec, NodeSpec, Profile, ReceiverSpec, RtoSpec, SenderSpec, Spec,
    SpecError,
};

impl Spec {
    /// Reads and checks a run. The error is one line that names the key.
    pub fn from_json(text: &str) -> Result<Self, SpecError> {
        let spec: Self = serde_json::from_str(text).map_err(|error| SpecError {
            key: "scenario".to_owned(),
            found: error.to_string(),
            wanted: "a run as described in the scenario format".to_owned(),
        })?;
        spec.validate()?;
        Ok(spec)
    }

    pub fn validate(&self) -> Result<(), SpecError> {
        require("duration_ns", self.duration_ns, self.duration_ns > 0, "> 0")?;
        require(
            "path.nodes",
            "[]",
            !self.path.nodes.is_empty(),
            "one node or more",
        )?;
        require(
            "connections",
            "[]",
            !self.connections.is_empty(),
            "one connection or more",
        )?;
        for (name, nodes) in [("nodes", &self.path.nodes), ("reverse", &self.path.reverse)] {
            for (number, node) in nodes.iter().enumerate() {
                node.validate(&format!("path.{name}.{number}"))?;
            }
        }
        let path = &self.path;
        let delay = path.return_delay_ns;
        require(
            "path.return_delay_ns",
            delay,
            delay >= 0.0 && delay.is_finite(),
            ">= 0",
        )?;
        require(
            "path.packet_bytes",
            path.packet_bytes,
            (1..=65535).contains(&path.packet_bytes),
            "1..65535",
        )?;
        require("path.ack_bytes", path.ack_bytes, path.ack_bytes > 0, "> 0")?;
        require(
            "path.ack_loss",
            path.ack_loss,
            (0.0..1.0).contains(&path.ack_loss),
            "0 <= p < 1",
        )?;
        for (number, connection) in self.connections.iter().enumerate() {
            connection.validate(&format!("connections.{number}"))?;
            let sender = format!("connections.{number}.sender");
            connection.sender.validate_control(&sender, self.profile)?;
            require(
                &format!("connections.{number}.jitter_ns"),
                connection.jitter_ns,
                connection.jitter_ns == 0 || self.profile == Profile::Rfc,
                "0 in profile ns2, whose hosts take no time",
            )?;
            require(
                &format!("connections.{number}.application.kind"),
                "turns",
                self.profile == Profile::Rfc
                    || !matches!(connection.application, Application::Turns { .. }),
                "another in profile ns2",
            )?;
        }
        for (number, tap) in self.taps.iter().enumerate() {
            let wanted = "sender, receiver, nodeN.in or nodeN.out of an existing node";
            require(&format!("taps.{number}"), tap, self.has_place(tap), wanted)?;
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
                .is_ok_and(|n: usize| n < self.path.nodes.len()),
            _ => false,
        }
    }
}

impl NodeSpec {
    fn validate(&self, key: &str) -> Result<(), SpecError> {
        let rate = self.rate_bps.unwrap_or(1.0);
        require(
            &format!("{key}.rate_bps"),
            rate,
            rate > 0.0 && rate.is_finite(),
            "> 0",
        )?;
        let buffer = self.buffer.unwrap_or(1);
        require(&format!("{key}.buffer"), buffer, buffer > 0, "> 0")?;
        for (name, ns) in [("target", self.target_ns), ("interval", self.interval_ns)] {
            require(&format!("{key}.{name}_ns"), ns, ns > 0, "> 0")?;
        }
        let delay = self.delay_ns;
        require(
            &format!("{key}.delay_ns"),
            delay,
            delay >= 0.0 && delay.is_finite(),
            ">= 0",
        )?;
        require(
            &format!("{key}.loss"),
            self.loss,
            (0.0..1.0).contains(&self.loss),
            "0 <= p < 1",
        )?;
        require(
            &format!("{key}.drop_packets"),
            0,
            self.drop_packets.iter().all(|&n| n > 0),
            "numbers from 1",
        )
    }
}

impl ConnectionSpec {
    fn validate(&self, key: &str) -> Result<(), SpecError> {
        require(
            &format!("{key}.start_ns"),
            self.start_ns,
            self.start_ns >= 0,
            ">= 0",
        )?;
        let extra = self.extra_delay_ns;
        require(
            &format!("{key}.extra_delay_ns"),
            extra,
            extra >= 0.0 && extra.is_finite(),
            ">= 0",
        )?;
        require(
            &format!("{key}.jitter_ns"),
            self.jitter_ns,
            (0..=1_000_000_000).contains(&self.jitter_ns),
            ">= 0 (and <= 1 s)",
        )?;
        self.sender.validate(&format!("{key}.sender"))?;
        self.receiver.validate(&format!("{key}.receiver"))?;
        let application = format!("{key}.application");
        match &self.application {
            Application::Bulk => Ok(()),
            Application::Bytes { bytes } => {
                require(&format!("{application}.bytes"), bytes, *bytes > 0, "> 0")
            }
            Application::OnOff {
                on_bytes, off_ns, ..
            } => {
                require(
                    &format!("{application}.on_bytes"),
                    on_bytes,
                    *on_bytes > 0,
                    "> 0",
                )?;
                require(&format!("{application}.off_ns"), off_ns, *off_ns > 0, "> 0")
            }
            Application::Schedule { writes } => {
                let ordered = writes.windows(2).all(|pair| pair[0].0 <= pair[1].0);
                let positive = writes.iter().all(|&(time, bytes)| time >= 0 && bytes > 0);
                require(
                    &format!("{application}.writes"),
                    "[...]",
                    ordered && positive,
                    "ordered in time, bytes > 0",
                )
            }
            Application::Turns { turns } => require(
                &format!("{application}.turns"),
                "[...]",
                !turns.is_empty()
                    && turns
                        .iter()
                        .all(|&(wait_ns, bytes)| wait_ns >= 0 && bytes > 0),
                "one or more, waits >= 0, bytes > 0",
            ),
        }
    }
}

impl SenderSpec {
    fn validate(&self, key: &str) -> Result<(), SpecError> {
        let window = self.initial_window;
        require(
            &format!("{key}.initial_window"),
            window,
            window >= 1,
            ">= 1",
        )?;
        let ssthresh = self.initial_ssthresh.unwrap_or(2.0);
        require(
            &format!("{key}.initial_ssthresh"),
            ssthresh,
            ssthresh >= 1.0,
            ">= 1",
        )?;
        require(
            &format!("{key}.max_window"),
            self.max_window,
            self.max_window >= 1,
            ">= 1",
        )?;
        let mss = self.mss.unwrap_or(536);
        require(
            &format!("{key}.mss"),
            mss,
            (1..=65495).contains(&mss),
            "1..65495",
        )?;
        let RtoSpec {
            initial_ns,
            min_ns,
            max_ns,
            granularity_ns,
            tick_phase,
            ..
        } = self.rto;
        require(
            &format!("{key}.rto.initial_ns"),
            initial_ns,
            initial_ns > 0,
            "> 0",
        )?;
        require(&format!("{key}.rto.min_ns"), min_ns, min_ns >= 0, ">= 0")?;
        require(
            &format!("{key}.rto.max_ns"),
            max_ns,
            max_ns >= min_ns && max_ns > 0,
            ">= min_ns",
        )?;
        require(
            &format!("{key}.rto.granularity_ns"),
            granularity_ns,
            granularity_ns > 0,
            "> 0",
        )?;
        require(
            &format!("{key}.rto.tick_phase"),
            tick_phase,
            (0.0..1.0).contains(&tick_phase),
            "0 <= phase < 1",
        )
    }
}

impl SenderSpec {
    /// The profile can run the control, and every parameter is one of its slow start or window there.
    fn validate_control(&self, key: &str, profile: Profile) -> Result<(), SpecError> {
        if let Some(row) = self.window {
            require(
                &format!("{key}.window"),
                row.name,
                row.profiles.contains(&profile),
                &format!("one that profile {} can run", profile.name()),
            )?;
        }
        let of_window = self.window.map_or(&[][..], |row| row.parameters);
        let known = || of_window.iter().chain(self.slow_start.parameters);
        for (name, value) in self.parameters.iter() {
            let key = format!("{key}.{name}");
            let Some(parameter) = known().find(|known| known.name == name) else {
                let names: Vec<&str> = known().map(|known| known.name).collect();
                let wanted = format!(
                    "absent: slow start {} and this window know {}",
                    self.slow_start.name,
                    names.join(", ")
                );
                return require(&key, value, false, &wanted);
            };
            let profiles = parameter.profiles;
            let wanted = format!("absent in profile {}", profile.name());
            require(&key, value, profiles.contains(&profile), &wanted)?;
            let (low, high) = parameter.range;
            let holds = (low..=high).contains(&value);
            require(&key, value, holds, &parameter.wanted())?;
        }
        Ok(())
    }
}

impl ReceiverSpec {
    fn validate(&self, key: &str) -> Result<(), SpecError> {
        let every = self.delayed_ack_segments;
        require(
            &format!("{key}.delayed_ack_segments"),
            every,
            (1..=2).contains(&every),
            "1 or 2",
        )?;
        let timer = self.delayed_ack_timer_ns;
        require(
            &format!("{key}.delayed_ack_timer_ns"),
            timer,
            timer > 0,
            "> 0",
        )?;
        require(&format!("{key}.rwnd"), self.rwnd, self.rwnd >= 1, ">= 1")?;
        let rate = self.reader_bps.unwrap_or(1.0);
        require(
            &format!("{key}.reader_bps"),
            rate,
            rate > 0.0 && rate.is_finite(),
            "> 0",
        )
    }
}

fn require(
    key: &str,
    found: impl std::fmt::Debug,
    holds: bool,
    wanted: &str,
) -> Result<(), SpecError> {
    if holds {
        return Ok(());
    }
    Err(SpecError {
        key: key.to_owned(),
        found: format!("{found:?}"),
        wanted: wanted.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::spec::RecoveryKind;

    const MINIMAL: &str = r#"{"profile": "ns2", "duration_ns": 1000000000,
        "path": {"nodes": [{"rate_bps": 1.5e6, "buffer": 20, "delay_ns": 280e6}]}, "connections": [{}]}"#;

    #[test]
    fn a_minimal_run_has_defaults_for_the_rest() {
        let spec = Spec::from_json(MINIMAL).unwrap();
        assert_eq!(spec.connections[0].sender.recovery, RecoveryKind::Newreno);
        assert_eq!(spec.path.packet_bytes, 1500);
        assert!(!spec.path.nodes[0].counts_in_service);
    }

    #[test]
    fn an_error_names_the_key_the_value_and_the_range() {
        for (good, bad, message) in [
            ("1.5e6", "-1", "path.nodes.0.rate_bps = -1.0: must be > 0"),
            (
                r#""buffer": 20"#,
                r#""buffer": 0"#,
                "path.nodes.0.buffer = 0: must be > 0",
            ),
            ("1000000000", "0", "duration_ns = 0: must be > 0"),
        ] {
            let error = Spec::from_json(&MINIMAL.replace(good, bad)).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn an_unknown_control_is_refused_with_the_known_ones() {
        let text = MINIMAL.replace("[{}]", r#"[{"sender": {"window": "no-such"}}]"#);
        let error = Spec::from_json(&text).unwrap_err().to_string();
        assert!(
            error.contains("no-such") && error.contains("compound-draft"),
            "{error}"
        );
    }
}
