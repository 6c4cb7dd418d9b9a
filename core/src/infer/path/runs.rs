//! Runs of ACKs: at what rate so many segments were acknowledged, what queue they met, and the busiest second.
//!
//! A run goes from the end of a batch of ACKs to the end of another: within one, the host set the distances.

use std::collections::VecDeque;

// Segments acknowledged are summed up as real numbers.
const ROUNDING: f64 = 1e-6;

/// The ends of batches of ACKs, in order: when, packets acknowledged until then, ACKs until then that jumped.
#[derive(Clone, Copy, Debug)]
pub struct Batches<'a> {
    pub times: &'a [i64],
    pub acked: &'a [f64],
    pub jumps: &'a [i32],
}

/// Loss events in order: when each began, and the latest end of all up to it.
#[derive(Clone, Debug)]
pub struct Events {
    begin: Vec<i64>,
    latest_end: Vec<i64>,
}

/// Round trips in order: when each was known.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrips<'a> {
    pub times: &'a [i64],
    pub rtt_ns: &'a [i64],
}

impl RoundTrips<'_> {
    /// Whether a run has one within, or no further from it than it took: a queue has come and gone by then. `first`, at
    /// or behind its begin, and `behind` its end: places.
    fn is_near(&self, first: usize, behind: usize, (begin, end): (i64, i64)) -> bool {
        let last = first.checked_sub(1);
        let is_before = last.is_some_and(|last| begin - self.times[last] <= self.rtt_ns[last]);
        let next = self.times.get(behind);
        let is_after = next.is_some_and(|next| next - end <= self.rtt_ns[behind]);
        first < behind || is_before || is_after
    }
}

/// Which runs are taken, and by how much slower, or how little as long, as sent they are pressed.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub segments: f64,
    pub fewest_batches: usize,
    pub slowed: f64,
    pub compressed: f64,
}

/// A column per fact, an entry per run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// Packets/s, and how long it lasts.
    pub rates: Vec<f64>,
    pub spans_ns: Vec<f64>,
    /// The queueing delay at its end, and the shortest met in it.
    pub delay_ns: Vec<f64>,
    pub least_ns: Vec<f64>,
    /// How much longer the slowest of its batches took for each packet than the whole run (1: no longer).
    pub uneven: Vec<f64>,
    /// Acknowledged slower than sent; faster: pushed together on the way back (ACK compression).
    pub slowed: Vec<bool>,
    pub compressed: Vec<bool>,
}

impl Runs {
    fn with_room(count: usize) -> Self {
        let numbers = || Vec::with_capacity(count);
        Self {
            rates: numbers(),
            spans_ns: numbers(),
            delay_ns: numbers(),
            least_ns: numbers(),
            uneven: numbers(),
            slowed: Vec::with_capacity(count),
            compressed: Vec::with_capacity(count),
        }
    }
}

impl Events {
    pub fn new(begin: &[i64], end: &[i64]) -> Self {
        let mut latest = i64::MIN;
        let ends = end.iter().map(|&end| {
            latest = latest.max(end);
            latest
        });
        Self {
            begin: begin.to_vec(),
            latest_end: ends.collect(),
        }
    }

    /// Whether each time from `begin` on, which rises, to an end has an event in it.
    fn touching(&self) -> impl FnMut(i64, i64) -> bool + '_ {
        let mut at = 0;
        move |begin, end| {
            while at < self.begin.len() && self.latest_end[at] < begin {
                at += 1;
            }
            self.begin.get(at).is_some_and(|&event| event <= end)
        }
    }
}

/// The extreme of values within a range whose ends rise: those that none behind them hides.
struct Window<T> {
    left: VecDeque<(usize, T)>,
    taken: usize,
}

impl<T: Copy> Window<T> {
    fn new() -> Self {
        Self {
            left: VecDeque::new(),
            taken: 0,
        }
    }

    /// Of the places from `begin` to before `end`; None: there is none.
    fn within(
        &mut self,
        begin: usize,
        end: usize,
        value: impl Fn(usize) -> T,
        hides: impl Fn(T, T) -> bool,
    ) -> Option<T> {
        for place in self.taken.max(begin)..end {
            let own = value(place);
            while self.left.back().is_some_and(|&(_, last)| hides(own, last)) {
                self.left.pop_back();
            }
            self.left.push_back((place, own));
        }
        self.taken = self.taken.max(end);
        while self.left.front().is_some_and(|&(place, _)| place < begin) {
            self.left.pop_front();
        }
        self.left.front().map(|&(_, own)| own)
    }
}

/// Round trips between the times at which they are known, as numpy's `interp` has it; times that are asked for rise.
struct Between<'a> {
    known: RoundTrips<'a>,
    behind: usize,
}

impl Between<'_> {
    /// The round trip and what of it is beyond `base`.
    fn at(&mut self, time: i64, base: i64) -> (f64, f64) {
        let RoundTrips { times, rtt_ns } = self.known;
        let time = time as f64;
        while self.behind < times.len() && times[self.behind] as f64 <= time {
            self.behind += 1;
        }
        let last = self.behind.saturating_sub(1);
        let (here, rtt) = (times[last] as f64, rtt_ns[last]);
        let (rtt, more) = (rtt as f64, (rtt - base) as f64);
        if self.behind == 0 || self.behind == times.len() || here == time {
            return (rtt, more);
        }
        let slope = (rtt_ns[last + 1] as f64 - rtt) / (times[last + 1] as f64 - here);
        (slope * (time - here) + rtt, slope * (time - here) + more)
    }
}

impl Batches<'_> {
    /// Every run of so many segments that no event touches: the batches that it begins and ends with.
    fn chosen(&self, asked: Asked, events: &[Events]) -> Vec<(u32, u32)> {
        let mut touching: Vec<_> = events.iter().map(Events::touching).collect();
        let mut close = 0;
        let mut found = Vec::new();
        for (open, &reached) in self.acked.iter().enumerate() {
            while close < self.acked.len()
                && self.acked[close] < reached + asked.segments - ROUNDING
            {
                close += 1;
            }
            if close == self.acked.len() {
                break;
            }
            let (begin, end) = (self.times[open], self.times[close]);
            let is_calm = self.jumps[open] == self.jumps[close] && end > begin;
            let is_long = close >= open + asked.fewest_batches;
            // All are asked: each walks on.
            let touched = touching.iter_mut().map(|touches| touches(begin, end));
            let is_touched = touched.fold(false, |any, each| any | each);
            if is_calm && is_long && !is_touched {
                found.push((open as u32, close as u32));
            }
        }
        found
    }

    /// Every run that is asked for, without an event in it.
    pub fn runs(&self, asked: Asked, events: &[Events], known: RoundTrips<'_>) -> Runs {
        let chosen = self.chosen(asked, events);
        let mut found = Runs::with_room(chosen.len());
        let base = known.rtt_ns.iter().copied().min();
        let (mut begun, mut ended) = (Between { known, behind: 0 }, Between { known, behind: 0 });
        let (mut slowest, mut shortest) = (Window::new(), Window::new());
        let (mut first, mut behind) = (0, 0);
        let per_packet = |place: usize| {
            let took = self.times[place + 1] - self.times[place];
            took as f64 / (self.acked[place + 1] - self.acked[place])
        };
        for (open, close) in chosen {
            let (open, close) = (open as usize, close as usize);
            let (begin, end) = (self.times[open], self.times[close]);
            let span = (end - begin) as f64;
            let rate = (self.acked[close] - self.acked[open]) / (span / 1e9);
            let most = slowest.within(open, close, per_packet, |own, last| own >= last);
            found.rates.push(rate);
            found.spans_ns.push(span);
            found.uneven.push(most.unwrap_or(0.0) / 1e9 * rate);
            let (mut delay, mut least, mut sent) = (0.0, 0.0, span);
            if let Some(base) = base {
                let ((rtt, more), (before, _)) = (ended.at(end, base), begun.at(begin, base));
                while first < known.times.len() && known.times[first] < begin {
                    first += 1;
                }
                while behind < known.times.len() && known.times[behind] <= end {
                    behind += 1;
                }
                // Where none is known within, the next.
                let from = first.min(known.times.len() - 1);
                let upto = behind.clamp(from + 1, known.times.len());
                let within = shortest.within(
                    from,
                    upto,
                    |place| known.rtt_ns[place],
                    |own, last| own <= last,
                );
                if known.is_near(first, behind, (begin, end)) {
                    delay = more;
                    least =
                        delay.min(within.map_or(f64::INFINITY, |rtt_ns| (rtt_ns - base) as f64));
                    // Sent when acknowledged, less the round trip then.
                    sent = span - (rtt - before);
                }
            }
            found.delay_ns.push(delay);
            found.least_ns.push(least);
            found.slowed.push(span > asked.slowed * sent.max(0.0));
            found.compressed.push(span < asked.compressed * sent);
        }
        found
    }
}

/// The most by which `una` rose within `second_ns` of some ACK (by `times`, in order), without the largest step of each
/// and without an event; None: no such time.
pub fn busiest(times: &[i64], una: &[i64], second_ns: i64, events: &Events) -> Option<i64> {
    let last = *times.last()?;
    let mut touches = events.touching();
    let mut largest = Window::new();
    let step = |place: usize| una[place] - una[place.saturating_sub(1)];
    let mut behind = 0;
    let mut found = None;
    for (begin, &time) in times.iter().enumerate() {
        if last - time < second_ns {
            break;
        }
        while behind < times.len() && times[behind] <= time + second_ns {
            behind += 1;
        }
        let end = behind - 1;
        if end <= begin {
            continue;
        }
        let most = largest.within(begin + 1, end + 1, step, |own, last| own >= last);
        if !touches(time, times[end]) {
            found = found.max(Some(una[end] - una[begin] - most.unwrap_or(0)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked = Asked {
        segments: 4.0,
        fewest_batches: 3,
        slowed: 1.25,
        compressed: 0.8,
    };

    /// ACKs of a segment each, 1 ms apart, but the sixth 3 ms later.
    fn times() -> Vec<i64> {
        (0..12)
            .map(|at| (at + 3 * i64::from(at > 5)) * 1_000_000)
            .collect()
    }

    #[test]
    fn a_run_is_as_uneven_as_its_slowest_batch() {
        let (times, acked, jumps) = (times(), (1..13).map(f64::from).collect::<Vec<_>>(), [0; 12]);
        let batches = Batches {
            times: &times,
            acked: &acked,
            jumps: &jumps,
        };
        let known = RoundTrips {
            times: &times,
            rtt_ns: &[5_000_000; 12],
        };
        let runs = batches.runs(ASKED, &[], known);
        assert_eq!(runs.rates.len(), 8);
        assert_eq!((runs.rates[0], runs.uneven[0]), (1000.0, 1.0));
        // Four packets in 7 ms, one of which took 4.
        assert_eq!(runs.spans_ns[2], 7e6);
        assert!((runs.uneven[2] - 4.0 * 4.0 / 7.0).abs() < 1e-9);
        assert_eq!(runs.delay_ns, [0.0; 8]);
    }

    #[test]
    fn a_round_trip_away_from_a_run_tells_no_queue_of_it() {
        let times: Vec<i64> = (0..40).map(|at| at * 1_000_000).collect();
        let acked: Vec<f64> = (1..41).map(f64::from).collect();
        let batches = Batches {
            times: &times,
            acked: &acked,
            jumps: &[0; 40],
        };
        // Known after 2 ms, and 37 ms later.
        let known = RoundTrips {
            times: &[2_000_000, 39_000_000],
            rtt_ns: &[5_000_000, 9_000_000],
        };
        let delays = batches.runs(ASKED, &[], known).delay_ns;
        assert_eq!(delays.len(), 36);
        // From 7 ms on, and to 30 ms from the start, none lies within a round trip.
        assert!(delays[3..8].iter().all(|&delay| delay > 0.0));
        assert!(delays[8..26].iter().all(|&delay| delay == 0.0));
        assert!(delays[26..].iter().all(|&delay| delay > 0.0));
    }

    #[test]
    fn a_run_with_an_event_or_a_jump_in_it_tells_no_rate() {
        let (times, acked) = (times(), (1..13).map(f64::from).collect::<Vec<_>>());
        let jumps = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
        let batches = Batches {
            times: &times,
            acked: &acked,
            jumps: &jumps,
        };
        let known = RoundTrips {
            times: &[],
            rtt_ns: &[],
        };
        let events = [Events::new(&[2_000_000], &[2_500_000])];
        // Of those that begin at 0 to 7 ms the first three meet the event, the last two the jump.
        assert_eq!(batches.runs(ASKED, &events, known).rates.len(), 3);
    }

    #[test]
    fn a_round_trip_that_grows_was_sent_faster_than_acknowledged() {
        let times: Vec<i64> = (0..12).map(|at| at * 1_000_000).collect();
        let acked: Vec<f64> = (1..13).map(f64::from).collect();
        let rtt_ns: Vec<i64> = (0..12).map(|at| 5_000_000 + at * 500_000).collect();
        let batches = Batches {
            times: &times,
            acked: &acked,
            jumps: &[0; 12],
        };
        let runs = batches.runs(
            ASKED,
            &[],
            RoundTrips {
                times: &times,
                rtt_ns: &rtt_ns,
            },
        );
        assert!(runs.slowed.iter().all(|&slowed| slowed));
        assert!(!runs.compressed.contains(&true));
        assert_eq!(
            (runs.delay_ns[1], runs.least_ns[1]),
            (2_500_000.0, 500_000.0)
        );
    }

    #[test]
    fn the_busiest_second_counts_no_largest_step() {
        let times: Vec<i64> = (0..30).map(|at| at * 100).collect();
        let una: Vec<i64> = (0..30)
            .map(|at| at * 10 + i64::from(at > 20) * 500)
            .collect();
        let none = Events::new(&[], &[]);
        assert_eq!(busiest(&times, &una, 1000, &none), Some(90));
        assert_eq!(busiest(&times, &una, 5000, &none), None);
        assert_eq!(
            busiest(&times, &una, 1000, &Events::new(&[0], &[9000])),
            None
        );
    }
}
