//! Why a byte range was sent again, seen from the tap.
//!
//! Assumes a tap at or near the sender: there, duplicate ACKs and SACK blocks pass the tap just before the
//! retransmission that they cause. Further down the path the round trip seen at the tap is shorter than the
//! sender's, so timeouts look longer than they were in round trips, and a loss before the tap shows as
//! `LostBeforeTap`: errs towards `Rto` and `Unknown`, with a lower confidence.

/// The reason of one segment that is not simply new data in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cause {
    /// New data in order.
    #[default]
    None = 0,
    /// RFC 5681 section 3.2: the third duplicate ACK (or as much SACKed) asked for the first hole.
    FastRetransmit = 1,
    /// RFC 6675 or RACK: a later hole, known from SACK blocks.
    SackRecovery = 2,
    /// RFC 6582: a partial ACK during recovery asked for the next hole.
    PartialAck = 3,
    /// RFC 6298: nothing came back for a timeout.
    Rto = 4,
    /// What follows a timeout, or Tahoe's fast retransmission: everything beyond `snd_una` again, in order.
    GoBackN = 5,
    /// RFC 8985 section 7: the last segment once more, sooner than a timeout.
    TailLossProbe = 6,
    /// Every byte had been acknowledged before it was sent again.
    AlreadyAcked = 7,
    /// Never seen before and too soon for a retransmission: the tap or the path swapped packets.
    OutOfOrder = 8,
    /// The same packet captured twice.
    DuplicateCapture = 9,
    /// RFC 9293 section 3.8.4.
    KeepAlive = 10,
    /// RFC 9293 section 3.8.6.1: a byte into a closed window.
    WindowProbe = 11,
    /// Never seen before and later than a round trip: the first copy was lost upstream of the tap.
    LostBeforeTap = 12,
    /// A retransmission that fits none of these.
    Unknown = 13,
}

impl Cause {
    pub const ALL: [(Self, &'static str); 14] = [
        (Self::None, ""),
        (Self::FastRetransmit, "fast_retransmit"),
        (Self::SackRecovery, "sack_recovery"),
        (Self::PartialAck, "partial_ack"),
        (Self::Rto, "rto"),
        (Self::GoBackN, "go_back_n"),
        (Self::TailLossProbe, "tail_loss_probe"),
        (Self::AlreadyAcked, "already_acked"),
        (Self::OutOfOrder, "out_of_order"),
        (Self::DuplicateCapture, "duplicate_capture"),
        (Self::KeepAlive, "keep_alive"),
        (Self::WindowProbe, "window_probe"),
        (Self::LostBeforeTap, "lost_before_tap"),
        (Self::Unknown, "unknown"),
    ];

    pub fn is_retransmission(self) -> bool {
        !matches!(
            self,
            Self::None
                | Self::OutOfOrder
                | Self::DuplicateCapture
                | Self::KeepAlive
                | Self::WindowProbe
        )
    }
}

/// What was known when the range was sent again.
#[derive(Clone, Copy, Debug)]
pub struct Evidence {
    pub now: i64,
    pub start: i64,
    pub end: i64,
    pub snd_una: i64,
    pub snd_max: i64,
    /// When these bytes were last sent.
    pub sent_at: i64,
    /// When the last ACK (any) came, if one did.
    pub ack_at: Option<i64>,
    pub dup_count: u32,
    /// Bytes above the range that SACK blocks report.
    pub sacked_above: i64,
    pub uses_sack: bool,
    pub smss: i64,
}

/// Round trip and variation of RFC 6298 section 2, from what passes the tap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smoothed {
    pub srtt: i64,
    pub rttvar: i64,
    /// From the tap to the sender and back: what passes between an ACK at the tap and the sender's answer there.
    pub to_sender: i64,
}

impl Smoothed {
    pub fn add(&mut self, sample: i64) {
        if self.srtt == 0 {
            self.srtt = sample.max(1);
            self.rttvar = sample / 2;
        } else {
            self.rttvar += ((self.srtt - sample).abs() - self.rttvar) / 4;
            self.srtt = (self.srtt + (sample - self.srtt) / 8).max(1);
        }
    }

    /// How soon after an ACK at the tap a segment still counts as its answer.
    fn answer(&self) -> i64 {
        // A sender answers within a millisecond; 20 ms allow for a busy host and for pacing.
        self.to_sender + self.to_sender / 4 + 20_000_000
    }

    /// The shortest timeout in use: Linux waits 200 ms beyond `srtt`, BSD and Windows a tick or more.
    /// Differs: RFC 6298 (2.4) asks for a second, which no common sender keeps.
    fn shortest_rto(&self) -> i64 {
        self.srtt + (4 * self.rttvar).max(self.srtt / 4)
    }
}

/// The sender's recovery as far as its retransmissions tell.
#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Open,
    /// Until `recover` is acknowledged (RFC 6582).
    Fast { recover: i64, partial_acks: u32 },
    /// Since a timeout.
    Loss { recover: i64 },
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery {
    phase: Phase,
    /// `snd_una` before the ACK that moved it last, and when that was: a partial ACK shows as a hole sent at once.
    moved_at: i64,
    /// Recoveries after a fast retransmission in which partial ACKs led to the end, and in which all was sent again.
    went_on: u32,
    went_back: u32,
}

impl Recovery {
    pub fn on_ack(&mut self, now: i64, snd_una: i64) {
        self.moved_at = now;
        match self.phase {
            Phase::Fast {
                recover,
                partial_acks,
            } if snd_una >= recover => {
                self.went_on += u32::from(partial_acks > 0);
                self.phase = Phase::Open;
            }
            Phase::Loss { recover } if snd_una >= recover => self.phase = Phase::Open,
            _ => {}
        }
    }

    pub fn is_fast(&self) -> bool {
        matches!(self.phase, Phase::Fast { .. })
    }

    /// Whether `snd_una` has not yet passed what was sent when the loss was found.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    pub fn is_after_timeout(&self) -> bool {
        matches!(self.phase, Phase::Loss { .. })
    }

    /// The cause, with a confidence between 0 and 1.
    pub fn classify(&mut self, seen: &Evidence, rtt: Smoothed) -> (Cause, f32) {
        if seen.end <= seen.snd_una && self.is_open() {
            return (Cause::AlreadyAcked, 0.9);
        }
        let recover = seen.snd_max;
        let waited = seen.now - seen.sent_at;
        let quiet = seen.ack_at.map_or(waited, |at| (seen.now - at).min(waited));
        let is_first_hole = seen.start <= seen.snd_una;
        let timeout = rtt.shortest_rto();
        match self.phase {
            Phase::Open => {
                let (cause, confidence) = Self::first(seen, rtt, waited, quiet, is_first_hole);
                self.phase = match cause {
                    Cause::Rto => Phase::Loss { recover },
                    Cause::TailLossProbe | Cause::Unknown => Phase::Open,
                    _ => Phase::Fast {
                        recover,
                        partial_acks: 0,
                    },
                };
                (cause, confidence)
            }
            Phase::Fast {
                recover: until,
                partial_acks,
            } => {
                // RFC 6582 section 4: without progress the timer runs out in recovery as well.
                if is_first_hole && quiet >= timeout && waited >= timeout && rtt.srtt > 0 {
                    self.phase = Phase::Loss { recover };
                    return (Cause::Rto, 0.8);
                }
                if seen.uses_sack {
                    let is_known = seen.sacked_above > 0;
                    return (Cause::SackRecovery, if is_known { 0.95 } else { 0.6 });
                }
                if !is_first_hole {
                    // A partial ACK asks for one segment, the first hole: more of them is Tahoe's slow start over again.
                    self.went_back += 1;
                    self.phase = Phase::Loss {
                        recover: until.max(recover),
                    };
                    return (Cause::GoBackN, 0.8);
                }
                if self.went_back > 0 && self.went_back >= self.went_on {
                    // A sender has one algorithm: what it did before it does again.
                    self.phase = Phase::Loss {
                        recover: until.max(recover),
                    };
                    return (Cause::GoBackN, 0.7);
                }
                self.phase = Phase::Fast {
                    recover: until,
                    partial_acks: partial_acks + 1,
                };
                let at_once = self.moved_at != 0 && seen.now - self.moved_at <= rtt.answer();
                (Cause::PartialAck, if at_once { 0.8 } else { 0.6 })
            }
            Phase::Loss { recover: until } => {
                if is_first_hole && quiet >= timeout && waited >= timeout && rtt.srtt > 0 {
                    self.phase = Phase::Loss {
                        recover: until.max(recover),
                    };
                    return (Cause::Rto, 0.85);
                }
                (Cause::GoBackN, 0.9)
            }
        }
    }

    /// The first retransmission after a time without any.
    fn first(
        seen: &Evidence,
        rtt: Smoothed,
        waited: i64,
        quiet: i64,
        is_first_hole: bool,
    ) -> (Cause, f32) {
        let timeout = rtt.shortest_rto();
        if rtt.srtt == 0 {
            // No round trip known: only duplicate ACKs can tell.
            return if seen.dup_count >= 3 || seen.sacked_above >= 3 * seen.smss {
                (Cause::FastRetransmit, 0.8)
            } else if waited >= 1_000_000_000 {
                (Cause::Rto, 0.6)
            } else {
                (Cause::Unknown, 0.3)
            };
        }
        // A timeout needs silence: an ACK that moves `snd_una` restarts the timer (RFC 6298 (5.3)).
        let is_late = waited >= timeout && quiet >= timeout.min(rtt.srtt + 200_000_000);
        // RFC 5681: three duplicate ACKs; RFC 6675: as much reported above the hole.
        if seen.dup_count >= 3 || seen.sacked_above > 2 * seen.smss {
            // An ACK asks for it at once; a sender that waits on is one whose timer ran out (or that knows no fast
            // retransmission).
            return match (quiet < rtt.answer(), is_first_hole) {
                (true, true) => (Cause::FastRetransmit, 0.95),
                (true, false) => (Cause::SackRecovery, 0.8),
                (false, _) => (Cause::Rto, 0.8),
            };
        }
        if is_late && is_first_hole {
            // RFC 8985 section 7.2: a probe resends the last segment after about 2 srtt; a timeout the first.
            let is_last = seen.end >= seen.snd_max;
            let is_only = seen.start <= seen.snd_una && is_last;
            if is_only && waited < 2 * rtt.srtt + rtt.srtt / 2 + 5_000_000 && waited < 180_000_000 {
                return (Cause::TailLossProbe, 0.6);
            }
            return (Cause::Rto, 0.9);
        }
        if seen.end >= seen.snd_max && quiet >= rtt.srtt {
            return (Cause::TailLossProbe, 0.85);
        }
        if is_late {
            return (Cause::Rto, 0.6);
        }
        // RFC 5827 and RACK: fewer duplicate ACKs are enough when little is in flight or time has passed.
        if seen.dup_count >= 1 || seen.sacked_above > 0 {
            return (Cause::FastRetransmit, 0.6);
        }
        (Cause::Unknown, 0.3)
    }
}
