//! The table of controls: every slow start and window by name, with parameters, profiles, source and constructor.
//!
//! Whoever offers a choice of controls derives it from here: the scenario reader, the command line's help, Python's
//! lists, the identification, the property tests, docs/controls.md. To add one: its file, and a row.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::parameters::{
    BBR_SEED, BYTE_COUNTING, ControlParameter, DWND_BY_CWND, FAST_CONVERGENCE, GAMMA,
    HTCP_FROM_RECOVERY, KERNEL_HYSTART, KERNEL_HZ, MAX_SSTHRESH, MODULE_HZ, NS2, Parameters, RFC,
    ZERO_STEP,
};
use super::row::{
    Counting, SACK, STANDARD, Setting, SlowStartRow, TIMESTAMPS, WindowRow, by_delay, by_delays,
    by_last_loss, linux, ours,
};
use super::{
    Bbr, Bic, Clock, Compound, CompoundDraft, CompoundPackets, Control, Cubic, Cubic26, CubicLinux,
    HighSpeed, Htcp, Hybla, HystartPlusPlus, Illinois, Kernel, LimitedSlowStart, Lp, MStart, Pair,
    Reno, RenoLinux, Scalable, Standard, Vegas, Veno, Westwood, Window, Yeah,
};

use Setting::{Flag, Text};

pub static SLOW_STARTS: &[SlowStartRow] = &[
    SlowStartRow {
        name: STANDARD,
        source: "RFC 5681 section 3.1",
        parameters: &[BYTE_COUNTING],
        build: |p| Box::new(standard(p)),
    },
    SlowStartRow {
        name: "limited",
        source: "RFC 3742",
        parameters: &[MAX_SSTHRESH],
        build: |p| {
            Box::new(LimitedSlowStart {
                max_ssthresh: p.value(&MAX_SSTHRESH),
            })
        },
    },
    SlowStartRow {
        name: "hystart",
        source: "RFC 9406",
        parameters: &[BYTE_COUNTING],
        build: |p| Box::new(HystartPlusPlus::new(standard(p))),
    },
    SlowStartRow {
        name: "m-start",
        source: "Patel & Ganatra 2017, equation (3)",
        parameters: &[ZERO_STEP],
        build: |p| Box::new(MStart::new(p.is_set(&ZERO_STEP))),
    },
];

pub static WINDOWS: &[WindowRow] = &[
    WindowRow {
        parameters: &[BYTE_COUNTING],
        sender: &[("recovery", Text("reno"))],
        ..ours(
            "reno",
            "Reno",
            "RFC 5681 section 3.1",
            |slow_start, p, _| over(slow_start, p, Reno::new(p.is_set(&BYTE_COUNTING))),
        )
    },
    WindowRow {
        parameters: &[FAST_CONVERGENCE],
        sender: &[SACK],
        ..by_last_loss(ours("cubic", "CUBIC", "RFC 9438", |slow_start, p, _| {
            over(slow_start, p, Cubic::new(p.is_set(&FAST_CONVERGENCE)))
        }))
    },
    WindowRow {
        family: "cubic",
        parameters: &[KERNEL_HZ, KERNEL_HYSTART],
        ..by_last_loss(linux(
            "cubic-linux",
            "CUBIC",
            "Linux 6.18 tcp_cubic.c; in profile ns2 Linux 2.6.22's, as ns-2.35 runs it",
            |slow_start, p, counting| match counting.kernel() {
                Kernel::V2_6 => over(slow_start, p, Cubic26::new()),
                Kernel::V6 => module(slow_start, p, counting, |_| {
                    CubicLinux::new(p.value(&KERNEL_HZ) as u64, p.is_set(&KERNEL_HYSTART))
                }),
            },
        ))
    },
    WindowRow {
        parameters: &[GAMMA, BYTE_COUNTING],
        keeps_to_its_slow_start: true,
        ..by_delay(linux(
            "compound",
            "Compound",
            "the Linux module of Blanc, Avrachenkov & Collange 2008, as in ns-2.35",
            |slow_start, p, _| {
                let window = Compound::new(p.value(&GAMMA))
                    .with_own_slow_start(slow_start.is_standard())
                    .with_byte_counting(p.is_set(&BYTE_COUNTING));
                over(slow_start, p, window)
            },
        ))
    },
    WindowRow {
        family: "compound",
        parameters: &[GAMMA],
        ..by_delay(ours(
            "compound-draft",
            "Compound",
            "draft-sridharan-tcpm-ctcp-02",
            |slow_start, p, _| over(slow_start, p, CompoundDraft::new(p.value(&GAMMA))),
        ))
    },
    WindowRow {
        family: "reno",
        ..linux(
            "reno-linux",
            "Reno",
            "Linux's own Reno: 2.6.22's as in ns-2.35, Linux 6's",
            |slow_start, p, counting| module(slow_start, p, counting, RenoLinux::new),
        )
    },
    WindowRow {
        parameters: &[MODULE_HZ],
        ..by_delay(linux(
            "westwood",
            "Westwood",
            "Grieco and Mascolo, ACM CCR 34(2), 2004 (Westwood+)",
            |slow_start, p, counting| {
                module(slow_start, p, counting, |kernel| {
                    let clock = Clock::of(kernel, p.value(&MODULE_HZ) as u64);
                    Westwood::new(kernel, clock, counting.segment_bytes)
                })
            },
        ))
    },
    by_delay(linux(
        "vegas",
        "Vegas",
        "Brakmo and Peterson, IEEE JSAC 13(8), 1995",
        |slow_start, p, counting| module(slow_start, p, counting, Vegas::new),
    )),
    WindowRow {
        parameters: &[HTCP_FROM_RECOVERY, MODULE_HZ],
        ..by_delays(linux(
            "htcp",
            "H-TCP",
            "draft-leith-tcp-htcp-06",
            |slow_start, p, counting| {
                module(slow_start, p, counting, |kernel| {
                    Htcp::new(
                        kernel,
                        Clock::of(kernel, p.value(&MODULE_HZ) as u64),
                        kernel == Kernel::V2_6 || p.is_set(&HTCP_FROM_RECOVERY),
                    )
                })
            },
        ))
    },
    by_delays(linux(
        "illinois",
        "Illinois",
        "Liu, Basar and Srikant, Performance Evaluation 65(6-7), 2008",
        |slow_start, p, counting| module(slow_start, p, counting, Illinois::new),
    )),
    linux(
        "highspeed",
        "HighSpeed",
        "RFC 3649",
        |slow_start, p, counting| module(slow_start, p, counting, HighSpeed::new),
    ),
    linux(
        "scalable",
        "Scalable",
        "Kelly, ACM CCR 33(2), 2003",
        |slow_start, p, counting| module(slow_start, p, counting, Scalable::new),
    ),
    by_delay(linux(
        "veno",
        "Veno",
        "Fu and Liew, IEEE JSAC 21(2), 2003",
        |slow_start, p, counting| module(slow_start, p, counting, Veno::new),
    )),
    by_last_loss(linux(
        "bic",
        "BIC",
        "Xu, Harfoush and Rhee, INFOCOM 2004",
        |slow_start, p, counting| module(slow_start, p, counting, Bic::new),
    )),
    WindowRow {
        keeps_to_its_slow_start: true,
        ..by_delay(linux(
            "hybla",
            "Hybla",
            "Caini and Firrincieli, Int. J. Satellite Communications 22(5), 2004",
            |slow_start, p, counting| {
                module(slow_start, p, counting, |kernel| {
                    Hybla::new(kernel, slow_start.is_standard())
                })
            },
        ))
    },
    by_delay(linux(
        "yeah",
        "YeAH",
        "Baiocchi, Castellani and Vacirca, PFLDnet 2007",
        |slow_start, p, counting| module(slow_start, p, counting, Yeah::new),
    )),
    WindowRow {
        profiles: NS2,
        ..by_delay(linux(
            "lp",
            "TCP-LP",
            "Kuzmanovic and Knightly, INFOCOM 2003, as in ns-2.35",
            |slow_start, p, counting| module(slow_start, p, counting, Lp::new),
        ))
    },
    WindowRow {
        family: "compound",
        parameters: &[GAMMA, DWND_BY_CWND],
        profiles: RFC,
        ..by_delay(ours(
            "compound-packets",
            "Compound",
            "draft-sridharan-tcpm-ctcp-02 in whole packets, as a kernel module counts",
            |slow_start, p, _| {
                let window = CompoundPackets::new(p.value(&GAMMA))
                    .with_dwnd_by_cwnd(p.is_set(&DWND_BY_CWND));
                over(slow_start, p, window)
            },
        ))
    },
    WindowRow {
        parameters: &[BBR_SEED],
        profiles: RFC,
        has_slow_start: true,
        sender: &[SACK, TIMESTAMPS, ("rack", Flag(true))],
        ..linux(
            "bbr",
            "BBR",
            "draft-cardwell-iccrg-bbr-congestion-control-00, Linux 6.x tcp_bbr.c",
            |_, p, _| Box::new(Bbr::new(p.value(&BBR_SEED) as u64)),
        )
    },
];

/// Every parameter, one that several rows have as often as they are.
pub fn parameters() -> impl Iterator<Item = &'static ControlParameter> {
    let slow_starts = SLOW_STARTS.iter().flat_map(|row| row.parameters);
    slow_starts.chain(WINDOWS.iter().flat_map(|row| row.parameters))
}

impl Serialize for Parameters {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for (name, value) in self.iter() {
            let is_flag = parameters().any(|known| known.name == name && known.is_flag());
            if is_flag {
                map.serialize_entry(name, &(value != 0.0))?;
            } else {
                map.serialize_entry(name, &value)?;
            }
        }
        map.end()
    }
}

pub fn slow_start(name: &str) -> Option<&'static SlowStartRow> {
    SLOW_STARTS.iter().find(|row| row.name == name)
}

pub fn window(name: &str) -> Option<&'static WindowRow> {
    WINDOWS.iter().find(|row| row.name == name)
}

fn standard(parameters: &Parameters) -> Standard {
    Standard {
        byte_counting: parameters.is_set(&BYTE_COUNTING),
    }
}

/// A window under a slow start. The usual one is compiled into the window's own type: an ACK costs one call that is not
/// known beforehand.
fn over(
    slow_start: &SlowStartRow,
    parameters: &Parameters,
    window: impl Window + Clone + 'static,
) -> Box<dyn Control> {
    if slow_start.is_standard() {
        let slow_start = standard(parameters);
        return Box::new(Pair { slow_start, window });
    }
    let slow_start = (slow_start.build)(parameters);
    Box::new(Pair { slow_start, window })
}

/// A module of Linux's, in the integers of the run's kernel. Linux 6's slow start counts what is acknowledged.
fn module<W: Window + Clone + 'static>(
    slow_start: &SlowStartRow,
    parameters: &Parameters,
    counting: Counting,
    window: impl Fn(Kernel) -> W,
) -> Box<dyn Control> {
    let kernel = counting.kernel();
    let counts_bytes = f64::from(u8::from(kernel == Kernel::V6));
    let parameters = parameters.clone().with(BYTE_COUNTING.name, counts_bytes);
    over(slow_start, &parameters, window(kernel))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::parameters::Profile;
    use super::*;

    #[test]
    fn a_parameter_is_the_same_wherever_it_stands() {
        let rows = WINDOWS.iter().map(|row| row.parameters);
        let all = rows.chain(SLOW_STARTS.iter().map(|row| row.parameters));
        let mut known: BTreeMap<&str, &ControlParameter> = BTreeMap::new();
        for parameter in all.flatten() {
            let (low, high) = parameter.range;
            assert!((low..=high).contains(&parameter.default), "{parameter:?}");
            let before = known.insert(parameter.name, parameter);
            assert!(before.is_none_or(|before| format!("{before:?}") == format!("{parameter:?}")));
        }
    }

    #[test]
    fn every_control_forks_and_the_fork_goes_its_own_way() {
        for (window, slow_start) in WINDOWS.iter().flat_map(|window| {
            let asked = SLOW_STARTS.iter().filter(|row| window.takes(row));
            asked.map(move |slow_start| (window, slow_start))
        }) {
            let mut state = super::super::State {
                cwnd: 10.0,
                ssthresh: 8.0,
                smss: 1.0,
            };
            let counting = Counting {
                profile: Profile::Rfc,
                segment_bytes: 1,
            };
            let mut control = window.under(slow_start, &Parameters::default(), counting);
            control.start(&mut state, 0);
            let before = format!("{control:?}");
            let names = |control: &dyn Control| -> Vec<&str> {
                control.values().iter().map(|(name, _)| *name).collect()
            };
            let mut fork = control.clone();
            let loss = super::super::Loss {
                now_ns: 1_000_000_000,
                flight_size: 10.0,
                snd_nxt: 10,
            };
            fork.on_loss(&mut state, &loss);
            assert_eq!(format!("{control:?}"), before);
            // A column of the truth file has one meaning from the first row to the last.
            assert_eq!(names(&*fork), names(&*control));
        }
    }
}
