//! What tells a sender of a loss: ours, and one that a capture shows.

/// What told a sender of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DetectedBy {
    /// RFC 5681 section 3.2: the third duplicate ACK.
    DupAck,
    /// RFC 6675, RFC 8985: what is SACKed above the hole.
    Sack,
    /// RFC 6298: nothing came back for a timeout.
    Rto,
    /// RFC 8985 section 7: the last segment once more, sooner than a timeout.
    Tlp,
    /// Fewer duplicate ACKs than RFC 5681 wants: a sender's own threshold or timer.
    Reordering,
    /// RFC 6298's timer, and then the answer that nothing was lost: the reduction was taken back (RFC 3522, RFC 5682).
    Undone,
}

impl DetectedBy {
    /// In the order of their codes.
    pub const ALL: [Self; 6] = [
        Self::DupAck,
        Self::Sack,
        Self::Rto,
        Self::Tlp,
        Self::Reordering,
        Self::Undone,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::DupAck => "dupack",
            Self::Sack => "sack",
            Self::Rto => "rto",
            Self::Tlp => "tlp",
            Self::Reordering => "reordering",
            Self::Undone => "undone",
        }
    }

    /// Whether the window falls: for a probe, or a timer that was mistaken, it does not.
    pub fn is_loss(self) -> bool {
        !matches!(self, Self::Tlp | Self::Undone)
    }
}
