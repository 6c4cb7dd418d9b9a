//! What a duplicate ACK is (RFC 5681 section 2, RFC 6675 section 2): the one definition.

/// What two ACKs in a row are compared by. Windows in any unit, the same for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckContent {
    pub offset: i64,
    pub window: i64,
    /// The highest byte SACKed above the ACK number, and how many are.
    pub sack_high: i64,
    pub sacked: i64,
}

impl AckContent {
    /// Data is outstanding, and the ACK, which carries neither data nor SYN nor FIN, acknowledges nothing new; the window
    /// is as before, or the SACK blocks have news. `before`: the ACK before it, of whatever kind. What repeats that the
    /// window is closed answers a probe (RFC 9293 section 3.8.6.1) and tells of no segment that left.
    pub fn is_duplicate(&self, before: &Self, is_bare: bool, snd_una: i64, snd_max: i64) -> bool {
        let has_new_sack = self.sacked > before.sacked || self.sack_high > before.sack_high;
        is_bare
            && self.offset == snd_una
            && snd_max > snd_una
            && ((self.window == before.window && self.window > 0) || has_new_sack)
    }
}

/// What is SACKed above an ACK number: the highest byte, and how many bytes. A block at or below it is a D-SACK
/// (RFC 2883); one that stands twice counts once.
pub fn above(ack_offset: i64, blocks: &[(i64, i64)]) -> (i64, i64) {
    let (mut high, mut sacked) = (0, 0);
    for (index, &(left, right)) in blocks.iter().enumerate() {
        if left > ack_offset && !blocks[..index].contains(&(left, right)) {
            high = right.max(high);
            sacked += right - left;
        }
    }
    (high, sacked)
}

/// RFC 2883 section 4: a first block below the cumulative ACK, or inside the second, was received twice.
pub fn received_twice(
    ack_offset: i64,
    first: (i64, i64),
    second: Option<(i64, i64)>,
) -> Option<(i64, i64)> {
    let is_inside = second.is_some_and(|second| second.0 <= first.0 && first.1 <= second.1);
    (first.1 <= ack_offset || is_inside).then_some(first)
}
