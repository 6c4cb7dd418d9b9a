//! ns-2.35's own traces, event for event: our runs of it (`tests/data/ns2`), further networks from the reference data.

mod oracle;

use oracle::{Csv, events_like_ns, own_csv, reference_csv, run};
use tcptrace_core::recovery::DetectedBy;
use tcptrace_core::simulate::Output;

/// Paper 000's satellite path: 10 Mbit/s access, 1.5 Mbit/s bottleneck with `limit` packets, 280 ms each way.
fn satellite(limit: u64, duration_s: u64, record_events: bool) -> Output {
    run(&format!(
        r#"{{"profile": "ns2", "duration_s": {duration_s}, "record_events": {record_events},
        "path": {{"packet_bytes": 512,
          "nodes": [{{"rate_bps": 1e7}}, {{"rate_bps": 1.5e6, "buffer": {limit}, "counts_in_service": true, "delay_s": 0.28}}],
          "reverse": [{{"rate_bps": 1.5e6, "delay_s": 0.28}}, {{"rate_bps": 1e7}}]}},
        "connections": [{{"control": {{"recovery": "tahoe", "rto": {{"initial_s": 3, "granularity_s": 0.01}}}},
          "receiver": {{"sack": false}}}}]}}"#
    ))
}

#[test]
fn tahoe_on_the_satellite_path_gives_ns_s_events() {
    for limit in [6, 20, 21, 23] {
        let wanted = own_csv(&format!("tahoe_events_paper_q{limit}"));
        let output = satellite(limit, 60, true);
        let got = events_like_ns(&output, 1);
        oracle::compare_events(&wanted, &got, &format!("q = {limit}"));
    }
}

/// RFC 2416's path: fast link, 1.5 Mbit/s, then a 9600 bit/s modem with 3 packets of buffer.
fn modem(case: &str, record_events: bool) -> Output {
    let mut parts = case.split('_');
    let tcp = parts.next().expect("tcp");
    let initial_window = parts
        .next()
        .and_then(|part| part.strip_prefix("iw"))
        .expect("window");
    let bytes = parts.next().expect("bytes");
    let (mut tick_s, mut receiver) = (0.01, String::new());
    for part in parts {
        if part == "tick0.1" {
            tick_s = 0.1;
        } else if let Some(seconds) = part.strip_prefix("delack") {
            receiver = format!(r#""delayed_ack_segments": 2, "delayed_ack_timer_s": {seconds}"#);
        }
    }
    let nodes = |modem_first: bool| {
        let mut nodes = [
            r#"{"rate_bps": 1e8, "buffer": 100, "counts_in_service": true}"#,
            r#"{"rate_bps": 1.5e6, "buffer": 100, "counts_in_service": true, "delay_s": 0.025}"#,
            r#"{"rate_bps": 9600, "buffer": 3, "counts_in_service": true, "delay_s": 0.15}"#,
        ];
        if modem_first {
            nodes.reverse();
        }
        nodes.join(", ")
    };
    run(&format!(
        r#"{{"profile": "ns2", "duration_s": 60, "record_events": {record_events},
        "path": {{"packet_bytes": {bytes}, "nodes": [{}], "reverse": [{}]}},
        "connections": [{{"control": {{"recovery": "{tcp}", "initial_window": {initial_window}, "max_window": 20,
            "rto": {{"initial_s": 3, "granularity_s": {tick_s}}}}},
          "receiver": {{{receiver}}}}}]}}"#,
        nodes(false),
        nodes(true)
    ))
}

#[test]
fn every_case_of_rfc_2416_gives_ns_s_events() {
    let wanted = own_csv("rfc2416_events");
    let mut cases: Vec<&str> = wanted
        .rows
        .iter()
        .map(|row| wanted.get(row, "case"))
        .collect();
    cases.dedup();
    for case in cases {
        let got: Vec<_> = events_like_ns(&modem(case, true), 2)
            .into_iter()
            .filter_map(|(at, node, kind, number, bytes)| {
                let kind = match (node, kind) {
                    ("S", kind) => kind,
                    ("R", "drop") => "drop_at_R2",
                    ("D", "recv") => "deliver",
                    _ => return None,
                };
                Some((at, kind, number + 1, bytes))
            })
            .collect();
        let rows: Vec<_> = wanted
            .rows
            .iter()
            .filter(|row| wanted.get(row, "case") == case)
            .collect();
        for (line, row) in rows.iter().enumerate() {
            let Some(&(at, kind, number, bytes)) = got.get(line) else {
                panic!("{case}: no row {line} {row:?}")
            };
            let time_ns = wanted.number(row, "t_s") * 1e9;
            assert_eq!(
                kind,
                wanted.get(row, "event"),
                "{case} row {line}: {row:?} got {at}"
            );
            assert_eq!(
                number as f64,
                wanted.number(row, "packet_number_from_1"),
                "{case} row {line}: {row:?} at {at}"
            );
            assert!(
                (at as f64 - time_ns).abs() <= 1000.0,
                "{case} row {line}: {row:?} got {at}"
            );
            assert_eq!(
                f64::from(bytes),
                wanted.number(row, "size_bytes"),
                "{case} row {line}: {row:?}"
            );
        }
        assert_eq!(got.len(), rows.len(), "{case}");
    }
}

/// Paper 003's path: 10 Gbit/s access, a bottleneck of `limit` packets in the middle of a round trip of `tau_ms`.
fn compound(
    mbps: f64,
    tau_ms: f64,
    limit: Option<u64>,
    duration_s: f64,
    more: &str,
    record_events: bool,
) -> Output {
    let limit = limit.map_or("null".to_owned(), |limit| limit.to_string());
    let (rate, delay) = (mbps * 1e6, tau_ms / 2e3);
    run(&format!(
        r#"{{"profile": "ns2", "duration_s": {duration_s}, "record_events": {record_events},
        "path": {{"packet_bytes": 1500,
          "nodes": [{{"rate_bps": 1e10}}, {{"rate_bps": {rate}, "buffer": {limit}, "counts_in_service": true, "delay_s": {delay}}}],
          "reverse": [{{"rate_bps": {rate}, "delay_s": {delay}}}, {{"rate_bps": 1e10}}]}},
        "connections": [{{"control": {{"window": "compound", "recovery": "sack", "timestamps": true, "initial_window": 2,
          "rto": {{"initial_s": 3, "max_s": 120}}{more}}}}}]}}"#
    ))
}

#[test]
fn compound_case_4_gives_ns_s_events() {
    let wanted = own_csv("compound_case4_events");
    let output = compound(100.0, 50.0, Some(80), 17.0, "", true);
    let window = |from: i64, to: i64| from..=to;
    let (first, second) = (
        window(0, 2_200_000_000),
        window(16_200_000_000, 16_800_000_000),
    );
    let got: Vec<_> = events_like_ns(&output, 1)
        .into_iter()
        .filter(|&(at, ..)| first.contains(&at) || second.contains(&at))
        .collect();
    oracle::compare_events(&wanted, &got, "case 4");
}

/// A run of `tahoe_sweep.csv`: its configuration's differences from paper 000's path.
fn sweep(config: &str, limit: u64) -> Output {
    let (tick_s, bytes, syn, limited) = match config {
        "paper" | "grid" => (0.01, 512, false, false),
        "paper_tick0.1" => (0.1, 512, false, false),
        "paper_hdr" => (0.01, 552, true, false),
        "paper_limtx" => (0.01, 512, false, true),
        other => panic!("unknown configuration {other}"),
    };
    let (access, bottleneck, back, delay, duration_s) = if config == "grid" {
        // Every duration is a multiple of 2^-9 s.
        (2_097_152.0, 262_144.0, [163_840.0, 163_840.0], 1.5625, 3600)
    } else {
        (1e7, 1.5e6, [1.5e6, 1e7], 0.28, 600)
    };
    run(&format!(
        r#"{{"profile": "ns2", "duration_s": {duration_s}, "record_truth": false,
        "path": {{"packet_bytes": {bytes},
          "nodes": [{{"rate_bps": {access}}},
                    {{"rate_bps": {bottleneck}, "buffer": {limit}, "counts_in_service": true, "delay_s": {delay}}}],
          "reverse": [{{"rate_bps": {}, "delay_s": {delay}}}, {{"rate_bps": {}}}]}},
        "connections": [{{"control": {{"recovery": "tahoe", "syn": {syn}, "limited_transmit": {limited},
            "rto": {{"initial_s": 3, "granularity_s": {tick_s}}}}},
          "receiver": {{"sack": false}}}}]}}"#,
        back[0], back[1]
    ))
}

/// Every reduction of a run at ns's time, for ns's reason and to ns's ssthresh; the run's totals are ns's.
fn sweep_agrees(sweep_rows: &Csv, reductions: &Csv, row: &[String]) {
    let (config, q) = (
        sweep_rows.get(row, "config"),
        sweep_rows.get(row, "q_ns_limit_pkts"),
    );
    let output = sweep(config, q.parse().expect("a limit"));
    let (config_at, q_at) = (
        reductions.column("config"),
        reductions.column("q_ns_limit_pkts"),
    );
    let wanted: Vec<_> = reductions
        .rows
        .iter()
        .filter(|r| r[config_at] == config && r[q_at] == q)
        .collect();
    for (number, (wanted, got)) in wanted.iter().zip(&output.losses).enumerate() {
        let what = format!("{config} q = {q}, reduction {number}: {wanted:?}, got {got:?}");
        let cause = if got.detected_by == DetectedBy::Rto {
            "timeout"
        } else {
            "dupack"
        };
        assert_eq!(cause, reductions.get(wanted, "cause"), "{what}");
        // Times have five decimals, windows three.
        assert!(
            (got.time_ns as f64 / 1e9 - reductions.number(wanted, "t_s")).abs() < 1e-5,
            "{what}"
        );
        assert!(
            (got.cwnd_before - reductions.number(wanted, "cwnd_before_pkts")).abs() < 1e-3,
            "{what}"
        );
        assert_eq!(
            got.ssthresh_after,
            reductions.number(wanted, "ssthresh_after_pkts"),
            "{what}"
        );
    }
    assert_eq!(
        output.losses.len(),
        wanted.len(),
        "{config} q = {q}: reductions"
    );
    let totals = output.totals[0];
    for (name, got) in [
        ("timeouts", totals.timeouts),
        ("packets_sent", totals.packets_sent),
        ("retransmissions", totals.retransmissions),
    ] {
        assert_eq!(
            got as f64,
            sweep_rows.number(row, name),
            "{config} q = {q}: {name}"
        );
    }
    // ns's acknowledgement number counts packets from 0: one less than there are.
    let throughput = (totals.acked - 1) as f64 * 1e9 / output.duration_ns as f64;
    let wanted = sweep_rows.number(row, "throughput_whole_run_pkt_per_s");
    assert!(
        (throughput - wanted).abs() < 1e-3,
        "{config} q = {q}: {throughput} {wanted}"
    );
}

/// The runs of the sweep that `takes` chooses.
fn tahoe_sweep([sweep_rows, reductions]: [Csv; 2], takes: impl Fn(usize) -> bool) {
    for (number, row) in sweep_rows.rows.iter().enumerate() {
        if takes(number) {
            sweep_agrees(&sweep_rows, &reductions, row);
        }
    }
}

#[test]
fn some_runs_of_the_sweep_have_ns_s_reductions_and_totals() {
    let tables = ["tahoe_sweep", "tahoe_reductions"].map(own_csv);
    tahoe_sweep(tables, |number| number % 9 == 0);
}

#[test]
#[ignore = "reference data: ../shared/oracles/ns2"]
fn some_runs_of_other_networks_have_ns_s_reductions_and_totals() {
    let tables = ["tahoe_sweep.csv", "tahoe_reductions.csv"].map(reference_csv);
    tahoe_sweep(tables, |number| number % 23 == 0);
}

#[test]
#[ignore = "reference data: ../shared/oracles/ns2; all 340 runs: a quarter of a minute"]
fn long_every_run_of_the_sweep_has_ns_s_reductions_and_totals() {
    let tables = ["tahoe_sweep.csv", "tahoe_reductions.csv"].map(reference_csv);
    tahoe_sweep(tables, |_| true);
}
