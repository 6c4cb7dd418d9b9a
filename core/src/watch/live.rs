//! A connection as it goes: both ends at a glance, and what the observer is shown of it.

use std::collections::VecDeque;

use super::glance::Glance;
use super::stream::Decoded;
use crate::connection::{Connection, ShownRows};
use crate::infer::Rolling;
use crate::wire::Endpoint;

/// Packets kept of a connection for the observer, where somebody looks: so many windows of data and ACKs, and never fewer.
const RECENT_WINDOWS: usize = 8;
/// The handshake's packets show where the tap is: they are kept besides.
const HANDSHAKE: usize = 3;
const LEAST_RECENT: usize = 512;

/// Packets of a connection that the observer is shown together: so few that their rows stay in the cache, of many
/// connections too.
const SHOWN_AT_ONCE: u8 = 16;

/// Both ends of a connection at a glance.
#[derive(Clone, Debug)]
pub struct Live {
    pub id: u32,
    pub ends: [Endpoint; 2],
    pub glances: [Glance; 2],
    pub first_ns: i64,
    pub last_ns: i64,
    pub packets: u64,
    pub(super) shifts: [Option<u8>; 2],
    /// What the observer knows of each end as sender, and how many of its rows it has been shown.
    pub(super) rolling: [(Rolling, ShownRows); 2],
    /// Packets since.
    unshown: u8,
    /// Where the tap is at neither, the last packets with their numbers in the stream: some windows' worth.
    pub(super) recent: VecDeque<(i64, u64, Decoded)>,
}

impl Live {
    pub(super) fn new(id: u32, ends: [Endpoint; 2], first_ns: i64) -> Self {
        Self {
            id,
            ends,
            glances: Default::default(),
            first_ns,
            last_ns: first_ns,
            packets: 0,
            shifts: [None; 2],
            rolling: Default::default(),
            unshown: 0,
            recent: VecDeque::new(),
        }
    }

    /// Keeps a packet while the tap may be at neither end.
    pub(super) fn keep_away(
        &mut self,
        connection: &Connection,
        time_ns: i64,
        index: u64,
        packet: Decoded,
    ) {
        // The sender of most of the data.
        let from = usize::from(self.glances[1].bytes > self.glances[0].bytes);
        match connection.is_near(from) {
            Some(true) => self.recent.clear(),
            None if self.packets > HANDSHAKE as u64 => self.recent.clear(),
            _ => self.keep(time_ns, index, packet),
        }
    }

    /// Packets of recent windows, both directions: what is outstanding, the last loss, and what led there.
    fn keep(&mut self, time_ns: i64, index: u64, packet: Decoded) {
        let window = |glance: &Glance| glance.window.max(glance.flight()) / glance.mss.max(1);
        let packets = self.glances.iter().map(window).max().unwrap_or(0) as usize;
        let most = LEAST_RECENT.max(RECENT_WINDOWS * packets);
        while self.recent.len() >= most {
            self.recent.remove(HANDSHAKE);
        }
        self.recent.push_back((time_ns, index, packet));
    }

    /// One packet more, and the observer is shown them when they are enough.
    pub(super) fn count_unshown(&mut self, connection: &mut Connection, drops: bool) {
        self.unshown += 1;
        if self.unshown >= SHOWN_AT_ONCE {
            self.show(connection, drops);
        }
    }

    /// Shows the observer the rows that came since. With `drops` they are kept nowhere else.
    pub(super) fn show(&mut self, connection: &mut Connection, drops: bool) {
        self.unshown = 0;
        for from in [0, 1] {
            let (rolling, shown) = &mut self.rolling[from];
            if connection.is_near(from) == Some(false) {
                // The handshake has said so for good: nothing will be asked of it.
                *rolling = Rolling::default();
                if drops {
                    connection.forget_rows(from);
                }
                continue;
            }
            connection.show(from, rolling, shown, drops);
            rolling.settle(connection.known(from));
        }
    }
}
