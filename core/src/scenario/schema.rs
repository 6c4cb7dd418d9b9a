//! The schema as JSON Schema (draft 2020-12): what a scenario file may say, key by key.
//!
//! `x-unit` is a number's unit, `x-profiles` the profiles that read a key (all, if absent), `x-default` a default that
//! JSON has no number for. A file may say more than a `Scenario` holds: `read` says what it means.

use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Map, Value, json};

use super::Scenario;
use crate::congestion::{self, ControlParameter, SLOW_STARTS, SlowStartRow, WINDOWS, WindowRow};

static FILE: LazyLock<Value> = LazyLock::new(file);

/// The schema of a scenario file.
pub fn schema() -> &'static Value {
    &FILE
}

/// A table of the schema by its name (`NodeSpec`, `ControlSpec`, ...), or the whole file's (`Scenario`).
pub fn definition(name: &str) -> Option<&'static Value> {
    match name {
        "Scenario" => Some(&FILE),
        _ => FILE["$defs"].get(name),
    }
}

fn file() -> Value {
    let mut schema = schemars::schema_for!(Scenario).to_value();
    tidy(&mut schema);
    let names: Vec<&str> = congestion::controls().map(|(name, _)| name).collect();
    let control = &mut schema["$defs"]["ControlSpec"];
    control["additionalProperties"] = json!(false);
    control["properties"]["name"] = json!({
        "type": "string",
        "enum": names,
        "description": "A row of the table of controls, from which the other keys depart.",
    });
    for parameter in congestion::parameters() {
        control["properties"][parameter.name] = described(parameter);
    }
    let segments = control["properties"]["delayed_ack_segments"].clone();
    schema["$defs"]["ReceiverSpec"]["properties"]["delayed_ack_segments"] = segments;
    let named = json!({
        "description": "The sender: a row of the table of controls by its name, or a table.",
        "anyOf": [{"type": "string", "enum": names}, {"$ref": "#/$defs/ControlSpec"}],
    });
    schema["$defs"]["ConnectionSpec"]["properties"]["control"] = named.clone();
    // What stands at the top holds for every connection that does not say otherwise.
    let top = &mut schema["properties"];
    top["control"] = named;
    top["receiver"] = json!({"$ref": "#/$defs/ReceiverSpec"});
    top["application"] = json!({"$ref": "#/$defs/ApplicationSpec"});
    schema["required"] = json!(["path", "duration_s"]);
    schema["title"] = json!("A scenario of tcptrace_lab");
    schema
}

/// Names as one list; defaults that can be said in JSON, those of whole tables left out.
fn tidy(schema: &mut Value) {
    let Value::Object(object) = schema else {
        if let Value::Array(items) = schema {
            items.iter_mut().for_each(tidy);
        }
        return;
    };
    object.values_mut().for_each(tidy);
    // Every other program writes lines of text; the words here were wrapped for the source.
    if let Some(Value::String(words)) = object.get_mut("description") {
        *words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if let Some(names) = object.get("oneOf").and_then(names) {
        object.remove("oneOf");
        object.insert("type".to_owned(), json!("string"));
        object.insert("enum".to_owned(), names);
    }
    match object.get("default") {
        Some(Value::Null) => {
            object.remove("default");
            object.insert("x-default".to_owned(), json!("inf"));
        }
        Some(Value::Object(_)) => {
            object.remove("default");
        }
        _ => {}
    }
}

/// Variants of which some are described one by one.
fn names(variants: &Value) -> Option<Value> {
    let names = |variant: &Value| match (variant.get("const"), variant.get("enum")) {
        (Some(name), _) => Some(vec![name.clone()]),
        (None, Some(Value::Array(names))) => Some(names.clone()),
        _ => None,
    };
    let found: Option<Vec<Vec<Value>>> = variants.as_array()?.iter().map(names).collect();
    found.map(|found| Value::Array(found.concat()))
}

/// A row of a control's parameters as a key.
fn described(parameter: &ControlParameter) -> Value {
    let mut key = Map::new();
    key.insert("description".to_owned(), json!(parameter.what));
    if parameter.is_flag() {
        key.insert("type".to_owned(), json!("boolean"));
        key.insert("default".to_owned(), json!(parameter.default != 0.0));
    } else {
        key.insert("type".to_owned(), json!("number"));
        key.insert("default".to_owned(), json!(parameter.default));
        key.insert("x-unit".to_owned(), json!(parameter.unit));
        let (low, high) = parameter.range;
        if low == f64::MIN_POSITIVE {
            key.insert("exclusiveMinimum".to_owned(), json!(0));
        } else {
            key.insert("minimum".to_owned(), json!(low));
        }
        key.insert("maximum".to_owned(), json!(high));
    }
    let profiles: Vec<&str> = parameter.profiles.iter().map(|p| p.name()).collect();
    key.insert("x-profiles".to_owned(), json!(profiles));
    Value::Object(key)
}

fn one_of(names: impl Iterator<Item = &'static str>) -> Schema {
    json_schema!({"type": "string", "enum": names.collect::<Vec<_>>()})
}

impl Serialize for SlowStartRow {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for &'static SlowStartRow {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        congestion::slow_start(&name).ok_or_else(|| D::Error::custom("no such slow start"))
    }
}

impl JsonSchema for SlowStartRow {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SlowStart".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        one_of(SLOW_STARTS.iter().map(|row| row.name))
    }
}

impl Serialize for WindowRow {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for &'static WindowRow {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        congestion::window(&name).ok_or_else(|| D::Error::custom("no such window"))
    }
}

impl JsonSchema for WindowRow {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Window".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        one_of(WINDOWS.iter().map(|row| row.name))
    }
}
