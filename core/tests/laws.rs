//! Laws that hold for every sender: all data arrives in order, nothing is lost from the books, same seed same run.

mod oracle;

use oracle::run;
use tcptrace_core::congestion::{
    Counting, Parameters, Profile, SLOW_STARTS, WINDOWS, WindowRow, slow_start,
};
use tcptrace_core::network::Random;
use tcptrace_core::simulate::Output;

const RECOVERIES: [&str; 5] = ["tahoe", "reno", "newreno", "sack", "fack"];

/// 300 kB over a lossy path of two nodes, with losses of data and ACKs.
fn lossy(sender: &str, receiver: &str, seed: u64) -> String {
    format!(
        r#"{{"profile": "rfc", "duration_s": 400, "seed": {seed}, "record_events": true,
        "path": {{"nodes": [{{"rate_bps": 2e7}},
                            {{"rate_bps": 4e6, "buffer": 12, "delay_s": 0.015, "loss": 0.02, "drop_packets": [3, 30, 31]}}],
                  "return_delay_s": 0.015, "ack_loss": 0.05}},
        "connections": [{{"control": {{"timestamps": true, {sender}}}, "receiver": {{{receiver}}},
                          "application": {{"kind": "bytes", "bytes": 300001}}}}]}}"#
    )
}

fn check_books(output: &Output, what: &str) {
    for node in &output.nodes {
        assert!(
            node.is_conserved,
            "{what}: packets in = out + queued + dropped"
        );
    }
    for row in &output.truth {
        assert!(
            row.cwnd >= f64::from(output.smss[row.connection as usize]) * 0.999,
            "{what}: {row:?}"
        );
        assert!(row.snd_una <= row.snd_nxt, "{what}: {row:?}");
    }
}

#[test]
fn every_sender_delivers_everything_over_a_lossy_path() {
    for recovery in RECOVERIES {
        for row in WINDOWS {
            if !row.profiles.contains(&Profile::Rfc) {
                continue;
            }
            for slow_start in SLOW_STARTS.iter().filter(|known| row.takes(known)) {
                let (window, slow_start) = (row.name, slow_start.name);
                let sender = format!(
                    r#""recovery": "{recovery}", "window": "{window}", "slow_start": "{slow_start}", "initial_window": 4"#
                );
                let output = run(&lossy(&sender, r#""delayed_ack_segments": 2"#, 7));
                let what = format!("{recovery} {window} {slow_start}");
                assert_eq!(
                    output.totals[0].delivered, 300_001,
                    "{what}: {:?}",
                    output.totals[0]
                );
                assert_eq!(
                    output.totals[0].acked, 300_001,
                    "{what}: {:?}",
                    output.totals[0]
                );
                check_books(&output, &what);
            }
        }
    }
}

#[test]
fn no_seed_and_no_option_keeps_data_from_arriving() {
    for seed in 0..30 {
        for recovery in RECOVERIES {
            let limited = seed % 2 == 0;
            let prr = seed % 3 == 0;
            let sender =
                format!(r#""recovery": "{recovery}", "limited_transmit": {limited}, "prr": {prr}"#);
            let receiver = match seed % 4 {
                0 => r#""rwnd": 20000, "reader_bps": 2e6"#,
                1 => r#""sack": false"#,
                2 => r#""rwnd": 3000"#,
                _ => r#""delayed_ack_segments": 2, "quickack_segments": 4"#,
            };
            let output = run(&lossy(&sender, receiver, seed));
            let what = format!("{recovery}, seed {seed}");
            assert_eq!(
                output.totals[0].delivered, 300_001,
                "{what}: {:?}",
                output.totals[0]
            );
            check_books(&output, &what);
        }
    }
}

fn has_a_rate(row: &WindowRow) -> bool {
    let standard = slow_start("standard").expect("a row of the table");
    let counting = Counting {
        profile: Profile::Rfc,
        segment_bytes: 1448,
    };
    row.profiles.contains(&Profile::Rfc)
        && row
            .under(standard, &Parameters::default(), counting)
            .pacing_rate()
            .is_some()
}

/// A bottleneck of 0.5 to 50 Mbit/s and 5 to 300 ms, a buffer of a tenth of a pipe to two, random losses on half of them.
fn random_path(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut between = |low: f64, high: f64| {
        low * (high / low).powf(random.below(1 << 20) as f64 / f64::from(1 << 20))
    };
    let (rate, rtt_s) = (between(5e5, 5e7), between(0.005, 0.3));
    let pipe = rate * rtt_s / 12_000.0;
    let buffer = (pipe * between(0.1, 2.0)).max(4.0) as u64;
    let loss = if seed % 2 == 0 {
        0.0
    } else {
        between(1e-4, 3e-2)
    };
    let duration_s = (40.0 * rtt_s).max(2.0);
    let half_s = rtt_s / 2.0;
    format!(
        r#""duration_s": {duration_s}, "seed": {seed}, "path": {{"return_delay_s": {half_s}, "nodes":
        [{{"rate_bps": {rate}, "buffer": {buffer}, "delay_s": {half_s}, "loss": {loss}}}]}}"#
    )
}

#[test]
fn a_sender_by_rate_never_paces_at_nothing_while_it_has_data() {
    let by_rate: Vec<_> = WINDOWS.iter().filter(|row| has_a_rate(row)).collect();
    assert!(!by_rate.is_empty());
    for row in by_rate {
        for (seed, recovery) in (0..40).flat_map(|seed| RECOVERIES.map(|recovery| (seed, recovery)))
        {
            let output = run(&format!(
                r#"{{"profile": "rfc", {}, "connections": [{{"control": {{"window": "{}", "recovery": "{recovery}"}}}}]}}"#,
                random_path(seed),
                row.name
            ));
            let columns = output.control_columns();
            let (_, rates) = columns
                .iter()
                .find(|(name, _)| *name == "pacing_bps")
                .expect("it shows its rate");
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(least > 0.0, "{} {recovery}, seed {seed}: {least}", row.name);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let text = |seed| {
        format!(
            "{:?}",
            run(&lossy(r#""recovery": "sack""#, "", seed)).events
        )
    };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
}

#[test]
fn a_receiver_s_window_bounds_what_is_outstanding() {
    let output = run(r#"{"profile": "rfc", "duration_s": 5,
        "path": {"nodes": [{"rate_bps": 1e7, "buffer": 100, "delay_s": 0.04}], "return_delay_s": 0.04},
        "connections": [{"control": {"recovery": "sack", "initial_window": 10}, "receiver": {"rwnd": 60000}}]}"#);
    assert!(output.drops.is_empty());
    for row in &output.truth {
        assert!(
            row.flight_size <= 65_535.0_f64.min(row.rwnd.max(60_000.0)),
            "{row:?}"
        );
    }
    // 60000 B per 81.2 ms.
    let rate = output.totals[0].delivered as f64 / 5.0;
    assert!((650_000.0..740_000.0).contains(&rate), "{rate}");
}

#[test]
fn connections_there_and_back_share_the_nodes_with_each_other_s_acks() {
    let output = run(r#"{"profile": "rfc", "duration_s": 20,
        "path": {"nodes": [{"rate_bps": 8e6, "buffer": 30, "delay_s": 0.02}],
                 "reverse": [{"rate_bps": 8e6, "buffer": 30, "delay_s": 0.02}]},
        "connections": [{"control": {"recovery": "sack"}}, {"control": {"recovery": "sack", "window": "cubic"}, "start_s": 1},
                        {"control": {"recovery": "newreno"}, "reverse": true, "extra_delay_s": 0.01}]}"#);
    check_books(&output, "there and back");
    let rates: Vec<f64> = output
        .totals
        .iter()
        .map(|totals| totals.delivered as f64 * 8.0 / 20.0)
        .collect();
    // The two that share a direction fill it, the third has the other to itself.
    assert!((6e6..8e6).contains(&(rates[0] + rates[1])), "{rates:?}");
    assert!(
        rates[0] > 1e6 && rates[1] > 1e6 && rates[2] > 4e6,
        "{rates:?}"
    );
}

#[test]
fn an_idle_sender_starts_again_from_the_restart_window() {
    let cwnd_at_second_write = |restarts: bool| {
        let output = run(&format!(
            r#"{{"profile": "rfc", "duration_s": 12,
            "path": {{"nodes": [{{"rate_bps": 1e7, "buffer": 200, "delay_s": 0.03}}], "return_delay_s": 0.03}},
            "connections": [{{"control": {{"recovery": "sack", "initial_window": 10, "slow_start_after_idle": {restarts}}},
              "application": {{"kind": "on_off", "bytes": 150000, "off_s": 5, "repeats": 2}}}}]}}"#
        ));
        assert_eq!(output.totals[0].delivered, 300_000);
        let last = output
            .truth
            .iter()
            .rfind(|row| row.time_ns <= 5_000_000_001)
            .expect("a row");
        last.cwnd / f64::from(output.smss[0])
    };
    assert_eq!(cwnd_at_second_write(true), 10.0);
    assert!(cwnd_at_second_write(false) > 50.0);
}

#[test]
fn a_lost_syn_is_sent_again_after_the_initial_timeout() {
    let output = run(
        r#"{"profile": "rfc", "duration_s": 9, "seed": 3, "record_events": true,
        "path": {"nodes": [{"rate_bps": 1e7, "delay_s": 0.01}], "return_delay_s": 0.01, "ack_loss": 0.9},
        "connections": [{"application": {"kind": "bytes", "bytes": 1000}}]}"#,
    );
    let sends: Vec<i64> = output
        .events
        .iter()
        .filter(|e| e.connection == 0 && !e.is_data)
        .map(|e| e.time_ns)
        .collect();
    assert_eq!(sends[0], 0);
    assert!(output.drops.iter().all(|drop| !drop.is_data));
}

#[test]
fn more_than_64_bits_can_count_is_endless() {
    // 10,000 writes of 2^53 bytes.
    let output = run(r#"{"profile": "rfc", "duration_s": 0.01,
        "path": {"nodes": [{"rate_bps": 1e9, "buffer": 100, "delay_s": 1e-5}], "return_delay_s": 1e-5},
        "connections": [{"application": {"kind": "on_off", "bytes": 9007199254740992, "off_s": 1e-6}}]}"#);
    assert!(output.totals[0].acked > 100_000);
}
