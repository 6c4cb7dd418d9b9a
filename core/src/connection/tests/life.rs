//! How connections open, wrap, end, and begin before the capture does.

use super::*;
use crate::connection::Patience;

#[test]
fn handshake_tells_client_offsets_scale_and_round_trip() {
    let mut wire = Wire::open();
    wire.data(60 * MS, 0, 1000);
    wire.ack(110 * MS, 1000, &[]);
    let connection = wire.only();
    assert_eq!(connection.ends[connection.client()], end(1, 4000));
    assert_eq!(connection.handshake_rtt(), Some(50 * MS + 100));
    assert_eq!(connection.vantage(), Vantage::Client);
    let [client, server] = connection.client_and_server();
    // The SYN and one segment: 50 ms each.
    assert_eq!(
        (client.counts.rtt.count(), client.counts.rtt.max()),
        (2, 50 * MS)
    );
    assert_eq!(server.counts.max_window, 8000);
    let (segments, acks) = client.columns().unwrap();
    assert_eq!(segments.offset, [0]);
    assert_eq!(acks.ack_offset, [0, 1000]);
    assert_eq!(acks.newly_acked, [0, 1000]);
}

#[test]
fn sequence_numbers_wrap_and_offsets_go_on() {
    let mut wire = Wire::open();
    // CLIENT_ISN is 4096 below the wrap.
    for index in 0..10 {
        wire.data(60 * MS + i64::from(index), index * 1000, 1000);
    }
    wire.ack(110 * MS, 10_000, &[]);
    let [client, _] = wire.only().client_and_server();
    assert_eq!(client.counts.unique_bytes, 10_000);
    assert_eq!(client.counts.retransmissions, 0);
    assert_eq!(client.wraps(), 1);
    assert_eq!(
        client.columns().unwrap().0.flight_size.last(),
        Some(&10_000)
    );
}

#[test]
fn syn_on_a_closed_pair_opens_a_second_connection() {
    let mut wire = Wire::open();
    wire.data(60 * MS, 0, 10);
    wire.client(
        70 * MS,
        FIN_ACK,
        CLIENT_ISN.wrapping_add(11),
        SERVER_ISN + 1,
        0,
    );
    wire.server(
        80 * MS,
        FIN_ACK,
        SERVER_ISN + 1,
        CLIENT_ISN.wrapping_add(12),
        0,
    );
    wire.client(90 * MS, SYN, 5, 0, 0);
    assert_eq!(wire.table.len(), 2);
    assert_eq!(wire.table.connection(0).unwrap().end(), End::Fin);
    assert_eq!(wire.table.connection(1).unwrap().end(), End::Open);
}

#[test]
fn repeated_syn_stays_in_its_connection() {
    let mut wire = Wire::new();
    wire.client(0, SYN, CLIENT_ISN, 0, 0);
    wire.client(1000 * MS, SYN, CLIENT_ISN, 0, 0);
    wire.server(
        1050 * MS,
        SYN_ACK,
        SERVER_ISN,
        CLIENT_ISN.wrapping_add(1),
        0,
    );
    let [client, _] = wire.only().client_and_server();
    assert_eq!(client.counts.syns, 2);
    // Karn's rule holds for the SYN too.
    assert_eq!(client.counts.rtt.count(), 0);
}

#[test]
fn simultaneous_open_is_one_connection() {
    let mut wire = Wire::new();
    wire.client(0, SYN, CLIENT_ISN, 0, 0);
    wire.server(MS, SYN, SERVER_ISN, 0, 0);
    wire.client(50 * MS, SYN_ACK, CLIENT_ISN, SERVER_ISN + 1, 0);
    wire.server(51 * MS, SYN_ACK, SERVER_ISN, CLIENT_ISN.wrapping_add(1), 0);
    assert!(wire.only().is_simultaneous);
}

#[test]
fn capture_from_the_middle_says_that_the_scale_is_unknown() {
    let mut wire = Wire::new();
    wire.data(0, 5000, 1000);
    wire.ack(50 * MS, 5000, &[]);
    wire.ack(51 * MS, 6000, &[]);
    let connection = wire.only();
    assert!(!connection.knows_scale(0) && !connection.knows_scale(1));
    assert_eq!(connection.flows[0].counts.unique_bytes, 1000);
    assert_eq!(connection.flows[0].counts.rtt.count(), 1);
    // The higher port is taken for the client.
    assert_eq!(connection.ends[connection.client()].port, 4000);
}

#[test]
fn half_a_capture_keeps_counting_in_bounded_memory() {
    let mut wire = Wire::new();
    wire.table = ConnectionTable::new(Wanted::None);
    for index in 0..100_000_u32 {
        wire.data(i64::from(index) * MS, index * 1000, 1000);
    }
    let connection = wire.only();
    assert_eq!(connection.flows[0].counts.unique_bytes, 100_000_000);
    assert!(
        connection.heap_bytes() < 40_000,
        "{}",
        connection.heap_bytes()
    );
}

#[test]
fn reset_ends_a_connection() {
    let mut wire = Wire::open();
    wire.server(60 * MS, TcpFlags::RST, SERVER_ISN + 1, 0, 0);
    assert_eq!(wire.only().end(), End::Rst);
}

#[test]
fn one_pair_of_endpoints_on_two_vlans_is_two_connections() {
    let mut wire = Wire::new();
    wire.table = ConnectionTable::new(Wanted::None);
    // Both tagged ports of a router are mirrored: each packet is seen twice, a hop apart.
    let steps = [
        (true, SYN, CLIENT_ISN, 0, 0),
        (false, SYN_ACK, SERVER_ISN, CLIENT_ISN.wrapping_add(1), 0),
        (true, ACK, CLIENT_ISN.wrapping_add(1), SERVER_ISN + 1, 500),
        (false, ACK, SERVER_ISN + 1, CLIENT_ISN.wrapping_add(501), 0),
    ];
    for (number, (is_client, flags, seq, ack, len)) in steps.into_iter().enumerate() {
        for (hop, network) in [(0, 10), (1, 20)] {
            let mut segment = wire.segment(is_client, flags, seq, ack, len);
            segment.network = network;
            wire.table
                .push(number as i64 * 50 * MS + hop * MS, &segment);
        }
    }
    assert_eq!(wire.table.len(), 2);
    for connection in wire.table.connections() {
        let [client, server] = connection.client_and_server();
        assert_eq!((connection.packets(), client.counts.bytes()), (4, 500));
        assert_eq!(
            (client.counts.retransmissions, server.counts.dup_acks),
            (0, 0)
        );
    }
}

#[test]
fn directions_that_are_tagged_differently_are_one_connection() {
    let mut wire = Wire::new();
    wire.table = ConnectionTable::new(Wanted::None);
    for time in 0..4 {
        let mut there = wire.segment(true, ACK, 1000, SERVER_ISN, 0);
        let mut back = wire.segment(false, ACK, SERVER_ISN, 1000, 0);
        (there.network, back.network) = (10, 20);
        wire.table.push(2 * time, &there);
        wire.table.push(2 * time + 1, &back);
    }
    assert_eq!(wire.table.len(), 1);
}

#[test]
fn what_is_over_leaves_the_table_and_what_comes_later_begins_anew() {
    let patience = Patience {
        closed_ns: 1000 * MS,
        idle_ns: 60_000 * MS,
    };
    let mut wire = Wire::open();
    wire.table = ConnectionTable::new(Wanted::None);
    wire.client(0, SYN, CLIENT_ISN, 0, 0);
    wire.server(50 * MS, SYN_ACK, SERVER_ISN, CLIENT_ISN.wrapping_add(1), 0);
    wire.data(60 * MS, 0, 100);
    wire.ack(110 * MS, 100, &[]);
    assert!(wire.table.leave(500 * MS, patience).is_empty());
    let gone = wire.table.leave(70_000 * MS, patience);
    assert_eq!(
        gone.iter()
            .map(|one| (one.id, one.packets()))
            .collect::<Vec<_>>(),
        [(0, 4)]
    );
    assert_eq!((wire.table.len(), wire.table.left_idle()), (0, (1, 0)));
    wire.data(80_000 * MS, 100, 100);
    let again = wire.table.connection(1).unwrap();
    assert_eq!(
        (again.id, again.packets(), again.is_from_start()),
        (1, 1, false)
    );
    // A reset connection waits for what may still be under way only.
    wire.client(
        80_001 * MS,
        TcpFlags::RST,
        CLIENT_ISN.wrapping_add(201),
        0,
        0,
    );
    assert_eq!(wire.table.leave(80_002 * MS, patience).len(), 0);
    assert_eq!(wire.table.leave(81_500 * MS, patience).len(), 1);
}

/// SYNs, refusals and retransmissions, and packets of a connection that goes on.
#[test]
fn a_connection_kept_in_brief_has_the_row_of_one_followed_from_the_start() {
    for count in 1..=6 {
        let rows = [Wanted::None, Wanted::All].map(|wanted| {
            let mut wire = Wire::new();
            wire.table = ConnectionTable::new(wanted);
            let steps: [(bool, TcpFlags, u32, u32, u32); 6] = [
                (true, SYN, CLIENT_ISN, 0, 0),
                (true, SYN, CLIENT_ISN, 0, 0),
                (false, SYN_ACK, SERVER_ISN, CLIENT_ISN.wrapping_add(1), 0),
                (true, ACK, CLIENT_ISN.wrapping_add(1), SERVER_ISN + 1, 0),
                (true, ACK, CLIENT_ISN.wrapping_add(1), SERVER_ISN + 1, 700),
                (false, TcpFlags::RST, SERVER_ISN + 1, 0, 0),
            ];
            for (time, (is_client, flags, seq, ack, len)) in
                steps.into_iter().take(count).enumerate()
            {
                let segment = wire.segment(is_client, flags, seq, ack, len);
                wire.table.push(time as i64 * 20 * MS, &segment);
            }
            let connection = wire.table.connection(0).unwrap();
            crate::connection::summary::row(&connection).collect::<Vec<_>>()
        });
        assert_eq!(rows[0], rows[1], "{count} packets");
    }
}
