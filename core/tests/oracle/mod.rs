//! Reading the oracles, running a scenario, comparing row by row.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod kernel;
pub mod lab_ctcp;
pub mod rounds;
pub mod told;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use tcptrace_core::scenario::Scenario;
use tcptrace_core::simulate::{Controls, Logs, Output, OutputEvent, Site};

/// Rows of a CSV as maps would be slow: columns by name, cells as text.
pub struct Csv {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Csv {
    pub fn column(&self, name: &str) -> usize {
        self.header
            .iter()
            .position(|column| column == name)
            .unwrap_or_else(|| panic!("no column {name}"))
    }

    pub fn get<'a>(&self, row: &'a [String], name: &str) -> &'a str {
        &row[self.column(name)]
    }

    pub fn number(&self, row: &[String], name: &str) -> f64 {
        let cell = self.get(row, name);
        cell.parse().unwrap_or_else(|_| panic!("{name} = {cell}"))
    }
}

/// A table of our own runs of ns (`tests/data/ns2`, made by `make.py` there).
pub fn own_csv(name: &str) -> Csv {
    parse(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/data/ns2/{name}.csv.gz")))
}

/// A table of the reference data beside a checkout. Tests that need it are ignored by name, and run where it is:
/// `cargo test -- --ignored --skip long_`, which `./lab test` does.
pub fn reference_csv(name: &str) -> Csv {
    parse(&reference(&format!("oracles/ns2/{name}")))
}

/// A file of the reference data.
pub fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../shared")
        .join(name)
}

fn parse(path: &Path) -> Csv {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    if path.extension().is_some_and(|suffix| suffix == "gz") {
        flate2::read::GzDecoder::new(file)
            .read_to_string(&mut text)
            .expect("gzip of text");
    } else {
        { file }.read_to_string(&mut text).expect("text");
    }
    let mut rows = text
        .lines()
        .map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = rows.next().expect("a header");
    Csv {
        header,
        rows: rows.collect(),
    }
}

/// A run as these tests write it: a scenario as JSON, null for what is left at its default, no taps unless named; and
/// whether events and truth are recorded.
pub fn scenario(json: &str) -> (Scenario, Logs) {
    let mut given: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}\n{json}"));
    let mut take = |key| given.remove(key).and_then(|value| value.as_bool());
    let logs = Logs {
        events: take("record_events").unwrap_or(false),
        truth: take("record_truth").unwrap_or(true),
    };
    given.entry("taps").or_insert_with(|| serde_json::json!([]));
    let mut given = serde_json::Value::Object(given);
    drop_nulls(&mut given);
    let table = serde_json::from_value(given).expect("a table");
    let scenario = Scenario::from_table(table).unwrap_or_else(|error| panic!("{error}\n{json}"));
    (scenario, logs)
}

fn drop_nulls(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(table) => {
            table.retain(|_, value| !value.is_null());
            table.values_mut().for_each(drop_nulls);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

pub fn run(json: &str) -> Output {
    run_with(json, Controls::default())
}

/// The same with controls written by the test.
pub fn run_with(json: &str, controls: Controls) -> Output {
    let (scenario, logs) = scenario(json);
    let controls = Controls { logs, ..controls };
    let output = tcptrace_core::simulate::run(&scenario, controls);
    for node in &output.nodes {
        assert!(
            node.is_conserved,
            "packets in = out + queued + dropped at {node:?}"
        );
    }
    output
}

/// Events as ns's traces name them: node S, R (a bottleneck's number) or D.
pub fn events_like_ns(
    output: &Output,
    bottleneck: u32,
) -> Vec<(i64, &'static str, &'static str, u64, u32)> {
    output
        .events
        .iter()
        .filter_map(|event| as_ns(event, bottleneck))
        .collect()
}

fn as_ns(
    event: &OutputEvent,
    bottleneck: u32,
) -> Option<(i64, &'static str, &'static str, u64, u32)> {
    let node = match event.place {
        Site::Sender => "S",
        Site::Receiver => "D",
        Site::Node {
            number,
            is_reverse: false,
        } if number == bottleneck => "R",
        Site::Node { .. } => return None,
    };
    Some((
        event.time_ns,
        node,
        event.kind.name(),
        event.offset,
        event.bytes,
    ))
}

/// Same events, same order, same numbers and sizes, times within 1 microsecond.
pub fn compare_events(wanted: &Csv, got: &[(i64, &str, &str, u64, u32)], what: &str) {
    let mut got = got.iter();
    for (line, row) in wanted.rows.iter().enumerate() {
        let time_ns = wanted.number(row, "t_s") * 1e9;
        let expected = (
            wanted.get(row, "node"),
            wanted.get(row, "event"),
            wanted.get(row, "seq"),
        );
        let Some(&(at, node, kind, number, bytes)) = got.next() else {
            panic!("{what}: ends before row {line} {row:?}")
        };
        assert_eq!(
            (node, kind, number.to_string().as_str()),
            expected,
            "{what}: row {line}: {row:?} got {at}"
        );
        assert!(
            (at as f64 - time_ns).abs() <= 1000.0,
            "{what}: row {line}: {row:?} got {at} ns"
        );
        assert_eq!(
            bytes.to_string(),
            wanted.get(row, "size_bytes"),
            "{what}: row {line}: {row:?}"
        );
    }
}
