use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;
use etherparse::{Ipv4HeaderSlice, TcpHeaderSlice};

mod laws;
mod layers;

fn v4(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

fn usual() -> Segment {
    Segment {
        src: Endpoint {
            addr: v4(1),
            port: 40_000,
        },
        dst: Endpoint {
            addr: v4(2),
            port: 443,
        },
        seq: 0xffff_fff0,
        ack: 7,
        flags: TcpFlags::ACK.with(TcpFlags::PSH),
        window: 501,
        payload_len: 1448,
        ip_len: 1500,
        ip_id: 99,
        ttl: 64,
        ecn: 2,
        network: 0,
        checked: Checked::Unknown,
        options: TcpOptions {
            timestamps: Some((1, 2)),
            ..TcpOptions::default()
        },
    }
}

fn options_of(bytes: &[u8]) -> TcpOptions {
    let mut options = TcpOptions::default();
    tcp::read_options(bytes, &mut options);
    options
}

fn frame_of(segment: &Segment, link_type: u16, snaplen: u32) -> (Vec<u8>, u32) {
    let mut frame = Vec::new();
    let orig_len = encode(segment, &[], link_type, snaplen, &mut frame).unwrap();
    (frame, orig_len)
}

/// Ethernet without options: where a test's own IP header goes.
fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend_from_slice(&ethertype.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The usual segment as raw IPv4.
fn raw() -> Vec<u8> {
    frame_of(&usual(), RAW, u32::MAX).0
}

fn decode_whole(link_type: u16, frame: &[u8]) -> Result<Segment, Undecoded> {
    said(decode(link_type, frame, frame.len() as u32))
}

/// What a segment says, whatever its checksums tell.
fn said(decoded: Result<Segment, Undecoded>) -> Result<Segment, Undecoded> {
    decoded.map(|segment| Segment {
        checked: Checked::Unknown,
        ..segment
    })
}

#[test]
fn encoded_checksums_are_those_etherparse_computes() {
    let mut frame = Vec::new();
    let segment = Segment {
        payload_len: 5,
        ..usual()
    };
    encode(&segment, b"hello", RAW, u32::MAX, &mut frame).unwrap();
    let ip = Ipv4HeaderSlice::from_slice(&frame).unwrap();
    let tcp = TcpHeaderSlice::from_slice(&frame[20..]).unwrap();
    assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum());
    assert_eq!(
        tcp.checksum(),
        tcp.calc_checksum_ipv4(&ip, b"hello").unwrap()
    );
    assert!(frame.ends_with(b"hello"));
}

#[test]
fn headers_alone_tell_the_whole_segment() {
    let (frame, orig_len) = frame_of(&usual(), ETHERNET, 66);
    assert_eq!((frame.len(), orig_len), (66, 14 + 1500));
    assert_eq!(said(decode(ETHERNET, &frame, orig_len)), Ok(usual()));
}

#[test]
fn snaplen_within_the_options_keeps_the_fixed_header() {
    let (frame, orig_len) = frame_of(&usual(), ETHERNET, 60);
    let segment = decode(ETHERNET, &frame, orig_len).unwrap();
    assert_eq!(segment.payload_len, 1448);
    assert!(segment.options.malformed && segment.options.timestamps.is_none());
    let (frame, orig_len) = frame_of(&usual(), ETHERNET, 53);
    assert_eq!(decode(ETHERNET, &frame, orig_len), Err(Undecoded::Cut));
}

#[test]
fn of_sack_blocks_those_before_the_cut_are_kept() {
    let edges = [(50, 60), (30, 40), (10, 20), (0, 0)];
    let segment = Segment {
        payload_len: 0,
        options: TcpOptions {
            sack: SackBlocks {
                count: 3,
                is_cut: false,
                edges,
            },
            ..usual().options
        },
        ..usual()
    };
    // 20 + 20 + 12 of timestamps + 4 + 8 for each block.
    for (snaplen, whole) in [(56, 0), (63, 0), (64, 1), (68, 1), (72, 2), (80, 3)] {
        let (frame, orig_len) = frame_of(&segment, RAW, snaplen);
        let options = decode(RAW, &frame, orig_len).unwrap().options;
        assert_eq!(
            options.sack.as_slice(),
            &edges[..whole],
            "of {snaplen} bytes"
        );
        assert_eq!(
            (options.malformed, options.sack.is_cut),
            (whole < 3, whole < 3)
        );
        assert_eq!(options.timestamps, Some((1, 2)));
    }
    // No cut, a length beyond the header: nothing of it is believed.
    let options = options_of(&[5, 18, 0, 0, 0, 1, 0, 0, 0, 9]);
    assert!(options.malformed && options.sack.as_slice().is_empty());
}

#[test]
fn super_segment_takes_its_length_from_the_capture() {
    // BIG TCP: more than an IP length field holds, so that says 0.
    let segment = Segment {
        payload_len: 180_000,
        ip_len: 180_052,
        ..usual()
    };
    let (frame, orig_len) = frame_of(&segment, ETHERNET, 128);
    assert_eq!(frame[16..18], [0, 0]);
    assert_eq!(said(decode(ETHERNET, &frame, orig_len)), Ok(segment));
}

#[test]
fn ethernet_padding_is_no_payload() {
    let segment = Segment {
        payload_len: 0,
        ip_len: 40,
        options: TcpOptions::default(),
        ..usual()
    };
    let (mut frame, _) = frame_of(&segment, ETHERNET, u32::MAX);
    frame.resize(60, 0);
    assert_eq!(decode_whole(ETHERNET, &frame), Ok(segment));
}

#[test]
fn ipv6_extension_headers_are_passed() {
    let segment = Segment {
        src: Endpoint {
            addr: IpAddr::V6(Ipv6Addr::LOCALHOST),
            port: 1,
        },
        dst: Endpoint {
            addr: IpAddr::V6(Ipv6Addr::LOCALHOST),
            port: 2,
        },
        ip_id: 0,
        payload_len: 10,
        ip_len: 40 + 32 + 10,
        ..usual()
    };
    let (packet, _) = frame_of(&segment, RAW, u32::MAX);
    // Hop-by-hop with a jumbo payload option (RFC 2675), destination options, an atomic fragment header (RFC 6946).
    let chain = [
        &[60, 0, 0xc2, 4, 0, 0, 0, 66][..],
        &[44, 0, 1, 4, 0, 0, 0, 0],
        &[6, 0, 0, 0, 0, 0, 0, 1],
    ]
    .concat();
    let mut long = packet[..40].to_vec();
    long[4..6].copy_from_slice(&[0, 0]);
    long[6] = 0;
    long.extend_from_slice(&chain);
    long.extend_from_slice(&packet[40..]);
    let expected = Segment {
        ip_len: 40 + 66,
        ..segment
    };
    assert_eq!(decode_whole(RAW, &long), Ok(expected));
}

/// RFC 791 section 3.2, in any order; the segment is there with the last piece and not before.
#[test]
fn fragments_give_one_segment_when_complete() {
    let whole = raw();
    let piece = |from: usize, to: usize| {
        let mut packet = whole[..20].to_vec();
        packet[2..4].copy_from_slice(&((20 + to - from) as u16).to_be_bytes());
        let more = if to == 1480 { 0 } else { 0x2000 };
        packet[6..8].copy_from_slice(&((from / 8) as u16 | more).to_be_bytes());
        packet.extend_from_slice(&whole[20 + from..20 + to]);
        packet
    };
    let pieces = [piece(0, 400), piece(400, 800), piece(800, 1480)];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut decoder = Decoder::new();
        let results = order.map(|index| {
            let packet: &Vec<u8> = &pieces[index];
            said(decoder.decode(RAW, packet, packet.len() as u32))
        });
        assert_eq!(
            results,
            [
                Err(Undecoded::Fragment),
                Err(Undecoded::Fragment),
                Ok(usual())
            ]
        );
        assert_eq!(
            (decoder.counts().fragments, decoder.counts().segments),
            (2, 1)
        );
    }
    let mut decoder = Decoder::new();
    for _ in 0..1000 {
        assert!(decoder.decode(RAW, &pieces[1], 420).is_err());
    }
    assert_eq!(decoder.counts().fragments, 1000);
}

#[test]
fn impossible_headers_are_malformed_and_counted() {
    let mut decoder = Decoder::new();
    let mut short_header = raw();
    short_header[0] = 0x44;
    let mut short_total = raw();
    short_total[2..4].copy_from_slice(&[0, 30]);
    let mut short_tcp = raw();
    short_tcp[32] = 0x40;
    for packet in [&short_header, &short_total, &short_tcp] {
        assert_eq!(
            decoder.decode(RAW, packet, packet.len() as u32),
            Err(Undecoded::Malformed)
        );
    }
    assert_eq!(
        decoder.decode(ETHERNET, &ethernet(0x0806, &[0; 28]), 42),
        Err(Undecoded::NotIp)
    );
    assert_eq!(
        decoder.decode(253, &[0; 20], 20),
        Err(Undecoded::LinkType(253))
    );
    let counts = decoder.counts();
    assert_eq!(
        (
            counts.packets,
            counts.malformed,
            counts.not_ip,
            counts.unknown_link_type,
            counts.link_type
        ),
        (5, 3, 1, 1, Some(253))
    );
}

#[test]
fn unknown_options_are_skipped_and_known_ones_recognised() {
    let options = options_of(&[
        99, 4, 1, 2, 1, 34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 30, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3,
        7,
    ]);
    assert!(options.has_tfo && options.has_mptcp && !options.malformed);
    assert_eq!(options.wscale, Some(7));
    // RFC 6994 experiments: TFO as it was before RFC 7413.
    assert!(options_of(&[254, 4, 0xf9, 0x89]).has_tfo);
    assert!(options_of(&[174, 5, 0, 0, 1]).has_accecn);
    // A length that cannot be: what stood before is kept.
    let options = options_of(&[2, 4, 5, 180, 3, 0, 7]);
    assert!(options.malformed && options.mss == Some(1460));
    assert!(options_of(&[8, 10, 1]).malformed);
    // After the end of options nothing counts.
    assert_eq!(options_of(&[0, 2, 4, 5, 180]).mss, None);
}
