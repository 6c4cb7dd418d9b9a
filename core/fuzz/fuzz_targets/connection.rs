//! Any bytes as a stream of segments of a few connections: following them never panics, and nothing is counted twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcptrace_core::connection::{ConnectionTable, Wanted};
use tcptrace_core::wire::{Endpoint, Segment, TcpFlags};

/// Bytes of input for one segment.
const STEP: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let mut table = ConnectionTable::new(Wanted::All);
    let mut time_ns = 0;
    let mut pushed = 0;
    for step in bytes.chunks_exact(STEP) {
        let half = |at: usize| u16::from_le_bytes([step[at], step[at + 1]]);
        let endpoint = |port: u16| Endpoint {
            addr: [10, 0, 0, 1].into(),
            port,
        };
        // Two connections; sequence numbers near the wrap, in both directions.
        let (a, b) = (endpoint(1 + u16::from(step[0] >> 7)), endpoint(80));
        let is_forward = step[0] & 1 == 0;
        let near = |at: usize| u32::from(half(at)).wrapping_mul(97).wrapping_sub(3_000_000);
        let mut segment = Segment {
            src: if is_forward { a } else { b },
            dst: if is_forward { b } else { a },
            seq: near(2),
            ack: near(4),
            flags: TcpFlags(u16::from(step[1])),
            window: half(6),
            payload_len: u32::from(half(8)) * u32::from(step[0] >> 3 & 3),
            ip_len: 1500,
            ip_id: half(6),
            ttl: 64,
            ..Segment::BLANK
        };
        if step[0] & 2 != 0 {
            segment.options.timestamps = Some((u32::from(step[14]), u32::from(step[15])));
        }
        if step[0] & 4 != 0 {
            segment.options.sack.count = 1 + (step[10] & 3);
            for (block, edge) in segment.options.sack.edges.iter_mut().enumerate() {
                let left = near(10).wrapping_add(block as u32 * 5000);
                *edge = (left, left.wrapping_add(u32::from(half(12))));
            }
        }
        if segment.flags.has(TcpFlags::SYN) {
            segment.options.wscale = Some(step[11]);
            segment.options.mss = Some(half(12));
        }
        time_ns += i64::from(half(12)) * 10_000 - 100_000;
        table.push(time_ns, &segment);
        pushed += 1;
    }
    let mut followed = 0;
    for connection in table.connections() {
        let both: u64 = connection
            .flows
            .iter()
            .map(|flow| flow.counts.packets())
            .sum();
        assert_eq!(connection.packets(), both);
        followed += both;
        for flow in &connection.flows {
            let counts = &flow.counts;
            assert!(counts.unique_bytes <= counts.bytes(), "{counts:?}");
            assert!(counts.retransmissions <= counts.data_packets, "{counts:?}");
        }
    }
    assert_eq!(followed, pushed, "every segment belongs to one connection");
});
