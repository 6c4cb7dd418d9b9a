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
