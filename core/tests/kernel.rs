//! The real kernel's runs (`../shared/captures/kernel`): the `rfc` profile loses as much per cycle at the same window.

mod oracle;

use std::io::Read;

use oracle::kernel::{
    COMPOUND, COMPOUND_G90, CUBIC, Host, LAB_CTCP, LossCycles, NEWRENO, SACK, TAHOE, both,
    both_with, is_close, kernel, kernel_cycles, kernel_in, median, our_cycles, simulate,
};
use oracle::reference;
use serde_json::Value;
use tcptrace_core::simulate::EventKind;

#[test]
#[ignore = "reference data: ../shared/captures"]
fn the_first_overshoot_ends_at_the_kernel_s_window_with_the_kernel_s_losses() {
    // Not here: CUBIC, whose kernel leaves slow start early by its own HyStart; case 1 and the oscillation of 3:1, which
    // have tests of their own.
    for (name, sender) in [
        ("reno_10M", SACK),
        ("reno_nots_rcvcap", SACK),
        ("reno_nosack_8M", NEWRENO),
        ("ctcp_case2_50M", COMPOUND),
        ("ctcp_case3_g90", COMPOUND_G90),
        ("ctcp_case4_20M", COMPOUND),
        ("ctcp_case5_20M", COMPOUND),
        ("ctcp_case6_20M", COMPOUND),
        ("ctcp_osc42_96M", COMPOUND),
        ("tahoe_sat_B20", TAHOE),
        ("tahoe_sat_B22", TAHOE),
    ] {
        let (ours, theirs) = both(name, sender);
        assert!(
            is_close(ours[0].0, theirs[0].0),
            "{name}: window {} {}",
            ours[0].0,
            theirs[0].0
        );
        let (lost, kernel_lost) = (ours[0].1 as f64, theirs[0].1 as f64);
        assert!(
            (lost - kernel_lost).abs() <= (0.025 * kernel_lost).max(1.0),
            "{name}: {lost} {kernel_lost} lost"
        );
    }
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn cubic_loses_where_the_kernel_does_from_the_first_cycle_on() {
    // HyStart depends on the receiver's quick ACKs: its train of ACKs breaks where two segments take longer than 2 ms.
    for (folder, name) in [
        ("kernel", "cubic_20M"),
        ("kernel", "cubic_v6_multinode"),
        ("kernel", "midstart_cubic"),
        ("identify", "cubic_long_rtt"),
        ("identify", "cubic_short_rtt"),
    ] {
        let kernel = kernel_in(folder, name);
        let output = simulate(&kernel, CUBIC, Host::default(), &[]);
        let (ours, theirs) = (our_cycles(&output), kernel_cycles(&kernel));
        println!("{name}\n  kernel {theirs:?}\n  ours   {ours:?}");
        // The last of the kernel's may lie behind the end of a run that began with the connection, not before it.
        assert!(ours.len() + 1 >= theirs.len(), "{name}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!(
                (ours.0 - theirs.0).abs() <= 1.0,
                "{name}: {ours:?} {theirs:?}"
            );
            assert!(
                ours.1.abs_diff(theirs.1) <= 1,
                "{name}: {ours:?} {theirs:?}"
            );
        }
        assert_eq!(ours[0], theirs[0], "{name}: slow start's overshoot");
        let events = kernel.loss_events();
        let time = |event: &Value| event["t"].as_f64().expect("a time");
        let our_times = output.losses.windows(2);
        let cycles = our_times.map(|pair| (pair[1].time_ns - pair[0].time_ns) as f64 / 1e9);
        // 1.8 % apart at the most; 9 % at the short round trip, where the kernel's ACKs let 47 in and ours 46.
        let bound = if name == "cubic_short_rtt" { 0.1 } else { 0.02 };
        for (ours, pair) in cycles.zip(events.windows(2)) {
            let theirs = time(&pair[1]) - time(&pair[0]);
            assert!(
                (ours / theirs - 1.0).abs() < bound,
                "{name}: {ours} s, {theirs} s"
            );
        }
    }
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn cycles_in_avoidance_lose_as_much_at_the_kernel_s_window() {
    for (name, sender, from) in [
        ("reno_10M", SACK, 2),
        ("reno_nots_rcvcap", SACK, 2),
        ("reno_nosack_8M", NEWRENO, 2),
        ("ctcp_case2_50M", COMPOUND, 1),
        ("ctcp_case3_g90", COMPOUND_G90, 1),
        ("ctcp_case4_20M", COMPOUND, 1),
        ("ctcp_case5_20M", COMPOUND, 1),
        ("ctcp_case6_20M", COMPOUND, 1),
    ] {
        let (ours, theirs) = both_with(name, sender, Host::real(1));
        let windows =
            |cycles: &[(f64, usize)]| median(cycles[from..].iter().map(|cycle| cycle.0).collect());
        let losses = |cycles: &[(f64, usize)]| {
            median(cycles[from..].iter().map(|cycle| cycle.1 as f64).collect())
        };
        assert!(
            is_close(windows(&ours), windows(&theirs)),
            "{name}: {} {}",
            windows(&ours),
            windows(&theirs)
        );
        // A delayed ACK's burst overflows by one or two packets, as the phase of the ACKs has it; case 2 overflows in
        // a burst of its delay window.
        let bound = if name == "ctcp_case2_50M" { 7.0 } else { 2.0 };
        assert!(
            (losses(&ours) - losses(&theirs)).abs() <= bound,
            "{name}: {} {}",
            losses(&ours),
            losses(&theirs)
        );
    }
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn scheduled_losses_meet_the_kernel_s_windows() {
    let (ours, theirs) = both("reno_acked_sched", SACK);
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert!(
            is_close(ours.0, theirs.0) && ours.1 == theirs.1,
            "{ours:?} {theirs:?}"
        );
    }
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn tahoe_s_slow_starts_per_cycle_are_those_of_the_kernel_and_of_the_textbook_sender() {
    for (name, cycle) in [
        ("tahoe_sat_B20", &[227.0, 105.0, 53.0][..]),
        ("tahoe_sat_B22", &[229.0, 109.0][..]),
        ("utahoe_sat_B20", &[227.0, 105.0, 53.0][..]),
    ] {
        let (ours, theirs) = both(name, TAHOE);
        let start =
            |cycles: &[(f64, usize)]| cycles.iter().rposition(|c| c.0 > 200.0).expect("a cycle");
        for side in [&ours, &theirs] {
            let windows: Vec<f64> = side[start(side)..].iter().map(|c| c.0).collect();
            assert_eq!(windows.len(), cycle.len(), "{name}: {windows:?}");
            assert!(
                windows
                    .iter()
                    .zip(cycle)
                    .all(|(w, wanted)| is_close(*w, *wanted)),
                "{name}: {windows:?}"
            );
        }
    }
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn m_start_with_a_zero_step_overshoots_like_the_kernel_s() {
    let sender =
        r#""recovery": "sack", "slow_start": "m-start", "window": "reno-linux", "zero_step": true"#;
    let name = "mstart_20M";
    let ((ours, theirs), kernel) = (both(name, sender), kernel(name));
    assert!(is_close(ours[0].0, theirs[0].0), "{ours:?} {theirs:?}");
    // What the overshoot itself loses, before the first loss is noticed.
    let output = simulate(&kernel, sender, Host::default(), &[]);
    let noticed = kernel.first_loss();
    let lost = output
        .drops
        .iter()
        .filter(|drop| drop.time_ns <= output.losses[0].time_ns)
        .count();
    let kernel_lost = kernel
        .drop_times
        .iter()
        .filter(|&&time| time <= noticed)
        .count();
    assert!(
        is_close(lost as f64, kernel_lost as f64),
        "{lost} {kernel_lost}"
    );
}

/// Whether a cycle is one of `others`: window within 2 %, losses within `more`.
fn is_among(one: &(f64, usize), others: &[(f64, usize)], more: usize) -> bool {
    others
        .iter()
        .any(|other| is_close(one.0, other.0) && one.1.abs_diff(other.1) <= more)
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn the_kernel_s_compound_goes_round_the_same_losses() {
    // Microseconds decide whether a packet finds the place that is becoming free, and so which loss comes next. The
    // losses that follow each other are the same from every start; their order is the start's.
    for (name, from, more) in [
        ("ctcp_case1_50M", 1, 1),
        ("ctcp_case2_50M", 1, 2),
        ("ctcp_case3_g90", 1, 0),
        ("ctcp_case4_20M", 2, 1),
        ("ctcp_case5_20M", 2, 1),
        ("ctcp_case6_20M", 2, 1),
    ] {
        let (mut all, mut theirs) = (LossCycles::new(), LossCycles::new());
        for seed in 1..=5 {
            let both = both_with(name, LAB_CTCP, Host::real(seed));
            all.extend(&both.0[from..]);
            theirs = both.1[from..].to_vec();
        }
        // Case 2's sender once lost five of a burst at 267, half an empty path: no rule of TCP makes it send one.
        theirs.retain(|cycle| cycle.0 != 267.0);
        let what = format!("{name}: {all:?} {theirs:?}");
        assert!(theirs.iter().all(|one| is_among(one, &all, more)), "{what}");
        // A late packet that is early for once lets the window grow by another step.
        let others = all.iter().filter(|one| !is_among(one, &theirs, more));
        assert!(others.count() * 20 <= all.len(), "{what}");
    }
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn case_1_overflows_ten_places_in_its_second_round() {
    // 20 packets in pairs fill ten places to the last: on time (no jitter) they find room, late ones do not.
    for seed in 1..=5 {
        let (ours, theirs) = both_with("ctcp_case1_50M", COMPOUND, Host::real(seed));
        assert_eq!(ours[0].0, theirs[0].0, "seed {seed}");
        assert!(ours[0].1.abs_diff(theirs[0].1) <= 2, "seed {seed}");
    }
}

#[test]
#[ignore = "reference data: ../shared"]
fn eighty_places_are_filled_to_the_last_before_they_overflow() {
    // 160 packets in pairs, one for every ACK of a path at half its rate, need 80 places: a late ACK decides whether one
    // is lost, as at the kernel, or none before the round that follows.
    let (mut as_the_kernel, mut a_round_later) = (0, 0);
    for seed in 1..=6 {
        let (ours, theirs) = both_with("ctcp_osc31_100M", COMPOUND, Host::real(seed));
        let (first, kernel_s) = (ours[0], theirs[0]);
        if is_close(first.0, kernel_s.0) && first.1.abs_diff(kernel_s.1) <= 2 {
            as_the_kernel += 1;
        } else if is_close(first.0, kernel_s.0 + 160.0) {
            a_round_later += 1;
        }
    }
    assert!(as_the_kernel >= 3, "{as_the_kernel} of 6");
    assert_eq!(as_the_kernel + a_round_later, 6);
}

/// The first wire number of a run's data.
fn first_seq(name: &str) -> u32 {
    let truth = reference(&format!("captures/kernel/{name}.truth.csv.gz"));
    let file = std::fs::File::open(truth).expect("truth");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("gzip of text");
    let snd_una = text.lines().nth(1).and_then(|line| line.split(',').nth(6));
    snd_una
        .and_then(|cell| cell.parse().ok())
        .expect("a first row")
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn tahoe_s_slow_starts_after_early_losses_overflow_as_the_textbook_sender_s_did() {
    // The process of this run was stopped now and then and lost packets of the burst that followed, long before the
    // path was full. The same segments are taken from ours; what the slow starts then lose is the engine's own answer.
    let name = "utahoe_sat_B18";
    let kernel = kernel(name);
    let first = first_seq(name);
    let theirs = kernel_cycles(&kernel);
    // 206 packets of path, 18 waiting, one in service.
    let is_early = |n: usize| n % 2 == 1 && theirs[n].0 < 0.98 * 225.0;
    let mut forced = Vec::new();
    let mut drop = 0;
    for (n, cycle) in theirs.iter().enumerate() {
        for seq in &kernel.drop_seqs[drop..drop + cycle.1] {
            if is_early(n) {
                let output = simulate(&kernel, TAHOE, Host::default(), &forced);
                let offset = u64::from(seq.wrapping_sub(first));
                let sends = output
                    .events
                    .iter()
                    .filter(|event| event.kind == EventKind::Send);
                let number = sends.take_while(|event| event.offset != offset).count() + 1;
                forced.push(number);
            }
        }
        drop += cycle.1;
    }
    let ours = our_cycles(&simulate(&kernel, TAHOE, Host::default(), &forced));
    println!("{forced:?}\n  kernel {theirs:?}\n  ours   {ours:?}");
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert!(is_close(ours.0, theirs.0), "{ours:?} {theirs:?}");
        assert!(ours.1.abs_diff(theirs.1) <= 1, "{ours:?} {theirs:?}");
    }
}

#[test]
#[ignore = "reference data: ../shared/captures"]
fn m_start_s_overshoot_is_recovered_without_a_timeout_where_lost_retransmissions_are_found() {
    let sender =
        r#""recovery": "sack", "slow_start": "m-start", "window": "reno-linux", "zero_step": true"#;
    let kernel = kernel("mstart_20M");
    let output = simulate(&kernel, sender, Host::default(), &[]);
    let smss = f64::from(output.smss[0]);
    let theirs = kernel.loss_events();
    assert_eq!(output.totals[0].timeouts, 0);
    assert!(
        theirs
            .iter()
            .all(|event| event["kind"] == "fast_retransmit")
    );
    // 2529 segments are halved to 1264, 632 and 316, and lost at again each time: 2095 drops of the overshoot, 1461 of
    // retransmissions and of what follows them.
    assert_eq!(output.losses.len(), theirs.len());
    for (ours, theirs) in output.losses.iter().zip(theirs) {
        let ssthresh = theirs["ssthresh_after"].as_f64().expect("segments");
        assert!(
            is_close((ours.ssthresh_after / smss).floor(), ssthresh),
            "{ours:?} {theirs}"
        );
    }
    let distance = output.drops.len() as f64 / kernel.drop_times.len() as f64 - 1.0;
    println!("{} {} drops", output.drops.len(), kernel.drop_times.len());
    assert!(distance.abs() < 0.02, "{distance}");
    // Without, the timer has to find them.
    let without = simulate(
        &kernel,
        &sender.replace("true", r#"true, "stack": "rfc""#),
        Host::default(),
        &[],
    );
    assert!(without.totals[0].timeouts > 0 && without.totals[0].acked < output.totals[0].acked);
}
