//! What is left of a packet: the bytes captured, and how many there were on the wire.

use super::Undecoded;

/// A view that only shrinks. `wire_len` counts the bytes that were there, `data` holds those captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes<'a> {
    pub data: &'a [u8],
    pub wire_len: u32,
    /// Which of several networks with the same addresses this is: the VLANs and tunnels passed so far; 0: none.
    pub network: u32,
}

impl<'a> Bytes<'a> {
    pub fn new(data: &'a [u8], orig_len: u32) -> Self {
        let captured = u32::try_from(data.len()).unwrap_or(u32::MAX);
        Self {
            data,
            wire_len: orig_len.max(captured),
            network: 0,
        }
    }

    /// Within a VLAN or a tunnel of this number.
    pub fn within(self, kind: u32, number: u32) -> Self {
        // Multiplication by an odd number keeps different numbers apart; the order of tags counts.
        let mixed = (self.network.rotate_left(9) ^ kind).wrapping_mul(0x9e37_79b1) ^ number;
        Self {
            network: mixed.wrapping_mul(0x85eb_ca6b).max(1),
            ..self
        }
    }

    /// Why `wanted` bytes are not there: never sent, or sent but not captured.
    #[cold]
    fn lacking(&self, wanted: usize) -> Undecoded {
        if wanted > self.wire_len as usize {
            Undecoded::Malformed
        } else {
            Undecoded::Cut
        }
    }

    #[inline]
    pub fn chunk<const N: usize>(&self, at: usize) -> Result<[u8; N], Undecoded> {
        self.data
            .get(at..)
            .and_then(|rest| rest.first_chunk::<N>())
            .copied()
            .ok_or_else(|| self.lacking(at.saturating_add(N)))
    }

    #[inline]
    pub fn u8(&self, at: usize) -> Result<u8, Undecoded> {
        self.chunk::<1>(at).map(|[byte]| byte)
    }

    #[inline]
    pub fn u16(&self, at: usize) -> Result<u16, Undecoded> {
        self.chunk(at).map(u16::from_be_bytes)
    }

    #[inline]
    pub fn u32(&self, at: usize) -> Result<u32, Undecoded> {
        self.chunk(at).map(u32::from_be_bytes)
    }

    #[inline]
    pub fn u16_le(&self, at: usize) -> Result<u16, Undecoded> {
        self.chunk(at).map(u16::from_le_bytes)
    }

    #[inline]
    pub fn u32_le(&self, at: usize) -> Result<u32, Undecoded> {
        self.chunk(at).map(u32::from_le_bytes)
    }

    /// What follows the first `count` bytes.
    #[inline]
    pub fn skip(self, count: usize) -> Result<Self, Undecoded> {
        match self.data.get(count..) {
            Some(data) => Ok(Self {
                data,
                wire_len: self.wire_len - count as u32,
                ..self
            }),
            None => Err(self.lacking(count)),
        }
    }

    /// The same beginning with another length on the wire: what a header claims, or without a trailer.
    #[inline]
    pub fn with_wire_len(self, wire_len: u32) -> Self {
        let kept = self.data.len().min(wire_len as usize);
        Self {
            data: &self.data[..kept],
            wire_len,
            ..self
        }
    }
}
