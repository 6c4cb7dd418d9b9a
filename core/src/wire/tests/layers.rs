//! Every link layer and tunnel leads to the same segment.

use super::*;

#[test]
fn each_link_layer_leads_to_the_same_segment() {
    let ip = raw();
    let with = |head: &[u8]| [head, &ip].concat();
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let radiotap_padded = {
        // Flags present, data padded to 32 bits after a QoS header of 26 bytes.
        let mut frame = vec![0, 0, 9, 0, 2, 0, 0, 0, 0x20];
        frame.extend_from_slice(&[0x88, 0]);
        frame.extend_from_slice(&[0; 26]);
        [&frame[..], &snap, &ip].concat()
    };
    let frames: Vec<(&str, u16, Vec<u8>)> = vec![
        ("ethernet", 1, ethernet(0x0800, &ip)),
        ("802.1Q", 1, ethernet(0x8100, &with(&[0, 5, 8, 0]))),
        (
            "QinQ",
            1,
            ethernet(0x88a8, &with(&[0, 5, 0x81, 0, 0, 6, 8, 0])),
        ),
        ("802.3 SNAP", 1, ethernet(300, &[&snap[..], &ip].concat())),
        (
            "MPLS, two labels",
            1,
            ethernet(0x8847, &with(&[0, 1, 0x20, 64, 0, 1, 0x31, 64])),
        ),
        (
            "PPPoE",
            1,
            ethernet(0x8864, &with(&[0x11, 0, 0, 1, 0, 0, 0, 0x21])),
        ),
        ("null, little-endian", 0, with(&[2, 0, 0, 0])),
        ("null, big-endian", 0, with(&[0, 0, 0, 2])),
        ("loop", 108, with(&[0, 0, 0, 2])),
        ("PPP", 9, with(&[0xff, 3, 0, 0x21])),
        ("PPP, compressed", 9, with(&[0x21])),
        ("PPP, HDLC", 50, with(&[0xff, 3, 0, 0x21])),
        ("PPP in Cisco's HDLC", 50, with(&[0x0f, 0, 8, 0])),
        ("Cisco HDLC", 104, with(&[0x0f, 0, 8, 0])),
        ("PPPoE alone", 51, with(&[0x11, 0, 0, 1, 0, 0, 0, 0x21])),
        ("FDDI", 10, [&[0x50; 13][..], &snap, &ip].concat()),
        ("RFC 1483", 100, [&snap[..], &ip].concat()),
        ("raw 12", 12, ip.clone()),
        ("raw 14", 14, ip.clone()),
        ("raw 101", 101, ip.clone()),
        ("raw 228", 228, ip.clone()),
        (
            "SLL",
            113,
            with(&[0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]),
        ),
        (
            "SLL2",
            276,
            with(&[8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0]),
        ),
        ("802.11", 105, [&[8, 0][..], &[0; 22], &snap, &ip].concat()),
        (
            "802.11, four addresses",
            105,
            [&[8, 3][..], &[0; 28], &snap, &ip].concat(),
        ),
        ("radiotap", 127, radiotap_padded),
        (
            "NFLOG",
            239,
            with(&[2, 0, 0, 0, 5, 0, 1, 0, 7, 0, 0, 0, 0xe0, 5, 9, 0]),
        ),
        ("ENC", 109, with(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        ("pktap", 258, with(&[12, 0, 0, 0, 1, 0, 0, 0, 12, 0, 0, 0])),
    ];
    for (name, link_type, frame) in frames {
        let found = decode_whole(link_type, &frame).map(in_no_network);
        assert_eq!(found, Ok(usual()), "{name}");
    }
}

#[test]
fn each_tunnel_leads_to_the_inner_segment() {
    let inner = raw();
    let outer4 = |protocol: u8, payload: &[u8]| {
        let total = (20 + payload.len()) as u16;
        let mut packet = vec![0x45, 0];
        packet.extend_from_slice(&total.to_be_bytes());
        packet.extend_from_slice(&[0, 1, 0, 0, 64, protocol, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
        packet.extend_from_slice(payload);
        packet
    };
    let outer6 = |next: u8, payload: &[u8]| {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        packet.extend_from_slice(&[next, 64]);
        packet.extend_from_slice(&[7; 32]);
        packet.extend_from_slice(payload);
        packet
    };
    let gre = |head: &[u8], payload: &[u8]| [head, payload].concat();
    let vxlan = {
        let frame = ethernet(0x0800, &inner);
        let mut udp = vec![0x30, 0x39, 0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0];
        udp.extend_from_slice(&frame);
        udp
    };
    let packets: Vec<(&str, Vec<u8>)> = vec![
        ("IP in IP", outer4(4, &inner)),
        ("4in6", outer6(4, &inner)),
        ("GRE", outer4(47, &gre(&[0, 0, 8, 0], &inner))),
        (
            "GRE with key",
            outer4(47, &gre(&[0x20, 0, 8, 0, 0, 0, 0, 9], &inner)),
        ),
        (
            "GRE, bridged",
            outer4(47, &gre(&[0, 0, 0x65, 0x58], &ethernet(0x0800, &inner))),
        ),
        (
            "PPTP",
            outer4(
                47,
                &gre(
                    &[
                        0x30, 1, 0x88, 0x0b, 0, 0, 0, 1, 0, 0, 0, 5, 0xff, 3, 0, 0x21,
                    ],
                    &inner,
                ),
            ),
        ),
        ("VXLAN", outer4(17, &vxlan)),
        (
            "authentication header",
            outer4(51, &[&[4, 4, 0, 0][..], &[0; 20], &inner].concat()),
        ),
        ("GRE in 6", outer6(47, &gre(&[0, 0, 8, 0], &inner))),
    ];
    for (name, packet) in packets {
        let found = decode_whole(RAW, &packet).map(in_no_network);
        assert_eq!(found, Ok(usual()), "{name}");
    }
    let v6_segment = Segment {
        src: Endpoint {
            addr: IpAddr::V6(Ipv6Addr::LOCALHOST),
            port: 1,
        },
        dst: Endpoint {
            addr: IpAddr::V6(Ipv6Addr::LOCALHOST),
            port: 2,
        },
        ip_id: 0,
        ip_len: 1520,
        ..usual()
    };
    let (inner6, _) = frame_of(&v6_segment, RAW, u32::MAX);
    assert_eq!(
        decode_whole(RAW, &outer4(41, &inner6)),
        Ok(v6_segment),
        "6in4"
    );
    let mut deep = inner;
    for _ in 0..5 {
        deep = outer4(4, &deep);
    }
    assert_eq!(decode_whole(RAW, &deep), Err(Undecoded::Nested));
    let udp = outer4(17, &[0, 53, 0, 53, 0, 8, 0, 0]);
    assert_eq!(decode_whole(RAW, &udp), Err(Undecoded::NotTcp));
    let esp = outer4(50, &[0; 16]);
    assert_eq!(decode_whole(RAW, &esp), Err(Undecoded::Encrypted));
}

fn in_no_network(segment: Segment) -> Segment {
    Segment {
        network: 0,
        checked: Checked::Unknown,
        ..segment
    }
}

/// The network of a segment behind 802.1Q tags with these control fields.
fn network_behind(tags: &[u16]) -> u32 {
    let (ip, _) = frame_of(&usual(), RAW, u32::MAX);
    let mut frame = [0; 12].to_vec();
    for tag in tags {
        frame.extend([0x81, 0]);
        frame.extend(tag.to_be_bytes());
    }
    frame.extend([8, 0]);
    frame.extend(ip);
    decode_whole(ETHERNET, &frame).unwrap().network
}

#[test]
fn a_vlan_is_a_network_of_its_own_whatever_its_priority() {
    let (first, second) = (network_behind(&[10]), network_behind(&[11]));
    assert_ne!(first, second);
    assert_ne!(first, 0);
    assert_eq!(network_behind(&[10 | 5 << 13]), first);
    // 802.1Q section 9.6: a tag that carries a priority only.
    assert_eq!(network_behind(&[3 << 13]), network_behind(&[]));
    assert_eq!(network_behind(&[]), 0);
    // A customer's tag within a provider's.
    assert_ne!(network_behind(&[10, 11]), network_behind(&[11, 10]));
}
