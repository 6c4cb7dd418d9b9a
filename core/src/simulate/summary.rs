//! A run as one row: what a sweep keeps of it and the command line prints.

use super::Output;
use crate::scenario::Scenario;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Int(i64),
    Float(f64),
    Text(String),
}

/// Names and values in the order in which they are shown.
///
/// Throughput counts new data acknowledged, in full segments per second and, times `packet_bytes`, in bits per second
/// on the wire, as the papers do. Of several connections it is the sum, and each has columns of its own.
pub fn summary(scenario: &Scenario, output: &Output) -> Vec<(String, Value)> {
    let mut row = Vec::new();
    let mut put = |name: &str, value: Value| row.push((name.to_owned(), value));
    let seconds = output.duration_ns as f64 / 1e9;
    let pps: Vec<f64> = (0..output.totals.len())
        .map(|n| acked_segments(output, n) / seconds)
        .collect();
    let total: f64 = pps.iter().sum();
    let packet_bits = 8.0 * f64::from(scenario.path.packet_bytes);
    put("duration_s", Value::Float(seconds));
    put("throughput_bps", Value::Float(total * packet_bits));
    put("throughput_pps", Value::Float(total));
    let sum = |count: fn(&super::Totals) -> u64| {
        Value::Int(output.totals.iter().map(count).sum::<u64>() as i64)
    };
    put("packets_sent", sum(|totals| totals.packets_sent));
    put("retransmissions", sum(|totals| totals.retransmissions));
    put("timeouts", sum(|totals| totals.timeouts));
    put(
        "losses",
        Value::Int(
            output
                .cycles
                .iter()
                .map(|cycles| cycles.losses)
                .sum::<u64>() as i64,
        ),
    );
    let forward: Vec<_> = output
        .nodes
        .iter()
        .filter(|node| !node.is_reverse)
        .collect();
    let drops = &output.drops_by_node;
    put("drops", Value::Int(drops.iter().sum::<u64>() as i64));
    put("drops_per_node", Value::Text(joined(drops.iter())));
    put("utilization", Value::Float(0.0));
    put("backlog_packets", Value::Float(0.0));
    if let Some((node, rate)) = bottleneck(scenario).map(|(number, rate)| (forward[number], rate)) {
        let busy = node.counters.bytes_out as f64 * 8.0 / rate / seconds;
        let places = row.len() - 2;
        row[places].1 = Value::Float(busy);
        // Little's law: the mean number waiting is the sum of waiting times over the run's length.
        row[places + 1].1 = Value::Float(node.waited_ns as f64 / output.duration_ns as f64);
    }
    for (number, pps) in pps.iter().enumerate() {
        let suffix = if pps_is_only(&output.totals) {
            String::new()
        } else {
            format!("_{number}")
        };
        let mut put = |name: &str, value: Value| row.push((format!("{name}{suffix}"), value));
        if !suffix.is_empty() {
            put("throughput_pps", Value::Float(*pps));
        }
        cycles(output, number, &mut put);
    }
    row
}

fn pps_is_only(totals: &[super::Totals]) -> bool {
    totals.len() == 1
}

/// The complete cycles of a connection.
fn cycles(output: &Output, number: usize, put: &mut impl FnMut(&str, Value)) {
    let cycles = &output.cycles[number];
    let full = cycles.full();
    put("cycles", Value::Int(full.len() as i64));
    let mut seen: Vec<u32> = full.iter().map(|cycle| cycle.slow_starts).collect();
    let mean = seen.iter().sum::<u32>() as f64 / seen.len() as f64;
    seen.sort_unstable();
    seen.dedup();
    put("slow_starts_per_cycle", Value::Text(joined(seen.iter())));
    put("slow_starts_mean", Value::Float(mean));
    let unit = f64::from(output.unit_bytes) / f64::from(output.smss[number]);
    let (ns, acked) = cycles.full_span().unwrap_or((0, 0));
    let spans = full.len() as f64;
    put("cycle_s", Value::Float(ns as f64 / 1e9 / spans));
    put(
        "throughput_full_cycles_pps",
        Value::Float(acked as f64 * unit / (ns as f64 / 1e9)),
    );
}

fn acked_segments(output: &Output, number: usize) -> f64 {
    let unit = f64::from(output.unit_bytes) / f64::from(output.smss[number]);
    output.totals[number].acked as f64 * unit
}

/// The slowest node of the way there, the first of several; its rate.
fn bottleneck(scenario: &Scenario) -> Option<(usize, f64)> {
    let nodes = scenario.path.there().into_iter().enumerate();
    let rated = nodes.map(|(number, node)| (number, node.rate_bps));
    let rated = rated.filter(|(_, rate)| rate.is_finite());
    rated.min_by(|a, b| a.1.total_cmp(&b.1))
}

fn joined(numbers: impl Iterator<Item = impl ToString>) -> String {
    numbers
        .map(|number| number.to_string())
        .collect::<Vec<_>>()
        .join("/")
}
