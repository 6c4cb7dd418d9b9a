//! ns-2.35's own traces, event for event (`../shared/oracles/ns2`); skipped where they are absent.

mod oracle;

use oracle::{events_like_ns, read_csv, run};
use tcptrace_core::simulate::Output;

/// Paper 000's satellite path: 10 Mbit/s access, 1.5 Mbit/s bottleneck with `limit` packets, 280 ms each way.
fn satellite(limit: u64, duration_s: u64, record_events: bool) -> Output {
    run(&format!(
        r#"{{"profile": "ns2", "duration_ns": {duration_s}000000000, "record_events": {record_events},
        "path": {{"packet_bytes": 512,
          "nodes": [{{"rate_bps": 1e7}}, {{"rate_bps": 1.5e6, "buffer": {limit}, "counts_in_service": true, "delay_ns": 280e6}}],
          "reverse": [{{"rate_bps": 1.5e6, "delay_ns": 280e6}}, {{"rate_bps": 1e7}}]}},
        "connections": [{{"sender": {{"recovery": "tahoe", "rto": {{"initial_ns": 3000000000, "granularity_ns": 10000000}}}},
          "receiver": {{"sack": false}}}}]}}"#
    ))
}

#[test]
fn tahoe_on_the_satellite_path_gives_ns_s_events() {
    for limit in [6, 20, 21, 23] {
        let Some(wanted) = read_csv(&format!("tahoe_events_paper_q{limit}.csv.gz")) else {
            return;
        };
        let output = satellite(limit, 60, true);
        let got = events_like_ns(&output, 1);
        oracle::compare_events(&wanted, &got, &format!("q = {limit}"));
    }
}

/// RFC 2416's path: fast link, 1.5 Mbit/s, then a 9600 bit/s modem with 3 packets of buffer.
fn modem(case: &str, record_events: bool) -> Output {
    let mut parts = case.split('_');
    let tcp = parts.next().expect("tcp");
    let initial_window = parts.next().and_then(|part| part.strip_prefix("iw")).expect("window");
    let bytes = parts.next().expect("bytes");
    let (mut tick_ns, mut receiver) = (10_000_000, String::new());
    for part in parts {
        if part == "tick0.1" {
            tick_ns = 100_000_000;
        } else if let Some(seconds) = part.strip_prefix("delack") {
            let ns = seconds.parse::<f64>().expect("seconds") * 1e9;
            receiver = format!(r#""delayed_ack_segments": 2, "delayed_ack_timer_ns": {ns:.0}"#);
        }
    }
    let nodes = |modem_first: bool| {
        let mut nodes = vec![
            r#"{"rate_bps": 1e8, "buffer": 100, "counts_in_service": true}"#,
            r#"{"rate_bps": 1.5e6, "buffer": 100, "counts_in_service": true, "delay_ns": 25e6}"#,
            r#"{"rate_bps": 9600, "buffer": 3, "counts_in_service": true, "delay_ns": 150e6}"#,
        ];
        if modem_first {
            nodes.reverse();
        }
        nodes.join(", ")
    };
    run(&format!(
        r#"{{"profile": "ns2", "duration_ns": 60000000000, "record_events": {record_events},
        "path": {{"packet_bytes": {bytes}, "nodes": [{}], "reverse": [{}]}},
        "connections": [{{"sender": {{"recovery": "{tcp}", "initial_window": {initial_window}, "max_window": 20,
            "rto": {{"initial_ns": 3000000000, "granularity_ns": {tick_ns}}}}},
          "receiver": {{{receiver}}}}}]}}"#,
        nodes(false),
        nodes(true)
    ))
}

#[test]
fn every_case_of_rfc_2416_gives_ns_s_events() {
    let Some(wanted) = read_csv("rfc2416_events.csv") else { return };
    let mut cases: Vec<&str> = wanted.rows.iter().map(|row| wanted.get(row, "case")).collect();
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
        let rows: Vec<_> = wanted.rows.iter().filter(|row| wanted.get(row, "case") == case).collect();
        for (line, row) in rows.iter().enumerate() {
            let Some(&(at, kind, number, bytes)) = got.get(line) else { panic!("{case}: no row {line} {row:?}") };
            let time_ns = wanted.number(row, "t_s") * 1e9;
            assert_eq!(kind, wanted.get(row, "event"), "{case} row {line}: {row:?} got {at}");
            assert_eq!(number as f64, wanted.number(row, "packet_number_from_1"), "{case} row {line}: {row:?} at {at}");
            assert!((at as f64 - time_ns).abs() <= 1000.0, "{case} row {line}: {row:?} got {at}");
            assert_eq!(f64::from(bytes), wanted.number(row, "size_bytes"), "{case} row {line}: {row:?}");
        }
        assert_eq!(got.len(), rows.len(), "{case}");
    }
}
