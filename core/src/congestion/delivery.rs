//! What one ACK delivered, and how fast (draft-cheng-iccrg-delivery-rate-estimation-02).

/// Every ACK, also in recovery, after the scoreboard has taken it in. Bytes, or packets where `smss` is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delivery {
    pub now_ns: i64,
    /// C.delivered: acknowledged or SACKed since the start of the connection, each byte once; this ACK's included.
    pub delivered: u64,
    pub newly_delivered: u64,
    /// Declared lost since the start of the connection, a retransmission lost again once more.
    pub lost: u64,
    pub newly_lost: u64,
    pub sample: Option<RateSample>,
    /// Round trip of the segment sent last among those it delivers, unless sent twice.
    pub rtt_ns: Option<i64>,
    pub srtt_ns: Option<i64>,
    /// It delivers one lone segment, which the receiver may have kept waiting (RFC 1122 section 4.2.3.2).
    pub is_maybe_delayed: bool,
    /// Believed to be on the path before this ACK, and now.
    pub prior_in_flight: u64,
    pub in_flight: u64,
    /// Fast recovery, or what a timeout found is being repaired.
    pub is_in_recovery: bool,
    pub is_in_loss: bool,
    /// When pacing lets the next segment go.
    pub departure_ns: i64,
}

/// Delivered over an interval (section 3.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// P.delivered of the newest segment delivered: C.delivered when it was sent.
    pub prior_delivered: u64,
    pub delivered: u64,
    /// The longer of the time over which these were sent and the time over which they were acknowledged.
    /// `None`: less than the smallest round trip, so the two ends do not belong together.
    pub interval_ns: Option<i64>,
    /// The sender had too little to send when that segment left: a lower bound only.
    pub is_app_limited: bool,
}

impl RateSample {
    /// Per second.
    pub fn rate(&self) -> Option<f64> {
        let interval_ns = self.interval_ns.filter(|&ns| ns > 0)?;
        Some(self.delivered as f64 * 1e9 / interval_ns as f64)
    }
}
