//! The TCP header and its options (RFC 9293 section 3.1).

use super::bytes::Bytes;
use super::{SackBlocks, Segment, TcpFlags, TcpOptions, Undecoded};

const MIN_HEADER: usize = 20;

/// Reads a header of which at least the fixed part was captured; leaves alone what the IP header tells.
#[inline]
pub fn read(packet: Bytes<'_>, segment: &mut Segment) -> Result<(), Undecoded> {
    let fixed = packet.chunk::<MIN_HEADER>(0)?;
    let len = usize::from(fixed[12] >> 4) * 4;
    if len < MIN_HEADER || len as u32 > packet.wire_len {
        return Err(Undecoded::Malformed);
    }
    let half = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    segment.src.port = half(0);
    segment.dst.port = half(2);
    segment.seq = word(&fixed, 4);
    segment.ack = word(&fixed, 8);
    segment.flags = TcpFlags(half(12) & 0x01ff);
    segment.window = half(14);
    segment.payload_len = packet.wire_len - len as u32;
    let captured = packet.data.len().min(len);
    let rest = read_options(&packet.data[MIN_HEADER..captured], &mut segment.options);
    if captured < len {
        // The snapshot length cut the options: what stands before the cut is kept, and the cut is told.
        segment.options.malformed = true;
        read_cut_sack(rest, &mut segment.options);
    }
    Ok(())
}

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
/// No-operations in a row that some sender may use (RFC 9293 section 3.1: words of four bytes).
const MOST_PADDING: usize = 3;
const MPTCP: u8 = 30;
const FAST_OPEN: u8 = 34;
const ACCECN_0: u8 = 172;
const ACCECN_1: u8 = 174;
/// RFC 6994: shared by experiments, told apart by the first two bytes.
const EXPERIMENT: [u8; 2] = [253, 254];
const EXPERIMENT_FAST_OPEN: u16 = 0xf989;
const EXPERIMENT_ACCECN: [u16; 3] = [0xacce, 0xacc0, 0xacc1];

/// No operation twice, then timestamps: what RFC 7323 appendix A recommends and nearly every segment carries.
pub const USUAL_TIMESTAMPS: u32 = 0x0101_080a;

/// Options of a segment; unknown ones are skipped by their length. Returns what could not be read.
///
/// Differs: etherparse's iterator ends at the first option that it does not know, and it knows no TFO, MPTCP, AccECN.
#[inline]
pub fn read_options<'a>(bytes: &'a [u8], options: &mut TcpOptions) -> &'a [u8] {
    *options = TcpOptions::default();
    match <&[u8; 12]>::try_from(bytes) {
        Ok(usual) if word(usual, 0) == USUAL_TIMESTAMPS => {
            options.timestamps = Some((word(usual, 4), word(usual, 8)));
            &[]
        }
        _ => read_any_options(bytes, options),
    }
}

fn read_any_options<'a>(mut rest: &'a [u8], options: &mut TcpOptions) -> &'a [u8] {
    let mut padding = 0;
    while let Some((&kind, after)) = rest.split_first() {
        match kind {
            END => break,
            NO_OPERATION => {
                padding += 1;
                // Three align any option: more stand where one was overwritten (a middlebox, an anonymiser).
                options.malformed |= padding > MOST_PADDING;
                rest = after;
                continue;
            }
            _ => padding = 0,
        }
        let value = match after.first() {
            Some(&len) if len >= 2 && usize::from(len) <= rest.len() => &rest[2..usize::from(len)],
            _ => {
                options.malformed = true;
                return rest;
            }
        };
        rest = &rest[2 + value.len()..];
        read_option(options, kind, value);
    }
    &[]
}

/// The first blocks tell of the latest segment (RFC 2018 section 4): with 68 bytes captured, one of them is whole.
fn read_cut_sack(rest: &[u8], options: &mut TcpOptions) {
    if let [SACK, 10 | 18 | 26 | 34, blocks @ ..] = rest {
        read_sack(options, &blocks[..blocks.len() / 8 * 8]);
        options.sack.is_cut = true;
    }
}

fn read_option(options: &mut TcpOptions, kind: u8, value: &[u8]) {
    match (kind, value.len()) {
        (MSS, 2) => options.mss = Some(u16::from_be_bytes([value[0], value[1]])),
        (WINDOW_SCALE, 1) => options.wscale = Some(value[0]),
        (SACK_PERMITTED, 0) => options.sack_permitted = true,
        (SACK, 8 | 16 | 24 | 32) => read_sack(options, value),
        (TIMESTAMPS, 8) => options.timestamps = Some((word(value, 0), word(value, 4))),
        (FAST_OPEN, _) => options.has_tfo = true,
        (MPTCP, 1..) => options.has_mptcp = true,
        (ACCECN_0 | ACCECN_1, _) => options.has_accecn = true,
        (kind, 2..) if EXPERIMENT.contains(&kind) => {
            let experiment = u16::from_be_bytes([value[0], value[1]]);
            options.has_tfo |= experiment == EXPERIMENT_FAST_OPEN;
            options.has_accecn |= EXPERIMENT_ACCECN.contains(&experiment);
        }
        // A known option with a length that its document does not allow.
        (MSS | WINDOW_SCALE | SACK_PERMITTED | SACK | TIMESTAMPS | MPTCP, _) => {
            options.malformed = true
        }
        _ => (),
    }
}

fn read_sack(options: &mut TcpOptions, blocks: &[u8]) {
    options.sack = SackBlocks::default();
    for (edge, block) in options.sack.edges.iter_mut().zip(blocks.chunks_exact(8)) {
        *edge = (word(block, 0), word(block, 4));
    }
    options.sack.count = (blocks.len() / 8) as u8;
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
