//! What a sender is told once: which recovery, which of the rules that are options.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens after the third duplicate ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Recovery {
    /// Slow start from one segment, everything above the ACK sent again.
    Tahoe,
    /// RFC 5681 section 3.2.
    Reno,
    /// RFC 6582.
    NewReno,
    /// RFC 6675.
    Sack,
    /// Mathis and Mahdavi 1996.
    Fack,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Differs: as Linux 6 where it is not as the documents. It counts PRR from cwnd, the ACK that ends a recovery opens
    /// the window, and a needless reduction is taken back.
    pub is_linux: bool,
    pub recovery: Recovery,
    pub smss: u64,
    /// Bytes.
    pub initial_window: u64,
    pub limited_transmit: bool,
    /// RFC 6582 section 4: only the first partial ACK restarts the timer, so many losses end in a timeout.
    pub is_impatient: bool,
    /// RFC 9937, with SACK: cwnd follows the ACKs down to ssthresh instead of jumping there.
    pub has_prr: bool,
    /// RFC 8985, with SACK: losses are found by time, and the end of a flight is probed.
    pub has_rack: bool,
    /// RFC 5681 section 4.1.
    pub restarts_after_idle: bool,
    /// Bytes the sender never exceeds, whatever cwnd says.
    pub max_window: u64,
}
