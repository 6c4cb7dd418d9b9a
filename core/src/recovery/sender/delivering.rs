//! What each ACK delivered and cost, for a control that wants to know (draft-cheng-iccrg-delivery-rate-estimation-02).

use super::{RecoveryPhase, Sender, Sent};
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
}

impl Default for Delivering {
    fn default() -> Self {
        Self {
            rate: DeliveryRate::default(),
            lost: 0,
            told_lost: 0,
            min_rtt_ns: i64::MAX,
            newest_rtt: None,
        }
    }
}

impl Delivering {
    /// `bytes`: those of the segment that no duplicate ACK had told of.
    pub(super) fn on_delivered(&mut self, now_ns: i64, bytes: u64, sent: &Sent) {
        self.rate
            .on_delivered(bytes, sent.at_ns, sent.end, sent.stamp);
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

    /// The ACK is through with everything else: `prior_in_flight` is the pipe before it came; `is_arrival`: a duplicate
    /// ACK told of a segment.
    pub(super) fn tell_delivery(
        &mut self,
        now_ns: i64,
        newly_acked: u64,
        is_arrival: bool,
        prior_in_flight: u64,
    ) {
        let (in_flight, has_board) = (self.pipe(), self.has_pipe());
        let board_lost = self.board.declared_lost();
        let srtt_ns = self.rto.srtt_ns();
        let Some(delivery) = &mut self.delivery else {
            return;
        };
        if has_board {
            delivery.lost = board_lost;
        } else if is_arrival {
            delivery.rate.on_duplicate(self.options.smss);
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
            is_in_recovery: self.phase == RecoveryPhase::Recovery,
            is_in_loss: self.phase == RecoveryPhase::Loss,
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
