//! What every event may touch besides its own connection: the paths, the schedule, the books.

use super::controls::Controls;
use super::output::Output;
use super::record::{DropRow, EventKind, EventRow, Recorder, Site};
use super::taps::{Captured, Taps};
use crate::network::{DropReason, Instant, Observer, Path, Random, Schedule, Stamp, Traveller};
use crate::scenario::Scenario;

/// A packet of a connection.
pub trait Carried: Traveller + Captured {
    fn connection(&self) -> u32;
    /// Packet number or first byte; of an ACK what it acknowledges.
    fn offset(&self) -> u64;
    /// The host that sends it counts its packets (RFC 6864).
    fn set_ip_id(&mut self, ip_id: u16);
}

/// One direction's path, and everything an agent may touch besides itself.
pub struct Io<I, P> {
    pub now: I,
    /// When the present event was decided.
    pub decided: I,
    /// Towards the receivers of forward connections, and back.
    pub paths: [Path<I, P>; 2],
    pub schedule: Schedule<I>,
    pub random: Random,
    pub recorder: Recorder<I>,
    pub taps: Taps<P>,
    /// There are taps, events are kept, or a queue is managed: packets are followed one by one.
    pub is_watched: bool,
    /// Packets sent along each direction.
    pub sent: [u16; 2],
    /// When one of ns-2's Linux agents last heard an ACK: their modules have one clock.
    pub modules_clock: I,
}

impl<I: Instant, P: Carried> Io<I, P> {
    /// A packet leaves an endpoint along a direction (0 or 1).
    #[inline(never)]
    pub fn send(&mut self, direction: usize, packet: P) {
        if self.is_watched {
            return self.send_watched(direction, packet);
        }
        let at = Stamp {
            time: self.now,
            scheduled: self.decided,
        };
        let plain = Plain {
            bytes: packet.bytes(),
            is_data: packet.is_data(),
        };
        let path = &mut self.paths[direction];
        let mut loss = None;
        match path.travel(at, &plain, &mut self.random, &mut loss) {
            Some(arrival) => {
                if path.put(arrival, packet) {
                    self.schedule.set_path(direction, arrival);
                }
            }
            None => self.lost(direction, &packet, loss),
        }
    }

    #[cold]
    fn lost(&mut self, direction: usize, packet: &P, loss: Option<Loss<I>>) {
        let loss = loss.expect("what does not arrive is lost somewhere");
        let mut watch = Watch {
            recorder: &mut self.recorder,
            taps: &mut self.taps,
            direction,
        };
        watch.dropped(loss.node, loss.at, packet, loss.reason, loss.waiting);
    }

    /// Apart, so that the other way stays short.
    #[inline(never)]
    fn send_watched(&mut self, direction: usize, mut packet: P) {
        // Only captures show it.
        self.sent[direction] = self.sent[direction].wrapping_add(1);
        packet.set_ip_id(self.sent[direction]);
        self.taps.entered(direction, self.now.to_ns(), &packet);
        let mut watch = Watch {
            recorder: &mut self.recorder,
            taps: &mut self.taps,
            direction,
        };
        let at = Stamp {
            time: self.now,
            scheduled: self.decided,
        };
        let path = &mut self.paths[direction];
        if path.enter_at(at, &packet, &mut self.random, &mut watch) {
            let next = path.next().unwrap_or(Stamp::NEVER);
            self.schedule.set_path(direction, next);
        }
    }

    /// The packet that comes out of a direction without managed queues now.
    #[inline]
    pub fn leave(&mut self, direction: usize) -> P {
        let path = &mut self.paths[direction];
        let packet = *path.first().expect("the schedule says one is there");
        path.drop_first();
        self.schedule.set_path(direction, path.next_out());
        packet
    }

    /// The same with managed queues; `None`: the turn of one had come.
    #[inline(never)]
    pub fn leave_managed(&mut self, direction: usize, at: Stamp<I>) -> Option<P> {
        let path = &mut self.paths[direction];
        let mut watch = Watch {
            recorder: &mut self.recorder,
            taps: &mut self.taps,
            direction,
        };
        let packet = path.leave_at(at, &mut self.random, &mut watch);
        let next = path.next().unwrap_or(Stamp::NEVER);
        self.schedule.set_path(direction, next);
        packet
    }

    /// A packet reaches the end of a direction.
    #[inline(always)]
    pub fn delivered(&mut self, direction: usize, packet: &P) {
        if self.is_watched {
            self.taps.delivered(direction, self.now.to_ns(), packet);
        }
    }

    /// An event at an endpoint.
    #[inline]
    pub fn event(&mut self, at: Stamp<I>, place: Site, kind: EventKind, packet: &P) {
        if self.is_watched {
            self.recorder.event(row(at, place, kind, packet));
        }
    }
}

impl<I: Instant, P: Carried + Send + Sync + std::fmt::Debug + 'static> Io<I, P> {
    /// Gives the outlet what can have no earlier row any more. `smss`: each connection's.
    #[cold]
    pub fn pass_on(
        &mut self,
        scenario: &Scenario,
        controls: &mut Controls,
        smss: impl Fn() -> Vec<u32>,
    ) {
        let Some(outlet) = &mut controls.outlet else {
            return;
        };
        let now_ns = self.now.to_ns();
        self.taps
            .pass_on(now_ns, |tap, rows| outlet.packets(tap, rows));
        // For a connection's ports and first numbers.
        let ends: Taps<P> = Taps::new(scenario);
        outlet.piece(Output::piece(
            scenario,
            smss(),
            &mut self.recorder,
            Box::new(ends),
            &mut self.paths,
            now_ns,
        ));
    }

    /// The end of the run, for the taps.
    pub fn finish_taps(&mut self, scenario: &Scenario, controls: &mut Controls) {
        self.taps.finish(scenario.duration_ns());
        if let Some(outlet) = &mut controls.outlet {
            self.taps
                .pass_on(i64::MAX, |tap, rows| outlet.packets(tap, rows));
        }
    }
}

/// Where drops and node events of one direction are written down.
struct Watch<'a, I, P> {
    recorder: &'a mut Recorder<I>,
    taps: &'a mut Taps<P>,
    direction: usize,
}

/// What nodes ask of a packet that nobody watches.
#[derive(Clone, Copy)]
struct Plain {
    bytes: u32,
    is_data: bool,
}

impl Traveller for Plain {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn is_data(&self) -> bool {
        self.is_data
    }
}

/// Where such a packet was lost.
struct Loss<I> {
    node: usize,
    at: Stamp<I>,
    reason: DropReason,
    waiting: usize,
}

impl<I: Instant> Observer<I, Plain> for Option<Loss<I>> {
    fn dropped(
        &mut self,
        node: usize,
        at: Stamp<I>,
        _packet: &Plain,
        reason: DropReason,
        waiting: usize,
    ) {
        *self = Some(Loss {
            node,
            at,
            reason,
            waiting,
        });
    }
}

impl<I: Instant, P: Carried> Observer<I, P> for Watch<'_, I, P> {
    #[inline]
    fn arrived(&mut self, node: usize, at: Stamp<I>, packet: &P, _waiting: usize) {
        if !self.taps.is_empty() {
            self.taps
                .arrived(self.direction, node, at.time.to_ns(), packet);
        }
        self.event(node, at, packet, EventKind::Arrive);
    }

    #[inline]
    fn started(&mut self, node: usize, at: Stamp<I>, packet: &P) {
        self.event(node, at, packet, EventKind::StartTx);
    }

    #[inline]
    fn left(&mut self, node: usize, at: I, packet: &P) {
        if !self.taps.is_empty() {
            self.taps.left(self.direction, node, at.to_ns(), packet);
        }
    }

    fn dropped(
        &mut self,
        node: usize,
        at: Stamp<I>,
        packet: &P,
        reason: DropReason,
        waiting: usize,
    ) {
        let segment = self.taps.segment(packet);
        self.recorder.drops.push(DropRow {
            time_ns: at.time.to_ns(),
            node: node as u32,
            is_reverse: self.direction == 1,
            reason,
            connection: packet.connection(),
            is_data: packet.is_data(),
            offset: packet.offset(),
            bytes: packet.bytes(),
            waiting: waiting as u32,
            tcp_seq: segment.seq,
            payload_len: segment.payload_len,
            ip_id: segment.ip_id,
        });
        self.event(node, at, packet, EventKind::Drop);
    }
}

impl<I: Instant, P: Carried> Watch<'_, I, P> {
    fn event(&mut self, node: usize, at: Stamp<I>, packet: &P, kind: EventKind) {
        if self.recorder.keeps_events {
            let place = Site::Node {
                number: node as u32,
                is_reverse: self.direction == 1,
            };
            self.recorder.event(row(at, place, kind, packet));
        }
    }
}

fn row<I: Instant, P: Carried>(
    at: Stamp<I>,
    place: Site,
    kind: EventKind,
    packet: &P,
) -> EventRow<I> {
    EventRow {
        at,
        place,
        kind,
        connection: packet.connection(),
        is_data: packet.is_data(),
        offset: packet.offset(),
        bytes: packet.bytes(),
    }
}
