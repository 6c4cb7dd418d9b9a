//! A sender that hears a tape: its control's own code, and the window as the documents have it set at a loss.

use super::heard::{TapeEvent, TapeRow};
use crate::congestion::{Ack, Control, Heard, Loss, State};

/// A sender that hears a tape, beside its control.
#[derive(Clone, Copy, Debug)]
pub struct Player {
    pub(super) state: State,
    /// Before the last loss.
    before: State,
    is_started: bool,
    has_restarted: bool,
}

impl Player {
    pub fn new(start: State) -> Self {
        Self {
            state: start,
            before: start,
            is_started: false,
            has_restarted: false,
        }
    }

    /// The window and the threshold after a row behind the first that is an ACK alone.
    pub fn hear_alone(
        &mut self,
        control: &mut dyn Control,
        heard: &Heard,
        later_ns: i64,
    ) -> (f64, f64) {
        control.hear(&mut self.state, heard, later_ns)
    }

    /// The same of one as it is told to it.
    pub fn hear_at(&mut self, control: &mut dyn Control, ack: &mut Ack, opens: bool) -> (f64, f64) {
        ack.is_cwnd_limited |= self.state.is_used(ack.flight_size);
        control.hear_at(&mut self.state, ack, opens)
    }

    /// The window and the threshold after a row, as the control has them; then what was observed is taken over.
    pub fn hear(
        &mut self,
        control: &mut dyn Control,
        row: &TapeRow,
        srtt_ns: Option<i64>,
    ) -> (f64, f64) {
        let state = &mut self.state;
        if !self.is_started {
            control.start(state, row.snd_una.saturating_sub(row.newly_acked as u64));
            self.is_started = true;
        }
        if let Some(rtt_ns) = row.rtt_ns {
            control.on_rtt(row.now_ns, rtt_ns);
        }
        let ack = Ack {
            // What is seen of the window, or that all of this one is used.
            is_cwnd_limited: row.is_cwnd_limited || state.is_used(row.flight_size),
            ..row.ack(srtt_ns)
        };
        if row.event.is_arrival() {
            control.on_arrival(state, &ack);
        }
        match row.event {
            TapeEvent::Ack | TapeEvent::Opening => control.on_ack(state, &ack),
            TapeEvent::Loss | TapeEvent::Restart | TapeEvent::Timeout => self.lose(control, row),
            TapeEvent::Expired => self.expire(control, row),
            TapeEvent::Recovered => {
                // Infinite: of no loss that the tape tells of.
                let left = state.ssthresh.min(row.room.most_after);
                if !self.has_restarted && left.is_finite() {
                    state.cwnd = left;
                }
                control.on_recovered(state, row.now_ns, row.snd_nxt);
            }
            TapeEvent::Undone => {
                self.has_restarted = false;
                state.cwnd = state.cwnd.max(self.before.cwnd);
                state.ssthresh = state.ssthresh.max(self.before.ssthresh);
                control.on_undone(state, row.now_ns, row.snd_nxt);
            }
            TapeEvent::Arrival | TapeEvent::Set => {}
        }
        let state = &mut self.state;
        state.cwnd = state.cwnd.max(state.smss);
        let own = (state.cwnd, state.ssthresh);
        row.take_over(state);
        own
    }

    /// A loss event: the window that it finds, and what it leaves.
    fn lose(&mut self, control: &mut dyn Control, row: &TapeRow) {
        let state = &mut self.state;
        state.cwnd = row.agreed(state.cwnd, state.smss);
        self.before = *state;
        let loss = Loss {
            now_ns: row.now_ns,
            flight_size: row.flight_under(state.cwnd, state.smss),
            snd_nxt: row.snd_nxt,
        };
        if row.event == TapeEvent::Timeout {
            control.on_timeout(state, &loss);
        } else {
            control.on_loss(state, &loss);
        }
        // RFC 5681 equation (4).
        state.ssthresh = state.ssthresh.max(2.0 * state.smss);
        self.has_restarted = row.event != TapeEvent::Loss;
        state.cwnd = if self.has_restarted {
            state.smss
        } else {
            state.ssthresh
        };
    }

    /// A timer within a recovery.
    fn expire(&mut self, control: &mut dyn Control, row: &TapeRow) {
        let loss = Loss {
            now_ns: row.now_ns,
            flight_size: row.flight_size,
            snd_nxt: row.snd_nxt,
        };
        control.on_expired(&mut self.state, &loss);
        self.has_restarted = true;
        self.state.cwnd = self.state.smss;
    }
}
