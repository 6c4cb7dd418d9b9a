//! The Linux agent's scoreboard: what is SACKed, lost, sent again, and lost again.
//!
//! A hole is lost once a packet four above it is SACKed. A retransmission is lost once everything sent before it has
//! been passed: by a SACK at or above the next new number at that time, or by SACKs of five later retransmissions.
//! ns-2 walks a list of the whole window for each ACK; here each ACK touches only what it changes.

use std::collections::{BTreeMap, VecDeque};

use super::packet::Ns2Packet;
use crate::recovery::Intervals;

/// How far below the highest SACK a hole must lie to be lost.
const LOST_BELOW: i64 = 4;

/// What an update found.
#[derive(Clone, Copy, Debug, Default)]
pub struct News {
    /// Packets.
    pub sacked: u64,
    pub lost: bool,
    /// A retransmitted packet is among what arrived: which copy is not known.
    pub unsure: bool,
}

#[derive(Clone, Copy, Debug)]
struct Retransmission {
    /// Next new number when it was sent.
    snd_nxt: i64,
    order: i64,
}

#[derive(Debug)]
pub struct Board {
    sacked: Intervals,
    lost: Intervals,
    retransmitted: BTreeMap<u64, Retransmission>,
    /// Ns2Packet numbers in order of retransmission.
    by_order: VecDeque<(i64, u64)>,
    /// Highest SACKed number.
    fack: i64,
    /// Last number the board knows of; -1: the board is empty.
    end: i64,
    /// Holes up to here have been judged.
    judged: i64,
    next_order: i64,
    /// Order of the latest retransmission known to have arrived.
    acked_order: i64,
    /// Lost packets above it were not looked at by the last update and wait for the next.
    looked_up_to: u64,
}

impl Board {
    pub fn new() -> Self {
        Self {
            sacked: Intervals::default(),
            lost: Intervals::default(),
            retransmitted: BTreeMap::new(),
            by_order: VecDeque::new(),
            fack: 0,
            end: -1,
            judged: -1,
            next_order: 0,
            acked_order: -1,
            looked_up_to: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.end < 0
    }

    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Packets of `outstanding` that are neither SACKed nor lost.
    pub fn in_flight(&self, outstanding: i64) -> i64 {
        outstanding - self.lost.covered() as i64 - self.sacked.covered() as i64
    }

    /// Forgets what the ACK covers; whether a later retransmission than known has arrived.
    fn clean(&mut self, last_ack: i64, news: &mut News) -> bool {
        let floor = (last_ack + 1) as u64;
        self.sacked.remove_below(floor);
        self.lost.remove_below(floor);
        let mut is_later = false;
        while let Some(entry) = self
            .retransmitted
            .first_entry()
            .filter(|entry| *entry.key() < floor)
        {
            let order = entry.remove().order;
            news.unsure = true;
            if order > self.acked_order {
                self.acked_order = order;
                is_later = true;
            }
        }
        is_later
    }

    /// Takes an ACK and its blocks in. Apart from an ACK's common work, which it would make longer.
    #[inline(never)]
    pub fn update(&mut self, last_ack: i64, packet: &Ns2Packet) -> News {
        let mut news = News::default();
        let mut is_thorough = !self.is_empty() && self.clean(last_ack, &mut news);
        if last_ack >= self.end {
            self.clear();
            is_thorough = false;
        }
        let mut blocks: Vec<(u64, u64)> = packet
            .blocks
            .iter()
            .filter(|&(start, _)| start as i64 >= last_ack)
            .collect();
        blocks.sort_unstable();
        if !is_thorough && blocks.is_empty() {
            return news;
        }
        let highest = blocks.last().map_or(0, |&(_, end)| end as i64 - 1);
        if self.fack < highest {
            self.fack = highest;
            is_thorough = true;
        }
        self.judged = self.judged.max(last_ack);
        self.end = self.end.max(self.fack);
        let before = self.acked_order;
        let arrived = self.take_blocks(last_ack, &blocks, &mut news);
        is_thorough |= !arrived.is_empty();
        // A pass that learns nothing new ends at the first hole above the blocks.
        let above = blocks
            .last()
            .map_or(0, |&(_, end)| self.sacked.next_hole(end));
        self.looked_up_to = if is_thorough { u64::MAX } else { above };
        self.find_lost_again(before, &arrived, &mut news);
        if is_thorough {
            self.find_lost(&mut news);
        }
        news
    }

    /// SACKs the blocks; the retransmissions among what is new, in order of number.
    fn take_blocks(
        &mut self,
        last_ack: i64,
        blocks: &[(u64, u64)],
        news: &mut News,
    ) -> Vec<(u64, i64)> {
        let mut arrived = Vec::new();
        for &(start, end) in blocks {
            let start = start.max((last_ack + 1) as u64);
            let newly_sacked = self.sacked.insert(start, end);
            if newly_sacked == 0 {
                continue;
            }
            news.sacked += newly_sacked;
            self.lost.remove(start, end);
            while let Some((&number, &retransmission)) = self.retransmitted.range(start..end).next()
            {
                arrived.push((number, retransmission.order));
                self.retransmitted.remove(&number);
            }
        }
        if let Some(&(_, order)) = arrived.last() {
            news.unsure = true;
            self.acked_order = order;
        }
        arrived
    }

    /// Retransmissions that later ones have overtaken. One pass in order of number: a packet is judged by the
    /// retransmissions below it that this ACK brought, or else by those known before.
    fn find_lost_again(&mut self, before: i64, arrived: &[(u64, i64)], news: &mut News) {
        let latest = arrived
            .iter()
            .map(|&(_, order)| order)
            .max()
            .unwrap_or(before)
            .max(before);
        let mut at = 0;
        while at < self.by_order.len() {
            let (order, number) = self.by_order[at];
            let Some(retransmission) = self.retransmitted.get(&number).filter(|r| r.order == order)
            else {
                self.by_order.remove(at);
                continue;
            };
            let is_passed = retransmission.snd_nxt <= self.fack;
            if !is_passed && order + LOST_BELOW >= latest {
                return;
            }
            let below = arrived.partition_point(|&(other, _)| other < number);
            let acked_order = if below == 0 {
                before
            } else {
                arrived[below - 1].1
            };
            if number <= self.looked_up_to && (is_passed || order + LOST_BELOW < acked_order) {
                self.retransmitted.remove(&number);
                self.by_order.remove(at);
                self.lost.insert(number, number + 1);
                news.lost = true;
            } else {
                at += 1;
            }
        }
    }

    /// Holes that have come to lie four below the highest SACK.
    fn find_lost(&mut self, news: &mut News) {
        let threshold = self.fack - LOST_BELOW;
        let mut number = (self.judged + 1) as u64;
        while number as i64 <= threshold {
            let (hole, next) = self.sacked.gap(number);
            if hole as i64 > threshold {
                break;
            }
            let end = next.min((threshold + 1) as u64);
            self.lost.insert(hole, end);
            news.lost = true;
            number = end;
        }
        self.judged = self.judged.max(threshold);
    }

    /// After a timeout everything that is not SACKed is lost.
    pub fn mark_all_lost(&mut self, snd_una: i64, snd_nxt: i64) {
        let mut number = snd_una.max(0) as u64;
        while (number as i64) < snd_nxt {
            let (hole, next) = self.sacked.gap(number);
            let end = next.min(snd_nxt as u64);
            self.lost.insert(hole, end);
            number = end;
        }
        self.retransmitted.clear();
        self.by_order.clear();
        self.end = self.end.max(snd_nxt - 1);
        self.judged = self.judged.max(snd_nxt - 1);
        self.next_order = 0;
        self.acked_order = -1;
        self.looked_up_to = u64::MAX;
    }

    /// The packet to send again now, if any; noted as sent.
    #[inline]
    pub fn retransmit(&mut self, snd_nxt: i64) -> Option<i64> {
        let (first, _) = self.lost.first()?;
        if first > self.looked_up_to {
            return None;
        }
        self.looked_up_to = u64::MAX;
        self.mark_retransmitted(first, snd_nxt);
        Some(first as i64)
    }

    #[cold]
    fn mark_retransmitted(&mut self, number: u64, snd_nxt: i64) {
        self.lost.remove(number, number + 1);
        self.retransmitted.insert(
            number,
            Retransmission {
                snd_nxt,
                order: self.next_order,
            },
        );
        self.by_order.push_back((self.next_order, number));
        self.next_order += 1;
    }
}
