//! Cost per packet: printed, and held to be independent of the window (`cargo test --release -- --ignored`).

mod oracle;

use std::time::Instant;

use oracle::run;

/// Nanoseconds per data packet of a run in which the window is `window` packets all the time.
fn ns_per_packet(window: u64) -> f64 {
    let seconds = 2_000_000 / (window * 10);
    let text = format!(
        r#"{{"profile": "ns2", "duration_s": {}, "record_truth": false,
        "path": {{"packet_bytes": 1500, "nodes": [{{"rate_bps": 1e11, "delay_s": 0.05}}], "return_delay_s": 0.05}},
        "connections": [{{"control": {{"recovery": "sack", "max_window": {window}, "initial_window": {window}}}}}]}}"#,
        seconds.max(1)
    );
    let begun = Instant::now();
    let output = run(&text);
    begun.elapsed().as_nanos() as f64 / output.totals[0].packets_sent as f64
}

#[test]
#[ignore = "a measurement: for optimised builds"]
fn long_a_packet_costs_the_same_at_every_window() {
    let costs: Vec<(u64, f64)> = [10, 100, 1000, 10_000, 100_000]
        .map(|window| (window, ns_per_packet(window)))
        .to_vec();
    println!("{costs:?}");
    let least = costs.iter().map(|cost| cost.1).fold(f64::MAX, f64::min);
    // Memory beyond the caches costs something; a scan of the window would cost thousands of times as much.
    assert!(costs.iter().all(|cost| cost.1 < 6.0 * least), "{costs:?}");
}

#[test]
#[ignore = "a measurement: for optimised builds"]
fn long_packets_per_second() {
    for (name, text) in [
        (
            "Tahoe on the satellite path, 600 s",
            r#"{"profile": "ns2", "duration_s": 600, "record_truth": false,
            "path": {"packet_bytes": 512,
              "nodes": [{"rate_bps": 1e7}, {"rate_bps": 1.5e6, "buffer": 21, "counts_in_service": true, "delay_s": 0.28}],
              "reverse": [{"rate_bps": 1.5e6, "delay_s": 0.28}, {"rate_bps": 1e7}]},
            "connections": [{"control": {"recovery": "tahoe", "rto": {"initial_s": 3, "granularity_s": 0.01}},
                             "receiver": {"sack": false}}]}"#,
        ),
        (
            "Compound at 100 Mbit/s, 100 s",
            r#"{"profile": "ns2", "duration_s": 100, "record_truth": false,
            "path": {"packet_bytes": 1500,
              "nodes": [{"rate_bps": 1e10}, {"rate_bps": 1e8, "buffer": 80, "counts_in_service": true, "delay_s": 0.025}],
              "reverse": [{"rate_bps": 1e8, "delay_s": 0.025}, {"rate_bps": 1e10}]},
            "connections": [{"control": {"window": "compound", "recovery": "sack", "timestamps": true, "initial_window": 2}}]}"#,
        ),
    ] {
        let best = (0..9)
            .map(|_| {
                let begun = Instant::now();
                let output = run(text);
                (begun.elapsed(), output.totals[0].packets_sent)
            })
            .min()
            .expect("runs");
        println!(
            "{name}: {} packets in {:?}: {:.1} M/s",
            best.1,
            best.0,
            best.1 as f64 / best.0.as_secs_f64() / 1e6
        );
    }
}
