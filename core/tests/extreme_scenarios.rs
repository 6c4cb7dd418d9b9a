//! Scenarios at the edges of what the schema allows: refused by a key, or run without a wrap or a panic (overflow checks
//! are on where tests run).

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value as Json;
use tcptrace_core::congestion;
use tcptrace_core::scenario::{Scenario, schema};
use tcptrace_core::simulate::{Controls, run};
use toml::{Table, Value};

/// Enough for handshake, first flights, losses and timeouts.
const MOST_EVENTS: u64 = 2000;
/// A window sends as much at once, whatever events are left.
const MOST_AT_ONCE: f64 = 1000.0;

/// A number of the schema: the path to it, whether it is whole, and what lies at its edges.
#[derive(Clone, Debug)]
struct Key {
    at: Vec<String>,
    is_whole: bool,
    edges: Vec<f64>,
}

static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let mut keys = Vec::new();
    collect(schema(), &mut Vec::new(), &mut keys);
    assert!(keys.len() > 60, "{}", keys.len());
    keys
});

/// Every number below a table of the schema; a list has its first element.
fn collect(table: &Json, at: &mut Vec<String>, keys: &mut Vec<Key>) {
    for (name, key) in table["properties"].as_object().into_iter().flatten() {
        at.push(name.clone());
        let key = resolved(key);
        let element = &key["items"];
        if element.is_object() && resolved(element)["properties"].is_object() {
            at.push("0".to_owned());
            collect(resolved(element), at, keys);
            at.pop();
        } else if key["properties"].is_object() {
            collect(key, at, keys);
        } else if let Some(kind) = key["type"]
            .as_str()
            .filter(|&kind| kind == "number" || kind == "integer")
        {
            keys.push(Key {
                at: at.clone(),
                is_whole: kind == "integer",
                edges: edges(name, key),
            });
        }
        at.pop();
    }
}

fn resolved(key: &Json) -> &Json {
    let choice = key["anyOf"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["$ref"].is_string()));
    match choice.unwrap_or(key)["$ref"].as_str() {
        Some(name) => &schema()["$defs"][name.trim_start_matches("#/$defs/")],
        None => key,
    }
}

fn edges(name: &str, key: &Json) -> Vec<f64> {
    let bound = |word: &str| key[word].as_f64();
    let low = bound("minimum")
        .or(bound("exclusiveMinimum"))
        .unwrap_or(0.0);
    let high =
        bound("maximum").or(bound("exclusiveMaximum").map(|high| high * (1.0 - f64::EPSILON)));
    let high = high.or(bound("x-whole-up-to")).unwrap_or(f64::MAX);
    let high = if name == "initial_window" {
        MOST_AT_ONCE
    } else {
        high
    };
    let mut edges = vec![
        low,
        low * (1.0 + f64::EPSILON) + f64::MIN_POSITIVE,
        low + 1.0,
        high,
        high / 2.0,
        1e-9,
        1e9,
    ];
    edges.retain(|&value| value <= high);
    edges
}

fn set(table: &mut Table, at: &[String], value: Value) {
    let (name, rest) = at.split_first().expect("a key");
    if rest.is_empty() {
        table.insert(name.clone(), value);
        return;
    }
    if rest[0] == "0" {
        let list = table
            .entry(name.clone())
            .or_insert_with(|| Value::Array(vec![Table::new().into()]));
        if let Some(Value::Table(first)) = list.as_array_mut().and_then(|all| all.first_mut()) {
            set(first, &rest[1..], value);
        }
    } else if let Value::Table(inner) = table
        .entry(name.clone())
        .or_insert_with(|| Table::new().into())
    {
        set(inner, rest, value);
    }
}

fn base(profile: &str, control: &str, application: &str) -> Table {
    let text = format!(
        r#"
        profile = "{profile}"
        duration_s = 20
        [path]
        nodes = [{{ rate_bps = 1e6, buffer = 5, delay_s = 0.01 }}]
        reverse = [{{ rate_bps = 1e6, buffer = 5 }}]
        return_delay_s = 0.01
        [[connections]]
        control = {{ name = "{control}" }}
        application = {{ {application} }}
        "#
    );
    text.parse().expect("it is TOML")
}

fn control() -> impl Strategy<Value = &'static str> {
    let names: Vec<_> = congestion::controls().map(|(name, _)| name).collect();
    prop::sample::select(names)
}

fn application() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        r#"kind = "bulk""#,
        r#"kind = "bytes", bytes = 50000"#,
        r#"kind = "on_off", bytes = 20000, off_s = 1.5"#,
        r#"kind = "schedule", writes = [[0.0, 9007199254740992], [1e8, 9007199254740992]]"#,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn numbers_at_the_edges_are_refused_by_name_or_run(
        profile in prop::sample::select(vec!["rfc", "ns2"]),
        control in control(),
        application in application(),
        chosen in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..5),
    ) {
        let mut table = base(profile, control, application);
        for (key, edge) in &chosen {
            let key = key.get(&KEYS);
            let edge = *edge.get(&key.edges);
            let value = if key.is_whole { Value::Integer(edge as i64) } else { Value::Float(edge) };
            set(&mut table, &key.at, value);
        }
        if let Ok(scenario) = Scenario::from_table(table) {
            let controls = Controls { most_events: Some(MOST_EVENTS), ..Controls::default() };
            let output = run(&scenario, controls);
            prop_assert!(output.nodes.iter().all(|node| node.is_conserved));
        }
    }
}
