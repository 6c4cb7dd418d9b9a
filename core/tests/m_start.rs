//! M-Start's windows, ACK for ACK (paper 002, Tables 1 and 2 as derived in `../shared/oracles/ns2`).

mod oracle;

use oracle::reference_csv;
use tcptrace_core::congestion::{Ack, MStart, SlowStart, Standard, State};

/// cwnd in packets after so many ACKs of one packet each.
fn window_after(acks: u64, mut slow_start: impl SlowStart) -> f64 {
    let mut state = State {
        cwnd: 1.0,
        ssthresh: f64::INFINITY,
        smss: 1.0,
    };
    for number in 1..=acks {
        let ack = Ack {
            now_ns: 0,
            newly_acked: 1.0,
            newly_sacked: 0.0,
            rtt_ns: None,
            srtt_ns: None,
            flight_size: state.cwnd,
            snd_una: number,
            snd_nxt: number,
            is_cwnd_limited: true,
        };
        slow_start.on_ack(&mut state, &ack);
    }
    state.cwnd
}

#[test]
#[ignore = "reference data: ../shared/oracles/ns2"]
fn the_tables_windows_follow_from_the_steps() {
    for (name, is_m_start) in [("mstart_table1.csv", false), ("mstart_table2.csv", true)] {
        let table = reference_csv(name);
        let mut checked = 0;
        for row in &table.rows {
            // The number of the packet whose ACK has come is the number of ACKs.
            let Ok(acks) = table.get(row, "acked_derived").parse() else {
                continue;
            };
            let window = if is_m_start {
                window_after(acks, MStart::new(false))
            } else {
                window_after(
                    acks,
                    Standard {
                        byte_counting: false,
                    },
                )
            };
            assert_eq!(
                window,
                table.number(row, "window_derived"),
                "{name}: {row:?}"
            );
            checked += 1;
        }
        assert!(checked > 5, "{name}");
    }
}

#[test]
fn with_a_zero_step_the_printed_first_rows_come_out() {
    // The pseudo-code's reading, as the kernel's: 2, 12, 21, 29, 36, 42, ..., 56, 56.
    let windows: Vec<f64> = (1..=12)
        .map(|acks| window_after(acks, MStart::new(true)))
        .collect();
    assert_eq!(windows[..6], [2.0, 12.0, 21.0, 29.0, 36.0, 42.0]);
    assert_eq!(windows[10..], [57.0, 57.0]);
}
