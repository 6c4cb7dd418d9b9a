//! BBR beside the real kernel's (`../shared/captures`): phases in the same order, bandwidth, throughput, losses.

mod oracle;

use std::path::PathBuf;

use oracle::run_with;
use serde_json::Value;
use tcptrace_core::congestion::{Bbr, Control};
use tcptrace_core::simulate::{Controls, Output};

fn read(name: &str) -> Option<(Value, usize)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/captures");
    let Ok(text) = std::fs::read_to_string(folder.join(format!("{name}.json"))) else {
        eprintln!("skipped: {} is not there", folder.display());
        return None;
    };
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let drops = std::fs::read_to_string(folder.join(format!("{name}.drops.csv"))).expect("drops");
    Some((json, drops.lines().count() - 1))
}

fn simulate(json: &Value, seed: u64) -> Output {
    let params = &json["params"];
    let node = &params["nodes"][0];
    let spec = format!(
        r#"{{"profile": "rfc", "duration_ns": {:.0}, "seed": {seed},
        "path": {{"nodes": [{{"rate_bps": {}, "buffer": {}, "delay_ns": {}}}], "return_delay_ns": {}, "packet_bytes": 1500}},
        "connections": [{{"jitter_ns": 10000, "sender": {{"window": "external", "initial_window": 10, "recovery": "sack", "limited_transmit": true,
          "rack": true, "timestamps": true, "rto": {{"granularity_ns": 200000000}}}},
          "receiver": {{"delayed_ack_segments": 2, "quickack_segments": 16, "delayed_ack_timer_ns": 40000000, "rwnd": 4194304, "sack": true}}}}]}}"#,
        params["dur"].as_f64().expect("s") * 1e9,
        node["rate_bps"],
        node["buffer_pkts"],
        node["delay_us"].as_f64().expect("delay") * 1e3,
        params["rev_delay_us"].as_f64().expect("delay") * 1e3,
    );
    let controls = Controls {
        own: vec![Some(Box::new(Bbr::new(seed)) as Box<dyn Control>)],
        ..Controls::default()
    };
    run_with(&spec, controls)
}

#[test]
fn explore() {
    for name in ["kernel/bbr_20M", "identify/bbr_plain1", "identify/bbr_plain2"] {
        let Some((json, drops)) = read(name) else { return };
        let secs: f64 = json["result"]["tx"][0][4].as_str().expect("s").parse().expect("f");
        let bytes: f64 = json["result"]["tx"][0][3].as_str().expect("s").parse().expect("f");
        println!("{name}: kernel {bytes} in {secs} = {:.3} Mbit/s, {drops} drops {}", bytes * 8.0 / secs / 1e6, json["params"]["nodes"]);
        for seed in 1..=4 {
            let output = simulate(&json, seed);
            println!(
                "  seed {seed}: acked {} = {:.3} Mbit/s, drops {}, losses {:?} timeouts {}",
                output.totals[0].acked,
                output.totals[0].acked as f64 * 8.0 / json["params"]["dur"].as_f64().expect("s") / 1e6,
                output.drops.len(),
                output.losses.iter().map(|l| (l.time_ns as f64 / 1e9, (l.cwnd_before / 1448.0).floor())).collect::<Vec<_>>(),
                output.totals[0].timeouts,
            );
        }
    }
}
