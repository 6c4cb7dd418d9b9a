//! A sender's host that stands still at times: what comes in meanwhile is taken in when it goes on.

use std::collections::VecDeque;

use crate::simulate::rfc::packet::RfcPacket;

#[derive(Default)]
pub(super) struct Pauses {
    /// From when to when; those that are over are taken out.
    left: VecDeque<(i64, i64)>,
    held: VecDeque<RfcPacket>,
}

impl Pauses {
    pub fn of(pauses_ns: impl Iterator<Item = (i64, i64)>) -> Self {
        Self {
            left: pauses_ns.collect(),
            held: VecDeque::new(),
        }
    }

    /// When the pause ends in which a packet has come in and waits now; `None`: the host is there.
    pub fn hold(&mut self, now_ns: i64, packet: &RfcPacket) -> Option<i64> {
        // Nothing overtakes what still waits, also at the very end.
        while self.held.is_empty() && self.left.front().is_some_and(|&(_, end)| end <= now_ns) {
            self.left.pop_front();
        }
        let &(begin, end) = self.left.front()?;
        if now_ns < begin {
            return None;
        }
        self.held.push_back(*packet);
        Some(end)
    }

    /// What has waited, in its order.
    pub fn next(&mut self) -> Option<RfcPacket> {
        self.held.pop_front()
    }
}
