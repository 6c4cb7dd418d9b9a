//! When an application writes, and how much.

use crate::scenario::{Application, ApplicationSpec};

/// Writes in order of time; `None` bytes: everything there will ever be.
#[derive(Clone, Debug)]
pub struct Writes {
    application: Application,
    start_ns: i64,
    done: u64,
    /// Of the next turn, once what it waits for is known.
    turn_ns: Option<i64>,
}

impl Writes {
    pub fn new(application: &ApplicationSpec, start_ns: i64) -> Self {
        Self::of(application.into(), start_ns)
    }

    fn of(application: Application, start_ns: i64) -> Self {
        let turn_ns = match &application {
            Application::Turns { turns } => turns.first().map(|&(wait_ns, _)| start_ns + wait_ns),
            _ => None,
        };
        Self {
            application,
            start_ns,
            done: 0,
            turn_ns,
        }
    }

    /// Time of the next write, as far as it is known.
    pub fn next(&self) -> Option<i64> {
        let is_first = self.done == 0;
        let offset = match &self.application {
            Application::Bulk | Application::Bytes { .. } => is_first.then_some(0),
            Application::OnOff {
                off_ns, repeats, ..
            } => repeats
                .is_none_or(|repeats| self.done < repeats)
                .then(|| self.done as i64 * off_ns),
            Application::Schedule { writes } => {
                writes.get(self.done as usize).map(|&(time_ns, _)| time_ns)
            }
            Application::Turns { .. } => return self.turn_ns,
        };
        offset.map(|offset| self.start_ns + offset)
    }

    /// Everything written has been acknowledged: from now on the next turn waits. Returns its time if there is one.
    pub fn on_all_acked(&mut self, now_ns: i64) -> Option<i64> {
        let Application::Turns { turns } = &self.application else {
            return None;
        };
        if self.turn_ns.is_none() {
            let next = turns.get(self.done as usize)?;
            self.turn_ns = Some(now_ns.saturating_add(next.0));
            return self.turn_ns;
        }
        None
    }

    /// No write comes any more.
    pub fn is_over(&self) -> bool {
        match &self.application {
            Application::Turns { turns } => self.done as usize >= turns.len(),
            _ => self.next().is_none(),
        }
    }

    /// Takes the next write: its bytes, or `None` for a bulk transfer.
    pub fn take(&mut self) -> Option<u64> {
        let number = self.done as usize;
        self.done += 1;
        match &self.application {
            Application::Bulk => None,
            Application::Bytes { bytes } => Some(*bytes),
            Application::OnOff { on_bytes, .. } => Some(*on_bytes),
            Application::Schedule { writes } => writes.get(number).map(|&(_, bytes)| bytes),
            Application::Turns { turns } => {
                self.turn_ns = None;
                turns.get(number).map(|&(_, bytes)| bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_off_writes_at_its_period_until_its_repeats_are_done() {
        let mut writes = Writes::of(
            Application::OnOff {
                on_bytes: 10,
                off_ns: 5,
                repeats: Some(2),
            },
            100,
        );
        assert_eq!((writes.next(), writes.take()), (Some(100), Some(10)));
        assert_eq!((writes.next(), writes.take()), (Some(105), Some(10)));
        assert_eq!(writes.next(), None);
    }

    #[test]
    fn a_turn_comes_its_wait_after_everything_before_was_acknowledged() {
        let turns = Application::Turns {
            turns: vec![(5, 10), (7, 20)],
        };
        let mut writes = Writes::of(turns, 100);
        assert_eq!((writes.next(), writes.take()), (Some(105), Some(10)));
        assert_eq!((writes.next(), writes.is_over()), (None, false));
        assert_eq!(writes.on_all_acked(200), Some(207));
        // A second ACK of the same data changes nothing.
        assert_eq!(writes.on_all_acked(203), None);
        assert_eq!((writes.next(), writes.take()), (Some(207), Some(20)));
        assert!(writes.is_over());
        assert_eq!(writes.on_all_acked(300), None);
    }
}
