//! When an application writes, and how much.

use super::spec::Application;

/// Writes in order of time; `None` bytes: everything there will ever be.
#[derive(Clone, Debug)]
pub struct Writes {
    application: Application,
    start_ns: i64,
    done: u64,
}

impl Writes {
    pub fn new(application: &Application, start_ns: i64) -> Self {
        Self {
            application: application.clone(),
            start_ns,
            done: 0,
        }
    }

    /// Time of the next write.
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
        };
        offset.map(|offset| self.start_ns + offset)
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_off_writes_at_its_period_until_its_repeats_are_done() {
        let mut writes = Writes::new(
            &Application::OnOff {
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
}
