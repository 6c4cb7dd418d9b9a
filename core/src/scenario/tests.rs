//! Scenarios as files say them: read, said in full, refused by name.

use std::path::{Path, PathBuf};

use super::*;

const SMALL: &str = r#"
duration_s = 10
control = "reno"
path.nodes = [{ rate_bps = 1e6, buffer = 20, delay_s = 0.02 }]
"#;

fn read(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::from_table(text.parse().unwrap())
}

fn refused(more: &str) -> String {
    read(&format!("{more}\n{SMALL}")).unwrap_err().to_string()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|suffix| suffix == "toml") {
            found.push(path);
        }
    }
}

#[test]
fn every_shipped_scenario_comes_back_from_its_normal_form() {
    let mut found = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures/scenarios");
    files(&folder, &mut found);
    assert!(found.len() > 20);
    for path in found {
        let scenario = read(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let table = scenario.to_table();
        assert_eq!(Scenario::from_table(table), Ok(scenario), "{path:?}");
    }
}

#[test]
fn a_minimal_scenario_has_defaults_for_the_rest() {
    let scenario = read("duration_s = 1\npath.nodes = [{ rate_bps = inf }]").unwrap();
    assert_eq!((scenario.profile, scenario.seed), (Profile::Rfc, 1));
    assert_eq!(scenario.connections, [ConnectionSpec::default()]);
    let node = &scenario.path.nodes[0];
    assert!(node.buffer.is_infinite() && !node.counts_in_service);
}

#[test]
fn an_error_names_the_key_the_value_and_what_may_stand_there() {
    for (more, message) in [
        ("seed = -1", "seed = -1: must be >= 0 and <= 2^63"),
        ("seed = 0.5", "seed = 0.5: must be a whole number"),
        ("ipv6 = 1", "ipv6 = 1: must be a boolean (true or false)"),
        ("tap = []", "tap: unknown key (did you mean taps?)"),
        (
            "receiver.delayed_ack_segments = 3",
            "receiver.delayed_ack_segments = 3: must be 1 or 2",
        ),
        (
            "application = { kind = \"bytes\" }",
            "application.bytes = 0: must be > 0 with kind bytes",
        ),
        (
            "profile = \"ns2\"\nreceiver.rwnd = 9000",
            "receiver.rwnd = 9000: must be absent in profile ns2, which does not read it",
        ),
    ] {
        assert_eq!(refused(more), message);
    }
    let known = refused("profile = \"rfs\"");
    assert_eq!(
        known,
        "profile = \"rfs\": must be one of ns2, rfc (did you mean rfc?)"
    );
}

#[test]
fn what_stands_at_the_top_holds_where_a_connection_says_nothing() {
    let text = format!("{SMALL}\n[[connections]]\n[[connections]]\ncontrol = \"cubic\"");
    let scenario = read(&text).unwrap();
    let windows = scenario
        .connections
        .iter()
        .map(|row| row.control.window.name);
    assert_eq!(windows.collect::<Vec<_>>(), ["reno", "cubic"]);
    let unused = format!("{SMALL}\n[[connections]]\ncontrol = \"cubic\"");
    let error = read(&unused).unwrap_err().to_string();
    assert_eq!(
        error,
        "control: every connection has its own, so this one is never used"
    );
}

#[test]
fn a_parameter_that_its_control_does_not_have_is_refused() {
    let text = SMALL.replace("\"reno\"", "{ name = \"reno\", gamma = 3 }");
    let error = read(&text).unwrap_err().to_string();
    let wanted = "absent: slow start standard over reno knows byte_counting";
    assert_eq!(error, format!("control.gamma = 3.0: must be {wanted}"));
}

#[test]
fn the_way_there_begins_with_the_access_link() {
    let text = format!("path.access_rate_bps = 1e7\npath.return_delay_s = 0.1\n{SMALL}");
    let path = read(&text).unwrap().path;
    let rates: Vec<f64> = path.there().iter().map(|node| node.rate_bps).collect();
    assert_eq!((path.nodes_before(), rates), (1, vec![1e7, 1e6]));
    assert_eq!((path.back().len(), path.pure_return_ns()), (0, 1e8));
}
