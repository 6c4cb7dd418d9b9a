//! The cells of the connections table, and what its columns hold.

use crate::infer::Samples;

/// One cell; `Missing` where the capture cannot tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Missing,
}

/// What a column holds; a `Float` column may miss values, an `Int` or `Bool` column may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    Float,
    Bool,
    Text,
}

pub(super) fn int(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

pub(super) fn float(value: Option<f64>) -> Cell {
    value
        .filter(|value| value.is_finite())
        .map_or(Cell::Missing, Cell::Float)
}

pub(super) fn number(value: Option<impl Into<i64>>) -> Cell {
    value.map_or(Cell::Missing, |value| Cell::Float(value.into() as f64))
}

pub(super) fn among(samples: &Samples, value: i64) -> Cell {
    number((samples.count() > 0).then_some(value))
}
