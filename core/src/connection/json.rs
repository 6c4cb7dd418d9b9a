//! Followed connections as JSON: a capture as one object, or a connection a line. Written to a sink as they are made,
//! and without Python: nothing else need be loaded for it.

use std::io::{self, Write};

use rayon::prelude::*;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::connection::Connection;
use super::filter::Filter;
use super::follow::Followed;
use super::summary::{self, Cell};
use super::table::ConnectionTable;

/// Connections as objects under their columns' names, each on one line without the line's end.
pub struct Rows {
    /// `"name":`, as JSON has it: a hundred for each connection, the same ones.
    keys: Vec<String>,
}

/// Rows that one thread makes at a time, and how many such pieces are made before they are written: some megabytes.
const PIECE: usize = 64;
const PIECES: usize = 32;

/// What a capture held besides its connections.
struct Head<'a>(&'a Followed);

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(value) => to.serialize_i64(*value),
            // A whole number keeps no ".0": RTTs are integer nanoseconds, some of them missing.
            Self::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                to.serialize_i64(*value as i64)
            }
            Self::Float(value) => to.serialize_f64((value * 1e3).round() / 1e3),
            Self::Bool(value) => to.serialize_bool(*value),
            Self::Text(value) => to.serialize_str(value),
            Self::Missing => to.serialize_none(),
        }
    }
}

impl Rows {
    pub fn new() -> io::Result<Self> {
        let key = |name: String| Ok(serde_json::to_string(&name)? + ":");
        Ok(Self {
            keys: summary::columns()
                .map(|(name, _)| key(name))
                .collect::<io::Result<_>>()?,
        })
    }

    /// `file` stands first where each row is read alone.
    pub fn push(
        &self,
        text: &mut Vec<u8>,
        file: Option<&str>,
        connection: &Connection,
    ) -> io::Result<()> {
        let mut separator = b'{';
        if let Some(file) = file {
            text.extend_from_slice(b"{\"file\":");
            serde_json::to_writer(&mut *text, file)?;
            separator = b',';
        }
        let mut keys = self.keys.iter();
        summary::row(connection).try_for_each(|value| {
            text.push(separator);
            separator = b',';
            text.extend_from_slice(keys.next().map_or(b"", |key| key.as_bytes()));
            serde_json::to_writer(&mut *text, &value)
        })?;
        text.push(b'}');
        Ok(())
    }

    /// Those of `ids` that are in the table and accepted, each behind a comma on a line of its own.
    fn some(
        &self,
        table: &ConnectionTable,
        ids: &[usize],
        filter: Option<&Filter>,
    ) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        for connection in ids.iter().filter_map(|&id| table.connection(id)) {
            if filter.is_none_or(|filter| filter.accepts(&connection)) {
                text.extend_from_slice(b",\n");
                self.push(&mut text, None, &connection)?;
            }
        }
        Ok(text)
    }
}

impl Head<'_> {
    fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let counts = &self.0.counts;
        map.serialize_entry("packets", &counts.packets)?;
        map.serialize_entry("segments", &counts.segments)?;
        let causes = counts.causes().into_iter().filter(|(_, count)| *count > 0);
        map.serialize_entry(
            "undecoded",
            &causes.collect::<std::collections::BTreeMap<_, _>>(),
        )?;
        if let Some(link) = counts.unknown_link() {
            map.serialize_entry("unknown_link_type", &link)?;
        }
        let cut = self.0.truncated.as_ref();
        let cut = cut.map(|cut| serde_json::json!({"offset": cut.offset, "reason": cut.reason}));
        map.serialize_entry("truncated", &cut)
    }
}

/// One capture as an object, a connection a line; `filter` chooses the connections.
pub fn write_capture(
    out: &mut impl Write,
    followed: &Followed,
    filter: Option<&Filter>,
) -> io::Result<()> {
    write!(out, "{{\"file\": ")?;
    serde_json::to_writer(&mut *out, &followed.name)?;
    let mut head = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut head);
    let mut map = serializer.serialize_map(None)?;
    Head(followed).entries(&mut map)?;
    SerializeMap::end(map)?;
    // The object goes on with the connections.
    head.pop();
    out.write_all(b", ")?;
    out.write_all(&head[1..])?;
    out.write_all(b", \"connections\": [")?;
    let (rows, table) = (Rows::new()?, &followed.table);
    let ids: Vec<_> = table.ids().collect();
    let mut is_first = true;
    for some in ids.chunks(PIECE * PIECES) {
        let pieces = some
            .par_chunks(PIECE)
            .map(|ids| rows.some(table, ids, filter));
        for piece in pieces.collect::<Vec<_>>() {
            let piece = piece?;
            // No comma before the first.
            let written = &piece[usize::from(is_first).min(piece.len())..];
            out.write_all(written)?;
            is_first &= written.is_empty();
        }
    }
    out.write_all(b"]}")
}

/// The last line of a capture written line by line: its packets, and what left the table before its end.
pub fn write_summary(out: &mut impl Write, followed: &Followed) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::new(&mut *out);
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("file", &followed.name)?;
    Head(followed).entries(&mut map)?;
    let (left_idle, resumed) = followed.table.left_idle();
    map.serialize_entry("left_idle", &left_idle)?;
    map.serialize_entry("resumed", &resumed)?;
    SerializeMap::end(map)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_whole_as_they_are() {
        let values = [
            Cell::Float(1.5e9),
            Cell::Float(0.25),
            Cell::Float(1.23456),
            Cell::Missing,
            Cell::Bool(true),
            Cell::Text("a\"b\\c\u{1}\n\u{e9}".to_owned()),
        ];
        let text = serde_json::to_string(&values[..]).unwrap();
        assert_eq!(
            text,
            "[1500000000,0.25,1.235,null,true,\"a\\\"b\\\\c\\u0001\\n\u{e9}\"]"
        );
    }
}
