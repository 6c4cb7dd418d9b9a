//! A captured packet as following a connection needs it.

use crate::wire::{Checked, Plain, SackBlocks, Segment, TcpFlags};

/// One that carries a segment of a known connection and direction.
#[derive(Clone, Copy, Debug)]
pub struct TcpPacket<'a> {
    pub time: i64,
    /// The record's number in its capture, from 0.
    pub index: u64,
    pub seq: u32,
    pub ack: u32,
    pub len: u32,
    pub ts_val: u32,
    pub ts_ecr: u32,
    pub window: u16,
    pub flags: TcpFlags,
    pub ip_id: u16,
    pub ttl: u8,
    pub has_ts: bool,
    /// The capture has not all of its options, or they cannot be read.
    pub is_cut: bool,
    /// Bytes of its headers as they claim, where `is_cut`.
    pub cut_headers: u32,
    pub checked: Checked,
    pub sack: Option<&'a SackBlocks>,
}

impl<'a> TcpPacket<'a> {
    pub fn new(time: i64, index: u64, segment: &'a Segment) -> Self {
        let (ts_val, ts_ecr) = segment.options.timestamps.unwrap_or_default();
        let sack = &segment.options.sack;
        Self {
            time,
            index,
            seq: segment.seq,
            ack: segment.ack,
            len: segment.payload_len,
            ts_val,
            ts_ecr,
            window: segment.window,
            flags: segment.flags,
            ip_id: segment.ip_id,
            ttl: segment.ttl,
            has_ts: segment.options.timestamps.is_some(),
            is_cut: segment.options.malformed,
            cut_headers: segment.ip_len.saturating_sub(segment.payload_len),
            checked: segment.checked,
            sack: (sack.count > 0).then_some(sack),
        }
    }

    #[inline]
    pub fn plain(time: i64, index: u64, plain: &Plain) -> TcpPacket<'static> {
        TcpPacket {
            time,
            index,
            seq: plain.seq,
            ack: plain.ack,
            len: plain.payload_len,
            ts_val: plain.ts_val,
            ts_ecr: plain.ts_ecr,
            window: plain.window,
            flags: plain.flags,
            ip_id: plain.ip_id,
            ttl: plain.ttl,
            has_ts: plain.has_ts,
            is_cut: false,
            cut_headers: 0,
            checked: plain.checked,
            sack: None,
        }
    }

    #[inline]
    pub fn is_syn(&self) -> bool {
        self.flags.has(TcpFlags::SYN)
    }

    #[inline]
    pub fn is_fin(&self) -> bool {
        self.flags.has(TcpFlags::FIN)
    }

    #[inline]
    pub fn is_rst(&self) -> bool {
        self.flags.has(TcpFlags::RST)
    }

    #[inline]
    pub fn is_ack(&self) -> bool {
        self.flags.has(TcpFlags::ACK)
    }

    /// An ACK, with data or without: no SYN, FIN or RST.
    #[inline]
    pub fn is_plain_ack(&self) -> bool {
        const OTHERS: u16 = TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0;
        self.flags.0 & (OTHERS | TcpFlags::ACK.0) == TcpFlags::ACK.0
    }

    /// No data, no SYN, FIN or RST: it only acknowledges.
    #[inline]
    pub fn is_pure_ack(&self) -> bool {
        self.len == 0 && self.is_plain_ack()
    }

    /// Whether it takes sequence space (RFC 9293 section 3.4).
    #[inline]
    pub fn has_sequence_space(&self) -> bool {
        self.len > 0 || self.flags.0 & (TcpFlags::SYN.0 | TcpFlags::FIN.0) != 0
    }
}
