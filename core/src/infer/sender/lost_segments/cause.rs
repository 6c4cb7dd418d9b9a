//! Why a byte range was sent again: each segment's part in the loss events.
//!
//! Assumes a tap at or near the sender, as the events do.

use crate::infer::sender::rows::sequence::Sequence;
use crate::infer::sender::rows::trace::{LossEvent, Trace};
use crate::recovery::DetectedBy;

/// The reason of one segment that is not simply new data in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cause {
    /// New data in order.
    #[default]
    None = 0,
    /// RFC 5681 section 3.2: the third duplicate ACK (or as much SACKed) asked for the first hole.
    FastRetransmit = 1,
    /// RFC 6675 or RACK: a later hole, known from SACK blocks.
    SackRecovery = 2,
    /// RFC 6582: a partial ACK during recovery asked for the next hole.
    PartialAck = 3,
    /// RFC 6298: nothing came back for a timeout.
    Rto = 4,
    /// What follows a timeout, or Tahoe's fast retransmission: everything beyond `snd_una` again, in order.
    GoBackN = 5,
    /// RFC 8985 section 7: the last segment once more, sooner than a timeout.
    TailLossProbe = 6,
    /// Every byte had been acknowledged before it was sent again.
    AlreadyAcked = 7,
    /// Never seen before and too soon for a retransmission: the tap or the path swapped packets.
    OutOfOrder = 8,
    /// The same packet captured twice.
    DuplicateCapture = 9,
    /// RFC 9293 section 3.8.4.
    KeepAlive = 10,
    /// RFC 9293 section 3.8.6.1: a byte into a closed window.
    WindowProbe = 11,
    /// Never seen before and later than a round trip: the first copy was lost upstream of the tap.
    LostBeforeTap = 12,
    /// A retransmission that fits none of these: no ACK tells of it.
    Unknown = 13,
}

impl Cause {
    pub const ALL: [(Self, &'static str); 14] = [
        (Self::None, ""),
        (Self::FastRetransmit, "fast_retransmit"),
        (Self::SackRecovery, "sack_recovery"),
        (Self::PartialAck, "partial_ack"),
        (Self::Rto, "rto"),
        (Self::GoBackN, "go_back_n"),
        (Self::TailLossProbe, "tail_loss_probe"),
        (Self::AlreadyAcked, "already_acked"),
        (Self::OutOfOrder, "out_of_order"),
        (Self::DuplicateCapture, "duplicate_capture"),
        (Self::KeepAlive, "keep_alive"),
        (Self::WindowProbe, "window_probe"),
        (Self::LostBeforeTap, "lost_before_tap"),
        (Self::Unknown, "unknown"),
    ];

    /// Whether bytes that the capture has seen were sent again.
    pub fn is_retransmission(self) -> bool {
        self.is_sent() && !matches!(self, Self::None | Self::LostBeforeTap)
    }

    /// Whether it is a transmission of the sender's window: not a copy, a probe, or what the tap put out of order.
    pub fn is_sent(self) -> bool {
        !matches!(
            self,
            Self::OutOfOrder | Self::DuplicateCapture | Self::KeepAlive | Self::WindowProbe
        )
    }
}

/// The cause of each retransmission in turn (`Sequence::again`), with a confidence between 0 and 1.
pub fn causes(trace: &Trace, seen: &Sequence, events: &[LossEvent]) -> Vec<(Cause, f32)> {
    let mut found = vec![(Cause::Unknown, 0.3); seen.again.len()];
    for (number, event) in events.iter().enumerate() {
        let bound = events
            .get(number + 1)
            .map_or(trace.send_ns.len(), |next| next.first_send);
        let ranks = seen.again_within(event.first_send, bound);
        // A probe is no recovery: what it brought to light begins with the next retransmission.
        let mut is_first = true;
        for rank in ranks {
            let send = seen.again[rank] as usize;
            let is_probe = event.detected_by == DetectedBy::Tlp && send == event.first_send;
            found[rank] = if trace.send_end[send] <= seen.una_at(send) {
                (Cause::AlreadyAcked, 0.9)
            } else if is_probe {
                (Cause::TailLossProbe, 0.85)
            } else if std::mem::take(&mut is_first) {
                first(event)
            } else if event.restarts {
                (Cause::GoBackN, 0.9)
            } else if trace.has_sack {
                (Cause::SackRecovery, 0.95)
            } else {
                (Cause::PartialAck, 0.8)
            };
        }
    }
    found
}

/// What began a recovery.
fn first(event: &LossEvent) -> (Cause, f32) {
    let confidence = if event.sure { 0.95 } else { 0.6 };
    match event.detected_by {
        DetectedBy::Rto | DetectedBy::Undone => (Cause::Rto, confidence),
        _ => (Cause::FastRetransmit, confidence),
    }
}
