//! The path's arithmetic against closed forms, without a device.

use super::*;
use crate::emulate::journal::{BIN_NS, Bin};
use crate::network::DropReason;
use crate::scenario::Scenario;
use crate::simulate::{Logs, paths};
use proptest::prelude::*;

fn label(number: u32) -> Label {
    Label {
        ip_len: 1500,
        tcp_seq: number,
        payload_len: 1448,
        ..Label::default()
    }
}

/// A lane over `nodes` (TOML), as the emulator builds it from a scenario.
fn lane(nodes: &str, way: Way) -> Lane {
    let text = format!(
        "duration_s = 1
         path = {{ nodes = [{nodes}], return_delay_s = 0.03, ack_loss = 0.5 }}"
    );
    let scenario = Scenario::from_table(text.parse().unwrap()).unwrap();
    let [forward, reverse] = paths(&scenario, Logs::default());
    match way {
        Way::Forward => Lane::new(forward, way),
        Way::Reverse => Lane::new(reverse, way),
    }
}

/// Everyone enters at his time; who leaves (time, number), and the journal.
fn carry(mut lane: Lane, entering: &[(i64, Label)]) -> (Vec<(i64, u32)>, Journal) {
    let mut journal = Journal::default();
    let mut random = Random::new(3);
    let mut left = Vec::new();
    let mut leave = |lane: &mut Lane, now, random: &mut Random, journal: &mut Journal| {
        while let Some((due, packet)) = lane.leave(now, random, journal) {
            left.push((due, packet.label.tcp_seq));
        }
    };
    for &(time, label) in entering {
        leave(&mut lane, time, &mut random, &mut journal);
        let bytes = Vec::new();
        lane.enter(
            time,
            LabelledPacket { bytes, label },
            &mut random,
            &mut journal,
        );
    }
    leave(&mut lane, i64::MAX, &mut random, &mut journal);
    lane.finish(i64::MAX / 2);
    assert!(lane.is_conserved());
    assert_eq!(lane.inside(), 0);
    assert_eq!(
        lane.entered(),
        lane.left() + journal.lost(false) + journal.lost(true)
    );
    (left, journal)
}

fn train(packets: u32) -> Vec<(i64, Label)> {
    (0..packets).map(|number| (0, label(number))).collect()
}

#[test]
fn a_train_leaves_one_service_time_apart_and_the_buffer_keeps_b_plus_one() {
    // 1500 B at 12 Mbit/s = 1 ms each, then 20 ms. B = 4 wait and 1 is in service: packets 0 to 4 of 10 pass.
    let node = r#"{rate_bps = 12e6, buffer = 4, delay_s = 0.02}"#;
    let (left, journal) = carry(lane(node, Way::Forward), &train(10));
    let expected: Vec<_> = (0..5)
        .map(|n| (21_000_000 + 1_000_000 * i64::from(n), n))
        .collect();
    assert_eq!(left, expected);
    let drops: Vec<_> = journal
        .drops
        .iter()
        .map(|drop| (drop.label.tcp_seq, drop.node, drop.waiting, drop.reason))
        .collect();
    let expected: Vec<_> = (5..10).map(|n| (n, 1, 4, DropReason::Overflow)).collect();
    assert_eq!(drops, expected);
    // The queue's record: nine arrivals found someone, four of them a place.
    let bins = journal.bins_on(|time| time);
    let expected = Bin {
        time_ns: 0,
        node: 1,
        arrivals: 10,
        drops: 5,
        max: 4,
        last: 4,
    };
    assert_eq!(bins, [expected]);
}

#[test]
fn the_packet_in_service_takes_a_place_when_the_node_says_so() {
    let node = r#"{rate_bps = 12e6, buffer = 4, counts_in_service = true}"#;
    assert_eq!(carry(lane(node, Way::Forward), &train(10)).0.len(), 4);
}

#[test]
fn two_nodes_in_a_row_pace_at_the_slower_one() {
    // 100 Mbit/s (120 us), 1 ms, then 10 Mbit/s (1.2 ms), 2 ms: the first at 0.12 + 1 + 1.2 + 2 = 4.32 ms.
    let nodes = r#"{rate_bps = 1e8, delay_s = 0.001},
                   {rate_bps = 1e7, delay_s = 0.002}"#;
    let (left, journal) = carry(lane(nodes, Way::Forward), &train(3));
    assert_eq!(left, [(4_320_000, 0), (5_520_000, 1), (6_720_000, 2)]);
    let nodes: Vec<_> = journal
        .bins_on(|time| time)
        .iter()
        .map(|bin| (bin.node, bin.arrivals, bin.max))
        .collect();
    assert_eq!(nodes, [(1, 3, 2), (2, 3, 2)]);
}

#[test]
fn drops_and_bins_move_with_the_wall_s_clock() {
    let node = r#"{rate_bps = 12e6, buffer = 4}"#;
    let (_, journal) = carry(lane(node, Way::Forward), &train(10));
    let wall = |time: i64| time + 3 * BIN_NS + 1;
    assert!(
        journal
            .drops_on(wall)
            .iter()
            .all(|drop| drop.time_ns == 3 * BIN_NS + 1)
    );
    assert_eq!(journal.bins_on(wall)[0].time_ns, 3 * BIN_NS);
}

#[test]
fn the_way_back_is_a_pure_delay_that_loses_pure_acks_only() {
    let mixed: Vec<_> = (0..2000)
        .map(|number| {
            let is_pure_ack = number % 2 == 1;
            let label = Label {
                is_reverse: true,
                is_pure_ack,
                payload_len: 0,
                ..label(number)
            };
            (i64::from(number), label)
        })
        .collect();
    let node = r#"{rate_bps = 12e6, buffer = 4}"#;
    let (left, journal) = carry(lane(node, Way::Reverse), &mixed);
    assert!(
        left.iter()
            .all(|&(time, number)| time == 30_000_000 + i64::from(number))
    );
    assert!(
        journal
            .drops
            .iter()
            .all(|drop| drop.label.is_pure_ack
                && (drop.node, drop.reason) == (0, DropReason::AckLoss))
    );
    // 1000 ACKs, half lost: a standard deviation of 16.
    assert!((430..570).contains(&journal.drops.len()));
}

proptest! {
    /// Lindley's recursion: a packet starts when it has arrived and the one before it has left.
    #[test]
    fn departures_follow_lindleys_recursion(
        gaps in prop::collection::vec((0i64..3_000_000, 40u32..1500), 1..120),
        places in 1usize..12,
    ) {
        let mut now = 0;
        let entering: Vec<_> = gaps.iter().zip(0..).map(|(&(gap, bytes), number)| {
            now += gap;
            (now, Label { ip_len: bytes, ..label(number) })
        }).collect();
        let node = format!(r#"{{rate_bps = 8e6, buffer = {places}, delay_s = 0.005}}"#);
        let (left, journal) = carry(lane(&node, Way::Forward), &entering);

        // 8 Mbit/s: one microsecond a byte. `leaving` holds the departure times of those still in the node.
        let mut expected = Vec::new();
        let mut lost = Vec::new();
        let mut leaving: Vec<i64> = Vec::new();
        for &(time, label) in &entering {
            leaving.retain(|&departure| departure > time);
            if leaving.len() > places {
                lost.push(label.tcp_seq);
                continue;
            }
            let start = leaving.last().copied().unwrap_or(time).max(time);
            let departure = start + 1000 * i64::from(label.ip_len);
            leaving.push(departure);
            expected.push((departure + 5_000_000, label.tcp_seq));
        }
        prop_assert_eq!(left, expected);
        let dropped: Vec<_> = journal.drops.iter().map(|drop| drop.label.tcp_seq).collect();
        prop_assert_eq!(dropped, lost);
    }
}
