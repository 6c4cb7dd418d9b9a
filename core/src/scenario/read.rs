//! A scenario from the table that a file holds.
//!
//! Three conveniences: `control` may be a name ("tahoe") or a table that starts from one (`name = "tahoe"`); `control`,
//! `receiver` and `application` at the top hold for every connection that does not say otherwise, and describe the only
//! one where no `connections` stand; `delayed_ack_segments` may stand under `receiver`, where people look for it.

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::check::check_pauses;
use super::fit::{Fit, below, is_read, properties, resolved};
use super::schema::{definition, schema};
use super::{ApplicationSpec, ControlSpec, Profile, RtoSpec, Scenario, ScenarioError};
use crate::congestion::{self, Setting};

const PARTS: [&str; 3] = ["control", "receiver", "application"];
const ACKS: &str = "delayed_ack_segments";

impl Scenario {
    /// Reads and checks a scenario. The error is one line that names the key.
    pub fn from_table(given: Table) -> Result<Self, ScenarioError> {
        let profile = match given.get("profile") {
            None => Profile::default(),
            Some(named) => {
                let named = Fit { profile: None }.value(
                    &schema()["properties"]["profile"],
                    named.clone(),
                    "profile",
                )?;
                read(named, "profile")?
            }
        };
        let fit = Fit {
            profile: Some(profile),
        };
        let mut top = fit.table(schema(), given, "")?;
        let common = PARTS.map(|part| top.remove(part));
        let rows = match top.remove("connections") {
            None => vec![Value::Table(Table::new())],
            Some(Value::Array(rows)) => rows,
            Some(other) => {
                return Err(ScenarioError::value(
                    "connections",
                    other,
                    "a list of tables",
                ));
            }
        };
        for (part, common) in PARTS.into_iter().zip(&common) {
            if common.is_some() && rows.iter().all(|row| row.get(part).is_some()) {
                return Err(ScenarioError::conflict(
                    part,
                    "every connection has its own, so this one is never used",
                ));
            }
        }
        let rows = rows.into_iter().enumerate();
        let rows: Result<Vec<_>, _> = rows
            .map(|(number, row)| connection(row, &common, number, profile))
            .collect();
        top.insert("connections".to_owned(), Value::Array(rows?));
        let scenario: Self = read(Value::Table(top), "scenario")?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Every value said, those of keys that the profile does not read left out: `from_table` reads it again.
    pub fn to_table(&self) -> Table {
        let table = Table::try_from(self).expect("every value of a scenario has a place in TOML");
        without_foreign(schema(), table, self.profile)
    }
}

/// Whether a table fits a part of the schema (`NodeSpec`, `ControlSpec`, ...) whatever the profile.
pub fn check_part(part: &str, given: Table) -> Result<(), ScenarioError> {
    let Some(schema) = definition(part) else {
        return Err(ScenarioError::conflict(part, "no part of a scenario"));
    };
    let mut fitted = Fit { profile: None }.table(schema, given, "")?;
    match part {
        "ControlSpec" => {
            start_from_name(&mut fitted);
            read::<ControlSpec>(Value::Table(fitted), "")?.check("")
        }
        "RtoSpec" => read::<RtoSpec>(Value::Table(fitted), "")?.check(""),
        "ApplicationSpec" => read::<ApplicationSpec>(Value::Table(fitted), "")?.check(""),
        "ConnectionSpec" => check_pauses(&pauses(&fitted, "")?, ""),
        _ => Ok(()),
    }
}

/// One connection with its three parts, its own or the common ones, each checked where it stands.
fn connection(
    row: Value,
    common: &[Option<Value>; 3],
    number: usize,
    profile: Profile,
) -> Result<Value, ScenarioError> {
    let at = format!("connections.{number}");
    let mut row = table(row);
    let mut places = PARTS.map(str::to_owned);
    let mut parts = [const { None }; 3];
    for (place, (part, common)) in PARTS.into_iter().zip(common).enumerate() {
        let own = row.remove(part);
        if own.is_some() || common.is_none() {
            places[place] = below(&at, part);
        }
        parts[place] = own.or_else(|| common.clone());
    }
    let [control, receiver, application] = parts.map(|part| part.map_or_else(Table::new, table));
    let (mut control, mut receiver) = (control, receiver);
    start_from_name(&mut control);
    if let Some(segments) = receiver.remove(ACKS) {
        if *control.entry(ACKS).or_insert_with(|| segments.clone()) != segments {
            let reason = format!("receiver.{ACKS} and control.{ACKS} differ");
            return Err(ScenarioError::conflict(&at, reason));
        }
    }
    let sender: ControlSpec = read(Value::Table(control.clone()), &places[0])?;
    sender.check(&places[0])?;
    sender.check_profile(&places[0], profile)?;
    let writes: ApplicationSpec = read(Value::Table(application.clone()), &places[2])?;
    writes.check(&places[2])?;
    writes.check_profile(&places[2], profile)?;
    check_pauses(&pauses(&row, &at)?, &at)?;
    for (part, table) in PARTS.into_iter().zip([control, receiver, application]) {
        row.insert(part.to_owned(), Value::Table(table));
    }
    Ok(Value::Table(row))
}

fn pauses(row: &Table, at: &str) -> Result<Vec<(f64, f64)>, ScenarioError> {
    row.get("pauses")
        .map_or_else(|| Ok(Vec::new()), |rows| read(rows.clone(), at))
}

/// The keys of a control's name, where it has one, under its own.
fn start_from_name(control: &mut Table) {
    let Some(name) = control.remove("name") else {
        return;
    };
    let named = congestion::controls().find(|(known, _)| name.as_str() == Some(known));
    for (key, setting) in named.into_iter().flat_map(|(_, settings)| settings) {
        control.entry(key).or_insert_with(|| match setting {
            Setting::Text(text) => Value::from(text),
            Setting::Flag(flag) => Value::from(flag),
        });
    }
}

/// A part that may be no more than a name.
fn table(part: Value) -> Table {
    match part {
        Value::Table(table) => table,
        name => Table::from_iter([("name".to_owned(), name)]),
    }
}

/// What the schema has let pass as its type.
fn read<T: DeserializeOwned>(fitted: Value, at: &str) -> Result<T, ScenarioError> {
    fitted
        .try_into()
        .map_err(|error: toml::de::Error| ScenarioError::conflict(at, error.message()))
}

fn without_foreign(schema: &serde_json::Value, table: Table, profile: Profile) -> Table {
    let known = properties(schema);
    let kept = table.into_iter().filter_map(|(key, value)| {
        let schema = known.get(&key)?;
        is_read(schema, profile).then(|| {
            let value = without_foreign_in(schema, value, profile);
            (key, value)
        })
    });
    kept.collect()
}

fn without_foreign_in(schema: &serde_json::Value, value: Value, profile: Profile) -> Value {
    let schema = resolved(schema);
    let schema = schema["anyOf"].get(1).map_or(schema, resolved);
    match value {
        Value::Table(table) => Value::Table(without_foreign(schema, table, profile)),
        Value::Array(items) if schema.get("items").is_some() => {
            let items = items.into_iter();
            Value::Array(
                items
                    .map(|item| without_foreign_in(&schema["items"], item, profile))
                    .collect(),
            )
        }
        other => other,
    }
}
