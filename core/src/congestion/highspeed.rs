//! HighSpeed TCP (RFC 3649): a(w) and b(w) by the window.

use std::sync::LazyLock;

use super::module::{Kernel, KernelWindow};
use super::{Ack, Loss, State, Values, Window};

/// Section 5: Low_Window, High_Window, High_Decrease.
const LOW_WINDOW: f64 = 38.0;
const HIGH_WINDOW: f64 = 83_000.0;
const HIGH_DECREASE: f64 = 0.1;
/// Where Linux's table ends.
const LAST: u64 = 90_000;

/// Windows up to which a(w) is the row's number, and b(w) there in 256ths.
struct Row {
    w: u64,
    b: u64,
}

/// Appendix B's table, by the program of appendix C: a row as soon as a(w) has grown by one since the last.
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let mut rows = vec![Row {
        w: LOW_WINDOW as u64,
        b: 128,
    }];
    let mut last = 1.0;
    for w in LOW_WINDOW as u64..LAST {
        let (a, b) = response(w as f64);
        if a > last + 1.0 {
            last = a;
            rows.push(Row {
                w,
                b: (256.0 * b) as u64,
            });
        }
    }
    rows
});

/// Section 5: b(w) falls with log w from 0.5 to 0.1; a(w) = w^2 p(w) 2 b(w) / (2 - b(w)) with p(w) = 0.078 / w^1.2.
fn response(w: f64) -> (f64, f64) {
    let share = (w / LOW_WINDOW).ln() / (HIGH_WINDOW / LOW_WINDOW).ln();
    let b = 0.5 + (HIGH_DECREASE - 0.5) * share;
    // Appendix C: 1 / 0.078 as 12.8.
    (w * w * 2.0 * b / ((2.0 - b) * w.powf(1.2) * 12.8), b)
}

#[derive(Clone, Debug)]
pub struct HighSpeed {
    packets: KernelWindow,
    /// Row of the window when it last grew: a loss is answered by it.
    row: usize,
}

impl HighSpeed {
    pub fn new(kernel: Kernel) -> Self {
        Self {
            packets: KernelWindow::new(kernel),
            row: 0,
        }
    }
}

impl Window for HighSpeed {
    fn is_slow_start(&self, state: &State) -> bool {
        self.packets.is_slow_start(state)
    }

    fn on_ack(&mut self, state: &mut State, _ack: &Ack) {
        let cwnd = KernelWindow::cwnd(state);
        self.row = ROWS.partition_point(|row| row.w < cwnd).min(ROWS.len() - 1);
        // Section 5: w + a(w) / w for each ACK, so that delayed ACKs slow it.
        self.packets.count += self.row as u64 + 1;
        if self.packets.count >= cwnd {
            self.packets.count -= cwnd;
            KernelWindow::set_cwnd(state, cwnd + 1);
        }
    }

    fn on_loss(&mut self, state: &mut State, _loss: &Loss) {
        self.packets.forget();
        let cwnd = KernelWindow::cwnd(state);
        KernelWindow::set_ssthresh(state, cwnd - ((cwnd * ROWS[self.row].b) >> 8));
    }

    fn min_cwnd(&self, state: &State) -> f64 {
        KernelWindow::half_of_ssthresh(state)
    }

    fn snapshot(&self, values: &mut Values) {
        values.push(("a", self.row as f64 + 1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::super::worked::{ssthresh_at, state, windows};
    use super::*;

    #[test]
    fn the_table_is_appendix_b_s() {
        for (a, w, b) in [
            (1, 38, 0.50),
            (2, 118, 0.44),
            (3, 221, 0.41),
            (4, 347, 0.38),
            (10, 1529, 0.31),
            (20, 5036, 0.25),
            (30, 10_661, 0.21),
            (50, 30_975, 0.15),
            (71, 84_035, 0.10),
            (72, 89_053, 0.10),
        ] {
            let row = &ROWS[a - 1];
            assert_eq!(row.w, w);
            assert!((row.b as f64 / 256.0 - b).abs() < 0.01, "{w}");
        }
        assert_eq!(ROWS.len(), 72);
    }

    #[test]
    fn a_small_window_is_reno_s() {
        let mut highspeed = HighSpeed::new(Kernel::V6);
        assert_eq!(windows(&mut highspeed, &mut state(20.0, 2.0), 20)[19], 21.0);
        assert_eq!(ssthresh_at(&mut highspeed, 30.0), 15.0);
    }

    #[test]
    fn a_window_of_200_grows_by_three_per_round_and_loses_two_fifths() {
        // Up to 221: a = 3, b = 104/256.
        let mut highspeed = HighSpeed::new(Kernel::V6);
        assert_eq!(
            windows(&mut highspeed, &mut state(200.0, 2.0), 204)[203],
            203.0
        );
        assert_eq!(ssthresh_at(&mut highspeed, 203.0), 203.0 - 82.0);
    }
}
