//! The stream followed on its own clock: no further than asked.

use std::collections::VecDeque;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use super::glance::{EndState, News, NewsKind};
use super::live::Live;
use super::source::{Sources, Stop};
use super::stream::{Decoded, Stream, stream};
use crate::capture::{CaptureError, Truncated};
use crate::connection::{self, ConnectionTable, Followed, Wanted};
use crate::infer::Now;
use crate::wire::{DecodeCounts, Endpoint};

/// How far it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// As far as was asked.
    Reached,
    /// What there is has been followed; more may come.
    Waiting,
    Ended,
}

/// Events kept until they are asked for: a reader that never asks is not to fill the memory.
const MOST_EVENTS: usize = 1 << 20;
/// Packets between two looks at the clock.
const AT_ONCE: usize = 4096;

pub struct Watcher {
    name: String,
    stream: Stream,
    stop: Stop,
    table: ConnectionTable,
    keeps_rows: bool,
    live: Vec<Option<Box<Live>>>,
    pending: VecDeque<(i64, Decoded)>,
    pub events: Vec<News>,
    pub events_lost: u64,
    counts: DecodeCounts,
    pub position: u64,
    truncated: Option<Truncated>,
    pub first_ns: Option<i64>,
    pub now_ns: i64,
    records: u64,
    is_ended: bool,
    /// Whether senders are observed, and whether rows are kept for nothing else.
    observes: bool,
    drops: bool,
    keeps_recent: bool,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

impl Watcher {
    pub fn new(name: String, sources: Sources, stop: Stop, wanted: Wanted) -> Self {
        Self {
            name,
            stream: stream(sources),
            stop,
            keeps_rows: !matches!(wanted, Wanted::None),
            table: ConnectionTable::new(wanted),
            live: Vec::new(),
            pending: VecDeque::new(),
            events: Vec::new(),
            events_lost: 0,
            counts: DecodeCounts::default(),
            position: 0,
            truncated: None,
            first_ns: None,
            now_ns: i64::MIN,
            records: 0,
            is_ended: false,
            observes: false,
            drops: false,
            keeps_recent: false,
        }
    }

    /// A connection's last packets as a capture of their own: what the observer is asked about.
    pub fn recent(&self, id: u32) -> Option<Followed> {
        let live = self.live(id)?;
        let mut table = ConnectionTable::new(Wanted::All);
        for (time_ns, index, packet) in &live.recent {
            match packet {
                Decoded::Plain(plain) => table.push_plain(*time_ns, *index, plain),
                Decoded::Other(segment) => table.push_record(*time_ns, *index, segment),
                Decoded::Foreign(_) => continue,
            };
        }
        Some(Followed {
            name: self.name.clone(),
            table,
            counts: DecodeCounts::default(),
            truncated: None,
        })
    }

    /// From now on senders are observed: `now`, and with `keeps_recent` also `recent`.
    pub fn observe(&mut self, keeps_recent: bool) {
        self.observes = true;
        self.keeps_recent = keeps_recent;
        if !self.keeps_rows {
            self.drops = true;
            self.table = ConnectionTable::new(Wanted::Rows);
        }
    }

    /// Shows the observer what it has not seen yet of a connection, before `now` is asked.
    pub fn catch_up(&mut self, id: u32) {
        let live = self.live.get_mut(id as usize).and_then(Option::as_mut);
        if let Some((live, connection)) = live.zip(self.table.detailed(id as usize)) {
            live.show(connection, self.drops);
        }
    }

    /// A sender as the observer sees it after the last packet that it was shown; None: it is not observed, or has sent
    /// no data.
    pub fn now(&self, id: u32, from: usize) -> Option<Now> {
        let connection = self.table.connection(id as usize)?;
        self.live(id)?.rolling[from].0.now(connection.known(from))
    }

    /// Whether the tap is at the sender's place, as the handshake shows it; None: not known.
    pub fn is_near(&self, id: u32, from: usize) -> Option<bool> {
        self.table.connection(id as usize)?.is_near(from)
    }

    /// Rows kept for it.
    pub fn kept_rows(&self) -> usize {
        let rolling = self.connections().flat_map(|live| &live.rolling);
        rolling.map(|(rolling, _)| rolling.rows()).sum()
    }

    pub fn records(&self) -> u64 {
        self.records
    }

    pub fn connections(&self) -> impl Iterator<Item = &Live> {
        self.live.iter().flatten().map(Box::as_ref)
    }

    pub fn live(&self, id: u32) -> Option<&Live> {
        self.live.get(id as usize)?.as_deref()
    }

    /// What was followed so far, as reading a whole capture gives it.
    pub fn followed(&self) -> Followed {
        Followed {
            name: self.name.clone(),
            table: if self.drops {
                self.table.clone().without_rows()
            } else {
                self.table.clone()
            },
            counts: self.counts,
            truncated: self.truncated.clone(),
        }
    }

    /// Follows packets captured until `until_ns`, `most` of them at the most, or until the next event; waits no longer
    /// than `patience` for packets that are not there yet.
    pub fn advance(
        &mut self,
        until_ns: i64,
        most: u64,
        to_event: bool,
        patience: Duration,
    ) -> Result<Progress, CaptureError> {
        let begun = Instant::now();
        let mut left = most;
        loop {
            let mut since_look = 0;
            while let Some((time_ns, packet)) = self.pending.pop_front() {
                // A clock that went back does not hold up what follows.
                if time_ns > until_ns || left == 0 {
                    self.pending.push_front((time_ns, packet));
                    return Ok(Progress::Reached);
                }
                left -= 1;
                since_look += 1;
                let events = self.events.len();
                self.follow(time_ns, packet);
                if to_event && self.events.len() > events {
                    return Ok(Progress::Reached);
                }
                if since_look == AT_ONCE && begun.elapsed() > patience {
                    return Ok(Progress::Waiting);
                }
                since_look %= AT_ONCE;
            }
            if left == 0 {
                return Ok(Progress::Reached);
            }
            if self.is_ended {
                return Ok(Progress::Ended);
            }
            let wait = patience.saturating_sub(begun.elapsed());
            if !self.receive(wait)? && begun.elapsed() >= patience {
                return Ok(Progress::Waiting);
            }
        }
    }

    /// The next batch; whether one came.
    fn receive(&mut self, wait: Duration) -> Result<bool, CaptureError> {
        let received = match self.stream.try_recv() {
            Err(TryRecvError::Empty) => self.stream.recv_timeout(wait),
            Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
            Ok(batch) => Ok(batch),
        };
        match received {
            Ok(batch) => {
                let batch = batch.inspect_err(|_| self.is_ended = true)?;
                // All before are followed.
                self.pending = batch.packets.into();
                self.position = batch.position;
                self.truncated = batch.truncated.or(self.truncated.take());
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => {
                self.is_ended = true;
                Ok(true)
            }
        }
    }

    #[inline]
    fn follow(&mut self, time_ns: i64, packet: Decoded) {
        let index = self.records;
        self.records += 1;
        self.first_ns.get_or_insert(time_ns);
        self.now_ns = self.now_ns.max(time_ns);
        let told = self.events.len();
        let id = match &packet {
            Decoded::Plain(plain) => {
                let id = self.table.push_plain(time_ns, index, plain);
                let packet = connection::TcpPacket::plain(time_ns, index, plain);
                self.look(id, [plain.src(), plain.dst()], &packet, None);
                id
            }
            Decoded::Other(segment) => {
                let id = self.table.push_record(time_ns, index, segment);
                let packet = connection::TcpPacket::new(time_ns, index, segment);
                let wscale = segment.options.wscale;
                self.look(id, [segment.src, segment.dst], &packet, wscale);
                id
            }
            Decoded::Foreign(cause) => {
                self.counts.take_in(Err(*cause));
                return;
            }
        };
        self.counts.take_in(Ok(()));
        self.keep(id, time_ns, index, packet);
        if self.observes && self.events.len() > told {
            self.describe(told);
        }
    }

    /// What the observer says of whom the last events tell, once it has heard of the packet.
    #[cold]
    fn describe(&mut self, told: usize) {
        for place in told..self.events.len() {
            let (id, from) = (
                self.events[place].connection,
                usize::from(self.events[place].from),
            );
            self.catch_up(id);
            self.events[place].state = self.live(id).map(|live| {
                Box::new(EndState {
                    glance: live.glances[from],
                    now: self.now(id, from),
                })
            });
        }
    }

    #[inline]
    fn keep(&mut self, id: u32, time_ns: i64, index: u64, packet: Decoded) {
        if !self.observes {
            return;
        }
        let live = self.live.get_mut(id as usize).and_then(Option::as_mut);
        let Some((live, connection)) = live.zip(self.table.detailed(id as usize)) else {
            return;
        };
        live.count_unshown(connection, self.drops);
        if self.keeps_recent {
            live.keep_away(connection, time_ns, index, packet);
        }
    }

    #[inline]
    fn look(
        &mut self,
        id: u32,
        ends: [Endpoint; 2],
        packet: &connection::TcpPacket<'_>,
        wscale: Option<u8>,
    ) {
        let place = id as usize;
        if place >= self.live.len() {
            self.live.resize_with(place + 1, || None);
        }
        let live =
            self.live[place].get_or_insert_with(|| Box::new(Live::new(id, ends, packet.time)));
        live.packets += 1;
        live.last_ns = live.last_ns.max(packet.time);
        let from = usize::from(live.ends[0] != ends[0]);
        if packet.is_syn() {
            live.shifts[from] = wscale;
            // RFC 7323 section 2.2: both SYNs have to offer it.
            if let [Some(first), Some(second)] = live.shifts {
                live.glances[0].set_shift(second.min(14));
                live.glances[1].set_shift(first.min(14));
            }
        }
        let [first, second] = &mut live.glances;
        let (mine, other) = if from == 0 {
            (first, second)
        } else {
            (second, first)
        };
        let heard = other.on_heard(packet);
        let heard_flight = other.flight();
        let sent = mine.on_sent(packet);
        let flight = mine.flight();
        if heard.is_some() || sent.is_some() {
            self.tell(id, packet.time, 1 - from, heard, heard_flight);
            self.tell(id, packet.time, from, sent, flight);
        }
    }

    #[cold]
    fn tell(&mut self, id: u32, time_ns: i64, from: usize, kind: Option<NewsKind>, flight: u32) {
        let Some(kind) = kind else { return };
        if self.events.len() >= MOST_EVENTS {
            self.events_lost += 1;
            return;
        }
        self.events.push(News {
            time_ns,
            connection: id,
            from: from as u8,
            kind,
            flight,
            state: None,
        });
    }
}
