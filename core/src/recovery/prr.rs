//! Proportional rate reduction (RFC 9937): in recovery, send in proportion to what arrives.

/// One recovery's accounts, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Prr {
    delivered: u64,
    out: u64,
    /// Outstanding when recovery began.
    recover_fs: u64,
}

impl Prr {
    pub fn new(flight_size: u64) -> Self {
        Self {
            delivered: 0,
            out: 0,
            recover_fs: flight_size.max(1),
        }
    }

    /// An ACK delivered `delivered` bytes; returns how much may be sent now (section 6.2).
    pub fn on_ack(
        &mut self,
        delivered: u64,
        pipe: u64,
        ssthresh: u64,
        smss: u64,
        is_safe: bool,
    ) -> u64 {
        self.delivered += delivered;
        if pipe > ssthresh {
            // Proportional: ssthresh / RecoverFS of what was delivered.
            let share = (self.delivered as u128 * u128::from(ssthresh))
                .div_ceil(u128::from(self.recover_fs)) as u64;
            return share.saturating_sub(self.out);
        }
        // Reduction bound: what arrives may be replaced, and while snd.una moves and nothing more is lost (SafeACK) one
        // segment more. Retransmissions that were lost are part of `out`, so the difference alone would stop the sender
        // for ever.
        let limit = self.delivered.saturating_sub(self.out).max(delivered);
        let limit = if is_safe { limit + smss } else { limit };
        limit.min(ssthresh - pipe)
    }

    pub fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_window_is_sent_while_all_of_it_arrives() {
        // 20 segments outstanding, ssthresh 10, one lost: every second ACK sends one.
        let mut prr = Prr::new(20_000);
        let mut pipe = 19_000;
        let mut sent = 0;
        for _ in 0..9 {
            pipe -= 1000;
            let may = prr.on_ack(1000, pipe, 10_000, 1000, false);
            let segments = may / 1000;
            prr.on_sent(segments * 1000);
            sent += segments;
            pipe += segments * 1000;
        }
        assert_eq!(sent, 4);
    }

    #[test]
    fn many_losses_are_not_followed_by_a_burst() {
        // The pipe has fallen far below ssthresh: what arrives is replaced, and one segment more per advance.
        let mut prr = Prr::new(20_000);
        assert_eq!(prr.on_ack(1000, 3000, 10_000, 1000, false), 1000);
        prr.on_sent(1000);
        assert_eq!(prr.on_ack(1000, 3000, 10_000, 1000, true), 2000);
    }
}
