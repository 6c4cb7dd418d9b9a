//! What a command answers, as JSON text: to the byte what Python's `json.dumps(value, indent=1, allow_nan=False)` writes.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(json_text, module)?)
}

/// `within`: how many lists and objects it stands in.
#[pyfunction]
#[pyo3(signature = (value, *, within = 0))]
fn json_text(value: &Bound<'_, PyAny>, within: usize) -> PyResult<String> {
    let mut out = String::new();
    write(value, within, &mut out)?;
    Ok(out)
}

fn write(value: &Bound<'_, PyAny>, within: usize, out: &mut String) -> PyResult<()> {
    if let Ok(text) = value.cast::<PyString>() {
        quote(text.to_str()?, out);
    } else if value.is_none() {
        out.push_str("null");
    } else if let Ok(flag) = value.cast::<PyBool>() {
        out.push_str(if flag.is_true() { "true" } else { "false" });
    } else if let Ok(number) = value.cast::<PyFloat>() {
        let number = number.value();
        if !number.is_finite() {
            return Err(PyValueError::new_err(format!(
                "Out of range float values are not JSON compliant: {number}"
            )));
        }
        // Of a subclass (numpy's) too.
        out.push_str(PyFloat::new(value.py(), number).repr()?.to_str()?);
    } else if value.is_instance_of::<PyInt>() {
        out.push_str(value.str()?.to_str()?);
    } else if let Ok(list) = value.cast::<PyList>() {
        items(list.iter(), within, out)?;
    } else if let Ok(tuple) = value.cast::<PyTuple>() {
        items(tuple.iter(), within, out)?;
    } else if let Ok(dict) = value.cast::<PyDict>() {
        members(dict, within, out)?;
    } else {
        let name = value.get_type().name()?;
        let words = format!("Object of type {name} is not JSON serializable");
        return Err(PyTypeError::new_err(words));
    }
    Ok(())
}

fn items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    within: usize,
    out: &mut String,
) -> PyResult<()> {
    let mut before = '[';
    for item in items {
        begin_line(before, within + 1, out);
        write(&item, within + 1, out)?;
        before = ',';
    }
    end(before, ("[]", ']'), within, out);
    Ok(())
}

fn members(dict: &Bound<'_, PyDict>, within: usize, out: &mut String) -> PyResult<()> {
    let mut before = '{';
    for (key, item) in dict {
        begin_line(before, within + 1, out);
        let key = key.cast::<PyString>().map_err(|_| {
            PyTypeError::new_err("the keys of an object are words: nothing else is answered")
        })?;
        quote(key.to_str()?, out);
        out.push_str(": ");
        write(&item, within + 1, out)?;
        before = ',';
    }
    end(before, ("{}", '}'), within, out);
    Ok(())
}

fn begin_line(before: char, within: usize, out: &mut String) {
    out.push(before);
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', within));
}

/// Nothing was written: it is empty.
fn end(before: char, (empty, close): (&str, char), within: usize, out: &mut String) {
    if before != ',' {
        out.push_str(empty);
        return;
    }
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', within));
    out.push(close);
}

/// RFC 8259 section 7, with what is not ASCII as UTF-16 writes it.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(char),
            _ => {
                let mut units = [0; 2];
                for unit in char.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
}
