//! The real kernel's runs (`../shared/captures/kernel`): the `rfc` profile loses as much per cycle at the same window.

mod oracle;

use std::path::PathBuf;

use oracle::run;
use serde_json::Value;
use tcptrace_core::simulate::Output;

/// A run's JSON and the offsets of the times at which the emulator dropped data; `None` where the folder is absent.
struct Kernel {
    json: Value,
    drop_times: Vec<f64>,
}

fn kernel(name: &str) -> Option<Kernel> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/captures/kernel");
    let Ok(text) = std::fs::read_to_string(folder.join(format!("{name}.json"))) else {
        eprintln!("skipped: {} is not there", folder.display());
        return None;
    };
    let drops = std::fs::read_to_string(folder.join(format!("{name}.drops.csv")))
        .expect("drops beside the JSON");
    let time = |line: &str| line.split(',').next().and_then(|cell| cell.parse().ok());
    Some(Kernel {
        json: serde_json::from_str(&text).expect("JSON"),
        drop_times: drops.lines().skip(1).filter_map(time).collect(),
    })
}

/// The scenario of a kernel run: its path and options, the sender as given.
fn simulate(kernel: &Kernel, sender: &str) -> Output {
    let params = &kernel.json["params"];
    let nodes: Vec<String> = params["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| {
            let delay_ns = node["delay_us"].as_f64().expect("delay") * 1e3;
            format!(
                r#"{{"rate_bps": {}, "buffer": {}, "delay_ns": {delay_ns}, "loss": {}, "drop_packets": {}}}"#,
                node["rate_bps"], node["buffer_pkts"], node["loss"],
                if params["drop_nth"].is_null() { "[]".to_owned() } else { params["drop_nth"].to_string() }
            )
        })
        .collect();
    let quickack = params["quickack"] == 1;
    let duration_ns = params["dur"].as_f64().expect("duration") * 1e9;
    let initial_window = params["initcwnd"]
        .as_u64()
        .unwrap_or(if kernel.json["cc"] == "utahoe" { 1 } else { 10 });
    run(&format!(
        r#"{{"profile": "rfc", "duration_ns": {duration_ns:.0}, "ipv6": {},
        "path": {{"nodes": [{}], "return_delay_ns": {}, "packet_bytes": {}}},
        "connections": [{{"sender": {{"initial_window": {initial_window}, "timestamps": {}, {sender}}},
          "receiver": {{"delayed_ack_segments": {}, "quickack_segments": 16, "delayed_ack_timer_ns": 40000000,
                        "rwnd": 4194304, "sack": {}}}}}]}}"#,
        params["v6"],
        nodes.join(", "),
        params["rev_delay_us"].as_f64().expect("delay") * 1e3,
        params["mtu"],
        params["ts"] == 1,
        if quickack { 1 } else { 2 },
        params["sack"] == 1,
    ))
}

/// (window in segments at the loss event, packets dropped since the last one), in order of time.
type LossCycles = Vec<(f64, usize)>;

fn kernel_cycles(kernel: &Kernel) -> LossCycles {
    let measured = kernel.json["measured"].as_object().expect("measured");
    let flow = measured
        .values()
        .find(|value| value["loss_events"].is_array())
        .expect("a flow");
    let events = flow["loss_events"].as_array().expect("events");
    let at = |event: &Value| event["t"].as_f64().expect("time");
    let mut from = 0.0;
    events
        .iter()
        .enumerate()
        .map(|(n, event)| {
            // Drops of one overflow may go on for a round trip after the first is noticed.
            let to = events
                .get(n + 1)
                .map_or(f64::INFINITY, |next| (at(event) + at(next)) / 2.0);
            let drops = kernel
                .drop_times
                .iter()
                .filter(|&&t| from < t && t <= to)
                .count();
            from = to;
            (event["cwnd_before"].as_f64().expect("window"), drops)
        })
        .collect()
}

fn our_cycles(output: &Output) -> LossCycles {
    let smss = f64::from(output.smss[0]);
    let mut from = 0;
    output
        .losses
        .iter()
        .enumerate()
        .map(|(n, loss)| {
            let to = output
                .losses
                .get(n + 1)
                .map_or(i64::MAX, |next| (loss.time_ns + next.time_ns) / 2);
            let drops = output
                .drops
                .iter()
                .filter(|drop| from < drop.time_ns && drop.time_ns <= to)
                .count();
            from = to;
            ((loss.cwnd_before / smss).floor(), drops)
        })
        .collect()
}

/// What a sender is called here, as part of the spec.
const SACK: &str = r#""byte_counting": true, "recovery": "sack""#;
const NEWRENO: &str = r#""byte_counting": true, "recovery": "newreno""#;
const CUBIC: &str =
    r#""byte_counting": true, "recovery": "sack", "window": "cubic", "slow_start": "hystart""#;
const COMPOUND: &str = r#""byte_counting": true, "recovery": "sack", "window": "compound-draft""#;
const COMPOUND_G90: &str =
    r#""byte_counting": true, "recovery": "sack", "window": "compound-draft", "gamma": 90"#;
const TAHOE: &str = r#""recovery": "tahoe""#;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn is_close(ours: f64, kernel: f64) -> bool {
    // One segment is more than 2 % of a window below 50.
    (ours - kernel).abs() <= (0.02 * kernel).max(1.0)
}

/// Both sides' cycles, `None` where the captures are absent.
fn both(name: &str, sender: &str) -> Option<(LossCycles, LossCycles)> {
    let kernel = kernel(name)?;
    let output = simulate(&kernel, sender);
    let (ours, theirs) = (our_cycles(&output), kernel_cycles(&kernel));
    println!("{name}\n  kernel {theirs:?}\n  ours   {ours:?}");
    Some((ours, theirs))
}

#[test]
fn the_first_overshoot_ends_at_the_kernel_s_window_with_the_kernel_s_losses() {
    // Not here: CUBIC, whose kernel leaves slow start early by its own HyStart; case 1, where microseconds decide
    // whether the second round overflows ten places.
    for (name, sender) in [
        ("reno_10M", SACK),
        ("reno_nots_rcvcap", SACK),
        ("reno_nosack_8M", NEWRENO),
        ("ctcp_case2_50M", COMPOUND),
        ("ctcp_case3_g90", COMPOUND_G90),
        ("ctcp_case4_20M", COMPOUND),
        ("ctcp_case5_20M", COMPOUND),
        ("ctcp_case6_20M", COMPOUND),
        ("ctcp_osc31_100M", COMPOUND),
        ("ctcp_osc42_96M", COMPOUND),
        ("tahoe_sat_B20", TAHOE),
        ("tahoe_sat_B22", TAHOE),
    ] {
        let Some((ours, theirs)) = both(name, sender) else {
            return;
        };
        assert!(
            is_close(ours[0].0, theirs[0].0),
            "{name}: window {} {}",
            ours[0].0,
            theirs[0].0
        );
        let (lost, kernel_lost) = (ours[0].1 as f64, theirs[0].1 as f64);
        assert!(
            (lost - kernel_lost).abs() <= (0.025 * kernel_lost).max(1.0),
            "{name}: {lost} {kernel_lost} lost"
        );
    }
}

#[test]
fn cycles_in_avoidance_lose_as_much_at_the_kernel_s_window() {
    for (name, sender, from) in [
        ("reno_10M", SACK, 2),
        ("reno_nots_rcvcap", SACK, 2),
        ("reno_nosack_8M", NEWRENO, 2),
        ("cubic_20M", CUBIC, 2),
        ("cubic_v6_multinode", CUBIC, 2),
        ("midstart_cubic", CUBIC, 2),
        ("ctcp_case2_50M", COMPOUND, 1),
        ("ctcp_case3_g90", COMPOUND_G90, 1),
        ("ctcp_case4_20M", COMPOUND, 1),
        ("ctcp_case5_20M", COMPOUND, 1),
        ("ctcp_case6_20M", COMPOUND, 1),
    ] {
        let Some((ours, theirs)) = both(name, sender) else {
            return;
        };
        let windows =
            |cycles: &[(f64, usize)]| median(cycles[from..].iter().map(|cycle| cycle.0).collect());
        let losses = |cycles: &[(f64, usize)]| {
            median(cycles[from..].iter().map(|cycle| cycle.1 as f64).collect())
        };
        assert!(
            is_close(windows(&ours), windows(&theirs)),
            "{name}: {} {}",
            windows(&ours),
            windows(&theirs)
        );
        // A delayed ACK's burst overflows by one or two packets, as the phase of the ACKs has it; case 2 overflows in
        // a burst of its delay window.
        let bound = if name == "ctcp_case2_50M" { 7.0 } else { 2.0 };
        assert!(
            (losses(&ours) - losses(&theirs)).abs() <= bound,
            "{name}: {} {}",
            losses(&ours),
            losses(&theirs)
        );
    }
}

#[test]
fn scheduled_losses_meet_the_kernel_s_windows() {
    let Some((ours, theirs)) = both("reno_acked_sched", SACK) else {
        return;
    };
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert!(
            is_close(ours.0, theirs.0) && ours.1 == theirs.1,
            "{ours:?} {theirs:?}"
        );
    }
}

#[test]
fn tahoe_s_slow_starts_per_cycle_are_those_of_the_kernel_and_of_the_textbook_sender() {
    for (name, cycle) in [
        ("tahoe_sat_B20", &[227.0, 105.0, 53.0][..]),
        ("tahoe_sat_B22", &[229.0, 109.0][..]),
        ("utahoe_sat_B20", &[227.0, 105.0, 53.0][..]),
    ] {
        let Some((ours, theirs)) = both(name, TAHOE) else {
            return;
        };
        let start =
            |cycles: &[(f64, usize)]| cycles.iter().rposition(|c| c.0 > 200.0).expect("a cycle");
        for side in [&ours, &theirs] {
            let windows: Vec<f64> = side[start(side)..].iter().map(|c| c.0).collect();
            assert_eq!(windows.len(), cycle.len(), "{name}: {windows:?}");
            assert!(
                windows
                    .iter()
                    .zip(cycle)
                    .all(|(w, wanted)| is_close(*w, *wanted)),
                "{name}: {windows:?}"
            );
        }
    }
}

#[test]
fn m_start_with_a_zero_step_overshoots_like_the_kernel_s() {
    let sender = r#""recovery": "sack", "slow_start": "m-start", "zero_step": true"#;
    let Some((ours, theirs)) = both("mstart_20M", sender) else {
        return;
    };
    assert!(is_close(ours[0].0, theirs[0].0), "{ours:?} {theirs:?}");
    assert!(
        is_close(ours[0].1 as f64, theirs[0].1 as f64),
        "{ours:?} {theirs:?}"
    );
}
