//! A followed capture as JSON, one connection a line: written here so that nothing else need be loaded for it.

use std::fmt::Write;

use super::filter::Filter;
use super::follow::Followed;
use super::summary::{self, Value};

/// Appends one capture as a JSON object; `filter` chooses the connections.
pub fn write_capture(out: &mut String, followed: &Followed, filter: Option<&Filter>) {
    out.push_str("{\"file\": ");
    text(out, &followed.name);
    let counts = &followed.counts;
    let _ = write!(
        out,
        ", \"packets\": {}, \"segments\": {}, \"undecoded\": {{",
        counts.packets, counts.segments
    );
    let causes = counts.causes().into_iter().filter(|(_, count)| *count > 0);
    for (place, (cause, count)) in causes.enumerate() {
        let _ = write!(
            out,
            "{}\"{cause}\": {count}",
            if place > 0 { ", " } else { "" }
        );
    }
    out.push('}');
    if let Some(link) = counts.unknown_link() {
        out.push_str(", \"unknown_link_type\": ");
        text(out, &link);
    }
    out.push_str(", \"truncated\": ");
    match &followed.truncated {
        Some(cut) => {
            let _ = write!(out, "{{\"offset\": {}, \"reason\": ", cut.offset);
            text(out, &cut.reason);
            out.push('}');
        }
        None => out.push_str("null"),
    }
    out.push_str(", \"connections\": [");
    let names: Vec<String> = summary::columns()
        .map(|(name, _)| format!("\"{name}\": "))
        .collect();
    let connections = followed.table.connections().iter();
    let chosen =
        connections.filter(|connection| filter.is_none_or(|filter| filter.accepts(connection)));
    for (place, connection) in chosen.enumerate() {
        out.push_str(if place > 0 { ",\n{" } else { "\n{" });
        for (place, (name, value)) in names.iter().zip(summary::row(connection)).enumerate() {
            if place > 0 {
                out.push_str(", ");
            }
            out.push_str(name);
            cell(out, &value);
        }
        out.push('}');
    }
    out.push_str("]}");
}

fn cell(out: &mut String, value: &Value) {
    let _ = match value {
        Value::Int(value) => write!(out, "{value}"),
        // A whole number keeps no ".0": RTTs are integer nanoseconds, some of them missing.
        Value::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
            write!(out, "{}", *value as i64)
        }
        Value::Float(value) => write!(out, "{value:.3}"),
        Value::Bool(value) => write!(out, "{value}"),
        Value::Text(value) => {
            text(out, value);
            Ok(())
        }
        Value::Missing => write!(out, "null"),
    };
}

/// A JSON string (RFC 8259 section 7).
fn text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers_are_valid_json() {
        let mut out = String::new();
        text(&mut out, "a\"b\\c\u{1}\né");
        assert_eq!(
            serde_json::from_str::<String>(&out).unwrap(),
            "a\"b\\c\u{1}\né"
        );
        let mut out = String::new();
        for value in [
            Value::Float(1.5e9),
            Value::Float(0.25),
            Value::Missing,
            Value::Bool(true),
        ] {
            cell(&mut out, &value);
            out.push(' ');
        }
        assert_eq!(out, "1500000000 0.250 null true ");
    }
}
