//! Any TOML as a scenario: refused by its key, or said in full, read again, and run to its end within bounds on packets
//! and time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcptrace_core::scenario::Scenario;
use tcptrace_core::simulate::{Controls, run};

/// Enough for every branch, few enough for a fuzzer's second.
const LONGEST_S: f64 = 0.2;
const FASTEST_BPS: f64 = 1e7;

fuzz_target!(|text: &str| {
    let Ok(table) = text.parse() else {
        return;
    };
    let Ok(mut scenario) = Scenario::from_table(table) else {
        return;
    };
    let again = Scenario::from_table(scenario.to_table());
    assert_eq!(again.as_ref(), Ok(&scenario));
    scenario.duration_s = scenario.duration_s.min(LONGEST_S);
    let path = &mut scenario.path;
    if scenario.connections.len() > 4 || path.nodes.len() + path.reverse.len() > 8 {
        return;
    }
    // A link without a rate sends any number of packets in no time.
    for node in path.nodes.iter_mut().chain(&mut path.reverse) {
        node.rate_bps = node.rate_bps.min(FASTEST_BPS);
    }
    let output = run(&scenario, Controls::default());
    assert!(output.nodes.iter().all(|node| node.is_conserved));
});
