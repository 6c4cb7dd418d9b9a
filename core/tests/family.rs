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
