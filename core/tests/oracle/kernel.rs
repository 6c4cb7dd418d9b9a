//! Runs of the real kernel (`../shared/captures`), simulated as they were made: windows and drops per cycle of both.

use serde_json::Value;
use tcptrace_core::congestion::{Control, Pair, Standard};
use tcptrace_core::simulate::{Controls, Output};

use super::lab_ctcp::LabCtcp;
use super::{reference, run_with};

/// A run's JSON and the offsets of the times at which the emulator dropped data.
pub struct Kernel {
    pub json: Value,
    pub drop_times: Vec<f64>,
    /// Wire numbers of the dropped data.
    pub drop_seqs: Vec<u32>,
}

impl Kernel {
    pub fn loss_events(&self) -> &[Value] {
        let measured = self.json["measured"].as_object().expect("measured");
        let flow = measured
            .values()
            .find(|value| value["loss_events"].is_array())
            .expect("a flow");
        flow["loss_events"].as_array().expect("events")
    }

    /// When the first loss was noticed.
    pub fn first_loss(&self) -> f64 {
        self.loss_events()[0]["t"].as_f64().expect("time")
    }
}

pub fn kernel(name: &str) -> Kernel {
    kernel_in("kernel", name)
}

pub fn kernel_in(folder: &str, name: &str) -> Kernel {
    let of = |suffix: &str| reference(&format!("captures/{folder}/{name}.{suffix}"));
    let text = std::fs::read_to_string(of("json"))
        .unwrap_or_else(|error| panic!("{}: {error}", of("json").display()));
    let drops = std::fs::read_to_string(of("drops.csv")).expect("drops beside the JSON");
    let rows = || drops.lines().skip(1);
    let time = |line: &str| line.split(',').next().and_then(|cell| cell.parse().ok());
    let seq = |line: &str| line.split(',').nth(5).and_then(|cell| cell.parse().ok());
    Kernel {
        json: serde_json::from_str(&text).expect("JSON"),
        drop_times: rows().filter_map(time).collect(),
        drop_seqs: rows().filter_map(seq).collect(),
    }
}

/// How punctual the sender's host is.
#[derive(Clone, Copy, Default)]
pub struct Host {
    seed: u64,
    jitter_s: f64,
}

impl Host {
    /// In the captures data leaves 3 to 12 us after the ACK that lets it go (1st to 99th percentile).
    pub fn real(seed: u64) -> Self {
        Self {
            seed,
            jitter_s: 10e-6,
        }
    }
}

/// The scenario of a kernel run: its path and options, the sender as given; data packets lost on the way to the first
/// node by number, if any.
pub fn simulate(kernel: &Kernel, sender: &str, host: Host, forced: &[usize]) -> Output {
    let params = &kernel.json["params"];
    let nodes: Vec<String> = params["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .enumerate()
        .map(|(n, node)| {
            let drops = match &params["drop_nth"] {
                Value::Null if n == 0 => format!("{forced:?}"),
                Value::Null => "[]".to_owned(),
                given => given.to_string(),
            };
            let delay_s = node["delay_us"].as_f64().expect("delay") / 1e6;
            format!(
                r#"{{"rate_bps": {}, "buffer": {}, "delay_s": {delay_s}, "loss": {}, "drop_packets": {drops}}}"#,
                node["rate_bps"], node["buffer_pkts"], node["loss"]
            )
        })
        .collect();
    let quickack = params["quickack"] == 1;
    let duration_s = params["dur"].as_f64().expect("duration");
    let initial_window = params["initcwnd"]
        .as_u64()
        .unwrap_or(if kernel.json["cc"] == "utahoe" { 1 } else { 10 });
    // Linux: RTO = SRTT + max(4 RTTVAR, 200 ms). It sends for every SACK; the Tahoe of these runs does not.
    let limited_transmit = sender != TAHOE;
    let own = (sender == LAB_CTCP).then(|| {
        let name = params["flows"][0]["cc"].as_str().expect("a module");
        let gamma = if name.starts_with("lab_ctcpg90") {
            90
        } else {
            30
        };
        Box::new(Pair {
            slow_start: Standard {
                byte_counting: true,
            },
            window: LabCtcp::new(gamma),
        }) as Box<dyn Control>
    });
    let controls = Controls {
        own: vec![own],
        ..Controls::default()
    };
    let json = format!(
        r#"{{"profile": "rfc", "record_events": {}, "seed": {}, "duration_s": {duration_s}, "ipv6": {},
        "path": {{"nodes": [{}], "return_delay_s": {}, "packet_bytes": {}}},
        "connections": [{{"control": {{"initial_window": {initial_window}, "limited_transmit": {limited_transmit}, "rto": {{"granularity_s": 0.2}}, "timestamps": {}, {sender}}},
          "jitter_s": {}, "receiver": {{"stack": "linux", "delayed_ack_segments": {}, "delayed_ack_timer_s": 0.04,
                        "initial_rwnd": 4194304, "rwnd": 67108864, "sack": {}}}}}]}}"#,
        sender == TAHOE,
        host.seed,
        params["v6"],
        nodes.join(", "),
        params["rev_delay_us"].as_f64().expect("delay") / 1e6,
        params["mtu"],
        params["ts"] == 1,
        host.jitter_s,
        if quickack { 1 } else { 2 },
        params["sack"] == 1,
    );
    run_with(&json, controls)
}

/// (window in segments at the loss event, packets dropped since the last one), in order of time.
pub type LossCycles = Vec<(f64, usize)>;

pub fn kernel_cycles(kernel: &Kernel) -> LossCycles {
    let events = kernel.loss_events();
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

pub fn our_cycles(output: &Output) -> LossCycles {
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
pub const SACK: &str = r#""recovery": "sack", "window": "reno-linux""#;
pub const NEWRENO: &str = r#""recovery": "newreno", "window": "reno-linux""#;
pub const CUBIC: &str = r#""recovery": "sack", "window": "cubic-linux""#;
pub const COMPOUND: &str =
    r#""stack": "linux", "byte_counting": true, "recovery": "sack", "window": "compound-draft""#;
pub const COMPOUND_G90: &str = r#""stack": "linux", "byte_counting": true, "recovery": "sack", "window": "compound-draft", "gamma": 90"#;
/// The runs' own module, from whole packets (`oracle/lab_ctcp.rs`).
pub const LAB_CTCP: &str = r#""stack": "linux", "byte_counting": true, "recovery": "sack""#;
pub const TAHOE: &str = r#""recovery": "tahoe""#;

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn is_close(ours: f64, kernel: f64) -> bool {
    // One segment is more than 2 % of a window below 50.
    (ours - kernel).abs() <= (0.02 * kernel).max(1.0)
}

/// Both sides' cycles.
pub fn both(name: &str, sender: &str) -> (LossCycles, LossCycles) {
    both_with(name, sender, Host::default())
}

pub fn both_with(name: &str, sender: &str, host: Host) -> (LossCycles, LossCycles) {
    let kernel = kernel(name);
    let output = simulate(&kernel, sender, host, &[]);
    let (ours, theirs) = (our_cycles(&output), kernel_cycles(&kernel));
    println!("{name}\n  kernel {theirs:?}\n  ours   {ours:?}");
    (ours, theirs)
}
