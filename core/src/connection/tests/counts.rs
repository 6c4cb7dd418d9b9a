//! Samples and counts, in little memory, and the same by every way.

use super::*;
use crate::connection::summary;

#[test]
fn dsack_is_told_from_sack() {
    let mut wire = Wire::open();
    wire.data(60 * MS, 0, 1000);
    wire.data(60 * MS, 1000, 1000);
    wire.ack(110 * MS, 2000, &[]);
    wire.data(400 * MS, 0, 1000);
    wire.ack(450 * MS, 2000, &[(0, 1000)]);
    let [client, server] = wire.only().client_and_server();
    assert_eq!((server.counts.sack_packets, server.counts.dsacks), (1, 1));
    assert_eq!(client.counts.retransmissions, 1);
    assert_eq!(wire.causes().last(), Some(&"already_acked"));
}

#[test]
fn no_rtt_sample_where_the_ack_waited_for_a_retransmission() {
    let mut wire = Wire::open();
    wire.data(60 * MS, 0, 1000);
    wire.data(60 * MS, 1000, 1000);
    wire.data(200 * MS, 0, 1000);
    // The ACK of 2000 tells when 0 arrived, not when 1000 did.
    wire.ack(250 * MS, 2000, &[]);
    let [client, _] = wire.only().client_and_server();
    assert_eq!(client.counts.rtt.count(), 1);
}

#[test]
fn summary_of_a_million_segments_takes_kilobytes() {
    let mut wire = Wire::open();
    wire.table = ConnectionTable::new(Wanted::None);
    for index in 0..500_000_u32 {
        let time = i64::from(index) * MS / 10;
        wire.data(time, index.wrapping_mul(1000), 1000);
        if index >= 100 {
            wire.ack(time + 50, (index - 100).wrapping_mul(1000), &[]);
        }
    }
    let connection = wire.only();
    assert_eq!(connection.flows[0].counts.unique_bytes, 500_000_000);
    assert!(
        connection.heap_bytes() < 64_000,
        "{}",
        connection.heap_bytes()
    );
}

proptest::proptest! {
    /// With detail every packet takes the long way; the short ways must not differ in any column.
    #[test]
    fn short_ways_and_long_way_give_the_same_table(
        events in proptest::collection::vec((0_u8..12, 0_u32..30, 1_u32..4), 1..300), isn: u32,
    ) {
        let mut wire = Wire::new();
        let mut short = ConnectionTable::new(Wanted::None);
        let mut long = ConnectionTable::new(Wanted::All);
        let (mut sent, mut acked) = (0_u32, 0_u32);
        let at = |offset: u32| isn.wrapping_add(1).wrapping_add(offset);
        for (number, (kind, back, count)) in events.into_iter().enumerate() {
            let time = number as i64 * MS;
            let len = count * 500;
            let mut segment = match kind {
                0 => wire.segment(true, SYN, isn, 0, 0),
                1 => wire.segment(false, SYN_ACK, SERVER_ISN, at(0), 0),
                2..=5 => wire.segment(true, ACK, at(sent), SERVER_ISN + 1, len),
                6 => wire.segment(true, ACK, at(sent.saturating_sub(back * 500)), SERVER_ISN + 1, len),
                7 => wire.segment(true, FIN_ACK, at(sent), SERVER_ISN + 1, 0),
                8 => wire.segment(false, ACK, SERVER_ISN + 1 + back, at(acked), back % 3),
                _ => {
                    acked = (acked + len).min(sent.max(acked));
                    wire.segment(false, ACK, SERVER_ISN + 1, at(acked), 0)
                }
            };
            if (2..=5).contains(&kind) {
                sent += len;
            }
            segment.window = if back == 29 { 0 } else { 1000 + (back / 20) as u16 };
            segment.options.timestamps = (isn % 2 == 0).then_some((number as u32, back));
            short.push(time, &segment);
            long.push(time, &segment);
            if kind == 9 && back == 3 {
                short.push(time, &segment);
                long.push(time, &segment);
            }
        }
        let rows = |table: &ConnectionTable| -> Vec<Vec<summary::Cell>> {
            table.connections().map(|connection| summary::row(&connection).collect()).collect()
        };
        proptest::prop_assert_eq!(rows(&short), rows(&long));
    }
}
