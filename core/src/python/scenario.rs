//! Scenarios for Python: its tables in, the schema and the normal form out.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use toml::{Table, Value};

use crate::scenario::{self, Scenario};

pyo3::import_exception!(tcptrace_lab.errors, ScenarioError);

/// Deeper than any scenario: a table that holds itself has no end.
const DEEPEST: usize = 16;

fn refused(error: &scenario::ScenarioError) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

/// The scenario that a table describes; `ScenarioError` names the key that is wrong.
pub fn scenario_of(given: &Bound<'_, PyDict>) -> PyResult<Scenario> {
    Scenario::from_table(table(given, "", 0)?).map_err(|error| refused(&error))
}

/// The schema of a scenario file: JSON Schema (draft 2020-12) as text.
#[pyfunction]
fn scenario_schema() -> String {
    scenario::schema().to_string()
}

/// Raises `ScenarioError` if a table is no such part of a scenario (`Node`, `Path`, `Control`, ..., `Scenario`).
#[pyfunction]
fn check_scenario(part: &str, given: &Bound<'_, PyDict>) -> PyResult<()> {
    if part == "Scenario" {
        return scenario_of(given).map(drop);
    }
    scenario::check_part(part, table(given, "", 0)?).map_err(|error| refused(&error))
}

/// The scenario that a table describes with every value said: no names for controls, no common parts, no key that its
/// profile does not read.
#[pyfunction]
fn scenario_table<'py>(given: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    dict(given.py(), &scenario_of(given)?.to_table())
}

fn table(given: &Bound<'_, PyDict>, at: &str, depth: usize) -> PyResult<Table> {
    let mut table = Table::new();
    for (key, value) in given {
        let Ok(key) = key.extract::<String>() else {
            return Err(ScenarioError::new_err(format!(
                "{at}{key}: a key must be a string"
            )));
        };
        let here = format!("{at}{key}");
        table.insert(key, value_of(&value, &here, depth + 1)?);
    }
    Ok(table)
}

fn value_of(given: &Bound<'_, PyAny>, at: &str, depth: usize) -> PyResult<Value> {
    if depth > DEEPEST {
        return Err(ScenarioError::new_err(format!("{at}: nested too deep")));
    }
    if let Ok(dict) = given.cast::<PyDict>() {
        return table(dict, &format!("{at}."), depth).map(Value::Table);
    }
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let items = given.try_iter()?.enumerate();
        let items =
            items.map(|(number, item)| value_of(&item?, &format!("{at}.{number}"), depth + 1));
        return items.collect::<PyResult<_>>().map(Value::Array);
    }
    if given.is_instance_of::<PyBool>() {
        return Ok(Value::Boolean(given.extract()?));
    }
    if given.is_instance_of::<PyString>() {
        return Ok(Value::String(given.extract()?));
    }
    if given.is_instance_of::<PyInt>() {
        // What 64 bits cannot hold is out of every range.
        return given
            .extract()
            .map(Value::Integer)
            .or_else(|_| given.extract().map(Value::Float));
    }
    if given.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(given.extract()?));
    }
    let kind = given.get_type().name()?;
    Err(ScenarioError::new_err(format!(
        "{at}: {kind} is no value of a scenario"
    )))
}

fn dict<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in table {
        dict.set_item(key, object(py, value)?)?;
    }
    Ok(dict)
}

fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Table(table) => dict(py, table)?.into_any(),
        Value::Array(items) => {
            let items: PyResult<Vec<_>> = items.iter().map(|item| object(py, item)).collect();
            PyList::new(py, items?)?.into_any()
        }
        Value::Boolean(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Integer(whole) => whole.into_pyobject(py)?.into_any(),
        Value::Float(number) => number.into_pyobject(py)?.into_any(),
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Datetime(time) => PyString::new(py, &time.to_string()).into_any(),
    })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(scenario_schema, module)?)?;
    module.add_function(wrap_pyfunction!(check_scenario, module)?)?;
    module.add_function(wrap_pyfunction!(scenario_table, module)?)
}
