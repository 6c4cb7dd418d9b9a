//! CUBIC beside Linux 6 itself (`../shared/captures`): fed the kernel's ACKs, and over the same path.

mod oracle;

use oracle::told::{beside, most};

#[test]
#[ignore = "reference data: ../shared/captures"]
fn every_window_is_the_kernel_s() {
    for (folder, run) in [
        ("kernel", "cubic_20M"),
        ("kernel", "cubic_v6_multinode"),
        ("identify", "cubic_long_rtt"),
        ("identify", "cubic_short_rtt"),
        ("identify", "cubic_loss"),
    ] {
        let off = beside("cubic-linux", folder, run);
        assert!(
            off.slow_start.len() > 20 && off.avoidance.len() > 4000,
            "{run}"
        );
        // HyStart ends it at the kernel's ACK: one more or less would be a segment.
        assert_eq!(most(&off.slow_start), 0.0, "{run}: {:?}", off.slow_start);
        assert_eq!(most(&off.ssthresh), 0.0, "{run}: {:?}", off.ssthresh);
        assert_eq!(most(&off.recovered), 0.0, "{run}: {:?}", off.recovered);
        // A packet an ACK or two earlier or later: the phase of the kernel's jiffies is not known.
        assert_eq!(most(&off.avoidance), 1.0, "{run}");
        let equal = off.avoidance.iter().filter(|off| **off == 0.0).count();
        let share = equal as f64 / off.avoidance.len() as f64;
        assert!(share > 0.9, "{run}: {share} of the windows are equal");
    }
}
