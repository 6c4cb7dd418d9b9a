//! A table's columns as the lines of a JSON array.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(json_rows, module)?)
}

/// Numbers (`is_open`: negative ones are null) or, where there are words, their places; or cells that are JSON.
#[derive(FromPyObject)]
enum Cells<'py> {
    Numbers {
        #[pyo3(item(0))]
        values: PyReadonlyArray1<'py, i64>,
        #[pyo3(item(1))]
        words: Vec<String>,
        #[pyo3(item(2))]
        is_open: bool,
    },
    #[pyo3(transparent)]
    Texts(Vec<String>),
}

/// The same, borrowed.
enum Column<'a> {
    Numbers(&'a [i64], bool),
    Words(&'a [i64], &'a [String]),
    Texts(&'a [String]),
}

impl Cells<'_> {
    fn column(&self) -> PyResult<Column<'_>> {
        Ok(match self {
            Self::Numbers {
                values,
                words,
                is_open,
            } if words.is_empty() => Column::Numbers(values.as_slice()?, *is_open),
            Self::Numbers { values, words, .. } => Column::Words(values.as_slice()?, words),
            Self::Texts(texts) => Column::Texts(texts),
        })
    }
}

impl Column<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Numbers(values, _) | Self::Words(values, _) => values.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> serde_json::Result<()> {
        match self {
            Self::Numbers(values, is_open) if !is_open || values[row] >= 0 => {
                serde_json::to_writer(out, &values[row])?;
            }
            Self::Texts(texts) => out.extend_from_slice(texts[row].as_bytes()),
            Self::Words(places, words) => {
                let place = usize::try_from(places[row]).ok();
                serde_json::to_writer(out, &place.and_then(|place| words.get(place)))?;
            }
            Self::Numbers(..) => out.extend_from_slice(b"null"),
        }
        Ok(())
    }
}

/// An object for each row, `between` them what is given: `keys` and columns in the order of its members.
#[pyfunction]
fn json_rows(keys: Vec<String>, columns: Vec<Cells<'_>>, between: &str) -> PyResult<String> {
    let columns: Vec<_> = columns.iter().map(Cells::column).collect::<PyResult<_>>()?;
    let rows = columns.first().map_or(0, Column::len);
    if keys.len() != columns.len() || columns.iter().any(|column| column.len() != rows) {
        return Err(PyValueError::new_err(
            "columns of one table are of equal length, each with its key",
        ));
    }
    let wrong = |error: serde_json::Error| PyValueError::new_err(error.to_string());
    let heads = keys.iter().enumerate().map(|(place, key)| {
        let key = serde_json::to_string(key).map_err(wrong)?;
        Ok(format!("{}{key}:", if place == 0 { '{' } else { ',' }))
    });
    let heads: Vec<_> = heads.collect::<PyResult<_>>()?;
    let mut out = Vec::new();
    for row in 0..rows {
        if row > 0 {
            out.extend_from_slice(between.as_bytes());
        }
        for (head, column) in heads.iter().zip(&columns) {
            out.extend_from_slice(head.as_bytes());
            column.write(row, &mut out).map_err(wrong)?;
        }
        out.push(b'}');
    }
    String::from_utf8(out).map_err(|error| PyValueError::new_err(error.to_string()))
}
