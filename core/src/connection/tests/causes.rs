//! Why each segment was sent again, or only looks so.

use super::*;

#[test]
fn third_duplicate_ack_makes_a_fast_retransmission() {
    let mut wire = Wire::open_without_sack();
    for index in 0..6 {
        wire.data(60 * MS, index * 1000, 1000);
    }
    wire.ack(110 * MS, 1000, &[]);
    for _ in 0..3 {
        wire.ack(111 * MS, 1000, &[]);
    }
    wire.data(111 * MS, 1000, 1000);
    let [client, server] = wire.only().client_and_server();
    assert_eq!(wire.causes().last(), Some(&"fast_retransmit"));
    assert_eq!(
        (
            client.counts.retransmissions,
            client.counts.retransmitted_bytes
        ),
        (1, 1000)
    );
    assert_eq!(server.counts.dup_acks, 3);
    // 5000 in flight less three that left, and the retransmission stands for the lost one.
    assert_eq!(wire.segments().pipe.last(), Some(&2000));
}

#[test]
fn sack_blocks_lead_the_recovery_and_the_pipe() {
    let mut wire = Wire::open();
    for index in 0..8 {
        wire.data(60 * MS, index * 1000, 1000);
    }
    // Segments 0 and 2 are lost.
    wire.ack(110 * MS, 0, &[(1000, 2000)]);
    wire.ack(111 * MS, 0, &[(3000, 4000), (1000, 2000)]);
    wire.ack(112 * MS, 0, &[(3000, 5000), (1000, 2000)]);
    wire.data(112 * MS, 0, 1000);
    wire.ack(113 * MS, 0, &[(3000, 7000), (1000, 2000)]);
    wire.data(113 * MS, 2000, 1000);
    assert_eq!(wire.causes()[8..], ["fast_retransmit", "sack_recovery"]);
    // Unacknowledged: 0 (lost, resent), 2 (lost, resent), 7 in flight.
    let [_, server] = wire.only().client_and_server();
    assert_eq!(wire.segments().pipe.last(), Some(&3000));
    assert_eq!(server.counts.sack_packets, 4);
}

#[test]
fn silence_makes_a_timeout_and_what_follows_goes_back_n() {
    let mut wire = Wire::open();
    for index in 0..4 {
        wire.data(60 * MS, index * 1000, 1000);
    }
    wire.data(360 * MS, 0, 1000);
    wire.ack(410 * MS, 1000, &[]);
    wire.data(410 * MS, 1000, 1000);
    wire.data(410 * MS, 2000, 1000);
    assert_eq!(wire.causes()[4..], ["rto", "go_back_n", "go_back_n"]);
    let [client, _] = wire.only().client_and_server();
    // Karn: the ACK of 1000 is ambiguous, and so is everything later.
    assert_eq!(client.counts.rtt.count(), 1);
}

#[test]
fn partial_ack_asks_for_one_hole_and_tahoe_sends_all_again() {
    let lose_two = || {
        let mut wire = Wire::open_without_sack();
        for index in 0..8 {
            wire.data(60 * MS, index * 1000, 1000);
        }
        for _ in 0..4 {
            wire.ack(110 * MS, 0, &[]);
        }
        wire.data(110 * MS, 0, 1000);
        wire.ack(160 * MS, 3000, &[]);
        wire.data(160 * MS, 3000, 1000);
        wire
    };
    assert_eq!(lose_two().causes()[8..], ["fast_retransmit", "partial_ack"]);
    // The next segment gives Tahoe away, and tells of the one before.
    let mut tahoe = lose_two();
    tahoe.data(160 * MS, 4000, 1000);
    assert_eq!(
        tahoe.causes()[8..],
        ["fast_retransmit", "go_back_n", "go_back_n"]
    );
    // Next time its first segment says as much, be it the only one.
    tahoe.ack(210 * MS, 8000, &[]);
    for index in 8..14 {
        tahoe.data(210 * MS, index * 1000, 1000);
    }
    for _ in 0..4 {
        tahoe.ack(260 * MS, 8000, &[]);
    }
    tahoe.data(260 * MS, 8000, 1000);
    tahoe.ack(310 * MS, 13_000, &[]);
    tahoe.data(310 * MS, 13_000, 1000);
    assert_eq!(tahoe.causes()[17..], ["fast_retransmit", "go_back_n"]);
}

#[test]
fn silence_after_duplicate_acks_is_a_timeout() {
    let mut wire = Wire::open();
    for index in 0..6 {
        wire.data(60 * MS, index * 1000, 1000);
    }
    for _ in 0..4 {
        wire.ack(110 * MS, 0, &[]);
    }
    wire.data(200 * MS, 0, 1000);
    assert_eq!(wire.causes().last(), Some(&"rto"));
}

#[test]
fn last_segment_again_after_two_round_trips_is_a_probe() {
    let mut wire = Wire::open();
    for index in 0..4 {
        wire.data(60 * MS, index * 1000, 1000);
    }
    wire.data(165 * MS, 3000, 1000);
    assert_eq!(wire.causes().last(), Some(&"tail_loss_probe"));
}

#[test]
fn packet_captured_twice_is_no_retransmission() {
    let mut wire = Wire::open();
    let segment = wire.segment(true, ACK, CLIENT_ISN.wrapping_add(1), SERVER_ISN + 1, 1000);
    wire.table.push(60 * MS, &segment);
    wire.table.push(60 * MS + 10, &segment);
    let ack = wire.segment(false, ACK, SERVER_ISN + 1, CLIENT_ISN.wrapping_add(1), 0);
    wire.table.push(61 * MS, &ack);
    wire.table.push(61 * MS + 10, &ack);
    let [client, server] = wire.only().client_and_server();
    assert_eq!(
        (
            client.counts.retransmissions,
            client.counts.duplicate_packets
        ),
        (0, 1)
    );
    assert_eq!(
        (server.counts.dup_acks, server.counts.duplicate_packets),
        (1, 1)
    );
    assert_eq!(wire.causes(), ["", "duplicate_capture"]);
}

/// At a receiver its ACK passes between the two captures of a segment; the sender is half a round trip away.
#[test]
fn what_is_captured_again_before_its_sender_can_have_heard_is_a_copy() {
    let mut wire = Wire::new();
    let opened = [
        (0, true, SYN, CLIENT_ISN, 0),
        (5, false, SYN_ACK, SERVER_ISN, CLIENT_ISN.wrapping_add(1)),
        (
            60 * MS,
            true,
            ACK,
            CLIENT_ISN.wrapping_add(1),
            SERVER_ISN + 1,
        ),
    ];
    for (time, is_client, flags, seq, ack) in opened {
        let segment = wire.segment(is_client, flags, seq, ack, 0);
        wire.table.push(time, &segment);
    }
    for number in 0..10 {
        let (time, seq) = (
            (70 + number) * MS,
            CLIENT_ISN.wrapping_add(1 + 1000 * number as u32),
        );
        let mut segment = wire.segment(true, ACK, seq, SERVER_ISN + 1, 1000);
        segment.ip_id = 0;
        let ack = wire.segment(false, ACK, SERVER_ISN + 1, seq.wrapping_add(1000), 0);
        wire.table.push(time, &segment);
        wire.table.push(time + 3_000, &ack);
        wire.table.push(time + 4_000, &segment);
    }
    let [client, _] = wire.only().client_and_server();
    assert_eq!(
        (
            client.counts.retransmissions,
            client.counts.duplicate_packets
        ),
        (0, 10)
    );
}

#[test]
fn packet_captured_twice_as_the_counter_passes_zero_is_no_retransmission() {
    let mut wire = Wire::open();
    let mut segments = Vec::new();
    for (index, id) in [u16::MAX, 0, 1].into_iter().enumerate() {
        let offset = 1 + 1000 * index as u32;
        let mut segment = wire.segment(
            true,
            ACK,
            CLIENT_ISN.wrapping_add(offset),
            SERVER_ISN + 1,
            1000,
        );
        segment.ip_id = id;
        wire.table.push(60 * MS, &segment);
        segments.push(segment);
    }
    // Later than any copy of a sender without numbers would come, sooner than an answer.
    for segment in &segments {
        wire.table.push(80 * MS, segment);
    }
    let [client, _] = wire.only().client_and_server();
    assert_eq!(
        (
            client.counts.retransmissions,
            client.counts.duplicate_packets
        ),
        (0, 3)
    );
}

#[test]
fn second_captures_behind_the_ack_of_both_are_no_retransmissions() {
    // A receiver's router captures its delayed ACK between the two captures of what that answers.
    for more in [0, 1] {
        let mut wire = Wire::open();
        let segments: Vec<_> = (0..2 + more)
            .map(|index| {
                let seq = CLIENT_ISN.wrapping_add(1 + 1000 * index);
                wire.segment(true, ACK, seq, SERVER_ISN + 1, 1000)
            })
            .collect();
        wire.table.push(60 * MS, &segments[0]);
        wire.table.push(60 * MS, &segments[1]);
        wire.ack(60 * MS + 10, 2000, &[]);
        for segment in &segments[2..] {
            wire.table.push(60 * MS + 20, segment);
        }
        for segment in &segments {
            wire.table.push(60 * MS + 30, segment);
        }
        let [client, _] = wire.only().client_and_server();
        assert_eq!(client.counts.retransmissions, 0, "{more} more");
        assert_eq!(client.counts.duplicate_packets, 2 + u64::from(more));
    }
}

#[test]
fn packets_swapped_at_the_tap_are_out_of_order_not_retransmitted() {
    let mut wire = Wire::open();
    let first = wire.segment(true, ACK, CLIENT_ISN.wrapping_add(1), SERVER_ISN + 1, 1000);
    let second = wire.segment(
        true,
        ACK,
        CLIENT_ISN.wrapping_add(1001),
        SERVER_ISN + 1,
        1000,
    );
    let third = wire.segment(
        true,
        ACK,
        CLIENT_ISN.wrapping_add(2001),
        SERVER_ISN + 1,
        1000,
    );
    wire.table.push(60 * MS, &first);
    wire.table.push(60 * MS, &third);
    wire.table.push(60 * MS + 5, &second);
    let [client, _] = wire.only().client_and_server();
    assert_eq!(
        (client.counts.out_of_order, client.counts.retransmissions),
        (1, 0)
    );
    assert_eq!(client.counts.unique_bytes, 3000);
    assert_eq!(wire.causes().last(), Some(&"out_of_order"));
}

#[test]
fn hole_filled_a_round_trip_later_was_lost_before_the_tap() {
    let mut wire = Wire::open();
    wire.data(60 * MS, 0, 1000);
    wire.data(60 * MS, 2000, 1000);
    wire.ack(61 * MS, 1000, &[]);
    wire.data(120 * MS, 1000, 1000);
    assert_eq!(wire.causes().last(), Some(&"lost_before_tap"));
}

#[test]
fn keep_alives_and_window_probes_are_no_retransmissions() {
    let mut wire = Wire::open();
    wire.data(60 * MS, 0, 1000);
    wire.ack(110 * MS, 1000, &[]);
    // A keep-alive without and one with its garbage byte.
    wire.data(10_000 * MS, 999, 0);
    wire.data(20_000 * MS, 999, 1);
    let mut closed = wire.segment(false, ACK, SERVER_ISN + 1, CLIENT_ISN.wrapping_add(1001), 0);
    closed.window = 0;
    wire.table.push(20_001 * MS, &closed);
    wire.data(21_000 * MS, 1000, 1);
    let [client, server] = wire.only().client_and_server();
    assert_eq!(client.counts.keep_alives, 2);
    assert_eq!(client.counts.window_probes, 1);
    assert_eq!(client.counts.retransmissions, 0);
    assert_eq!(server.counts.zero_windows, 1);
    assert_eq!(wire.causes(), ["", "keep_alive", "window_probe"]);
}

#[test]
fn probes_of_a_closed_window_again_and_again_are_no_losses() {
    let mut wire = Wire::open();
    wire.data(60 * MS, 0, 1000);
    let close = |wire: &mut Wire, time: i64, offset: u32| {
        let ack = CLIENT_ISN.wrapping_add(1 + offset);
        let mut closed = wire.segment(false, ACK, SERVER_ISN + 1, ack, 0);
        closed.window = 0;
        wire.table.push(time, &closed);
    };
    close(&mut wire, 110 * MS, 1000);
    for number in 0..4 {
        wire.data((500 + 1000 * number) * MS, 1000, 1);
        close(&mut wire, (550 + 1000 * number) * MS, 1000);
    }
    wire.ack(4900 * MS, 1000, &[]);
    wire.data(4901 * MS, 1000, 1000);
    let [client, server] = wire.only().client_and_server();
    assert_eq!(client.counts.window_probes, 4);
    assert_eq!(client.counts.retransmissions, 0);
    assert_eq!(server.counts.dup_acks, 0);
    assert_eq!(wire.causes()[1..5], ["window_probe"; 4]);
}
