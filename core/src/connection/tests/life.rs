//! How connections open, wrap, end, and begin before the capture does.

use super::*;

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
    assert_eq!(wire.table.connections().len(), 2);
    assert_eq!(wire.table.connections()[0].end(), End::Fin);
    assert_eq!(wire.table.connections()[1].end(), End::Open);
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
    wire.table = Table::new(Wanted::None);
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
