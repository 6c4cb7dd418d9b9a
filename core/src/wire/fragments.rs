//! IP fragments of TCP (RFC 791 section 3.2, RFC 8200 section 4.5): one segment once all pieces were seen.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::Segment;

/// Datagrams waiting for pieces; the oldest makes room. TCP over fragments is rare, so few are needed.
const MAX_WAITING: usize = 64;
/// Pieces remembered of one datagram: 65,535 bytes in the smallest pieces a path with an MTU of 576 makes.
const MAX_PIECES: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    protocol: u8,
}

impl Key {
    pub fn new(src: IpAddr, dst: IpAddr, id: u32, protocol: u8) -> Self {
        Self {
            src,
            dst,
            id,
            protocol,
        }
    }
}

#[derive(Clone, Copy)]
pub struct Fragment {
    pub start: u32,
    pub len: u32,
    pub is_last: bool,
}

/// The segment as the first piece shows it, and how long its TCP header is.
#[derive(Clone, Copy)]
pub struct FirstFragment {
    pub segment: Segment,
    pub tcp_header: u32,
}

struct Waiting {
    key: Key,
    /// Sorted, not overlapping, as [start, end).
    pieces: Vec<(u32, u32)>,
    end: Option<u32>,
    head: Option<FirstFragment>,
}

/// Datagrams in pieces.
///
/// Omitted: the reassembly timeout. With an identification reused after 64 other datagrams were begun, none waits so long.
#[derive(Default)]
pub struct Fragments {
    waiting: VecDeque<Waiting>,
}

impl Fragments {
    /// Notes a piece (`head`: with the first one) and gives the whole segment when it is complete.
    #[cold]
    pub fn add(
        &mut self,
        key: Key,
        piece: Fragment,
        head: Option<FirstFragment>,
    ) -> Option<Segment> {
        let index = match self.waiting.iter().position(|waiting| waiting.key == key) {
            Some(index) => index,
            None => {
                if self.waiting.len() == MAX_WAITING {
                    self.waiting.pop_front();
                }
                self.waiting.push_back(Waiting {
                    key,
                    pieces: Vec::new(),
                    end: None,
                    head: None,
                });
                self.waiting.len() - 1
            }
        };
        let waiting = &mut self.waiting[index];
        let end = piece.start + piece.len;
        waiting.insert(piece.start, end);
        if piece.is_last {
            waiting.end = Some(end);
        }
        waiting.head = waiting.head.or(head);
        let whole = waiting.whole();
        if whole.is_some() || waiting.pieces.len() > MAX_PIECES {
            self.waiting.remove(index);
        }
        whole
    }
}

impl Waiting {
    fn insert(&mut self, mut start: u32, mut end: u32) {
        self.pieces.retain(|&(from, to)| {
            let is_apart = to < start || from > end;
            if !is_apart {
                start = start.min(from);
                end = end.max(to);
            }
            is_apart
        });
        let place = self.pieces.partition_point(|&(from, _)| from < start);
        self.pieces.insert(place, (start, end));
    }

    fn whole(&self) -> Option<Segment> {
        let (head, end) = (self.head?, self.end?);
        if self.pieces != [(0, end)] {
            return None;
        }
        // The first piece counted its own payload only; what stands before that is headers.
        let payload_len = end.checked_sub(head.tcp_header)?;
        let segment = head.segment;
        let ip_header = segment.ip_len - segment.payload_len - head.tcp_header;
        Some(Segment {
            payload_len,
            ip_len: ip_header + end,
            ..segment
        })
    }
}
