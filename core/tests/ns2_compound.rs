//! Compound (paper 003) and CUBIC (paper 002) as ns-2's Linux agent runs them.

mod oracle;

use std::collections::BTreeMap;

use oracle::rounds::{kinds, oscillations, theta, updates};
use oracle::{Csv, own_csv, reference_csv, run};
use tcptrace_core::simulate::Output;

fn compound(mbps: f64, tau_ms: f64, limit: Option<u64>, duration_s: f64, more: &str) -> Output {
    run(&scenario(mbps, tau_ms, limit, duration_s, more))
}

/// 10 Gbit/s access, a bottleneck of `limit` packets in the middle of a round trip of `tau_ms`.
fn scenario(mbps: f64, tau_ms: f64, limit: Option<u64>, duration_s: f64, more: &str) -> String {
    let limit = limit.map_or("null".to_owned(), |limit| limit.to_string());
    let (rate, delay) = (mbps * 1e6, tau_ms / 2e3);
    format!(
        r#"{{"profile": "ns2", "duration_s": {duration_s},
        "path": {{"packet_bytes": 1500,
          "nodes": [{{"rate_bps": 1e10}}, {{"rate_bps": {rate}, "buffer": {limit}, "counts_in_service": true, "delay_s": {delay}}}],
          "reverse": [{{"rate_bps": {rate}, "delay_s": {delay}}}, {{"rate_bps": 1e10}}]}},
        "connections": [{{"control": {{"window": "compound", "recovery": "sack", "timestamps": true, "initial_window": 2,
          "rto": {{"initial_s": 3, "max_s": 120}}{more}}}}}]}}"#
    )
}

/// Every change of the window at ns's time to ns's value.
fn windows_agree(wanted: &Csv, output: &Output, what: &str) {
    let mut got = output
        .truth
        .iter()
        .filter(|row| row.cwnd > 0.0)
        .map(|row| (row.time_ns as f64 / 1e9, row.cwnd));
    let mut last = 0.0;
    let mut next = || {
        loop {
            let (time, cwnd) = got.next()?;
            if cwnd != last {
                last = cwnd;
                return Some((time, cwnd));
            }
        }
    };
    for (line, row) in wanted.rows.iter().enumerate() {
        let (time, cwnd) = (wanted.number(row, "t_s"), wanted.number(row, "cwnd_pkts"));
        let Some((our_time, our_cwnd)) = next() else {
            panic!("{what}: ends before row {line} {row:?}")
        };
        assert!(
            (our_time - time).abs() < 2e-5 && our_cwnd == cwnd,
            "{what}: row {line} {row:?}, ours {our_time} {our_cwnd}"
        );
    }
}

#[test]
fn every_case_has_ns_s_windows_and_drops() {
    let [cases, drops] = ["compound_networks", "compound_case_drops"].map(own_csv);
    for row in &cases.rows {
        let name = cases.get(row, "case");
        let number = |column| cases.number(row, column);
        let output = compound(
            number("mu_Mbps"),
            number("tau_ms"),
            Some(number("b_pkts") as u64),
            number("T_s"),
            "",
        );
        let wanted: Vec<_> = drops
            .rows
            .iter()
            .filter(|drop| drops.get(drop, "case") == name)
            .collect();
        for (line, (wanted, got)) in wanted.iter().zip(&output.drops).enumerate() {
            let what = format!("case {name}, drop {line}: {wanted:?} ours {got:?}");
            assert!(
                (drops.number(wanted, "t_s") - got.time_ns as f64 / 1e9).abs() <= 1e-6,
                "{what}"
            );
            assert_eq!(drops.number(wanted, "seq"), got.offset as f64, "{what}");
        }
        assert_eq!(wanted.len(), output.drops.len(), "case {name}");
        assert_eq!(
            output.totals[0].timeouts as f64,
            number("timeouts"),
            "case {name}"
        );
        let cwnd = own_csv(&format!("compound_case{name}_cwnd"));
        windows_agree(&cwnd, &output, &format!("case {name}"));
    }
}

/// Phase 3 without losses: slow start ends at half the BDP, the buffer has no end.
fn phase_3(bdp: f64, duration_s: f64) -> String {
    let more = format!(r#", "initial_ssthresh": {}"#, (bdp / 2.0).floor());
    scenario(bdp * 12_000.0 / 0.05 / 1e6, 50.0, None, duration_s, &more)
}

#[test]
#[ignore = "reference data: ../shared/oracles/ns2"]
fn phase_3_s_windows_after_each_round_are_ns_s() {
    let rounds = reference_csv("compound_phase3_rounds.csv");
    let mut bdps: Vec<&str> = rounds
        .rows
        .iter()
        .map(|row| rounds.get(row, "bdp_pkts"))
        .collect();
    bdps.dedup();
    for bdp in bdps {
        let rows: Vec<_> = rounds
            .rows
            .iter()
            .filter(|row| rounds.get(row, "bdp_pkts") == bdp)
            .collect();
        let end = rounds.number(rows.last().expect("rounds"), "t_s") + 0.01;
        let output = run(&phase_3(bdp.parse().expect("packets"), end));
        for row in rows {
            let time = rounds.number(row, "t_s");
            // Times have five decimals.
            let ours = output
                .truth
                .iter()
                .rfind(|truth| truth.time_ns as f64 / 1e9 <= time + 6e-6)
                .expect("a row");
            assert_eq!(
                ours.cwnd,
                rounds.number(row, "w_after_update_pkts"),
                "{row:?}"
            );
        }
    }
}

#[test]
#[ignore = "reference data: ../shared/oracles/ns2"]
fn phase_3_oscillates_as_ns_s_does() {
    let table = reference_csv("compound_phase3.csv");
    for row in &table.rows {
        let number = |column| table.number(row, column);
        let (from, to) = (number("from_t_s"), number("to_t_s"));
        // From the first round up to the last one down: the next ones are a round trip of 50 ms or more away.
        let updates = updates(&phase_3(number("bdp_pkts"), to + 0.02), 30.0);
        let seen = oscillations(&updates, from - 0.02);
        let (kinds, what) = (kinds(&seen), format!("{row:?}: ours {seen:?}"));
        let wanted: BTreeMap<String, usize> = table
            .get(row, "all_types_seen_count")
            .split(' ')
            .map(|kind| {
                let kind = kind.trim_end_matches(')').split_once('(');
                let (kind, count) = kind.expect("m:n(count)");
                (kind.to_owned(), count.parse().expect("a count"))
            })
            .collect();
        assert_eq!(kinds, wanted, "{what}");
        let most = theta(&seen, table.get(row, "oscillation_m_n"));
        assert_eq!(
            most,
            (number("theta_max_pkts"), number("theta_min_pkts")),
            "{what}"
        );
        let any = (
            seen.iter().map(|one| one.max).fold(0.0, f64::max),
            seen.iter().map(|one| one.min).fold(f64::MAX, f64::min),
        );
        assert_eq!(
            any,
            (
                number("max_w_any_cycle_pkts"),
                number("min_w_any_cycle_pkts")
            ),
            "{what}"
        );
    }
}

#[test]
#[ignore = "reference data: ../shared/oracles/ns2"]
fn another_gamma_oscillates_as_the_rules_say() {
    let table = reference_csv("compound_phase3_othergamma_derived.csv");
    for row in &table.rows {
        let number = |column| table.number(row, column);
        let (bdp, gamma) = (number("bdp_pkts"), number("gamma_pkts"));
        if bdp <= 100.0 {
            // The kind goes on changing there, and the table does not say from when to when it looked.
            continue;
        }
        // The start is over by 3 s.
        let seen = oscillations(&updates(&phase_3(bdp, 8.0), gamma), 3.0);
        let (kinds, wanted) = (kinds(&seen), table.get(row, "oscillation_m_n"));
        let most = kinds.iter().max_by_key(|(_, count)| **count);
        assert_eq!(most.expect("one").0, wanted, "{row:?}: ours {kinds:?}");
        let (max, min) = theta(&seen, wanted);
        let distance = (
            max - number("theta_max_pkts"),
            min - number("theta_min_pkts"),
        );
        assert!(
            distance.0.abs() <= 1.0 && distance.1.abs() <= 1.0,
            "{row:?}: {distance:?} off"
        );
    }
}

fn throughput_agrees(takes: impl Fn(f64) -> bool) {
    let table = reference_csv("compound_throughput.csv");
    for row in &table.rows {
        let mbps = table.number(row, "mu_Mbps");
        if !takes(mbps) {
            continue;
        }
        let output = compound(mbps, 50.0, Some(100), 300.0, "");
        let bins = &output
            .nodes
            .iter()
            .find(|node| node.number == 1 && !node.is_reverse)
            .expect("bottleneck")
            .bins;
        let after: Vec<_> = bins.iter().filter(|bin| bin.bin >= 500).collect();
        let served: u32 = after.iter().map(|bin| bin.arrivals - bin.drops).sum();
        let utilization = f64::from(served) * 12_000.0 / (mbps * 1e6) / 295.0;
        let backlog = after.iter().map(|bin| bin.wait_ns).sum::<i64>() as f64 / 295e9;
        let wanted = (
            table.number(row, "utilization_from_5s"),
            table.number(row, "mean_backlog_waiting_from_5s_pkts"),
        );
        assert!(
            (utilization / wanted.0 - 1.0).abs() < 0.001,
            "{mbps}: {utilization} {wanted:?}"
        );
        assert!(
            (backlog / wanted.1 - 1.0).abs() < 0.01,
            "{mbps}: {backlog} {wanted:?}"
        );
    }
}

#[test]
#[ignore = "reference data: ../shared/oracles/ns2"]
fn utilization_and_backlog_are_ns_s() {
    throughput_agrees(|mbps| mbps <= 40.0);
}

#[test]
#[ignore = "reference data: ../shared/oracles/ns2; all 44 rates, 300 s each: minutes without optimisation"]
fn long_utilization_and_backlog_are_ns_s_at_every_rate() {
    throughput_agrees(|_| true);
}

/// Paper 002's path: four links of 1 Gbit/s with `limit` packets each, CUBIC of Linux 2.6.
fn four_links(table: &Csv, row: &[String], duration_s: f64) -> Output {
    let ms = |name| {
        let text = table.get(row, name);
        text.strip_suffix("ms")
            .and_then(|ms| ms.parse::<f64>().ok())
            .expect("milliseconds")
            / 1e3
    };
    let (lan, first, second) = (ms("delay_LAN"), ms("delay_R1R2"), ms("delay_R2R3"));
    let limit = table.number(row, "q_ns_limit_pkts");
    let link = |delay: f64| {
        format!(
            r#"{{"rate_bps": 1e9, "buffer": {limit}, "counts_in_service": true, "delay_s": {delay}}}"#
        )
    };
    let there = [link(lan), link(first), link(second), link(lan)].join(", ");
    let back = [link(lan), link(second), link(first), link(lan)].join(", ");
    run(&format!(
        r#"{{"profile": "ns2", "duration_s": {duration_s}, "path": {{"packet_bytes": 1000, "nodes": [{there}], "reverse": [{back}]}},
        "connections": [{{"control": {{"window": "cubic-linux", "recovery": "sack", "timestamps": true, "initial_window": {},
          "rto": {{"initial_s": 3, "max_s": 120}}}}}}]}}"#,
        table.get(row, "initial_window_pkts")
    ))
}

#[test]
#[ignore = "reference data: ../shared/oracles/ns2"]
fn cubic_s_first_epoch_is_ns_s() {
    let table = reference_csv("mstart_cubic_summary.csv");
    for row in &table.rows {
        let is_plain = table.get(row, "cc") == "cubic" && table.get(row, "syn_packet") == "0";
        if !is_plain || table.get(row, "first_drop_t_s").is_empty() {
            continue;
        }
        let peak_s = table.number(row, "t_of_max_cwnd_s");
        let output = four_links(&table, row, peak_s + 0.05);
        let what = format!("{row:?}");
        let first = output.drops.first().expect("a drop");
        assert!(
            (first.time_ns as f64 / 1e9 - table.number(row, "first_drop_t_s")).abs() < 1e-6,
            "{what}: {first:?}"
        );
        assert_eq!(
            f64::from(first.node),
            table.number(row, "first_drop_link_0_is_S1R1"),
            "{what}"
        );
        let most = output
            .truth
            .iter()
            .map(|truth| truth.cwnd)
            .fold(0.0, f64::max);
        assert_eq!(
            most,
            table.number(row, "max_cwnd_first_epoch_pkts"),
            "{what}"
        );
    }
}
