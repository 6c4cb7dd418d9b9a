//! What each ACK delivered and cost, for a control that wants to know (draft-cheng-iccrg-delivery-rate-estimation-02).

use super::{Phase, Sender, Sent};
use crate::congestion::Delivery;
use crate::recovery::DeliveryRate;

#[derive(Clone, Debug)]
pub struct Delivering {
    pub rate: DeliveryRate,
    /// Found lost so far, and when the control was last told.
    lost: u64,
    told_lost: u64,
    min_rtt_ns: i64,
    /// The round trip of the newest segment that the ACK at hand delivers: when it was sent, how long it took.
    newest_rtt: Option<(i64, i64)>,
    /// Without SACK: what duplicate ACKs have told of, until the hole is filled.
    by_duplicates: u64,
}

impl Default for Delivering {
    fn default() -> Self {
        Self {
            rate: DeliveryRate::default(),
            lost: 0,
            told_lost: 0,
            min_rtt_ns: i64::MAX,
            newest_rtt: None,
            by_duplicates: 0,
        }
    }
}

impl Delivering {
    /// `fills_hole`: the segment at the cumulative point, of which no duplicate ACK can have told.
    pub(super) fn on_delivered(&mut self, now_ns: i64, bytes: u64, sent: &Sent, fills_hole: bool) {
        // What lies behind the hole has been counted when its duplicate ACKs came. As in Linux: the hole itself arrives
        // now, so no ACK of new data delivers nothing, and no sample of one is a rate of 0.
        let counted = if fills_hole {
            0
        } else {
            self.by_duplicates.min(bytes)
        };
        self.by_duplicates -= counted;
        self.rate
            .on_delivered(bytes - counted, sent.at_ns, sent.end, sent.stamp);
        let is_newer = self.newest_rtt.is_none_or(|(at_ns, _)| sent.at_ns >= at_ns);
        if !sent.is_retransmitted && is_newer {
            let rtt_ns = now_ns - sent.at_ns;
            self.newest_rtt = Some((sent.at_ns, rtt_ns));
            self.min_rtt_ns = self.min_rtt_ns.min(rtt_ns);
        }
    }
}

impl Sender {
    /// Bytes found lost, for a sender without scoreboard; with one the board counts.
    pub(in crate::recovery) fn note_lost(&mut self, bytes: u64) {
        let has_board = self.has_pipe();
        if let Some(delivery) = self.delivery.as_mut().filter(|_| !has_board) {
            delivery.lost += bytes;
        }
    }

    /// Without SACK: bytes that duplicate ACKs say have left the path, for a control whose window counts the path.
    pub(super) fn arrived_by_duplicates(&self) -> u64 {
        let delivery = self.delivery.as_ref().filter(|_| self.owns_window);
        delivery.map_or(0, |delivery| delivery.by_duplicates)
    }

    /// Without SACK: what duplicate ACKs tell of from here on is another flight's, or a second copy's.
    pub(super) fn forget_duplicates(&mut self) {
        if let Some(delivery) = &mut self.delivery {
            delivery.by_duplicates = 0;
        }
    }

    /// Whether a duplicate ACK tells of a segment that arrived. Linux: after a timeout everything goes out again, and
    /// only what was never sent before makes news; and one segment of the flight is the hole.
    fn has_arrived(&self, by_duplicates: u64) -> bool {
        let is_news = self.phase != Phase::Loss || self.snd_nxt > self.recover;
        is_news && by_duplicates + 2 * self.options.smss <= self.flight_size()
    }

    /// The application writes: whether all it wrote before had been sent although more was allowed.
    pub(super) fn note_application_limit(&mut self) {
        let pipe = self.pipe();
        let is_short = self.written < self.snd_nxt + self.options.smss
            && pipe < self.cwnd()
            && self.board.next_lost().is_none();
        if let Some(delivery) = self.delivery.as_mut().filter(|_| is_short) {
            delivery.rate.on_app_limited(pipe);
        }
    }

    /// The ACK is through with everything else: `prior_in_flight` is the pipe before it came.
    pub(super) fn tell_delivery(
        &mut self,
        now_ns: i64,
        newly_acked: u64,
        is_dup: bool,
        prior_in_flight: u64,
    ) {
        let (in_flight, has_board) = (self.pipe(), self.has_pipe());
        let board_lost = self.board.declared_lost();
        let srtt_ns = self.rto.srtt_ns();
        let told_by_duplicates = self.delivery.as_ref().map(|told| told.by_duplicates);
        let is_arrival = is_dup && told_by_duplicates.is_some_and(|told| self.has_arrived(told));
        let Some(delivery) = &mut self.delivery else {
            return;
        };
        if has_board {
            delivery.lost = board_lost;
        } else if is_arrival {
            delivery.by_duplicates += self.options.smss;
            delivery.rate.on_duplicate(self.options.smss);
        } else if newly_acked > 0 && self.phase != Phase::Recovery {
            delivery.by_duplicates = 0;
        }
        let (newly_delivered, sample) = delivery.rate.take(now_ns, delivery.min_rtt_ns);
        let told = Delivery {
            now_ns,
            delivered: delivery.rate.delivered(),
            newly_delivered,
            lost: delivery.lost,
            newly_lost: delivery.lost - delivery.told_lost,
            sample,
            rtt_ns: delivery.newest_rtt.take().map(|(_, rtt_ns)| rtt_ns),
            srtt_ns,
            is_maybe_delayed: newly_acked > 0
                && newly_acked < self.options.smss
                && sample.is_some_and(|sample| sample.delivered == newly_acked),
            prior_in_flight,
            in_flight,
            is_in_recovery: self.phase == Phase::Recovery,
            is_in_loss: self.phase == Phase::Loss,
            departure_ns: self.pacer.departure_ns(),
        };
        delivery.told_lost = delivery.lost;
        self.control.on_delivery(&mut self.state, &told);
        if self.control.limits_itself() {
            if let Some(delivery) = &mut self.delivery {
                delivery.rate.on_app_limited(in_flight);
            }
        }
    }
}
