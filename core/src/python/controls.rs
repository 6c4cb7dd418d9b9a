//! The table of controls for Python: rows as dicts.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::congestion::{self, ControlParameter, Profile, SLOW_STARTS, Setting, WINDOWS};

/// The table of controls (core/src/congestion/table.rs): `slow_starts` and `windows`, a dict for each row in order;
/// `controls`, the named ones and the keys for which each stands.
#[pyfunction]
fn controls(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let slow_starts = PyList::empty(py);
    for row in SLOW_STARTS {
        let dict = PyDict::new(py);
        dict.set_item("name", row.name)?;
        dict.set_item("source", row.source)?;
        dict.set_item("parameters", parameters(py, row.parameters)?)?;
        slow_starts.append(dict)?;
    }
    let windows = PyList::empty(py);
    for row in WINDOWS {
        let dict = PyDict::new(py);
        dict.set_item("name", row.name)?;
        dict.set_item("family", row.family)?;
        dict.set_item("spelt", row.spelt)?;
        dict.set_item("source", row.source)?;
        dict.set_item("profiles", profiles(row.profiles))?;
        dict.set_item("is_linux_module", row.is_linux_module)?;
        dict.set_item("has_slow_start", row.has_slow_start)?;
        dict.set_item("keeps_to_its_slow_start", row.keeps_to_its_slow_start)?;
        dict.set_item("is_by_delay", row.is_by_delay)?;
        dict.set_item("is_by_longest_delay", row.is_by_longest_delay)?;
        dict.set_item("is_by_last_loss", row.is_by_last_loss)?;
        dict.set_item("parameters", parameters(py, row.parameters)?)?;
        windows.append(dict)?;
    }
    let named = PyDict::new(py);
    for (name, settings) in congestion::controls() {
        let dict = PyDict::new(py);
        for (key, setting) in settings {
            match setting {
                Setting::Text(text) => dict.set_item(key, text)?,
                Setting::Flag(flag) => dict.set_item(key, flag)?,
            }
        }
        named.set_item(name, dict)?;
    }
    let table = PyDict::new(py);
    table.set_item("slow_starts", slow_starts)?;
    table.set_item("windows", windows)?;
    table.set_item("controls", named)?;
    Ok(table)
}

fn profiles(profiles: &[Profile]) -> Vec<&'static str> {
    profiles.iter().map(|profile| profile.name()).collect()
}

fn parameters<'py>(
    py: Python<'py>,
    parameters: &[ControlParameter],
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for parameter in parameters {
        let dict = PyDict::new(py);
        dict.set_item("name", parameter.name)?;
        dict.set_item("unit", parameter.unit)?;
        if parameter.is_flag() {
            dict.set_item("default", parameter.default != 0.0)?;
        } else {
            dict.set_item("default", parameter.default)?;
        }
        dict.set_item("low", parameter.range.0)?;
        dict.set_item("high", parameter.range.1)?;
        dict.set_item("wanted", parameter.wanted())?;
        dict.set_item("profiles", profiles(parameter.profiles))?;
        dict.set_item("what", parameter.what)?;
        list.append(dict)?;
    }
    Ok(list)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(controls, module)?)
}
