//! A connection of which hardly anything has been seen: its packets themselves, a tenth of what following one takes.
//!
//! Scans and half-open connections are never more than this. The first packet too many makes a `Connection` of it, by
//! the same way that every packet goes: what a row says of it does not depend on how it was kept.

use super::connection::Connection;
use super::packet::TcpPacket;
use crate::wire::{Checked, TcpFlags, TcpOptions};

/// SYN, SYN again, RST: what a probe without an answer, or with a refusal, comes to.
pub const MOST: usize = 3;

/// A packet without SACK blocks, and what its options told of the connection.
#[derive(Clone, Copy, Debug)]
pub struct KeptPacket {
    time: i64,
    index: u64,
    seq: u32,
    ack: u32,
    len: u32,
    ts_val: u32,
    ts_ecr: u32,
    window: u16,
    flags: TcpFlags,
    ip_id: u16,
    ttl: u8,
    mss: Option<u16>,
    wscale: Option<u8>,
    has_ts: bool,
    is_cut: bool,
    cut_headers: u32,
    checked: Checked,
    sack_permitted: bool,
    has_options: bool,
    from: bool,
}

impl KeptPacket {
    pub fn new(from: usize, packet: &TcpPacket<'_>, options: Option<&TcpOptions>) -> Self {
        Self {
            time: packet.time,
            index: packet.index,
            seq: packet.seq,
            ack: packet.ack,
            len: packet.len,
            ts_val: packet.ts_val,
            ts_ecr: packet.ts_ecr,
            window: packet.window,
            flags: packet.flags,
            ip_id: packet.ip_id,
            ttl: packet.ttl,
            mss: options.and_then(|options| options.mss),
            wscale: options.and_then(|options| options.wscale),
            has_ts: packet.has_ts,
            is_cut: packet.is_cut,
            cut_headers: packet.cut_headers,
            checked: packet.checked,
            sack_permitted: options.is_some_and(|options| options.sack_permitted),
            has_options: options.is_some(),
            from: from == 1,
        }
    }

    /// The packet again, for the connection it belongs to.
    pub fn push_to(&self, connection: &mut Connection) {
        let packet = TcpPacket {
            time: self.time,
            index: self.index,
            seq: self.seq,
            ack: self.ack,
            len: self.len,
            ts_val: self.ts_val,
            ts_ecr: self.ts_ecr,
            window: self.window,
            flags: self.flags,
            ip_id: self.ip_id,
            ttl: self.ttl,
            has_ts: self.has_ts,
            is_cut: self.is_cut,
            cut_headers: self.cut_headers,
            checked: self.checked,
            sack: None,
        };
        let options = TcpOptions {
            mss: self.mss,
            wscale: self.wscale,
            sack_permitted: self.sack_permitted,
            ..TcpOptions::NONE
        };
        let options = self.has_options.then_some(&options);
        connection.push(usize::from(self.from), &packet, options);
    }
}
