//! The `rfc` profile: bytes, a handshake, options, RFC behaviour on integer nanoseconds.

mod connection;
mod linux_acks;
mod packet;
mod receiver;

pub use connection::{initial_state, options, rto};

use connection::Connection;
use packet::Packet;

use super::output::Output;
use super::record::{EventKind, Place, Recorder};
use super::taps::Taps;
use super::{Controls, build};
use crate::network::{Nanos, Random, Schedule, Stamp};
use crate::scenario::Scenario;

pub type Io = super::io::Io<Nanos, Packet>;

/// Sources of events: the two paths, then per connection what `connection::Source` lists.
const PATHS: usize = 2;

/// Runs a scenario in this profile.
pub fn run(scenario: &Scenario, controls: &mut Controls) -> Output {
    let records = controls.records;
    let count = scenario.connections.len();
    let mut io = Io {
        now: Nanos(0),
        decided: Nanos(0),
        paths: build::paths(scenario, records),
        schedule: Schedule::new(PATHS + connection::SOURCES * count),
        random: Random::new(scenario.seed),
        recorder: Recorder::new(count, records),
        taps: Taps::new(scenario),
        is_watched: records.is_watched(scenario) || scenario.is_managed(),
        sent: [0; 2],
    };
    let mut connections: Vec<Connection> = (0..count)
        .map(|number| {
            let first_source = PATHS + connection::SOURCES * number;
            let control = controls.take(number, scenario);
            let mut connection = Connection::new(scenario, number, first_source, control);
            connection.begin(&mut io);
            connection
        })
        .collect();
    let end = Nanos(scenario.duration_ns());
    io.recorder.keeps_values = controls.outlet.is_none();
    while let Some((source, at)) = io.schedule.next() {
        if at.time >= end || controls.has_stopped() {
            break;
        }
        io.now = at.time;
        // A real sender answers a little later: a place freed at this very moment is free.
        io.decided = at.time;
        if controls.is_piece_due() {
            io.pass_on(scenario, controls, || {
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
    io.finish_taps(scenario, controls);
    let totals = connections.iter().map(Connection::totals).collect();
    let smss = connections.iter().map(Connection::smss).collect();
    Output::new(
        scenario,
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
