//! A capture followed in several parts gives what it gives in one.

use std::io::Cursor;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;
use crate::capture::{FileFormat, Layout, Reader, Writer};
use crate::connection::follow::Followed;
use crate::connection::{json, parts, pipeline};
use crate::wire::{RAW, encode};

const CONNECTIONS: u64 = 150;
const PACKETS: u64 = 12_000;

/// Connections of both IP versions whose packets take turns by chance; some begin anew on their pair, some have no SYN.
fn capture() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), Layout::new(FileFormat::PcapNanos, RAW)).unwrap();
    let (mut frame, mut drawn) = (Vec::new(), 1_u64);
    for number in 0..PACKETS {
        drawn = drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (which, what) = (drawn >> 33, drawn >> 40);
        let host = (which % CONNECTIONS) as u8;
        let addr = |first: u8| -> IpAddr {
            if host % 3 == 0 {
                Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, first.into(), host.into()).into()
            } else {
                Ipv4Addr::new(10, first, 0, host).into()
            }
        };
        let [client, server] = [(1, 4_000), (2, 80)].map(|(first, port)| Endpoint {
            addr: addr(first),
            port,
        });
        let is_back = what % 3 == 0;
        let is_syn = what % 50 == 1 && host % 2 == 0;
        let (src, dst) = if is_back {
            (server, client)
        } else {
            (client, server)
        };
        let sent = number as u32 * 100;
        let segment = Segment {
            src,
            dst,
            seq: if is_back { 9 } else { sent },
            ack: if is_back { sent } else { 9 },
            flags: if is_syn { SYN } else { ACK },
            payload_len: if is_back || is_syn { 0 } else { 100 },
            ..Wire::new().segment(true, ACK, 0, 0, 0)
        };
        let length = encode(&segment, &[], RAW, 80, &mut frame).unwrap();
        writer.write(number as i64 * MS, length, &frame).unwrap();
    }
    writer.finish().unwrap()
}

fn followed(capture: &[u8], wanted: Wanted, count: usize) -> Followed {
    let reader = Reader::new(Cursor::new(capture.to_vec()), "test").unwrap();
    let mut tables = parts::tables_in(wanted, count);
    let read = pipeline::run(reader, &mut tables, |_, _, _| true).unwrap();
    assert_eq!(tables.len(), count);
    assert!(tables.iter().all(|table| table.len() > 10));
    Followed {
        name: read.name,
        table: parts::merged(tables),
        counts: read.counts,
        truncated: read.truncated,
    }
}

fn written(followed: &Followed) -> String {
    let mut text = Vec::new();
    json::write_capture(&mut text, followed, None).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn connections_are_the_same_in_any_number_of_parts() {
    let capture = capture();
    let one = written(&followed(&capture, Wanted::None, 1));
    // More than there are pairs: a SYN with a new number begins another.
    assert!(one.lines().count() > CONNECTIONS as usize + 1);
    for count in 2..=4 {
        let several = followed(&capture, Wanted::None, count);
        assert!(written(&several) == one, "{count} parts");
        assert_eq!(several.table.segments(), PACKETS);
    }
}

#[test]
fn rows_are_kept_of_the_connection_of_the_first_packet() {
    let capture = capture();
    let [one, two] = [1, 2].map(|count| {
        let mut followed = followed(&capture, Wanted::First, count);
        let first = followed.table.detailed(0).unwrap();
        let rows = first.flows.each_ref().map(|flow| flow.detail.is_some());
        (rows, first.packets())
    });
    assert_eq!(one, two);
    assert_eq!(one.0, [true; 2]);
}

#[test]
fn ids_that_are_wanted_are_told_on_the_way() {
    assert_eq!(parts::tables_in(Wanted::All, 4).len(), 1);
}
