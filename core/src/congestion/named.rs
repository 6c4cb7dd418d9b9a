//! The named controls: every window of the table, and names for more than a window alone.

use super::row::{SACK, Setting};
use super::table::WINDOWS;

use Setting::Text;

/// Names for more than a window alone; every window is a name, too.
static COMBINATIONS: &[(&str, &[(&str, Setting)])] = &[
    ("tahoe", &[("recovery", Text("tahoe"))]),
    ("newreno", &[("recovery", Text("newreno"))]),
    ("sack", &[SACK]),
    ("fack", &[("recovery", Text("fack"))]),
    (
        "cubic-hystart",
        &[
            ("slow_start", Text("hystart")),
            ("window", Text("cubic")),
            SACK,
        ],
    ),
    ("m-start", &[("slow_start", Text("m-start")), SACK]),
    (
        "m-start-cubic",
        &[
            ("slow_start", Text("m-start")),
            ("window", Text("cubic")),
            SACK,
        ],
    ),
];

/// The named controls: name, and the keys it stands for.
pub fn controls() -> impl Iterator<Item = (&'static str, Vec<(&'static str, Setting)>)> {
    let combined = COMBINATIONS
        .iter()
        .map(|&(name, settings)| (name, settings.to_vec()));
    let single = WINDOWS.iter().map(|row| {
        let window = ("window", Text(row.name));
        let settings = std::iter::once(window).chain(row.sender.iter().copied());
        (row.name, settings.collect())
    });
    combined.chain(single)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::table::{SLOW_STARTS, slow_start, window};
    use super::Setting::{Flag, Text};
    use super::controls;

    #[test]
    fn a_name_stands_once_and_every_key_of_a_named_control_is_known() {
        let mut names = BTreeSet::new();
        for (name, settings) in controls() {
            assert!(names.insert(name), "{name}");
            for (key, setting) in settings {
                match (key, setting) {
                    ("window", Text(name)) => assert!(window(name).is_some(), "{name}"),
                    ("slow_start", Text(name)) => assert!(slow_start(name).is_some(), "{name}"),
                    ("recovery", Text(_)) | (_, Flag(_)) => {}
                    (key, Text(_)) => panic!("{name}: {key}"),
                }
            }
        }
        assert!(SLOW_STARTS.iter().all(|row| !row.source.is_empty()));
    }
}
