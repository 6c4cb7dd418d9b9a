//! What travels in the `ns2` profile: numbered packets, not bytes.

use crate::network::Traveller;
use crate::simulate::io::Carried;
use crate::simulate::packet_counting;
use crate::simulate::taps::{Captured, Ends};
use crate::wire::Segment;

/// Up to three half-open ranges of packet numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks {
    /// Those in use come first; one that is not is (0, 0).
    ranges: [(u32, u32); 3],
}

impl Blocks {
    pub fn push(&mut self, start: u64, end: u64) {
        let count = self.count();
        self.ranges[count] = (start as u32, end as u32);
    }

    pub fn count(&self) -> usize {
        self.ranges.iter().take_while(|&&(_, end)| end > 0).count()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges[0].1 == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges[..self.count()]
            .iter()
            .map(|&(start, end)| (u64::from(start), u64::from(end)))
    }
}

/// With its time of arrival one line of the cache: a window's worth of them is most of what a run touches.
#[derive(Clone, Copy, Debug)]
pub struct Ns2Packet {
    /// When the data packet was sent; an ACK echoes it (in seconds).
    pub ts: f64,
    number: i32,
    pub connection: u32,
    pub bytes: u32,
    /// Which of its host's packets it is: a retransmission or a second duplicate ACK is another one.
    pub ip_id: u16,
    pub is_data: bool,
    pub blocks: Blocks,
}

impl Ns2Packet {
    /// Ns2Packet `number` of a connection, sent now.
    #[inline]
    pub fn data(connection: u32, number: i64, bytes: u32, now: f64) -> Self {
        Self {
            ts: now,
            number: number as i32,
            connection,
            bytes,
            ip_id: 0,
            is_data: true,
            blocks: Blocks::default(),
        }
    }

    /// The ACK of everything up to and with packet `number`, echoing `ts`.
    #[inline]
    pub fn ack(connection: u32, number: i64, bytes: u32, ts: f64) -> Self {
        Self {
            is_data: false,
            ..Self::data(connection, number, bytes, ts)
        }
    }

    /// Ns2Packet number from 0; of an ACK the last number received in order, -1 for none.
    #[inline]
    pub fn number(&self) -> i64 {
        i64::from(self.number)
    }
}

impl Traveller for Ns2Packet {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn is_data(&self) -> bool {
        self.is_data
    }
}

impl Carried for Ns2Packet {
    fn connection(&self) -> u32 {
        self.connection
    }

    fn offset(&self) -> u64 {
        self.number().max(0) as u64
    }

    fn set_ip_id(&mut self, ip_id: u16) {
        self.ip_id = ip_id;
    }
}

impl Captured for Ns2Packet {
    fn first_seq(_connection: u32) -> u32 {
        1
    }

    fn segment(&self, ends: &[Ends], packet_bytes: u32) -> Segment {
        let ends = &ends[self.connection as usize];
        if self.is_data {
            return packet_counting::data(ends, self.number(), self.ip_id, packet_bytes);
        }
        let blocks: Vec<(i64, i64)> = self
            .blocks
            .iter()
            .map(|(start, end)| (start as i64, end as i64))
            .collect();
        packet_counting::ack(ends, self.number(), self.ip_id, packet_bytes, &blocks)
    }
}
