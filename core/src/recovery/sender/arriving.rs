//! An ACK as a sender reads it: what it acknowledges, what it tells of the clock and of losses, and in which order the
//! parts hear of it.

use super::{Arrived, RecoveryPhase, Sender, Sent, undo};
use crate::congestion::Ack;

impl Sender {
    /// An ACK has come.
    pub fn on_ack(&mut self, now_ns: i64, arrived: &Arrived<'_>) {
        if arrived.ack > self.snd_max || arrived.ack < self.snd_una {
            return;
        }
        let (flight_size, pipe) = (self.flight_size(), self.pipe());
        let opens_window = arrived.window != self.rwnd;
        self.rwnd = arrived.window;
        let newly_acked = arrived.ack - self.snd_una;
        let sacked_before = self.board.sacked_bytes();
        let lost_before = self.board.declared_lost();
        let has_board = self.has_pipe();
        let unheard = if has_board {
            newly_acked
        } else {
            self.take_counted(newly_acked)
        };
        let has_original = self.hear_of_arrivals(now_ns, arrived, newly_acked - unheard);
        let newly_sacked = self.board.update(arrived.ack, self.snd_max, arrived.blocks);
        let rtt_ns = self.take_sample(now_ns, arrived);
        let ack = Ack {
            now_ns,
            newly_acked: newly_acked as f64,
            newly_sacked: newly_sacked as f64,
            rtt_ns,
            srtt_ns: self.rto.srtt_ns(),
            flight_size: pipe as f64,
            snd_una: arrived.ack,
            snd_nxt: self.snd_nxt.max(arrived.ack),
            is_cwnd_limited: self.state.is_used(flight_size as f64),
        };
        self.control.on_arrival(&mut self.state, &ack);
        // DeliveredData (RFC 9937 section 5): what the ACK covers had partly been delivered when it was SACKed.
        let sacked_now = self.board.sacked_bytes();
        let mut delivered = (unheard + sacked_now)
            .saturating_sub(sacked_before)
            .max(newly_sacked);
        if newly_acked > 0 {
            self.snd_una = arrived.ack;
            self.snd_nxt = self.snd_nxt.max(arrived.ack);
        }
        self.reconsider(now_ns, arrived, newly_acked, has_original);
        if newly_acked > 0 {
            let counted = if self.options.is_linux {
                delivered
            } else {
                newly_acked
            };
            let newly_acked = counted as f64;
            self.on_new_ack(now_ns, &Ack { newly_acked, ..ack });
        }
        // RFC 6675 section 2: also when it moves the cumulative point.
        let is_dup = (self.has_pipe() && newly_sacked > 0)
            // RFC 5681 section 2.
            || (newly_acked == 0 && flight_size > 0 && arrived.blocks.is_empty() && !opens_window);
        if is_dup {
            self.on_dup_ack(now_ns);
        }
        self.follow_frto(newly_acked, is_dup);
        let is_arrival = is_dup && !has_board && self.count_duplicate();
        if is_arrival {
            delivered += self.options.smss;
        }
        if newly_acked > 0 && self.phase != RecoveryPhase::Recovery {
            self.by_duplicates = 0;
        }
        if self.rack.is_some() {
            self.find_losses_by_time(now_ns, arrived, newly_acked);
        } else {
            self.check_sack_recovery(now_ns, newly_sacked);
        }
        let finds_hole = self.recovers_by_duplicates() && self.due.is_some();
        let has_lost = finds_hole || self.board.declared_lost() > lost_before;
        self.reduce_in_proportion(delivered, newly_acked > 0 && !has_lost);
        self.tell_delivery(now_ns, newly_acked, is_arrival, pipe);
    }

    /// RACK-TLP (RFC 8985): what this ACK tells of losses by the times at which segments left.
    fn find_losses_by_time(&mut self, now_ns: i64, arrived: &Arrived<'_>, newly_acked: u64) {
        let has_dsack = arrived.dsack().is_some();
        if let Some(rack) = self.rack.as_mut().filter(|_| has_dsack) {
            // RFC 8985 section 6.2 step 4.
            rack.on_dsack(arrived.ack, self.snd_nxt);
        }
        self.hear_of_probe(now_ns, arrived, newly_acked, has_dsack);
        self.detect_losses(now_ns);
        self.recover_what_rack_found(now_ns);
        if newly_acked > 0 {
            self.schedule_probe(now_ns);
        }
    }

    /// RFC 8985 section 6.2 step 2, and the delivery rate: when what arrives now was sent. `counted`: of the bytes
    /// acknowledged, those that duplicate ACKs had told of. True: some of it was sent once, before the last reduction.
    fn hear_of_arrivals(&mut self, now_ns: i64, arrived: &Arrived<'_>, mut counted: u64) -> bool {
        self.sacked_sent_ns = None;
        if self.rack.is_none() && self.delivery.is_none() && !self.options.is_linux {
            return false;
        }
        if let Some(rack) = &mut self.rack {
            rack.begin_ack();
        }
        let (snd_una, recover) = (self.snd_una, self.recover);
        let (mut has_original, mut has_again) = (false, false);
        let mut hear = |start: u64, end: u64| {
            let first = self.sent.partition_point(|sent| sent.end <= start);
            let segments = self.sent.iter().skip(first);
            let mut from = start;
            for sent in segments.take_while(|sent| sent.end <= end) {
                if let Some(rack) = &mut self.rack {
                    rack.on_delivered(now_ns, sent.at_ns, sent.end, sent.is_retransmitted);
                }
                if let Some(delivery) = &mut self.delivery {
                    let bytes = sent.end - from;
                    let heard = if from == snd_una {
                        0
                    } else {
                        counted.min(bytes)
                    };
                    counted -= heard;
                    delivery.on_delivered(now_ns, bytes - heard, sent);
                }
                has_original |= sent.end <= recover && !sent.is_retransmitted;
                has_again |= sent.is_retransmitted;
                if sent.end > arrived.ack && !sent.is_retransmitted {
                    self.sacked_sent_ns = self.sacked_sent_ns.max(Some(sent.at_ns));
                }
                from = sent.end;
            }
        };
        for &(start, end) in arrived.blocks.iter().chain([&(self.snd_una, arrived.ack)]) {
            // Only what was not SACKed before: the rest arrived earlier.
            let (mut at, end) = (start.max(self.snd_una), end.min(self.snd_max));
            while at < end {
                let (hole, next) = self.board.hole_from(at);
                hear(hole, next.min(end));
                at = next;
            }
        }
        // Without SACK what lies behind a segment sent again may have come before it, and says nothing.
        has_original && (self.has_pipe() || !has_again)
    }

    /// Reads the clock off the newest segment acknowledged; Karn: not off one sent twice, unless timestamps tell.
    fn take_sample(&mut self, now_ns: i64, arrived: &Arrived<'_>) -> Option<i64> {
        let mut newest: Option<Sent> = None;
        let mut fills_hole = false;
        while let Some(sent) = self.sent.front().filter(|sent| sent.end <= arrived.ack) {
            fills_hole |= sent.is_retransmitted;
            newest = Some(*sent);
            self.sent.pop_front();
        }
        let of_sacked = self.sacked_sent_ns.filter(|_| self.options.is_linux);
        let sample = match newest {
            // Linux: what is SACKed came without waiting, at a hole too.
            _ if of_sacked.is_some() => of_sacked.map(|at_ns| now_ns - at_ns),
            // What came in behind a hole has waited at the receiver until the hole was filled: no round trip.
            Some(sent) if !(sent.is_retransmitted || fills_hole) => Some(now_ns - sent.at_ns),
            Some(_) if self.options.is_linux => arrived
                .echo_rtt_ns
                .map(|rtt_ns| undo::in_ticks(now_ns, rtt_ns)),
            Some(_) => arrived.echo_rtt_ns,
            None => None,
        };
        if let Some(rtt_ns) = sample {
            self.rto.on_sample(rtt_ns);
            self.rto.on_acked(arrived.ack, self.snd_nxt);
            if let Some(rack) = &mut self.rack {
                rack.on_sample(rtt_ns);
            }
            self.control.on_rtt(now_ns, rtt_ns);
        }
        sample
    }
}
