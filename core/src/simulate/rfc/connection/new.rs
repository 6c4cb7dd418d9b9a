//! A connection of the `rfc` profile as a scenario asks for it: what both ends agree on, and what is assumed.

use std::collections::VecDeque;

use super::pauses::Pauses;
use super::{DELAYED_ACK, DEPARTURE, FIN_AGAIN, RTO, RfcConnection};
use crate::congestion::{Control, State};
use crate::network::{Instant, Nanos};
use crate::recovery::{Options, Rto};
use crate::scenario::{ConnectionSpec, ControlSpec, RtoSpec, Scenario};
use crate::simulate::record::Totals;
use crate::simulate::rfc::packet::Agreed;
use crate::simulate::rfc::receiver::Receiver;
use crate::simulate::timer::Timer;
use crate::simulate::writes::Writes;

impl RfcConnection {
    pub(super) fn of(
        scenario: &Scenario,
        number: usize,
        first_source: usize,
        control: Box<dyn Control>,
    ) -> Self {
        let given = &scenario.connections[number];
        let agreed = agreed(scenario, given);
        let header_bytes = agreed.header_bytes(false, 0);
        let smss = scenario
            .path
            .packet_bytes
            .saturating_sub(header_bytes)
            .max(1);
        let sender = &given.control;
        Self {
            number: number as u32,
            direction: usize::from(given.reverse),
            agreed,
            first_source,
            sender: None,
            seed: Some((options(sender, smss), control, initial_state(sender, smss))),
            rto: rto(&sender.rto).of_linux(sender.is_linux()),
            syn_sent: None,
            written: 1,
            is_closing: false,
            receiver: Receiver::new(
                &given.receiver,
                sender.delayed_ack_segments,
                given.has_linux_receiver(),
                agreed.max_blocks(),
                u64::from(smss),
                agreed.wscale,
            ),
            has_closed: false,
            fin_again: Timer::new(first_source + FIN_AGAIN),
            fin_rto: rto(&sender.rto),
            sender_rcv_nxt: 0,
            sender_echo_ns: None,
            writes: Writes::new(&given.application, given.start_ns()),
            timer: Timer::new(first_source + RTO),
            departure: Timer::new(first_source + DEPARTURE),
            delayed_ack: Timer::new(first_source + DELAYED_ACK),
            delayed_ack_ns: given.receiver.delayed_ack_timer_ns(),
            extra_delay: Nanos::from_ns(given.extra_delay_ns()),
            jitter_ns: given.jitter_ns() as u64,
            pauses: Pauses::of(given.pauses_ns()),
            last_stretch: VecDeque::new(),
            last_truth: None,
            totals: Totals::default(),
        }
    }
}

fn agreed(scenario: &Scenario, given: &ConnectionSpec) -> Agreed {
    // RFC 7323 section 2.3: the smallest shift that lets 16 bits say the window.
    let wscale = (0..14)
        .find(|&shift| given.receiver.rwnd >> shift <= u64::from(u16::MAX))
        .unwrap_or(14);
    // RFC 6691: the MSS option counts fixed headers only.
    let fixed = if scenario.ipv6 { 60 } else { 40 };
    let mss = scenario.path.packet_bytes.saturating_sub(fixed);
    Agreed {
        mss: mss.min(u32::from(u16::MAX)) as u16,
        has_timestamps: given.control.timestamps,
        has_sack: given.has_sack(),
        wscale,
        is_ipv6: scenario.ipv6,
    }
}

/// What `recovery::Sender` is told of a scenario's sender.
pub fn options(sender: &ControlSpec, smss: u32) -> Options {
    let is_linux = sender.is_linux();
    Options {
        is_linux,
        recovery: sender.recovery,
        smss: u64::from(smss),
        initial_window: u64::from(sender.initial_window) * u64::from(smss),
        limited_transmit: sender.limited_transmit || is_linux,
        is_impatient: sender.impatient,
        has_prr: sender.prr,
        has_rack: sender.rack || is_linux,
        restarts_after_idle: sender.slow_start_after_idle,
        max_window: sender.max_window.saturating_mul(u64::from(smss)),
    }
}

/// Window and threshold before the first ACK.
pub fn initial_state(sender: &ControlSpec, smss: u32) -> State {
    State {
        cwnd: f64::from(sender.initial_window) * f64::from(smss),
        ssthresh: sender.initial_ssthresh * f64::from(smss),
        smss: f64::from(smss),
    }
}

/// The timer as a scenario asks for it.
pub fn rto(spec: &RtoSpec) -> Rto {
    Rto::new(
        spec.initial_ns(),
        spec.min_ns(),
        spec.max_ns(),
        spec.granularity_ns(),
        spec.backoff,
    )
}
