//! Any JSON as a run: refused by its key, or run to its end, within bounds on packets and time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcptrace_core::simulate::{Controls, Spec, run};

/// Enough for every branch, few enough for a fuzzer's second.
const LONGEST_NS: i64 = 200_000_000;
const FASTEST_BPS: f64 = 1e7;

fuzz_target!(|text: &str| {
    let Ok(mut spec) = Spec::from_json(text) else {
        return;
    };
    spec.duration_ns = spec.duration_ns.min(LONGEST_NS);
    if spec.connections.len() > 4 || spec.path.nodes.len() + spec.path.reverse.len() > 8 {
        return;
    }
    // A link without a rate sends any number of packets in no time.
    for node in spec.path.nodes.iter_mut().chain(&mut spec.path.reverse) {
        node.rate_bps = Some(node.rate_bps.unwrap_or(FASTEST_BPS).min(FASTEST_BPS));
    }
    if let Ok(output) = run(&spec, Controls::default()) {
        assert!(output.nodes.iter().all(|node| node.is_conserved));
    }
});
