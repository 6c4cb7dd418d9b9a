//! The result of a run, the same for both profiles.

use super::packet_counting;
use super::record::{
    ControlValues, DropRow, EventKind, LossRow, Recorder, Site, Totals, TruthRow, count_drops,
};
use super::taps::FinishedTaps;
use crate::congestion::Profile;
use crate::infer::Cycles;
use crate::network::{Counters, Instant, Node, Path, QueueBin, Traveller};
use crate::scenario::Scenario;

/// A row of `record_events`, times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputEvent {
    pub time_ns: i64,
    pub place: Site,
    pub kind: EventKind,
    pub connection: u32,
    pub is_data: bool,
    pub offset: u64,
    pub bytes: u32,
}

/// One node's totals at the end of the run.
#[derive(Clone, Debug)]
pub struct NodeTotals {
    pub is_reverse: bool,
    pub number: u32,
    pub counters: Counters,
    pub waiting: u64,
    pub is_conserved: bool,
    pub bins: Vec<QueueBin>,
    /// Sum of all packets' waiting times.
    pub waited_ns: i64,
}

#[derive(Debug)]
pub struct Output {
    /// Bytes of payload per unit of cwnd, ssthresh and offsets: 1 in `rfc`, a packet's in `ns2`.
    pub unit_bytes: u32,
    pub duration_ns: i64,
    /// It ended before, with the events that it was given.
    pub is_cut: bool,
    pub truth: Vec<TruthRow>,
    pub control_values: Vec<ControlValues>,
    pub losses: Vec<LossRow>,
    pub drops: Vec<DropRow>,
    /// By node of the way there, also those that were passed on; empty in a piece.
    pub drops_by_node: Vec<u64>,
    pub events: Vec<OutputEvent>,
    pub nodes: Vec<NodeTotals>,
    pub totals: Vec<Totals>,
    /// Segment size of each connection in bytes.
    pub smss: Vec<u32>,
    pub cycles: Vec<Cycles>,
    pub taps: Box<dyn FinishedTaps>,
}

/// Bytes of payload per unit of the profile.
pub fn unit_bytes(scenario: &Scenario) -> u32 {
    match scenario.profile {
        Profile::Ns2 => packet_counting::payload(scenario.path.packet_bytes),
        Profile::Rfc => 1,
    }
}

/// Every node's books, with those bins of its queue that `bins` says.
fn nodes<I: Instant, P: Traveller>(
    paths: &mut [Path<I, P>; 2],
    bins: fn(&mut Node<I>) -> Vec<QueueBin>,
) -> Vec<NodeTotals> {
    let mut nodes = Vec::new();
    for (path, is_reverse) in paths.iter_mut().zip([false, true]) {
        for (number, node) in path.nodes_mut().iter_mut().enumerate() {
            nodes.push(NodeTotals {
                is_reverse,
                number: number as u32,
                counters: node.counters(),
                waiting: node.waiting() as u64,
                is_conserved: node.is_conserved(),
                bins: bins(node),
                waited_ns: node.waited_ns(),
            });
        }
    }
    nodes
}

impl Output {
    /// What the controls hold in mind, each name once; a piece of a run has those of the whole.
    pub fn control_names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for name in self.control_values.iter().flat_map(|kept| &kept.names) {
            if !names.contains(name) {
                names.push(*name);
            }
        }
        names
    }

    /// A column for each name, NaN in the rows of other controls.
    pub fn control_columns(&self) -> Vec<(&'static str, Vec<f64>)> {
        let names = self.control_names();
        let place = |name: &str| names.iter().position(|known| *known == name);
        let place = |name: &str| place(name).expect("it is one of these names");
        let mut columns: Vec<_> = names
            .iter()
            .map(|name| (*name, vec![f64::NAN; self.truth.len()]))
            .collect();
        let kept = self.control_values.iter();
        let mut rows: Vec<_> = kept
            .map(|kept| {
                let places: Vec<usize> = kept.names.iter().map(|name| place(name)).collect();
                (kept.values.chunks_exact(places.len().max(1)), places)
            })
            .collect();
        for (at, row) in self.truth.iter().enumerate() {
            let (rows, places) = &mut rows[row.connection as usize];
            let values = rows.next().unwrap_or_default();
            for (&place, &value) in places.iter().zip(values) {
                columns[place].1[at] = value;
            }
        }
        columns
    }

    /// The tables that grew since the last piece of a run, up to this time of the event loop; no events.
    pub fn piece<I: Instant, P: Traveller>(
        scenario: &Scenario,
        smss: Vec<u32>,
        recorder: &mut Recorder<I>,
        taps: Box<dyn FinishedTaps>,
        paths: &mut [Path<I, P>; 2],
        now_ns: i64,
    ) -> Self {
        let taken = recorder.take_before(now_ns);
        Self {
            unit_bytes: unit_bytes(scenario),
            duration_ns: scenario.duration_ns(),
            is_cut: false,
            truth: taken.truth,
            control_values: taken.control_values,
            losses: taken.losses,
            drops: taken.drops,
            drops_by_node: Vec::new(),
            events: Vec::new(),
            nodes: nodes(paths, Node::take_bins),
            totals: Vec::new(),
            smss,
            cycles: Vec::new(),
            taps,
        }
    }

    pub fn new<I: Instant, P: Traveller>(
        scenario: &Scenario,
        totals: Vec<Totals>,
        smss: Vec<u32>,
        recorder: Recorder<I>,
        taps: Box<dyn FinishedTaps>,
        paths: &mut [Path<I, P>; 2],
        end: I,
    ) -> Self {
        for path in paths.iter_mut() {
            path.finish(end);
        }
        let mut drops_by_node = recorder.drops_passed_on;
        count_drops(&mut drops_by_node, &recorder.drops);
        drops_by_node.resize(scenario.path.nodes_before() + scenario.path.nodes.len(), 0);
        Self {
            drops_by_node,
            unit_bytes: unit_bytes(scenario),
            duration_ns: scenario.duration_ns(),
            is_cut: false,
            truth: recorder.truth,
            control_values: recorder.control_values,
            losses: recorder.losses,
            drops: recorder.drops,
            events: recorder
                .events
                .into_iter()
                .map(|row| OutputEvent {
                    time_ns: row.at.time.to_ns(),
                    place: row.place,
                    kind: row.kind,
                    connection: row.connection,
                    is_data: row.is_data,
                    offset: row.offset,
                    bytes: row.bytes,
                })
                .collect(),
            nodes: nodes(paths, |node| node.bins().to_vec()),
            totals,
            smss,
            cycles: recorder.cycles,
            taps,
        }
    }
}
