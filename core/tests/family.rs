//! Controls beside Linux 6 itself (`../shared/captures/identify`): each fed the ACKs that its run's kernel had, the
//! window after each ACK in avoidance and the threshold after each loss are the kernel's.

mod oracle;

use oracle::told::{beside, most, within_one};

/// The runs' modules keep their count of packets over a loss, which Linux's own `snd_cwnd_cnt` does not outlive, and
/// the ACK that ends a recovery already opens their window: both shift a cycle's windows by ACKs, not by rates.
#[test]
#[ignore = "reference data: ../shared/captures"]
fn every_control_follows_the_kernel_s_acks_within_a_segment() {
    for (window, run) in [
        ("westwood", "westwood"),
        ("vegas", "vegas"),
        ("htcp", "htcp"),
        ("illinois", "illinois"),
        ("scalable", "scalable"),
        ("highspeed", "highspeed"),
        ("veno", "veno"),
        ("reno-linux", "reno_plain"),
    ] {
        let off = beside(window, "identify", run);
        assert!(
            !off.slow_start.is_empty() && off.avoidance.len() > 5000,
            "{run}"
        );
        assert!(most(&off.slow_start) <= 1.0, "{run} {:?}", off.slow_start);
        let share = within_one(&off.avoidance);
        assert!(share >= 0.99, "{run}: {share} within a segment");
        assert!(
            most(&off.avoidance) <= 3.0,
            "{run}: {}",
            most(&off.avoidance)
        );
        assert!(most(&off.ssthresh) <= 1.0, "{run}: {:?}", off.ssthresh);
        assert!(most(&off.recovered) <= 1.0, "{run}: {:?}", off.recovered);
    }
}

/// alpha and beta follow the queueing delay, measured in the kernel's microseconds by the newest segment that each ACK
/// acknowledges or SACKs, which the capture has within a few.
#[test]
#[ignore = "reference data: ../shared/captures"]
fn illinois_has_the_kernel_s_alpha_and_beta() {
    let off = beside("illinois", "identify", "illinois");
    let (mut same, mut farthest) = (0, 0.0_f64);
    for (values, [alpha, beta]) in &off.memory {
        let of = |wanted: &str| values.iter().find(|(name, _)| *name == wanted);
        let [ours, ours_beta] = ["alpha", "beta"].map(|name| of(name).expect("it shows it").1);
        let (alpha, beta) = (alpha / 128.0, beta / 64.0);
        same += usize::from((ours, ours_beta) == (alpha, beta));
        farthest = farthest
            .max((ours / alpha - 1.0).abs())
            .max((ours_beta - beta).abs());
    }
    let share = same as f64 / off.memory.len() as f64;
    println!("MEMORY {share} {farthest}");
    assert!(share > 0.95, "{share}");
    assert!(farthest < 0.02, "{farthest}");
}
