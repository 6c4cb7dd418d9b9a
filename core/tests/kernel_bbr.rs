//! BBR beside the real kernel's (`../shared/captures`): phases in the same order, bandwidth, throughput, losses.

mod oracle;

use std::io::Read;

use oracle::{reference, run_with};
use serde_json::Value;
use tcptrace_core::simulate::{Controls, Output};

const RUNS: [&str; 3] = [
    "kernel/bbr_20M",
    "identify/bbr_plain1",
    "identify/bbr_plain2",
];
const SMSS: f64 = 1448.0;

/// A run of the kernel: what it was, its drops, and its window as it changed: seconds since the SYN, segments.
struct Kernel {
    json: Value,
    drops: usize,
    windows: Vec<(f64, f64)>,
}

fn kernel(name: &str) -> Kernel {
    let of = |suffix: &str| reference(&format!("captures/{name}.{suffix}"));
    let text = std::fs::read_to_string(of("json"))
        .unwrap_or_else(|error| panic!("{}: {error}", of("json").display()));
    let drops = std::fs::read_to_string(of("drops.csv")).expect("drops");
    let file = std::fs::File::open(of("truth.csv.gz")).expect("truth");
    let mut truth = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut truth)
        .expect("gzip of text");
    let rows = truth.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |n: usize| cells[n].parse::<f64>().expect("a number");
        (number(0), number(3))
    });
    let rows: Vec<(f64, f64)> = rows.collect();
    let start = rows[0].0;
    Kernel {
        json: serde_json::from_str(&text).expect("JSON"),
        drops: drops.lines().count() - 1,
        windows: rows.iter().map(|&(at, cwnd)| (at - start, cwnd)).collect(),
    }
}

impl Kernel {
    fn seconds(&self) -> f64 {
        self.json["params"]["dur"].as_f64().expect("seconds")
    }

    /// Bits of payload per second.
    fn throughput(&self) -> f64 {
        let sent = &self.json["result"]["tx"][0];
        let number = |n: usize| sent[n].as_str().and_then(|text| text.parse::<f64>().ok());
        8.0 * number(3).expect("bytes") / number(4).expect("seconds")
    }

    /// Bits of payload per second that fit through the bottleneck.
    fn bottleneck(&self) -> f64 {
        let rate = self.json["params"]["nodes"][0]["rate_bps"].as_f64();
        rate.expect("a rate") * SMSS / 1500.0
    }

    /// Times at which the window fell to four segments for the round trip's sake, and came back.
    fn probes(&self) -> Vec<(f64, f64)> {
        probes(&self.windows)
    }
}

/// ProbeRTT holds a window of four for 200 ms and a round trip.
fn probes(windows: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut probes = Vec::new();
    let mut since = None;
    for &(at, cwnd) in windows {
        if cwnd <= 4.0 {
            since.get_or_insert(at);
        } else if let Some(from) = since.take() {
            if at - from > 0.2 {
                probes.push((from, at));
            }
        }
    }
    probes
}

fn ours(output: &Output) -> Vec<(f64, f64)> {
    let rows = output.truth.iter();
    rows.map(|row| (row.time_ns as f64 / 1e9, (row.cwnd / SMSS).floor()))
        .collect()
}

fn simulate(kernel: &Kernel, seed: u64) -> Output {
    let params = &kernel.json["params"];
    let node = &params["nodes"][0];
    let spec = format!(
        r#"{{"profile": "rfc", "duration_s": {}, "seed": {seed},
        "path": {{"nodes": [{{"rate_bps": {}, "buffer": {}, "delay_s": {}}}], "return_delay_s": {}, "packet_bytes": 1500}},
        "connections": [{{"jitter_s": 1e-05, "control": {{"window": "bbr", "bbr_seed": {seed}, "initial_window": 10, "recovery": "sack", "limited_transmit": true,
          "rack": true, "timestamps": true, "rto": {{"granularity_s": 0.2}}}},
          "receiver": {{"delayed_ack_segments": 2, "quickack_segments": 16, "delayed_ack_timer_s": 0.04, "rwnd": 4194304, "sack": true}}}}]}}"#,
        params["dur"],
        node["rate_bps"],
        node["buffer_pkts"],
        node["delay_us"].as_f64().expect("delay") / 1e6,
        params["rev_delay_us"].as_f64().expect("delay") / 1e6,
    );
    run_with(&spec, Controls::default())
}

/// A column of what BBR holds in mind: seconds, value.
fn held(output: &Output, wanted: &str) -> Vec<(f64, f64)> {
    let columns = output.control_columns();
    let (_, values) = columns
        .into_iter()
        .find(|(name, _)| *name == wanted)
        .expect("a value of BBR's");
    let times = output.truth.iter().map(|row| row.time_ns as f64 / 1e9);
    times.zip(values).collect()
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn throughput_is_the_kernel_s_within_three_percent_and_losses_within_a_tenth() {
    for name in RUNS {
        let kernel = kernel(name);
        for seed in 1..=3 {
            let output = simulate(&kernel, seed);
            let bps = 8.0 * output.totals[0].acked as f64 / kernel.seconds();
            let off = bps / kernel.throughput() - 1.0;
            println!(
                "{name}: {off:+.4} of throughput, {} drops, {} there",
                output.drops.len(),
                kernel.drops
            );
            assert!(off.abs() < 0.03, "{name}: {off}");
            let drops = output.drops.len().abs_diff(kernel.drops);
            assert!(
                drops as f64 <= (0.1 * kernel.drops as f64).max(1.0),
                "{name}: {drops}"
            );
            assert_eq!(output.totals[0].timeouts, 0);
        }
    }
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn the_bandwidth_it_holds_is_the_bottleneck_s_within_two_percent() {
    for name in RUNS {
        let kernel = kernel(name);
        let output = simulate(&kernel, 1);
        let held: Vec<f64> = held(&output, "bottleneck_bps")
            .iter()
            .filter(|(at, _)| *at > 3.0)
            .map(|(_, bps)| bps / kernel.bottleneck() - 1.0)
            .collect();
        let mut sorted = held.clone();
        sorted.sort_by(f64::total_cmp);
        println!(
            "{name}: {:?} {:?} {:?}",
            sorted[0],
            sorted[held.len() / 2],
            sorted[held.len() - 1]
        );
        let within = held.iter().filter(|off| off.abs() < 0.02).count();
        assert!(
            within as f64 > 0.95 * held.len() as f64,
            "{name}: {within} of {}",
            held.len()
        );
    }
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn probe_rtt_comes_when_the_kernel_s_does_and_lasts_as_long() {
    for name in RUNS {
        let kernel = kernel(name);
        let (theirs, ours) = (kernel.probes(), probes(&ours(&simulate(&kernel, 1))));
        println!("{name}\n  {theirs:?}\n  {ours:?}");
        assert_eq!(ours.len(), theirs.len(), "{name}");
        // The first ends ten seconds after the handshake's round trip. Later ones depend on when an ACK came a microsecond
        // sooner than any before.
        assert!((ours[0].0 - theirs[0].0).abs() < 0.02, "{name}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let (ours, theirs) = (ours.1 - ours.0, theirs.1 - theirs.0);
            assert!((ours - theirs).abs() < 0.05, "{name}: {ours} {theirs}");
        }
        for probes in [&ours, &theirs] {
            let gaps = probes.windows(2).map(|pair| pair[1].0 - pair[0].0);
            assert!(
                gaps.into_iter().all(|gap| (10.0..11.5).contains(&gap)),
                "{name}"
            );
        }
    }
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn phases_follow_each_other_as_the_draft_has_them() {
    for name in RUNS {
        let kernel = kernel(name);
        let output = simulate(&kernel, 1);
        let mut modes: Vec<f64> = held(&output, "bbr_mode")
            .iter()
            .map(|(_, mode)| *mode)
            .collect();
        modes.dedup();
        println!("{name}: {modes:?}");
        // Startup, Drain, ProbeBW; then ProbeRTT and back as often as the kernel.
        assert_eq!(modes[..3], [0.0, 1.0, 2.0], "{name}");
        assert!(
            modes[3..]
                .iter()
                .zip([3.0, 2.0].iter().cycle())
                .all(|(a, b)| a == b)
        );
        assert_eq!(modes.len() - 3, 2 * kernel.probes().len(), "{name}");
    }
}
