//! The real kernel's runs (`../shared/captures/kernel`): the `rfc` profile loses as much per cycle at the same window.

mod oracle;

use std::io::Read;

use oracle::lab_ctcp::LabCtcp;
use oracle::{reference, run_with};
use serde_json::Value;
use tcptrace_core::congestion::{Control, Pair, Standard};
use tcptrace_core::simulate::{Controls, EventKind, Output};

/// A run's JSON and the offsets of the times at which the emulator dropped data.
struct Kernel {
    json: Value,
    drop_times: Vec<f64>,
    /// Wire numbers of the dropped data.
    drop_seqs: Vec<u32>,
}

impl Kernel {
    fn loss_events(&self) -> &[Value] {
        let measured = self.json["measured"].as_object().expect("measured");
        let flow = measured
            .values()
            .find(|value| value["loss_events"].is_array())
            .expect("a flow");
        flow["loss_events"].as_array().expect("events")
    }

    /// When the first loss was noticed.
    fn first_loss(&self) -> f64 {
        self.loss_events()[0]["t"].as_f64().expect("time")
    }
}

fn kernel(name: &str) -> Kernel {
    kernel_in("kernel", name)
}

fn kernel_in(folder: &str, name: &str) -> Kernel {
    let of = |suffix: &str| reference(&format!("captures/{folder}/{name}.{suffix}"));
    let text = std::fs::read_to_string(of("json"))
        .unwrap_or_else(|error| panic!("{}: {error}", of("json").display()));
    let drops = std::fs::read_to_string(of("drops.csv")).expect("drops beside the JSON");
    let rows = || drops.lines().skip(1);
    let time = |line: &str| line.split(',').next().and_then(|cell| cell.parse().ok());
    let seq = |line: &str| line.split(',').nth(5).and_then(|cell| cell.parse().ok());
    Kernel {
        json: serde_json::from_str(&text).expect("JSON"),
        drop_times: rows().filter_map(time).collect(),
        drop_seqs: rows().filter_map(seq).collect(),
    }
}

/// How punctual the sender's host is.
#[derive(Clone, Copy, Default)]
struct Host {
    seed: u64,
    jitter_s: f64,
}

impl Host {
    /// In the captures data leaves 3 to 12 us after the ACK that lets it go (1st to 99th percentile).
    fn real(seed: u64) -> Self {
        Self {
            seed,
            jitter_s: 10e-6,
        }
    }
}

/// The scenario of a kernel run: its path and options, the sender as given; data packets lost on the way to the first
/// node by number, if any.
fn simulate(kernel: &Kernel, sender: &str, host: Host, forced: &[usize]) -> Output {
    let params = &kernel.json["params"];
    let nodes: Vec<String> = params["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .enumerate()
        .map(|(n, node)| {
            let drops = match &params["drop_nth"] {
                Value::Null if n == 0 => format!("{forced:?}"),
                Value::Null => "[]".to_owned(),
                given => given.to_string(),
            };
            let delay_s = node["delay_us"].as_f64().expect("delay") / 1e6;
            format!(
                r#"{{"rate_bps": {}, "buffer": {}, "delay_s": {delay_s}, "loss": {}, "drop_packets": {drops}}}"#,
                node["rate_bps"], node["buffer_pkts"], node["loss"]
            )
        })
        .collect();
    let quickack = params["quickack"] == 1;
    let duration_s = params["dur"].as_f64().expect("duration");
    let initial_window = params["initcwnd"]
        .as_u64()
        .unwrap_or(if kernel.json["cc"] == "utahoe" { 1 } else { 10 });
    // Linux: RTO = SRTT + max(4 RTTVAR, 200 ms). It sends for every SACK; the Tahoe of these runs does not.
    let limited_transmit = sender != TAHOE;
    let own = (sender == LAB_CTCP).then(|| {
        let name = params["flows"][0]["cc"].as_str().expect("a module");
        let gamma = if name.starts_with("lab_ctcpg90") {
            90
        } else {
            30
        };
        Box::new(Pair {
            slow_start: Standard {
                byte_counting: true,
            },
            window: LabCtcp::new(gamma),
        }) as Box<dyn Control>
    });
    let controls = Controls {
        own: vec![own],
        ..Controls::default()
    };
    let json = format!(
        r#"{{"profile": "rfc", "record_events": {}, "seed": {}, "duration_s": {duration_s}, "ipv6": {},
        "path": {{"nodes": [{}], "return_delay_s": {}, "packet_bytes": {}}},
        "connections": [{{"control": {{"initial_window": {initial_window}, "limited_transmit": {limited_transmit}, "rto": {{"granularity_s": 0.2}}, "timestamps": {}, {sender}}},
          "jitter_s": {}, "receiver": {{"stack": "linux", "delayed_ack_segments": {}, "delayed_ack_timer_s": 0.04,
                        "initial_rwnd": 4194304, "rwnd": 67108864, "sack": {}}}}}]}}"#,
        sender == TAHOE,
        host.seed,
        params["v6"],
        nodes.join(", "),
        params["rev_delay_us"].as_f64().expect("delay") / 1e6,
        params["mtu"],
        params["ts"] == 1,
        host.jitter_s,
        if quickack { 1 } else { 2 },
        params["sack"] == 1,
    );
    run_with(&json, controls)
}

/// (window in segments at the loss event, packets dropped since the last one), in order of time.
type LossCycles = Vec<(f64, usize)>;

fn kernel_cycles(kernel: &Kernel) -> LossCycles {
    let events = kernel.loss_events();
    let at = |event: &Value| event["t"].as_f64().expect("time");
    let mut from = 0.0;
    events
        .iter()
        .enumerate()
        .map(|(n, event)| {
            // Drops of one overflow may go on for a round trip after the first is noticed.
            let to = events
                .get(n + 1)
                .map_or(f64::INFINITY, |next| (at(event) + at(next)) / 2.0);
            let drops = kernel
                .drop_times
                .iter()
                .filter(|&&t| from < t && t <= to)
                .count();
            from = to;
            (event["cwnd_before"].as_f64().expect("window"), drops)
        })
        .collect()
}

fn our_cycles(output: &Output) -> LossCycles {
    let smss = f64::from(output.smss[0]);
    let mut from = 0;
    output
        .losses
        .iter()
        .enumerate()
        .map(|(n, loss)| {
            let to = output
                .losses
                .get(n + 1)
                .map_or(i64::MAX, |next| (loss.time_ns + next.time_ns) / 2);
            let drops = output
                .drops
                .iter()
                .filter(|drop| from < drop.time_ns && drop.time_ns <= to)
                .count();
            from = to;
            ((loss.cwnd_before / smss).floor(), drops)
        })
        .collect()
}

/// What a sender is called here, as part of the spec.
const SACK: &str = r#""recovery": "sack", "window": "reno-linux""#;
const NEWRENO: &str = r#""recovery": "newreno", "window": "reno-linux""#;
const CUBIC: &str = r#""recovery": "sack", "window": "cubic-linux""#;
const COMPOUND: &str =
    r#""stack": "linux", "byte_counting": true, "recovery": "sack", "window": "compound-draft""#;
const COMPOUND_G90: &str = r#""stack": "linux", "byte_counting": true, "recovery": "sack", "window": "compound-draft", "gamma": 90"#;
/// The runs' own module, from whole packets (`oracle/lab_ctcp.rs`).
const LAB_CTCP: &str = r#""stack": "linux", "byte_counting": true, "recovery": "sack""#;
const TAHOE: &str = r#""recovery": "tahoe""#;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn is_close(ours: f64, kernel: f64) -> bool {
    // One segment is more than 2 % of a window below 50.
    (ours - kernel).abs() <= (0.02 * kernel).max(1.0)
}

/// Both sides' cycles.
fn both(name: &str, sender: &str) -> (LossCycles, LossCycles) {
    both_with(name, sender, Host::default())
}

fn both_with(name: &str, sender: &str, host: Host) -> (LossCycles, LossCycles) {
    let kernel = kernel(name);
    let output = simulate(&kernel, sender, host, &[]);
    let (ours, theirs) = (our_cycles(&output), kernel_cycles(&kernel));
    println!("{name}\n  kernel {theirs:?}\n  ours   {ours:?}");
    (ours, theirs)
}

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
