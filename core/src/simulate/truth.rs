//! What really happened in a run: every window, every loss the sender noticed, every packet the path lost.
//!
//! The engine tells it to a `Watch`; `Truth` keeps all of it (side-car files), `Summary` only counts (sweeps).

/// What the sender is doing; the numbers are those of the Linux kernel's `ca_state`, which truth files use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    #[default]
    Open = 0,
    /// Duplicate ACKs below the threshold.
    Disorder = 1,
    /// Fast recovery.
    Recovery = 3,
    /// After a retransmission timeout, until what was outstanding is acknowledged.
    Loss = 4,
}

/// Why a loss was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetectedBy {
    /// The third duplicate ACK.
    DupAck,
    /// RFC 6675's IsLost, or FACK's distance.
    Sack,
    Timeout,
}

impl DetectedBy {
    pub fn name(self) -> &'static str {
        match self {
            Self::DupAck => "dupack",
            Self::Sack => "sack",
            Self::Timeout => "rto",
        }
    }
}

/// A sender after an event that changed its window, threshold or state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    pub time_ns: i64,
    pub connection: u32,
    /// Segments; fractions where the control has them.
    pub cwnd: f64,
    /// Segments; infinite until the first loss.
    pub ssthresh: f64,
    /// Compound's delay window; part of `cwnd`.
    pub dwnd: f64,
    /// First byte not acknowledged and next byte to send, from 0 (`ns2`: packets times their payload).
    pub snd_una: u64,
    pub snd_nxt: u64,
    pub state: State,
    /// 0: not measured yet.
    pub srtt_ns: i64,
}

/// A reduction: a sender notices a loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    pub time_ns: i64,
    pub connection: u32,
    /// The byte from which it sends again.
    pub offset: u64,
    pub detected_by: DetectedBy,
    pub cwnd_before: f64,
    pub cwnd_after: f64,
    pub ssthresh_after: f64,
    /// Whether the window was below ssthresh.
    pub was_slow_start: bool,
}

/// A packet that the path lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drop {
    /// Arrival at the full node, or end of service before a random or scheduled loss.
    pub time_ns: i64,
    /// Engine's node number along the packet's direction.
    pub node: u32,
    /// Against the path: ACKs of forward connections, data of reverse ones.
    pub is_reverse: bool,
    /// "overflow", "random", "scheduled", "ackloss".
    pub reason: &'static str,
    pub connection: u32,
    /// First byte of the data, or the ACK's number.
    pub offset: u64,
    pub payload_len: u32,
    pub ip_len: u32,
    /// Packets waiting, the one in service not counted.
    pub queue_len: u32,
}

/// Who is told. An engine calls these in order of time for each kind.
pub trait Watch {
    fn window(&mut self, row: &Window);
    fn loss(&mut self, row: &Loss);
    fn dropped(&mut self, row: &Drop);
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Truth {
    pub windows: Vec<Window>,
    pub losses: Vec<Loss>,
    pub drops: Vec<Drop>,
}

impl Watch for Truth {
    fn window(&mut self, row: &Window) {
        self.windows.push(*row);
    }

    fn loss(&mut self, row: &Loss) {
        self.losses.push(*row);
    }

    fn dropped(&mut self, row: &Drop) {
        self.drops.push(*row);
    }
}

/// An avoidance at least this many round trips long belongs to a new cycle. Between the slow starts of one cycle a
/// Tahoe sender stays above ssthresh for at most two (the overflow is noticed one round trip after it happens).
const CYCLE_AVOIDANCE_RTTS: i64 = 4;

/// One connection's cycles: what a sweep's row is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cycles {
    /// When each cycle began: the reduction that ended a long avoidance.
    pub starts_ns: Vec<i64>,
    /// `snd_una` at each of those times.
    pub starts_una: Vec<u64>,
    /// Slow starts in each cycle, the last one maybe not complete; before the first cycle none is counted.
    pub slow_starts: Vec<u32>,
    pub losses: u64,
    pub timeouts: u64,
    pub snd_una: u64,
    avoidance_since_ns: Option<i64>,
    srtt_ns: i64,
}

impl Cycles {
    fn window(&mut self, row: &Window) {
        self.snd_una = row.snd_una;
        if row.srtt_ns > 0 {
            self.srtt_ns = row.srtt_ns;
        }
        let is_avoidance = row.cwnd >= row.ssthresh && row.state != State::Loss;
        match (is_avoidance, self.avoidance_since_ns) {
            (true, None) => self.avoidance_since_ns = Some(row.time_ns),
            (false, Some(_)) => self.avoidance_since_ns = None,
            _ => (),
        }
    }

    fn loss(&mut self, row: &Loss) {
        self.losses += 1;
        self.timeouts += u64::from(row.detected_by == DetectedBy::Timeout);
        let avoided_ns = self
            .avoidance_since_ns
            .map_or(0, |since| row.time_ns - since);
        if avoided_ns > CYCLE_AVOIDANCE_RTTS * self.srtt_ns.max(1) {
            self.starts_ns.push(row.time_ns);
            self.starts_una.push(self.snd_una);
            self.slow_starts.push(0);
        }
        if row.cwnd_after < row.ssthresh_after
            && let Some(last) = self.slow_starts.last_mut()
        {
            *last += 1;
        }
        self.avoidance_since_ns = (row.cwnd_after >= row.ssthresh_after).then_some(row.time_ns);
    }

    /// Complete cycles' slow starts.
    pub fn full(&self) -> &[u32] {
        &self.slow_starts[..self.slow_starts.len().saturating_sub(1)]
    }
}

/// Counts of a run, without its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    pub connections: Vec<Cycles>,
    /// Drops per node of the forward path.
    pub drops: Vec<u64>,
    pub first_drop_node: Option<u32>,
}

impl Summary {
    pub fn new(connections: usize, nodes: usize) -> Self {
        Self {
            connections: vec![Cycles::default(); connections],
            drops: vec![0; nodes],
            first_drop_node: None,
        }
    }
}

impl Watch for Summary {
    fn window(&mut self, row: &Window) {
        self.connections[row.connection as usize].window(row);
    }

    fn loss(&mut self, row: &Loss) {
        self.connections[row.connection as usize].loss(row);
    }

    fn dropped(&mut self, row: &Drop) {
        if row.is_reverse {
            return;
        }
        self.first_drop_node.get_or_insert(row.node);
        if let Some(count) = self.drops.get_mut(row.node as usize) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: i64 = 100;

    fn window(cwnd: f64, ssthresh: f64, time_ns: i64) -> Window {
        Window {
            time_ns,
            connection: 0,
            cwnd,
            ssthresh,
            dwnd: 0.0,
            snd_una: time_ns as u64,
            snd_nxt: 0,
            state: State::Open,
            srtt_ns: RTT,
        }
    }

    fn tahoe_loss(cwnd_before: f64, time_ns: i64) -> Loss {
        Loss {
            time_ns,
            connection: 0,
            offset: 0,
            detected_by: DetectedBy::DupAck,
            cwnd_before,
            cwnd_after: 1.0,
            ssthresh_after: cwnd_before / 2.0,
            was_slow_start: false,
        }
    }

    #[test]
    fn a_cycle_begins_with_the_loss_that_ends_a_long_avoidance() {
        let mut summary = Summary::new(1, 1);
        let mut now = 0;
        for cycle in 0..3 {
            // Slow start overflows; the threshold is halved; the next slow start passes it by a little and overflows.
            for cwnd in [40.0, 11.0] {
                summary.window(&window(1.0, f64::INFINITY, now));
                summary.window(&window(cwnd, 10.0, now + 2 * RTT));
                now += 3 * RTT;
                summary.loss(&tahoe_loss(cwnd, now));
            }
            summary.window(&window(5.0, 5.0, now + RTT));
            now += 40 * RTT;
            summary.loss(&tahoe_loss(20.0 + f64::from(cycle), now));
        }
        // The first long avoidance begins cycle 0; each cycle has its loss in avoidance and two in slow start.
        assert_eq!(summary.connections[0].slow_starts, [3, 3, 1]);
        assert_eq!(summary.connections[0].full(), [3, 3]);
    }

    #[test]
    fn halving_without_a_slow_start_makes_cycles_of_none() {
        let mut summary = Summary::new(1, 1);
        for n in 0..4 {
            summary.window(&window(10.0, 10.0, n * 20 * RTT));
            let half = Loss {
                cwnd_after: 10.0,
                ..tahoe_loss(20.0, n * 20 * RTT + 19 * RTT)
            };
            summary.loss(&half);
        }
        assert_eq!(summary.connections[0].full(), [0, 0, 0]);
        assert_eq!(summary.connections[0].losses, 4);
    }
}
