//! When a Linux 6 receiver acknowledges, and how far it opens its window (net/ipv4/tcp_input.c): quick ACKs while the
//! window grows, compressed SACKs, dynamic right-sizing.
//!
//! Omitted: the delayed ACK's time does not follow the sender's pace (it stays at Linux's least), memory pressure.

use crate::recovery::LEAST_RTO_NS;

/// TCP_MAX_QUICKACKS.
const MOST_QUICK: u32 = 16;
/// Out-of-order segments acknowledged at once before SACKs are compressed (TCP_FASTRETRANS_THRESH).
const AT_ONCE: u32 = 3;
/// The default of net.ipv4.tcp_comp_sack_delay_ns, and what its timer may be late by (tcp_comp_sack_slack_ns).
const COMPRESSION_NS: i64 = 1_000_000;
const COMPRESSION_SLACK_NS: i64 = 100_000;
/// net.ipv4.tcp_comp_sack_nr.
const MOST_COMPRESSED: u32 = 44;
/// Segments with which dynamic right-sizing begins (TCP_INIT_CWND).
const FIRST_SPACE: u64 = 10;
/// Memory of a segment that fills an Ethernet packet, in bytes: half is taken for payload until the first has come.
const TRUE_SIZE: u64 = 2304;

#[derive(Debug)]
pub struct LinuxAcks {
    mss: u64,
    has_sack: bool,
    /// `icsk_ack.quick`: ACKs to send at once.
    quick: u32,
    /// `rcv_ssthresh`: the window offered if nothing is unread; `window_clamp`: where it ends for now; at most.
    offered: u64,
    clamp: u64,
    most: u64,
    rtt_ns: i64,
    /// When data came last.
    last_ns: Option<i64>,
    /// `rcvq_space`: bytes read in a round trip, and when and where the round trip at hand began.
    space: u64,
    round: (i64, u64),
    /// Out-of-order segments acknowledged since `rcv_nxt` moved, and where it stood.
    at_once: (u32, u64),
    compressed: u32,
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    InOrder,
    /// Of the lowest gap, while more is held behind another.
    FillsPart,
    FillsAll,
    OutOfOrder,
    Again,
}

impl LinuxAcks {
    pub fn new(initial: u64, most: u64, mss: u64, has_sack: bool) -> Self {
        let offered = initial.min(most);
        // `scaling_ratio`, in 256ths.
        let ratio = (256 * mss / TRUE_SIZE).clamp(128, 240);
        Self {
            mss,
            has_sack,
            quick: 0,
            offered,
            clamp: (offered.saturating_mul(ratio) / 128).min(most),
            most,
            rtt_ns: 0,
            last_ns: None,
            space: (FIRST_SPACE * mss).min(offered),
            round: (0, 0),
            at_once: (0, 0),
            compressed: 0,
        }
    }

    /// The largest window to offer now.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// A round trip is known.
    pub fn on_round_trip(&mut self, now_ns: i64, rtt_ns: i64) {
        if self.rtt_ns == 0 {
            self.round = (now_ns, 0);
        }
        self.rtt_ns = match self.rtt_ns {
            0 => rtt_ns.max(1),
            before => (7 * before + rtt_ns) / 8,
        };
    }

    /// A segment has come; behind gaps `held` bytes are waiting, those of an out-of-order segment among them.
    pub fn on_data(&mut self, now_ns: i64, data: Data, held: u64) {
        let silence_ns = self.last_ns.map(|last_ns| now_ns - last_ns);
        // The sender begins, begins again (a timeout is longer than the round trip by the least one), or sends what it
        // need not.
        let is_in_need = silence_ns.is_none_or(|ns| ns > self.rtt_ns + LEAST_RTO_NS.get());
        if is_in_need || data == Data::Again {
            let segments = (self.offered / (2 * self.mss)).clamp(2, u64::from(MOST_QUICK));
            self.quick = self.quick.max(segments as u32);
        }
        self.last_ns = Some(now_ns);
        match data {
            Data::OutOfOrder if self.has_sack => self.open(held),
            Data::OutOfOrder | Data::Again => {}
            Data::InOrder | Data::FillsPart | Data::FillsAll => self.open(held + self.mss),
        }
    }

    /// Two segments for each that comes, acknowledged at once: the sender shall hear of it. `taken`: of the window, by
    /// what is held, the segment at hand included.
    fn open(&mut self, taken: u64) {
        let room = self.clamp.saturating_sub(self.offered + taken);
        if room > 0 {
            self.offered += room.min(2 * self.mss);
            self.quick |= 1;
        }
    }

    /// Dynamic right-sizing: the application has read up to `copied`.
    pub fn on_read(&mut self, now_ns: i64, copied: u64) {
        let (began_ns, from) = self.round;
        if self.rtt_ns == 0 || now_ns - began_ns < self.rtt_ns {
            return;
        }
        let read = copied.saturating_sub(from);
        if read > self.space {
            // Room for the sender to double its rate, and more for one that grows faster.
            let more = 2 * u128::from(read) * u128::from(read - self.space);
            let grow = (more / u128::from(self.space)) as u64;
            let window = 2 * read + 16 * self.mss;
            self.clamp = self
                .clamp
                .max(window.saturating_add(2 * grow).min(self.most));
            self.space = read;
        }
        self.round = (now_ns, copied);
    }

    /// Whether the next ACK is a quick one.
    pub fn is_quick(&self) -> bool {
        self.quick > 0
    }

    /// While segments are held behind a gap: after how long to acknowledge; `None`: at once.
    pub fn compress(&mut self, rcv_nxt: u64) -> Option<i64> {
        if !self.has_sack || self.compressed >= MOST_COMPRESSED {
            return None;
        }
        if self.at_once.1 != rcv_nxt {
            self.at_once = (0, rcv_nxt);
        }
        if self.at_once.0 < AT_ONCE {
            self.at_once.0 += 1;
            return None;
        }
        self.compressed += 1;
        // 5 % of the round trip.
        Some(COMPRESSION_NS.min(self.rtt_ns / 20) + COMPRESSION_SLACK_NS)
    }

    pub fn on_ack_sent(&mut self) {
        self.quick = self.quick.saturating_sub(1);
        self.compressed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_are_quick_and_all_by_which_the_window_opens() {
        // 8 MiB of memory: 4 MiB offered, of which 5 MiB hold payload. (2^20 - 1448) / 2896 = 361.6. Kernel receivers so
        // set acknowledged 378 segments one by one, and 360 of 1428 bytes (captures/kernel cubic_20M, cubic_v6_multinode).
        for (mss, wanted) in [(1448, 362 + 16), (1428, 344 + 16)] {
            let mut acks = LinuxAcks::new(4 << 20, 1 << 30, mss, true);
            let mut quick = 0;
            acks.on_data(0, Data::InOrder, 0);
            while acks.is_quick() {
                quick += 1;
                acks.on_ack_sent();
                acks.on_data(quick, Data::InOrder, 0);
            }
            assert_eq!(quick, wanted);
        }
    }

    #[test]
    fn what_comes_again_and_what_comes_after_a_silence_is_acknowledged_at_once() {
        let mut acks = LinuxAcks::new(65_536, 65_536, 1152, true);
        let mut quick = |now_ns, data| {
            acks.on_data(now_ns, data, 0);
            let is_quick = acks.is_quick();
            acks.on_ack_sent();
            is_quick
        };
        for _ in 0..16 {
            assert!(quick(0, Data::InOrder));
        }
        assert!(!quick(0, Data::InOrder));
        assert!(quick(0, Data::Again));
        assert!((0..15).all(|_| quick(0, Data::InOrder)));
        assert!(!quick(LEAST_RTO_NS.get(), Data::InOrder));
        assert!(quick(2 * LEAST_RTO_NS.get() + 1, Data::InOrder));
    }

    #[test]
    fn the_fourth_out_of_order_waits_until_the_hole_moves() {
        let mut acks = LinuxAcks::new(65_536, 65_536, 1152, true);
        acks.on_round_trip(0, 100_000_000);
        for _ in 0..3 {
            assert_eq!(acks.compress(5000), None);
        }
        assert_eq!(acks.compress(5000), Some(1_100_000));
        assert_eq!(acks.compress(5000), Some(1_100_000));
        acks.on_ack_sent();
        acks.on_round_trip(0, 20_000_000);
        acks.rtt_ns = 10_000_000;
        assert_eq!(acks.compress(5000), Some(600_000));
        assert_eq!(acks.compress(6000), None);
    }

    #[test]
    fn the_window_follows_a_reader_that_is_faster_each_round() {
        let mut acks = LinuxAcks::new(65_536, 6 << 20, 1152, true);
        acks.on_round_trip(0, 100);
        acks.on_read(99, 20_000);
        assert_eq!(acks.clamp, 65_536);
        // 23,040 read instead of 11,520: 2 x 23,040 + 16 x 1152, and twice 2 x 23,040.
        acks.on_read(100, 23_040);
        assert_eq!(acks.clamp, 64_512 + 92_160);
    }
}
