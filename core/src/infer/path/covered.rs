//! The round trip that each ACK tells of the last segment it covers, before it is asked whether that was sent again.

/// Sends and ACKs of one flow in the order of time; an entry for each.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    pub send_ns: &'a [i64],
    pub send_offset: &'a [i64],
    pub send_end: &'a [i64],
    pub is_retransmission: &'a [bool],
    pub ack_ns: &'a [i64],
    pub snd_una: &'a [i64],
    pub newly_acked: &'a [i64],
    /// The first byte of data.
    pub first: i64,
    /// A packet's: what is longer are several (offload).
    pub smss: i64,
}

impl Flow<'_> {
    /// How many whole packets of a segment lie below an offset.
    fn packets_below(&self, at: usize, offset: i64) -> i64 {
        (offset - self.send_offset[at]).max(0) / self.smss.max(1)
    }
}

/// Of each ACK of new data the time since the last packet that it covers left for the first time; -1: it covers none
/// beyond the ACK before it, or came before that. Each packet of a super-segment tells (Linux takes its first part off).
pub fn round_trips(flow: Flow<'_>) -> Vec<i64> {
    let mut fresh = (0..flow.send_ns.len()).filter(|&at| !flow.is_retransmission[at]);
    let mut next = fresh.next();
    let mut newest = None;
    let mut before = flow.first;
    let each = flow.snd_una.iter().enumerate().map(|(ack, &una)| {
        while let Some(at) = next.filter(|&at| flow.send_end[at] <= una) {
            newest = Some(at);
            next = fresh.next();
        }
        let part = next.filter(|&at| flow.packets_below(at, una) > flow.packets_below(at, before));
        let whole = newest.filter(|&at| flow.send_end[at] > before);
        let told = part.or(whole).filter(|_| flow.newly_acked[ack] > 0);
        before = una;
        let taken = told.map(|at| flow.ack_ns[ack] - flow.send_ns[at]);
        taken.filter(|&taken| taken >= 0).unwrap_or(-1)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_tells_of_the_last_segment_that_it_covers_first() {
        let flow = Flow {
            send_ns: &[0, 1, 2, 30, 31],
            send_offset: &[0, 10, 20, 10, 30],
            send_end: &[10, 20, 30, 20, 40],
            is_retransmission: &[false, false, false, true, false],
            ack_ns: &[20, 21, 22, 50, 51],
            snd_una: &[10, 10, 15, 30, 40],
            newly_acked: &[10, 0, 5, 15, 10],
            first: 0,
            smss: 10,
        };
        assert_eq!(round_trips(flow), [20, -1, -1, 48, 20]);
    }

    #[test]
    fn each_packet_of_a_super_segment_tells() {
        let flow = Flow {
            send_ns: &[0, 5],
            send_offset: &[0, 30],
            send_end: &[30, 55],
            is_retransmission: &[false; 2],
            ack_ns: &[20, 21, 22, 30, 31, 32],
            snd_una: &[10, 15, 20, 40, 50, 55],
            newly_acked: &[10, 5, 5, 20, 10, 5],
            first: 0,
            smss: 10,
        };
        assert_eq!(round_trips(flow), [20, -1, 22, 25, 26, 27]);
    }
}
