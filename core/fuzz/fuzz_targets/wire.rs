//! Any bytes as packets: a segment or a cause, all counted; what decodes can be encoded and decoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcptrace_core::wire::{Checker, Decoder, ETHERNET, Plain, RAW, Segment, decode, encode};

/// The link types with a decoder, so that one byte of input chooses among them.
const LINK_TYPES: [u16; 24] = [
    0, 1, 9, 10, 12, 14, 50, 51, 100, 101, 104, 105, 108, 109, 113, 127, 228, 229, 239, 258, 276,
    1, 101, 253,
];

fuzz_target!(|bytes: &[u8]| {
    let [choice, orig_len @ ..] = *bytes.first_chunk::<3>().unwrap_or(&[0; 3]);
    let link_type = LINK_TYPES[usize::from(choice) % LINK_TYPES.len()];
    let orig_len = u32::from(u16::from_le_bytes(orig_len));
    let mut decoder = Decoder::new();
    let mut packets = 0;
    // Several packets in a row, so that fragments meet.
    for data in bytes.get(3..).unwrap_or_default().chunks(120) {
        packets += 1;
        if let Some(plain) = Plain::new(link_type, data, &mut Checker::default()) {
            assert_eq!(
                decode(link_type, data, orig_len),
                Ok(plain.segment()),
                "the short way is the long way"
            );
        }
        if let Ok(segment) = decoder.decode(link_type, data, orig_len) {
            again(&segment);
        }
    }
    let counts = decoder.counts();
    let undecoded = counts.unknown_link_type
        + counts.not_ip
        + counts.not_tcp
        + counts.fragments
        + counts.cut
        + counts.malformed
        + counts.encrypted
        + counts.nested;
    assert_eq!(
        (counts.packets, counts.segments + undecoded),
        (packets, packets)
    );
});

fn again(segment: &Segment) {
    let mut frame = Vec::new();
    // An option list that a foreign stack wrote without padding may not fit into ours.
    for link_type in [ETHERNET, RAW] {
        let Ok(orig_len) = encode(segment, &[], link_type, 200, &mut frame) else {
            continue;
        };
        let decoded = decode(link_type, &frame, orig_len).expect("our own frame");
        let mut expected = *segment;
        expected.ip_len = decoded.ip_len;
        expected.options.malformed = false;
        // What a snap length cut is whole in a frame of ours.
        expected.options.sack.is_cut = false;
        // The sum of a frame of ours is right, whatever the other's was.
        expected.checked = decoded.checked;
        // RFC 8200: IPv6 has no identification outside a fragment header.
        expected.ip_id = if segment.src.addr.is_ipv4() {
            segment.ip_id
        } else {
            0
        };
        assert_eq!(decoded, expected);
    }
}
