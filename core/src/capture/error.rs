//! What can be wrong with a capture, and where.

use std::io;

use thiserror::Error;

/// A capture that cannot be read at all. One cut short is no error: see [`Truncated`].
#[derive(Debug, Error)]
pub enum CaptureError {
    #[error("{file}: {}", told(source))]
    Io { file: String, source: io::Error },
    /// A file or section header that says no capture, or one of an unknown kind, follows.
    #[error("{file}: at byte {offset}: {layer}: {reason}")]
    Header {
        file: String,
        offset: u64,
        layer: &'static str,
        reason: String,
    },
}

/// What the system says, without its number of the error.
fn told(error: &io::Error) -> String {
    let words = error.to_string();
    words
        .split_once(" (os error")
        .map_or(words.clone(), |(reason, _)| reason.to_owned())
}

/// Where a capture stopped making sense: all records before this point were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// Byte of the (decompressed) stream at which the incomplete or impossible record begins.
    pub offset: u64,
    pub reason: String,
}
