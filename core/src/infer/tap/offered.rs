//! What was sent beyond the windows that were offered, at some scale of them.

/// Segments in the order of capture: new data that something had been heard before, by where it ends.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'a> {
    pub offset: &'a [i64],
    pub length: &'a [i64],
    pub is_retransmission: &'a [bool],
    /// How many ACKs had passed before each.
    pub passed: &'a [i32],
}

/// ACKs in the order of capture; a SYN's window is not scaled.
#[derive(Clone, Copy, Debug)]
pub struct Offered<'a> {
    pub edge: &'a [i64],
    pub rwnd: &'a [i64],
    pub is_scaled: &'a [bool],
}

/// How many there were, and of them how many ended beyond what the ACK before them offered, and beyond what the next one
/// did as well; by more than `slack`. A byte alone may probe a window that is shut.
pub fn beyond(sent: Sent<'_>, offered: Offered<'_>, shift: u32, slack: i64) -> [usize; 3] {
    let offers = |ack: usize| {
        let scale = if offered.is_scaled[ack] { shift } else { 0 };
        offered.edge[ack] + (offered.rwnd[ack] << scale)
    };
    let (mut heard, mut most) = (0, i64::MIN);
    let mut found = [0; 3];
    for (at, &passed) in sent.passed.iter().enumerate() {
        let passed = usize::try_from(passed).unwrap_or(0).min(offered.edge.len());
        if passed == 0 || sent.length[at] <= 1 || sent.is_retransmission[at] {
            continue;
        }
        while heard < passed {
            most = most.max(offers(heard));
            heard += 1;
        }
        let end = sent.offset[at] + sent.length[at];
        let is_beyond_next = passed < offered.edge.len() && end > most.max(offers(passed)) + slack;
        found[0] += 1;
        found[1] += usize::from(end > most + slack);
        found[2] += usize::from(is_beyond_next);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scaled_window_allows_is_not_beyond_it() {
        let sent = Sent {
            offset: &[0, 1000, 2000, 3000, 1000],
            length: &[1000, 1000, 1000, 1, 1000],
            is_retransmission: &[false, false, false, false, true],
            passed: &[0, 1, 1, 2, 2],
        };
        let offered = Offered {
            edge: &[0, 1000],
            rwnd: &[1000, 900],
            is_scaled: &[true, true],
        };
        assert_eq!(beyond(sent, offered, 0, 0), [2, 2, 2]);
        assert_eq!(beyond(sent, offered, 0, 600), [2, 2, 1]);
        assert_eq!(beyond(sent, offered, 1, 0), [2, 1, 1]);
        assert_eq!(beyond(sent, offered, 2, 0), [2, 0, 0]);
    }
}
