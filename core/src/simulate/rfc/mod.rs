//! The `rfc` profile: bytes, a handshake, options, RFC behaviour on integer nanoseconds.

mod connection;
mod packet;
mod receiver;

pub use connection::{initial_state, options, rto};

use connection::Connection;
use packet::Packet;

use super::output::Output;
use super::record::{EventKind, Place, Recorder};
use super::spec::Spec;
use super::taps::Taps;
use super::{Controls, build};
use crate::network::{Nanos, Random, Schedule, Stamp};

pub type Io = super::io::Io<Nanos, Packet>;

/// Sources of events: the two paths, then per connection what `connection::Source` lists.
const PATHS: usize = 2;

/// Runs a scenario in this profile.
pub fn run(spec: &Spec, controls: &mut Controls) -> Output {
    let count = spec.connections.len();
    let mut io = Io {
        now: Nanos(0),
        decided: Nanos(0),
        paths: build::paths(spec),
        schedule: Schedule::new(PATHS + connection::SOURCES * count),
        random: Random::new(spec.seed),
        recorder: Recorder::new(count, spec.record_truth, spec.record_events),
        taps: Taps::new(spec),
        is_watched: spec.is_watched() || spec.is_managed(),
        sent: [0; 2],
    };
    let mut connections: Vec<Connection> = (0..count)
        .map(|number| {
            let first_source = PATHS + connection::SOURCES * number;
            let control = controls.take(number, spec);
            let mut connection = Connection::new(spec, number, first_source, control);
            connection.begin(&mut io);
            connection
        })
        .collect();
    let end = Nanos(spec.duration_ns);
    io.recorder.keeps_values = controls.outlet.is_none();
    while let Some((source, at)) = io.schedule.next() {
        if at.time >= end || controls.has_stopped() {
            break;
        }
        io.now = at.time;
        // A real sender answers a little later: a place freed at this very moment is free.
        io.decided = at.time;
        if controls.is_piece_due() {
            io.pass_on(spec, controls, || {
                connections.iter().map(Connection::smss).collect()
            });
        }
        if source < PATHS {
            deliver(&mut connections, &mut io, source, at);
        } else {
            let number = (source - PATHS) / connection::SOURCES;
            connections[number].fire(&mut io, (source - PATHS) % connection::SOURCES, at);
        }
    }
    io.recorder.finish(end);
    io.finish_taps(spec, controls);
    let totals = connections.iter().map(Connection::totals).collect();
    let smss = connections.iter().map(Connection::smss).collect();
    Output::new(
        spec,
        totals,
        smss,
        io.recorder,
        Box::new(io.taps),
        &mut io.paths,
        end,
    )
}

/// A packet comes out of one of the paths.
fn deliver(connections: &mut [Connection], io: &mut Io, direction: usize, at: Stamp<Nanos>) {
    let Some(packet) = io.leave(direction, at) else {
        return;
    };
    let connection = &mut connections[packet.connection as usize];
    if packet.is_from_sender {
        io.delivered(direction, &packet);
        io.event(at, Place::Receiver, EventKind::Recv, &packet);
        connection.at_receiver(io, at, &packet);
    } else {
        connection.on_way_back(io, at, packet);
    }
}
