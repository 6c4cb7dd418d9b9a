//! Several bottleneck nodes (paper 004) as ns-2 runs them.

mod oracle;

use oracle::{Csv, own_csv, reference_csv, run};
use tcptrace_core::simulate::Output;

const MU: f64 = 1.5e6;

/// S - N1 ... Nn - N_mu - D: upstream nodes of (rate, ns limit) over links without delay, then 1.5 Mbit/s.
fn nodes(
    upstream: &[(f64, u64)],
    limit: u64,
    one_way_ms: f64,
    tick_s: f64,
    seconds: u64,
) -> Output {
    let mut there = vec![r#"{"rate_bps": 1e7}"#.to_owned()];
    let mut back = vec![r#"{"rate_bps": 1e7}"#.to_owned()];
    for (rate, limit) in upstream {
        there.push(format!(
            r#"{{"rate_bps": {rate}, "buffer": {limit}, "counts_in_service": true}}"#
        ));
        back.push(format!(r#"{{"rate_bps": {rate}}}"#));
    }
    let delay_s = one_way_ms / 1e3;
    there.push(format!(
        r#"{{"rate_bps": {MU}, "buffer": {limit}, "counts_in_service": true, "delay_s": {delay_s}}}"#
    ));
    back.push(format!(r#"{{"rate_bps": {MU}, "delay_s": {delay_s}}}"#));
    back.reverse();
    run(&format!(
        r#"{{"profile": "ns2", "duration_s": {seconds}, "record_truth": false,
        "path": {{"packet_bytes": 512, "nodes": [{}], "reverse": [{}]}},
        "connections": [{{"control": {{"recovery": "tahoe",
            "rto": {{"initial_s": 3, "granularity_s": {tick_s}}}}}, "receiver": {{"sack": false}}}}]}}"#,
        there.join(", "),
        back.join(", ")
    ))
}

/// Mbit/s of newly acknowledged packets.
fn throughput(output: &Output) -> f64 {
    (output.totals[0].acked - 1) as f64 * 4096.0 / (output.duration_ns as f64 / 1e9) / 1e6
}

/// Whether a row's run agrees: throughput of the whole run to the packet, of 500 s within 0.2 %, timeouts, the node that lost the
/// first packet.
fn agrees(
    table: &Csv,
    row: &[String],
    upstream: &[(f64, u64)],
    limit: u64,
    one_way_ms: f64,
) -> bool {
    let tick_s = table.number(row, "tcpTick_s");
    let output = nodes(upstream, limit, one_way_ms, tick_s, 600);
    let shorter = nodes(upstream, limit, one_way_ms, tick_s, 500);
    let is_close = |ours: &Output, name, bound| {
        (throughput(ours) / table.number(row, name) - 1.0).abs() < bound
    };
    let first = output
        .drops
        .first()
        .map_or(String::new(), |drop| drop.node.to_string());
    let holds = is_close(&output, "throughput_whole_run_Mbps", 1e-5)
        && is_close(&shorter, "throughput_0_500s_Mbps", 2e-3)
        && first == table.get(row, "first_drop_of_run_node")
        && output.totals[0].timeouts as f64 == table.number(row, "timeouts");
    if !holds {
        println!(
            "{} Mbit/s, first drop at {first}: {row:?}",
            throughput(&output)
        );
    }
    holds
}

#[test]
#[ignore = "reference data: ../shared/oracles/ns2"]
fn figure_2_s_two_nodes() {
    let table = reference_csv("multinode_fig2.csv");
    for row in &table.rows {
        let number = |name| table.number(row, name);
        let upstream = [(number("mu1_bps"), number("B1_ns_limit_pkts") as u64)];
        agrees(
            &table,
            row,
            &upstream,
            number("B_ns_limit_pkts") as u64,
            280.0,
        );
    }
}

/// The propagation that leaves 560 ms for propagation and all transmission, of data and of its ACK.
fn one_way_of_total(rates: impl Iterator<Item = f64>) -> f64 {
    let transmission_s: f64 = rates.map(|rate| 8.0 * (512.0 + 40.0) / rate).sum();
    (560.0 - transmission_s * 1e3) / 2.0
}

/// Rates reached ns as text with six decimals. With eleven nodes of nearly equal rates the last digits decide ties.
fn as_given(rate: f64) -> f64 {
    format!("{rate:.6}").parse().expect("a number")
}

/// (rows that agree, rows looked at)
fn figure_4(table: &Csv, takes: impl Fn(usize) -> bool) -> (usize, usize) {
    let (mut agreed, mut all) = (0, 0);
    for (_, row) in table
        .rows
        .iter()
        .enumerate()
        .filter(|(number, _)| takes(*number))
    {
        let buffers: Vec<u64> = table
            .get(row, "upstream_buffers_used_pkts")
            .split('/')
            .filter_map(|b| b.parse().ok())
            .collect();
        let n = table.number(row, "n_upstream");
        let rates: Vec<f64> = match table.get(row, "model") {
            "single" => Vec::new(),
            "equivalent2" => vec![as_given(MU + MU / (n + 1.0))],
            _ => (1..=n as u64)
                .map(|i| as_given(2.0 * MU - i as f64 * MU / (n + 1.0)))
                .collect(),
        };
        let delay = match table.get(row, "delay_variant") {
            "prop" => 280.0,
            _ => one_way_of_total(rates.iter().copied().chain([1e7, MU])),
        };
        let upstream: Vec<_> = rates
            .into_iter()
            .zip(buffers.iter().map(|b| b + 1))
            .collect();
        agreed += usize::from(agrees(
            table,
            row,
            &upstream,
            table.number(row, "B_pkts") as u64 + 1,
            delay,
        ));
        all += 1;
    }
    (agreed, all)
}

#[test]
fn figure_4_s_rows_of_nodes() {
    let (agreed, all) = figure_4(&own_csv("multinode_fig4"), |number| number % 2 == 0);
    assert_eq!((agreed, all), (6, 6));
}

#[test]
#[ignore = "reference data: ../shared/oracles/ns2; all 84 runs, twice"]
fn long_all_of_figure_4_s_rows_of_nodes() {
    let (agreed, all) = figure_4(&reference_csv("multinode_fig4.csv"), |_| true);
    assert_eq!(agreed, all);
}

fn figure_7(table: &Csv, takes: impl Fn(usize) -> bool) {
    for (_, row) in table
        .rows
        .iter()
        .enumerate()
        .filter(|(number, _)| takes(*number))
    {
        let rate = MU * table.number(row, "mu_prime_over_mu");
        let upstream = [(rate, table.number(row, "Bprime_pkts") as u64 + 1)];
        assert!(
            agrees(
                table,
                row,
                &upstream,
                table.number(row, "B_pkts") as u64 + 1,
                280.0
            ),
            "{row:?}"
        );
    }
}

#[test]
fn figure_7_s_node_rates() {
    figure_7(&own_csv("multinode_fig7"), |number| number % 7 == 0);
}

#[test]
#[ignore = "reference data: ../shared/oracles/ns2; all 252 runs, twice"]
fn long_all_of_figure_7_s_node_rates() {
    figure_7(&reference_csv("multinode_fig7.csv"), |_| true);
}
