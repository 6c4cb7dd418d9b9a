//! A segment on its way, in unwrapped offsets: SYN is 0, the first byte 1.

use crate::network::{Random, Traveller};
use crate::simulate::io::Carried;
use crate::simulate::taps::{Captured, Ends};
use crate::wire::{Checked, SackBlocks, Segment, TcpFlags, TcpOptions};

/// Up to four half-open ranges of offsets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks {
    pub count: u8,
    pub ranges: [(u64, u64); 4],
}

impl Blocks {
    pub fn push(&mut self, range: (u64, u64)) {
        self.ranges[usize::from(self.count)] = range;
        self.count += 1;
    }

    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.ranges[..usize::from(self.count)]
    }
}

/// What a connection agreed on in its handshake.
#[derive(Clone, Copy, Debug)]
pub struct Agreed {
    pub mss: u16,
    pub has_timestamps: bool,
    pub has_sack: bool,
    /// Shift of the receiver's window.
    pub wscale: u8,
    pub is_ipv6: bool,
}

impl Agreed {
    /// Bytes of headers before the payload.
    pub fn header_bytes(&self, is_syn: bool, blocks: u8) -> u32 {
        let ip = if self.is_ipv6 { 40 } else { 20 };
        let timestamps = if self.has_timestamps { 12 } else { 0 };
        if is_syn {
            let sack = if self.has_sack && !self.has_timestamps {
                4
            } else {
                0
            };
            return ip + 20 + 4 + timestamps + sack + 4;
        }
        let sack = if blocks == 0 {
            0
        } else {
            4 + 8 * u32::from(blocks)
        };
        ip + 20 + timestamps + sack
    }

    /// Blocks that fit beside the timestamps (RFC 2018 section 3).
    pub fn max_blocks(&self) -> usize {
        match (self.has_sack, self.has_timestamps) {
            (false, _) => 0,
            (true, true) => 3,
            (true, false) => 4,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct RfcPacket {
    pub connection: u32,
    /// From the side that sends the data.
    pub is_from_sender: bool,
    pub seq: u64,
    pub payload: u32,
    pub flags: TcpFlags,
    pub ack: u64,
    pub window: u64,
    /// When it was sent, and the echo of the other side's: nanoseconds, milliseconds on the wire.
    pub ts_ns: i64,
    pub echo_ns: Option<i64>,
    pub blocks: Blocks,
    pub ip_id: u16,
    pub agreed: Agreed,
}

impl RfcPacket {
    pub fn is_syn(&self) -> bool {
        self.flags.has(TcpFlags::SYN)
    }
}

impl Traveller for RfcPacket {
    fn bytes(&self) -> u32 {
        self.agreed.header_bytes(self.is_syn(), self.blocks.count) + self.payload
    }

    fn is_data(&self) -> bool {
        self.payload > 0
    }
}

impl Carried for RfcPacket {
    fn connection(&self) -> u32 {
        self.connection
    }

    fn offset(&self) -> u64 {
        if self.payload > 0 {
            self.seq - 1
        } else {
            self.ack.saturating_sub(1)
        }
    }

    fn set_ip_id(&mut self, ip_id: u16) {
        self.ip_id = ip_id;
    }
}

/// Initial sequence numbers differ, and are the same in every run.
fn isn(connection: u32, is_from_sender: bool) -> u32 {
    Random::new(2 * u64::from(connection) + u64::from(is_from_sender)).next_u64() as u32
}

/// The clock behind timestamps ticks in milliseconds and did not start at 0 (RFC 7323 section 5.4).
fn ts_val(ns: i64) -> u32 {
    1_000_000u32.wrapping_add((ns / 1_000_000) as u32)
}

impl Captured for RfcPacket {
    fn first_seq(connection: u32) -> u32 {
        // The SYN takes the first number.
        isn(connection, true).wrapping_add(1)
    }

    fn segment(&self, ends: &[Ends], _packet_bytes: u32) -> Segment {
        let ends = &ends[self.connection as usize];
        let (src, dst) = if self.is_from_sender {
            (ends.sender, ends.receiver)
        } else {
            (ends.receiver, ends.sender)
        };
        let own = isn(self.connection, self.is_from_sender);
        let other = isn(self.connection, !self.is_from_sender);
        let wire = |isn: u32, offset: u64| isn.wrapping_add(offset as u32);
        let mut sack = SackBlocks::default();
        for (edge, &(start, end)) in sack.edges.iter_mut().zip(self.blocks.as_slice()) {
            *edge = (wire(other, start), wire(other, end));
            sack.count += 1;
        }
        let agreed = &self.agreed;
        let is_syn = self.is_syn();
        let has_ack = self.flags.has(TcpFlags::ACK);
        let shift = if is_syn { 0 } else { agreed.wscale };
        Segment {
            src,
            dst,
            seq: wire(own, self.seq),
            ack: if has_ack { wire(other, self.ack) } else { 0 },
            flags: self.flags,
            window: (self.window >> shift).min(u64::from(u16::MAX)) as u16,
            payload_len: self.payload,
            ip_len: self.bytes(),
            ip_id: if agreed.is_ipv6 { 0 } else { self.ip_id },
            ttl: 64,
            ecn: 0,
            network: 0,
            checked: Checked::Unknown,
            options: TcpOptions {
                mss: is_syn.then_some(agreed.mss),
                wscale: is_syn.then_some(agreed.wscale),
                sack_permitted: is_syn && agreed.has_sack,
                sack,
                timestamps: agreed
                    .has_timestamps
                    .then(|| (ts_val(self.ts_ns), self.echo_ns.map_or(0, ts_val))),
                ..TcpOptions::default()
            },
        }
    }
}
