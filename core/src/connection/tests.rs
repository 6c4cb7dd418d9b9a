//! Timelines through the whole table: who sends what when, and what the flows say about it.

use std::net::{IpAddr, Ipv4Addr};

use super::{Cause, Connection, End, Table, Vantage, Wanted};
use crate::wire::{Endpoint, SackBlocks, Segment, TcpFlags, TcpOptions};

const MS: i64 = 1_000_000;
const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;
const FIN_ACK: TcpFlags = TcpFlags(TcpFlags::FIN.0 | ACK.0);
const SYN_ACK: TcpFlags = TcpFlags(SYN.0 | ACK.0);
const CLIENT_ISN: u32 = 0xffff_f000;
const SERVER_ISN: u32 = 7_000;

fn end(host: u8, port: u16) -> Endpoint {
    Endpoint {
        addr: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)),
        port,
    }
}

/// A wire between client 10.0.0.1:4000 and server 10.0.0.2:80, tapped at the client.
struct Wire {
    table: Table,
    ip_id: u16,
}

impl Wire {
    fn new() -> Self {
        Self {
            table: Table::new(Wanted::All),
            ip_id: 1,
        }
    }

    fn open() -> Self {
        let mut wire = Self::new();
        wire.client(0, SYN, CLIENT_ISN, 0, 0);
        wire.server(50 * MS, SYN_ACK, SERVER_ISN, CLIENT_ISN.wrapping_add(1), 0);
        wire.client(
            50 * MS + 100,
            ACK,
            CLIENT_ISN.wrapping_add(1),
            SERVER_ISN + 1,
            0,
        );
        wire
    }

    fn segment(
        &mut self,
        is_client: bool,
        flags: TcpFlags,
        seq: u32,
        ack: u32,
        len: u32,
    ) -> Segment {
        let (src, dst) = (end(1, 4000), end(2, 80));
        let (src, dst) = if is_client { (src, dst) } else { (dst, src) };
        self.ip_id = self.ip_id.wrapping_add(1);
        let options = TcpOptions {
            mss: flags.has(SYN).then_some(1000),
            wscale: flags.has(SYN).then_some(3),
            sack_permitted: flags.has(SYN),
            ..TcpOptions::default()
        };
        Segment {
            src,
            dst,
            seq,
            ack,
            flags,
            window: 1000,
            payload_len: len,
            ip_len: len + 40,
            ip_id: self.ip_id,
            ttl: 64,
            ecn: 0,
            options,
        }
    }

    fn client(&mut self, time: i64, flags: TcpFlags, seq: u32, ack: u32, len: u32) {
        let segment = self.segment(true, flags, seq, ack, len);
        self.table.push(time, &segment);
    }

    fn server(&mut self, time: i64, flags: TcpFlags, seq: u32, ack: u32, len: u32) {
        let segment = self.segment(false, flags, seq, ack, len);
        self.table.push(time, &segment);
    }

    /// Client data at an offset.
    fn data(&mut self, time: i64, offset: u32, len: u32) {
        self.client(
            time,
            ACK,
            CLIENT_ISN.wrapping_add(offset.wrapping_add(1)),
            SERVER_ISN + 1,
            len,
        );
    }

    /// The server's ACK up to an offset, with SACK blocks as offsets.
    fn ack(&mut self, time: i64, offset: u32, sack: &[(u32, u32)]) {
        let wire = |offset: u32| CLIENT_ISN.wrapping_add(offset.wrapping_add(1));
        let mut segment = self.segment(false, ACK, SERVER_ISN + 1, wire(offset), 0);
        let mut edges = [(0, 0); 4];
        for (edge, &(left, right)) in edges.iter_mut().zip(sack) {
            *edge = (wire(left), wire(right));
        }
        segment.options.sack = SackBlocks {
            count: u8::try_from(sack.len()).unwrap(),
            edges,
        };
        self.table.push(time, &segment);
    }

    fn only(&self) -> &Connection {
        assert_eq!(self.table.connections().len(), 1);
        &self.table.connections()[0]
    }

    fn causes(&self) -> Vec<&'static str> {
        let [flow, _] = self.only().client_and_server();
        let (segments, _) = flow.columns().unwrap();
        segments
            .cause
            .iter()
            .map(|&cause| Cause::ALL[usize::from(cause)].1)
            .collect()
    }
}

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
fn third_duplicate_ack_makes_a_fast_retransmission() {
    let mut wire = Wire::open();
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
    assert_eq!(client.columns().unwrap().0.pipe.last(), Some(&2000));
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
    let [client, server] = wire.only().client_and_server();
    assert_eq!(client.columns().unwrap().0.pipe.last(), Some(&3000));
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
        let mut wire = Wire::open();
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
    let mut tahoe = lose_two();
    tahoe.data(160 * MS, 4000, 1000);
    assert_eq!(tahoe.causes().last(), Some(&"go_back_n"));
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
fn reset_ends_a_connection() {
    let mut wire = Wire::open();
    wire.server(60 * MS, TcpFlags::RST, SERVER_ISN + 1, 0, 0);
    assert_eq!(wire.only().end(), End::Rst);
}

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
    wire.table = Table::new(Wanted::None);
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
        let mut short = Table::new(Wanted::None);
        let mut long = Table::new(Wanted::All);
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
        let rows = |table: &Table| -> Vec<Vec<super::summary::Value>> {
            table.connections().iter().map(|connection| super::summary::row(connection).collect()).collect()
        };
        proptest::prop_assert_eq!(rows(&short), rows(&long));
    }
}
