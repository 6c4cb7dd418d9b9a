//! A value against the schema: types, ranges, names, profiles; the first that does not fit is named by its key.

use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use super::error::{did_you_mean, nearest};
use super::{Profile, ScenarioError};

/// Fits values of a file; with a profile, keys that it does not read are refused.
#[derive(Clone, Copy)]
pub struct Fit {
    pub profile: Option<Profile>,
}

impl Fit {
    /// The value as its Rust type takes it: whole numbers as such, all others with a fraction.
    pub fn value(self, schema: &Json, given: Value, at: &str) -> Result<Value, ScenarioError> {
        let schema = chosen(resolved(schema), &given);
        if let Some(known) = schema.get("enum").and_then(Json::as_array) {
            return name(known, given, at);
        }
        match (schema["type"].as_str(), given) {
            (Some("object"), Value::Table(table)) => {
                self.table(schema, table, at).map(Value::Table)
            }
            (Some("array"), Value::Array(items)) => self.array(schema, items, at).map(Value::Array),
            (Some("boolean"), given @ Value::Boolean(_)) => Ok(given),
            (Some("string"), given @ Value::String(_)) => Ok(given),
            (Some("number" | "integer"), given @ (Value::Integer(_) | Value::Float(_))) => {
                number(schema, given, at)
            }
            (kind, given) => Err(ScenarioError::value(at, given, article(kind))),
        }
    }

    pub fn table(self, schema: &Json, given: Table, at: &str) -> Result<Table, ScenarioError> {
        let known = properties(schema);
        let mut fitted = Table::new();
        for (key, value) in given {
            let here = below(at, &key);
            let Some(schema) = known.get(&key) else {
                return Err(ScenarioError::Unknown {
                    key: here,
                    nearest: nearest(&key, known.keys().map(String::as_str)).map(str::to_owned),
                });
            };
            if let Some(profile) = self.profile.filter(|profile| !is_read(schema, *profile)) {
                let wanted = format!(
                    "absent in profile {}, which does not read it",
                    profile.name()
                );
                return Err(ScenarioError::value(&here, value, wanted));
            }
            let value = self.value(schema, value, &here)?;
            fitted.insert(key, value);
        }
        let required = schema["required"].as_array().into_iter().flatten();
        match required
            .filter_map(Json::as_str)
            .find(|key| !fitted.contains_key(*key))
        {
            Some(key) => Err(ScenarioError::Missing {
                key: below(at, key),
            }),
            None => Ok(fitted),
        }
    }

    fn array(
        self,
        schema: &Json,
        items: Vec<Value>,
        at: &str,
    ) -> Result<Vec<Value>, ScenarioError> {
        let places = schema["prefixItems"].as_array();
        let wanted = places.map(Vec::len);
        if wanted.is_some_and(|wanted| wanted != items.len()) {
            let wanted = format!("a list of {}", wanted.unwrap_or_default());
            return Err(ScenarioError::value(at, items, wanted));
        }
        if items.is_empty() && schema["minItems"].as_u64() == Some(1) {
            let wanted = format!(
                "one {} or more",
                at.rsplit('.').next().unwrap_or(at).trim_end_matches('s')
            );
            return Err(ScenarioError::value(at, items, wanted));
        }
        let fit = |(number, item): (usize, Value)| {
            let schema = places.map_or(&schema["items"], |places| &places[number]);
            self.value(schema, item, &below(at, &number.to_string()))
        };
        items.into_iter().enumerate().map(fit).collect()
    }
}

/// Whether a profile reads a key; with no list all do.
pub fn is_read(schema: &Json, profile: Profile) -> bool {
    let profiles = schema.get("x-profiles").and_then(Json::as_array);
    profiles.is_none_or(|profiles| profiles.iter().any(|name| name == profile.name()))
}

/// A schema itself, or the definition that it refers to.
pub fn resolved(schema: &Json) -> &Json {
    let name = schema["$ref"]
        .as_str()
        .and_then(|path| path.strip_prefix("#/$defs/"));
    name.and_then(super::schema::definition).unwrap_or(schema)
}

pub fn properties(schema: &Json) -> &Map<String, Json> {
    schema["properties"]
        .as_object()
        .expect("a table's schema lists its keys")
}

pub fn below(at: &str, key: &str) -> String {
    if at.is_empty() {
        return key.to_owned();
    }
    format!("{at}.{key}")
}

/// Where a name may stand for a table: the one that is meant.
fn chosen<'a>(schema: &'a Json, given: &Value) -> &'a Json {
    let Some(choices) = schema["anyOf"].as_array() else {
        return schema;
    };
    let is_name = |choice: &&Json| choice["type"] == "string" && given.is_str();
    choices
        .iter()
        .find(is_name)
        .unwrap_or_else(|| resolved(&choices[1]))
}

fn name(known: &[Json], given: Value, at: &str) -> Result<Value, ScenarioError> {
    let known: Vec<&str> = known.iter().filter_map(Json::as_str).collect();
    let found = given.as_str().unwrap_or_default();
    if known.contains(&found) {
        return Ok(given);
    }
    let meant = nearest(found, known.iter().copied()).map(str::to_owned);
    let wanted = format!("one of {}{}", known.join(", "), did_you_mean(&meant));
    Err(ScenarioError::value(at, given, wanted))
}

fn number(schema: &Json, given: Value, at: &str) -> Result<Value, ScenarioError> {
    let value = given
        .as_float()
        .or(given.as_integer().map(|whole| whole as f64));
    let value = value.unwrap_or(f64::NAN);
    if !holds(schema, value) {
        return Err(ScenarioError::value(at, given, range(schema)));
    }
    let is_integer = schema["type"] == "integer";
    let is_whole = value == value.trunc();
    if !is_whole && (is_integer || schema.get("x-whole-up-to").is_some()) {
        return Err(ScenarioError::value(at, given, "a whole number"));
    }
    Ok(match given {
        // The range keeps it within 63 bits.
        Value::Float(value) if is_integer => Value::Integer(value as i64),
        Value::Integer(_) if is_integer => given,
        _ => Value::Float(value),
    })
}

fn holds(schema: &Json, value: f64) -> bool {
    let bound = |key: &str| schema[key].as_f64();
    let largest = bound("x-whole-up-to");
    !value.is_nan()
        && bound("minimum").is_none_or(|low| value >= low)
        && bound("exclusiveMinimum").is_none_or(|low| value > low)
        && bound("maximum").is_none_or(|high| value <= high)
        && bound("exclusiveMaximum").is_none_or(|high| value < high)
        && largest.is_none_or(|high| value <= high || value == f64::INFINITY)
}

/// A number's range as an error says it.
pub fn range(schema: &Json) -> String {
    let bound = |key: &str| schema[key].as_f64();
    if let (Some(low), Some(high)) = (bound("minimum"), bound("maximum")) {
        if high - low == 1.0 && schema["type"] == "integer" {
            return format!("{low} or {high}");
        }
    }
    let words = [
        ("minimum", ">="),
        ("exclusiveMinimum", ">"),
        ("maximum", "<="),
        ("exclusiveMaximum", "<"),
        ("x-whole-up-to", "<="),
    ];
    let words = words.map(|(key, sign)| {
        let bound = bound(key).filter(|bound| *bound < f64::MAX)?;
        Some(format!("{sign} {}", written(bound)))
    });
    let words: Vec<String> = words.into_iter().flatten().collect();
    let mut words = words.join(" and ");
    if schema.get("x-whole-up-to").is_some() {
        words += " (or inf)";
    }
    words
}

fn written(bound: f64) -> String {
    let power = bound.log2();
    if bound >= 1_048_576.0 && power == power.trunc() {
        return format!("2^{power}");
    }
    if bound >= 1e6 {
        return format!("{bound:e}");
    }
    format!("{bound}")
}

fn article(kind: Option<&str>) -> &'static str {
    match kind {
        Some("object") => "a table",
        Some("array") => "a list",
        Some("boolean") => "a boolean (true or false)",
        Some("string") => "a string",
        Some("integer") => "a whole number",
        Some("number") => "a number",
        _ => "a name or a table",
    }
}
