//! A clock that stands still while the machine does.
//!
//! A virtual machine is stopped by its host for tens of milliseconds now and then. Packets released together after such
//! a stop would overflow a small buffer that no real path would overflow; so the path's time stops as well, the
//! spacing of the packets is kept, and the end points see one longer round trip. Each stop is listed.

/// Woken later than this after the time asked for, the machine has stood still.
pub const LATE_NS: i64 = 1_000_000;

/// One stop of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// Virtual time at which the clock stood.
    pub virtual_ns: i64,
    /// Real time at which it was noticed, that is, at its end.
    pub noticed_ns: i64,
    pub length_ns: i64,
}

/// Real time minus all freezes so far.
#[derive(Debug, Default)]
pub struct VirtualClock {
    frozen_ns: i64,
    freezes: Vec<Freeze>,
}

impl VirtualClock {
    /// The virtual time at the real time `real_ns`, when the next event was due (in virtual time) at `due_ns`.
    pub fn wake(&mut self, real_ns: i64, due_ns: Option<i64>) -> i64 {
        let now = real_ns - self.frozen_ns;
        let late = due_ns.map_or(0, |due| now - due);
        if late <= LATE_NS {
            return now;
        }
        self.frozen_ns += late;
        self.freezes.push(Freeze {
            virtual_ns: now - late,
            noticed_ns: real_ns,
            length_ns: late,
        });
        now - late
    }

    /// The real time of a virtual time that has not been yet.
    pub fn to_real(&self, virtual_ns: i64) -> i64 {
        virtual_ns + self.frozen_ns
    }

    /// The real time of a virtual time that has been: later freezes did not move it.
    pub fn to_real_past(&self, virtual_ns: i64) -> i64 {
        let earlier = self
            .freezes
            .iter()
            .take_while(|freeze| freeze.virtual_ns <= virtual_ns);
        virtual_ns + earlier.map(|freeze| freeze.length_ns).sum::<i64>()
    }

    pub fn freezes(&self) -> &[Freeze] {
        &self.freezes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_wake_up_stops_the_clock_at_the_event_that_was_due() {
        let mut clock = VirtualClock::default();
        assert_eq!(clock.wake(5_000_000, Some(4_990_000)), 5_000_000);
        // 52 ms late: the event happens at its own time, and all later times move by 52 ms.
        assert_eq!(clock.wake(60_000_000, Some(8_000_000)), 8_000_000);
        assert_eq!(clock.wake(60_000_100, Some(70_000_000)), 8_000_100);
        assert_eq!(clock.to_real(8_000_100), 60_000_100);
        assert_eq!(
            clock.freezes(),
            [Freeze {
                virtual_ns: 8_000_000,
                noticed_ns: 60_000_000,
                length_ns: 52_000_000
            }]
        );
    }

    #[test]
    fn a_time_before_a_freeze_keeps_its_place_on_the_wall() {
        let mut clock = VirtualClock::default();
        clock.wake(12_000_000, Some(10_000_000));
        clock.wake(27_000_000, Some(20_000_000));
        let real = [9, 10, 19, 20].map(|ms| clock.to_real_past(ms * 1_000_000) / 1_000_000);
        assert_eq!(real, [9, 12, 21, 27]);
    }

    #[test]
    fn nothing_due_is_never_late() {
        let mut clock = VirtualClock::default();
        assert_eq!(clock.wake(1_000_000_000, None), 1_000_000_000);
        assert!(clock.freezes().is_empty());
    }
}
