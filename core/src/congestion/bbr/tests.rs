//! BBR on a path of 1000 bytes per millisecond and a round trip of 50 ms: 50 segments of 1000 bytes fill it.

use super::*;
use crate::congestion::RateSample;

const MS: i64 = 1_000_000;

fn state(segments: f64) -> State {
    State {
        cwnd: segments * 1000.0,
        ssthresh: f64::INFINITY,
        smss: 1000.0,
    }
}

/// An ACK of one segment at `now_ms`, whose sample says `rate` segments per second over 50 ms.
fn delivery(now_ms: i64, delivered: u64, prior: u64, rate: f64) -> Delivery {
    Delivery {
        now_ns: now_ms * MS,
        delivered: 1000 * delivered,
        newly_delivered: 1000,
        sample: Some(RateSample {
            prior_delivered: 1000 * prior,
            delivered: (rate * 1000.0 * 0.05) as u64,
            interval_ns: Some(50 * MS),
            is_app_limited: false,
        }),
        rtt_ns: Some(50 * MS),
        srtt_ns: Some(50 * MS),
        prior_in_flight: 50_000,
        in_flight: 50_000,
        ..Delivery::default()
    }
}

fn started() -> (Bbr, State) {
    let (mut bbr, mut state) = (Bbr::new(1), state(10.0));
    bbr.on_established(&mut state, 0, Some(50 * MS));
    (bbr, state)
}

/// One round trip: the segment sent when `delivered` had been delivered is acknowledged `by` later.
fn round(bbr: &mut Bbr, state: &mut State, now_ms: i64, delivered: u64, by: u64, rate: f64) {
    let ack = delivery(now_ms, delivered + by, delivered, rate);
    bbr.on_delivery(state, &ack);
}

/// Startup, and the round trips that show it the pipe is full.
fn filled() -> (Bbr, State, i64, u64) {
    let (mut bbr, mut state) = started();
    let (mut now_ms, mut delivered) = (50, 1);
    for rate in [200.0, 577.0, 1000.0, 1000.0, 1000.0, 1000.0] {
        round(&mut bbr, &mut state, now_ms, delivered, 50, rate);
        (now_ms, delivered) = (now_ms + 50, delivered + 50);
    }
    (bbr, state, now_ms, delivered)
}

#[test]
fn the_initial_window_is_paced_over_the_handshake_s_round_trip_at_the_high_gain() {
    let (bbr, _) = started();
    // 10 000 bytes / 50 ms = 200 000 bytes/s; * 739/256 * 0.99 = 571 570.3.
    let rate = bbr.pacing_rate().expect("paces");
    assert!((rate - 571_570.3).abs() < 0.1, "{rate}");
}

#[test]
fn startup_ends_after_three_round_trips_without_a_quarter_more() {
    let (mut bbr, mut state) = started();
    let mut modes = Vec::new();
    let (mut now_ms, mut delivered) = (50, 1);
    for rate in [200.0, 577.0, 1000.0, 1100.0, 1100.0, 1100.0] {
        round(&mut bbr, &mut state, now_ms, delivered, 50, rate);
        modes.push(bbr.mode());
        (now_ms, delivered) = (now_ms + 50, delivered + 50);
    }
    // 1000 is the last growth by a quarter; 1100 three times is less than 1250.
    assert_eq!(modes[..5], [Mode::Startup; 5]);
    // 50 segments in flight are no more than the product, 55, and quanta: nothing to drain.
    assert_eq!(modes[5], Mode::ProbeBw);
}

#[test]
fn drain_lasts_until_the_product_is_in_flight() {
    let (mut bbr, mut state) = started();
    let (mut now_ms, mut delivered) = (50, 1);
    let mut seen = Vec::new();
    for in_flight in [50, 100, 150, 150, 150, 150, 100, 57, 56] {
        let ack = Delivery {
            in_flight: 1000 * in_flight,
            ..delivery(now_ms, delivered + 50, delivered, 1000.0)
        };
        bbr.on_delivery(&mut state, &ack);
        seen.push((bbr.mode(), bbr.pacing_gain()));
        (now_ms, delivered) = (now_ms + 50, delivered + 50);
    }
    // 1000 segments/s * 50 ms = 50 segments; three quanta of two: 56.
    assert_eq!(seen[2].0, Mode::Startup);
    assert_eq!(seen[3], (Mode::Drain, DRAIN_GAIN));
    assert_eq!(seen[7].0, Mode::Drain);
    assert_eq!(seen[8].0, Mode::ProbeBw);
}

#[test]
fn the_window_is_two_products_and_three_quanta() {
    let (mut bbr, mut state, mut now_ms, mut delivered) = filled();
    for _ in 0..120 {
        round(&mut bbr, &mut state, now_ms, delivered, 50, 1000.0);
        (now_ms, delivered) = (now_ms + 50, delivered + 50);
    }
    // 2 * 50 + 3 * 2 = 106; two more while it probes; a lump of one segment is always there.
    let probing = if bbr.pacing_gain() > 1.0 { 2000.0 } else { 0.0 };
    assert!(
        (106_000.0..=108_000.0).contains(&(state.cwnd - probing)),
        "{}",
        state.cwnd
    );
    // 1 000 000 bytes/s * gain * 0.99.
    let rate = bbr.pacing_rate().expect("paces");
    assert!((rate - 990_000.0 * bbr.pacing_gain()).abs() < 1.0);
}

#[test]
fn the_gains_go_round_in_order_a_round_trip_each() {
    let (mut bbr, mut state, mut now_ms, mut delivered) = filled();
    let mut gains = vec![bbr.pacing_gain()];
    for _ in 0..40 {
        let aim = if bbr.pacing_gain() > 1.0 {
            80_000
        } else {
            70_000
        };
        let ack = Delivery {
            prior_in_flight: aim,
            ..delivery(now_ms + 1, delivered + 50, delivered, 1000.0)
        };
        bbr.on_delivery(&mut state, &ack);
        gains.push(bbr.pacing_gain());
        (now_ms, delivered) = (now_ms + 51, delivered + 50);
    }
    let first = gains.iter().position(|&gain| gain > 1.0).expect("a probe");
    for (n, gain) in gains[first..].iter().enumerate() {
        assert_eq!(*gain, CYCLE[n % 8], "{n}: {gains:?}");
    }
    assert_ne!(gains[0], 0.75);
}

#[test]
fn the_bandwidth_is_the_largest_rate_of_ten_round_trips() {
    let (mut bbr, mut state, mut now_ms, mut delivered) = filled();
    for n in 0..12 {
        assert_eq!(bbr.bandwidth(), if n < 11 { 1e6 } else { 8e5 }, "{n}");
        round(&mut bbr, &mut state, now_ms, delivered, 40, 800.0);
        (now_ms, delivered) = (now_ms + 50, delivered + 40);
    }
}

#[test]
fn a_slow_sample_of_the_application_says_nothing() {
    let (mut bbr, mut state, now_ms, delivered) = filled();
    let limited = |rate: f64| {
        let mut ack = delivery(now_ms, delivered + 1, delivered, rate);
        ack.sample = ack.sample.map(|sample| RateSample {
            is_app_limited: true,
            ..sample
        });
        ack
    };
    bbr.on_delivery(&mut state, &limited(10.0));
    assert_eq!(bbr.bandwidth(), 1e6);
    // More than ever is more, whoever limits.
    bbr.on_delivery(&mut state, &limited(2000.0));
    assert_eq!(bbr.bandwidth(), 2e6);
}

#[test]
fn after_ten_seconds_the_round_trip_is_measured_at_four_segments_for_200_ms() {
    let (mut bbr, mut state, mut now_ms, mut delivered) = filled();
    let mut modes = Vec::new();
    // The round trip was last at its smallest at 0 (the handshake); 60 ms since.
    while now_ms < 11_000 {
        let mut ack = delivery(now_ms, delivered + 5, delivered, 1000.0);
        ack.rtt_ns = Some(60 * MS);
        if bbr.mode() == Mode::ProbeRtt {
            ack.in_flight = 4000;
        }
        bbr.on_delivery(&mut state, &ack);
        modes.push((now_ms, bbr.mode(), state.cwnd));
        (now_ms, delivered) = (now_ms + 5, delivered + 5);
    }
    let probing: Vec<_> = modes
        .iter()
        .filter(|(_, mode, _)| *mode == Mode::ProbeRtt)
        .collect();
    assert_eq!(probing[0].0, 10_005);
    assert!(probing.iter().all(|(_, _, cwnd)| *cwnd == 4000.0));
    let after = modes
        .iter()
        .find(|(at, mode, _)| *at > 10_005 && *mode == Mode::ProbeBw);
    // Seen at four segments with the next ACK, 200 ms from there, and the ACK after.
    assert_eq!(after.map(|(at, ..)| *at), Some(10_215));
    assert!(after.is_some_and(|(.., cwnd)| *cwnd > 50_000.0));
    assert_eq!(bbr.min_rtt_ns(), Some(60 * MS));
}

#[test]
fn a_loss_conserves_packets_for_a_round_trip_and_then_returns_to_the_window() {
    let (mut bbr, mut state, now_ms, delivered) = filled();
    let before = state.cwnd;
    let loss = Loss {
        now_ns: now_ms * MS,
        flight_size: before,
        snd_nxt: 0,
    };
    bbr.on_loss(&mut state, &loss);
    let mut ack = Delivery {
        newly_lost: 1000,
        lost: 1000,
        is_in_recovery: true,
        in_flight: 40_000,
        ..delivery(now_ms, delivered + 1, delivered - 10, 1000.0)
    };
    bbr.on_delivery(&mut state, &ack);
    // What is in flight and the segment that the ACK released.
    assert_eq!(state.cwnd, 41_000.0);
    ack.newly_lost = 0;
    ack.in_flight = 30_000;
    bbr.on_delivery(&mut state, &ack);
    assert_eq!(state.cwnd, 41_000.0);
    ack.is_in_recovery = false;
    bbr.on_delivery(&mut state, &ack);
    assert!(state.cwnd >= before);
}

#[test]
fn a_timeout_leaves_bandwidth_and_round_trip() {
    let (mut bbr, mut state, now_ms, _) = filled();
    let loss = Loss {
        now_ns: now_ms * MS,
        flight_size: 50_000.0,
        snd_nxt: 0,
    };
    bbr.on_timeout(&mut state, &loss);
    assert_eq!((bbr.bandwidth(), bbr.min_rtt_ns()), (1e6, Some(50 * MS)));
}
