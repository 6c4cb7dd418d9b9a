//! What a connection of the `rfc` profile tells of itself: rows of truth, losses, totals.

use super::RfcConnection;
use crate::congestion::State;
use crate::infer::Moment;
use crate::recovery::RecoveryPhase;
use crate::simulate::record::{LossRow, OwnState, SenderState, Totals, TruthRow};
use crate::simulate::rfc::Io;

impl RfcConnection {
    /// A row for each reduction since the last look.
    pub(super) fn record_losses(&mut self, io: &mut Io) {
        let Some(sender) = &mut self.sender else {
            return;
        };
        for reduction in sender.take_reductions() {
            io.recorder.loss(LossRow {
                time_ns: io.now.0,
                connection: self.number,
                offset: reduction.offset - 1,
                detected_by: reduction.detected_by,
                cwnd_before: reduction.cwnd_before,
                ssthresh_after: reduction.ssthresh_after,
            });
        }
    }

    /// A row of truth if window, threshold or state have changed.
    pub(super) fn record(&mut self, io: &mut Io) {
        let Some(sender) = &self.sender else { return };
        let state = match sender.phase() {
            RecoveryPhase::Open => SenderState::Open,
            RecoveryPhase::Disorder => SenderState::Disorder,
            RecoveryPhase::Recovery => SenderState::Recovery,
            RecoveryPhase::Loss => SenderState::Loss,
        };
        let State { cwnd, ssthresh, .. } = sender.state();
        let now = (cwnd, ssthresh, state);
        if self.last_truth == Some(now) {
            return;
        }
        self.last_truth = Some(now);
        let (time_ns, number) = (io.now.0, self.number);
        let moment = Moment {
            snd_una: sender.snd_una() - 1,
            snd_nxt: sender.snd_nxt() - 1,
            is_slow_start: cwnd < ssthresh,
            has_restarted: state == SenderState::Loss,
        };
        io.recorder.window(number, moment, |values| {
            sender.control().snapshot(values);
            TruthRow {
                time_ns,
                connection: number,
                cwnd,
                usable_window: cwnd,
                ssthresh,
                flight_size: sender.pipe() as f64,
                state,
                snd_una: moment.snd_una,
                snd_nxt: moment.snd_nxt,
                rwnd: sender.rwnd() as f64,
                known: OwnState {
                    srtt_ns: sender.srtt_ns(),
                    board: sender.board_counts(),
                },
            }
        });
    }

    /// Totals as they stand.
    pub(super) fn books(&self) -> Totals {
        let acked = self
            .sender
            .as_ref()
            .map_or(0, |sender| sender.snd_una() - 1);
        let fin = u64::from(self.is_closing && acked + 1 == self.written);
        Totals {
            acked: acked - fin,
            delivered: self.receiver.delivered,
            ..self.totals
        }
    }
}
