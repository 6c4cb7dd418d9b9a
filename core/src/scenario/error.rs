//! Why a scenario cannot be run: the key as a path (`path.nodes.0.buffer`), and what is wrong with it.

use toml::Value;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    #[error("{key} = {found}: must be {wanted}")]
    Value {
        key: String,
        found: Value,
        wanted: String,
    },
    #[error("{key}: unknown key{}", did_you_mean(nearest))]
    Unknown {
        key: String,
        nearest: Option<String>,
    },
    #[error("{key}: missing")]
    Missing { key: String },
    #[error("{key}: {reason}")]
    Conflict { key: String, reason: String },
}

impl ScenarioError {
    pub fn value(key: &str, found: impl Into<Value>, wanted: impl Into<String>) -> Self {
        Self::Value {
            key: key.to_owned(),
            found: found.into(),
            wanted: wanted.into(),
        }
    }

    pub fn conflict(key: &str, reason: impl Into<String>) -> Self {
        Self::Conflict {
            key: key.to_owned(),
            reason: reason.into(),
        }
    }
}

/// The known name that is most like another; none if they have little in common.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().map(|known| {
        let likeness = strsim::normalized_damerau_levenshtein(name, known);
        // `min` is meant for `min_s`, however many letters a longer name adds.
        let begins = !name.is_empty() && known.starts_with(name);
        (likeness.max(if begins { 0.6 } else { 0.0 }), known)
    });
    near.filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

pub fn did_you_mean(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map_or_else(String::new, |nearest| format!(" (did you mean {nearest}?)"))
}
