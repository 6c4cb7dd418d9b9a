//! Round trips, and what holds for any bytes.

use proptest::prelude::*;

use super::*;

fn endpoints() -> impl Strategy<Value = (Endpoint, Endpoint)> {
    let v4 =
        (any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
    let v6 = (any::<[u8; 16]>(), any::<[u8; 16]>())
        .prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
    (prop_oneof![v4, v6], any::<u16>(), any::<u16>()).prop_map(|((src, dst), from, to)| {
        (
            Endpoint {
                addr: src,
                port: from,
            },
            Endpoint {
                addr: dst,
                port: to,
            },
        )
    })
}

fn some_options() -> impl Strategy<Value = TcpOptions> {
    let sack = proptest::collection::vec(any::<(u32, u32)>(), 0..=2).prop_map(|blocks| {
        let mut sack = SackBlocks {
            count: blocks.len() as u8,
            is_cut: false,
            ..SackBlocks::default()
        };
        sack.edges[..blocks.len()].copy_from_slice(&blocks);
        sack
    });
    let handshake = (
        proptest::option::of(any::<u16>()),
        proptest::option::of(any::<u8>()),
        any::<bool>(),
        proptest::option::of(any::<(u32, u32)>()),
        any::<[bool; 3]>(),
    )
        .prop_map(
            |(mss, wscale, sack_permitted, timestamps, [has_tfo, has_mptcp, has_accecn])| {
                TcpOptions {
                    mss,
                    wscale,
                    sack_permitted,
                    timestamps,
                    has_tfo,
                    has_mptcp,
                    has_accecn,
                    ..TcpOptions::default()
                }
            },
        );
    let data = (sack, proptest::option::of(any::<(u32, u32)>())).prop_map(|(sack, timestamps)| {
        TcpOptions {
            sack,
            timestamps,
            ..TcpOptions::default()
        }
    });
    prop_oneof![handshake, data]
}

fn segments() -> impl Strategy<Value = Segment> {
    (
        endpoints(),
        any::<(u32, u32, u16, u16, u8)>(),
        0..0x200u16,
        prop_oneof![0..3000u32, 60_000..200_000u32],
        0..4u8,
        some_options(),
    )
        .prop_map(
            |((src, dst), (seq, ack, window, ip_id, ttl), flags, payload_len, ecn, options)| {
                Segment {
                    src,
                    dst,
                    seq,
                    ack,
                    flags: TcpFlags(flags),
                    window,
                    payload_len,
                    ip_len: 0,
                    ip_id: if src.addr.is_ipv4() { ip_id } else { 0 },
                    ttl,
                    ecn,
                    network: 0,
                    checked: Checked::Unknown,
                    options,
                }
            },
        )
}

proptest! {
    #[test]
    fn encoding_and_decoding_give_the_segment_back(segment in segments(), is_ethernet: bool, snaplen in 134..2000u32) {
        let link_type = if is_ethernet { ETHERNET } else { RAW };
        let (frame, orig_len) = frame_of(&segment, link_type, snaplen);
        let decoded = decode(link_type, &frame, orig_len).unwrap();
        prop_assert!(!decoded.checked.is_wrong());
        let link = if is_ethernet { 14 } else { 0 };
        prop_assert_eq!(decoded, Segment { ip_len: orig_len - link, checked: decoded.checked, ..segment });
    }

    #[test]
    fn no_bytes_make_decoding_panic(link_type in 0..300u16, data in proptest::collection::vec(any::<u8>(), 0..200), orig_len: u32) {
        let mut decoder = Decoder::new();
        let _ = decoder.decode(link_type, &data, orig_len);
        let counts = *decoder.counts();
        let undecoded = counts.unknown_link_type + counts.not_ip + counts.not_tcp + counts.fragments
            + counts.cut + counts.malformed + counts.encrypted + counts.nested;
        prop_assert_eq!(counts.packets, counts.segments + undecoded);
    }
}
