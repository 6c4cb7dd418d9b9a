//! What one direction of a connection adds up to.

use crate::infer::Samples;

/// Sums over the packets that one side sent, and what came back for them.
/// In this order in memory, a line of the cache at a time: first what nearly every packet changes.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub struct FlowCounts {
    pub data_packets: u64,
    pub pure_acks: u64,
    pub unique_bytes: u64,
    pub max_window: u64,
    pub window_sum: u64,
    pub idle_max: i64,
    pub last_time: i64,
    /// The largest payload of one packet.
    pub max_segment: u32,
    pub timestamps: bool,
    pub sack_permitted: bool,
    /// From sequence numbers (Karn).
    pub rtt: Samples,
    /// From timestamps.
    pub ts_rtt: Samples,

    /// Packets that are neither: SYN, FIN and RST without data, and those without an ACK.
    pub other_packets: u64,
    pub initial_window_bytes: u64,
    pub initial_window_segments: u64,
    pub dup_acks: u64,
    pub zero_windows: u64,
    /// RTT of the first SYN or SYN-ACK, if it was sent once.
    pub handshake_rtt: Option<i64>,
    /// Packets without the ACK flag.
    pub without_ack: u64,

    /// Payload bytes that had been seen before, for whatever reason they came again.
    pub repeated_bytes: u64,
    /// Segments with at least one payload byte that had been sent before.
    pub retransmissions: u64,
    pub retransmitted_bytes: u64,
    /// Segments that filled a hole below data seen before.
    pub out_of_order: u64,
    /// Captured twice: counted in `packets` and `bytes`, nowhere else.
    pub duplicate_packets: u64,
    /// Left out, as a receiver would: a wrong checksum where nearly all are right. Counted by kind all the same.
    pub damaged_packets: u64,
    pub keep_alives: u64,
    pub window_probes: u64,
    pub sack_packets: u64,
    pub sack_blocks: u64,
    pub dsacks: u64,
    /// Packets of whose TCP options the capture has not all.
    pub options_cut: u64,
    /// Those of them that may have told of a block which was not captured.
    pub blocks_cut: u64,
    /// The shortest and the longest headers of those of them that are no SYN.
    pub cut_headers: Option<(u32, u32)>,
    pub syns: u64,
    pub fins: u64,
    pub resets: u64,
    /// Packets whose window does not count towards the mean.
    pub without_window: u64,
    pub first_time: i64,
    /// When this side was first acknowledged, and by how much its SYN was captured after that: an effect before its cause.
    pub first_acked: i64,
    pub syn_after_ack: Option<i64>,
    /// Time to live (hop limit) of this side's first packet at the tap.
    pub ttl: Option<u8>,
    pub mss: Option<u16>,
}

impl FlowCounts {
    pub fn packets(&self) -> u64 {
        self.data_packets + self.pure_acks + self.other_packets
    }

    /// Packets with the ACK flag.
    pub fn acks(&self) -> u64 {
        self.packets() - self.without_ack
    }

    /// Payload bytes, repeated ones included.
    pub fn bytes(&self) -> u64 {
        self.unique_bytes + self.repeated_bytes
    }

    pub fn mean_window(&self) -> Option<f64> {
        let windows = self.packets() - self.without_window;
        (windows > 0).then(|| self.window_sum as f64 / windows as f64)
    }
}
