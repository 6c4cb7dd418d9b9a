//! The event loop of both profiles: what is due next happens at its time, until the run ends.

use super::build;
use super::controls::Controls;
use super::io::{Carried, Io};
use super::output::Output;
use super::record::{Recorder, Totals};
use super::taps::Taps;
use crate::network::{Instant, Random, Schedule, Stamp};
use crate::scenario::Scenario;

/// Sources of events that connections share: the two paths.
const PATHS: usize = 2;

/// A connection of a profile: both ends, the application and their timers.
pub trait Simulated: Sized {
    type Time: Instant;
    type Packet: Carried + Send + Sync + std::fmt::Debug + 'static;
    /// Sources of events of each connection: its timers, its application.
    const SOURCES: usize;

    /// `first_source`: the number of the connection's first source in the schedule.
    fn new(
        scenario: &Scenario,
        number: usize,
        first_source: usize,
        controls: &mut Controls,
    ) -> Self;

    /// Schedules what it begins with.
    fn begin(&mut self, io: &mut Io<Self::Time, Self::Packet>);

    /// One of its sources, counted from 0, has come up.
    fn fire(&mut self, io: &mut Io<Self::Time, Self::Packet>, source: usize, at: Stamp<Self::Time>);

    /// A packet of its own comes out of a direction.
    fn arrive(
        &mut self,
        io: &mut Io<Self::Time, Self::Packet>,
        direction: usize,
        at: Stamp<Self::Time>,
        packet: &Self::Packet,
    );

    /// When what happens at a time counts as decided: of two events at one instant the earlier decided comes first.
    fn decided(at: Stamp<Self::Time>) -> Self::Time;

    fn totals(&self) -> Totals;

    /// Bytes in a full segment.
    fn smss(&self) -> u32;
}

/// Runs a scenario with connections of one profile.
pub fn run<C: Simulated>(scenario: &Scenario, controls: &mut Controls) -> Output {
    let logs = controls.logs;
    let count = scenario.connections.len();
    let mut io = Io {
        now: C::Time::ZERO,
        decided: C::Time::ZERO,
        paths: build::paths(scenario, logs),
        schedule: Schedule::new(PATHS + C::SOURCES * count),
        random: Random::new(scenario.seed),
        recorder: Recorder::new(controls.names_of_values(scenario), logs),
        taps: Taps::new(scenario),
        is_watched: logs.is_watched(scenario) || scenario.is_managed(),
        sent: [0; 2],
        modules_clock: C::Time::ZERO,
    };
    let mut connections: Vec<C> = (0..count)
        .map(|number| C::new(scenario, number, PATHS + C::SOURCES * number, controls))
        .collect();
    for connection in &mut connections {
        connection.begin(&mut io);
    }
    let end = C::Time::from_ns(scenario.duration_ns() as f64);
    while let Some((source, at)) = io.schedule.next() {
        // As in ns-2, where the end of the run was scheduled before everything else.
        if at.time >= end {
            break;
        }
        io.now = at.time;
        io.decided = C::decided(at);
        if controls.is_look_due() {
            let Some(is_piece_due) = controls.look() else {
                break;
            };
            if is_piece_due {
                io.pass_on(scenario, controls, || {
                    connections.iter().map(C::smss).collect()
                });
            }
        }
        if source < PATHS {
            let packet = if io.paths[source].is_managed() {
                match io.leave_managed(source, at) {
                    Some(packet) => packet,
                    None => continue,
                }
            } else {
                io.leave(source)
            };
            let connection = &mut connections[packet.connection() as usize];
            connection.arrive(&mut io, source, at, &packet);
        } else {
            let connection = &mut connections[(source - PATHS) / C::SOURCES];
            connection.fire(&mut io, (source - PATHS) % C::SOURCES, at);
        }
    }
    io.recorder.finish(end);
    io.finish_taps(scenario, controls);
    Output::new(
        scenario,
        connections.iter().map(C::totals).collect(),
        connections.iter().map(C::smss).collect(),
        io.recorder,
        Box::new(io.taps),
        &mut io.paths,
        end,
    )
}
