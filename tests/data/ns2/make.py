"""Our own runs of ns-2.35 as compact tables: what the simulator and the models are held to. Anyone can make them again.

    python tests/data/ns2/make.py            writes the tables here, and MANIFEST.json with their hashes
    python tests/data/ns2/make.py --check    runs ns again and compares (a minute or two)

`ns` is Debian's package ns2 (2.35). One connection over a chain of links, endless data from t = 0; chain.tcl has the
rules. Times are ns's, rounded by its traces to 1 us (events) or 10 us (windows); numbers of packets from 0.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

HERE = Path(__file__).parent
ENDLESS = 1_000_000
PLAIN = ("{}", "{}", "{}")
Row = tuple[object, ...]


@dataclass(frozen=True)
class Link:
    """Rate in bit/s, delay in s, ns's queue limit in packets there and back."""

    rate: float | str
    delay: float | str = 0
    limit: int = ENDLESS
    back_limit: int = ENDLESS

    def __str__(self) -> str:
        return f"{self.rate} {self.delay} {self.limit} {self.back_limit}"


@dataclass(frozen=True)
class Done:
    """A finished run: what it printed, and the words of each line of its traces."""

    sent: int
    resent: int
    timeouts: int
    acked: int
    events: list[list[str]]
    windows: list[tuple[float, str, float]]


def run(
    links: list[Link],
    seconds: float,
    *,
    kind: tuple[str, str, str] = PLAIN,
    events: Callable[[str], bool] | None = None,
    windows: bool = False,
    **settings: object,
) -> Done:
    """One run of ns; `kind`: agent, sink and Linux module as Tcl words; `events`: which lines of the packets' trace."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / name if wanted else Path("-") for name, wanted in (("e", events), ("w", windows))]
        words = [*places, seconds, " ".join(map(str, links)), " ".join(kind)]
        words.append(" ".join(f"{name} {value}" for name, value in settings.items()))
        command = ["ns", HERE / "chain.tcl", *words]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
        sent, resent, timeouts, acked = (int(float(word)) for word in _totals(done.stdout))
        chosen: list[list[str]] = []
        if events is not None:
            # A trace of every link is gigabytes: only the lines wanted are kept.
            with places[0].open() as trace:
                chosen = [line.split() for line in trace if events(line)]
        rows = [line.split() for line in places[1].read_text().splitlines()] if windows else []
    return Done(
        sent=sent,
        resent=resent,
        timeouts=timeouts,
        acked=acked,
        events=chosen,
        windows=[(float(row[0]), row[5], float(row[6])) for row in rows],
    )


def _every(_: str) -> bool:
    return True


def _drops(line: str) -> bool:
    return line.startswith("d ")


def _totals(printed: str) -> list[str]:
    """The words of the line of totals; Linux's modules print lines of their own."""
    return next(line.split()[1:] for line in printed.splitlines() if line.startswith("TOTAL "))


def sweep_path(limit: int) -> list[Link]:
    """Barakat & Altman 1998, section 8: mu tau = 205 packets of 512 bytes."""
    return [Link("10Mb"), Link("1.5Mb", "280ms", limit)]


def events_at(done: Done, bottleneck: int, last: int) -> Iterator[Row]:
    """What happens at the sender (S), at the queue before link `bottleneck` (R) and at the receiver (D)."""
    queue, end = (str(bottleneck), str(bottleneck + 1)), str(last)
    for sign, at, source, target, kind, size, *rest in done.events:
        number, link = rest[4], (source, target)
        names: list[tuple[str, str]] = []
        if kind != "ack":
            if sign == "+" and source == "0":
                names.append(("S", "send"))
            elif link == queue and sign in "+-d":
                names.append(("R", {"+": "arrive", "-": "start_tx", "d": "drop"}[sign]))
            elif sign == "r" and target == end:
                names.append(("D", "recv"))
        elif sign == "+" and source == end:
            names.append(("D", "send_ack"))
        elif sign == "r" and target == "0":
            names.append(("S", "recv_ack"))
        for place, event in names:
            yield at, place, event, number, size


def tahoe_events(limit: int) -> Iterator[Row]:
    """Packet events of a minute."""
    return events_at(run(sweep_path(limit), 60, events=_every, packetSize_=512), 1, 2)


@dataclass(frozen=True)
class Reduction:
    """A fall of the window: what ssthresh was set to, and how long congestion avoidance had lasted before."""

    time_s: float
    cause: str
    cwnd: float
    ssthresh: int
    avoidance_s: float
    acked: int


def reductions(done: Done) -> list[Reduction]:
    """From the traced variables: at a reduction ssthresh, cwnd and, after a timeout, nrexmit_ change at one time."""
    by_time: dict[float, dict[str, float]] = {}
    for time_s, name, value in done.windows:
        by_time.setdefault(time_s, {})[name] = value
    found: list[Reduction] = []
    cwnd, ssthresh, acked = 1.0, float("inf"), 0
    reached: float | None = None
    for time_s, values in by_time.items():
        acked = int(values.get("ack_", acked))
        new = values.get("cwnd_", cwnd)
        if time_s > 0 and new == 1 and (cwnd > 1 or values.get("nrexmit_", 0) > 0):
            ssthresh = values.get("ssthresh_", ssthresh)
            lasted = time_s - reached if reached is not None else 0.0
            cause = "timeout" if "nrexmit_" in values else "dupack"
            found.append(Reduction(time_s, cause, cwnd, int(ssthresh), lasted, acked))
            reached = None
        elif new >= ssthresh and reached is None:
            reached = time_s
        cwnd = new
    return found


# A cycle begins with a reduction after so long a congestion avoidance.
AVOIDANCE_S = 10.0


def cycles(done: Done) -> list[list[Reduction]]:
    """Reductions grouped: the first group is the start-up, the last is cut by the end."""
    groups: list[list[Reduction]] = [[]]
    for one in reductions(done):
        if one.avoidance_s >= AVOIDANCE_S:
            groups.append([])
        groups[-1].append(one)
    return groups


def of_cycles(done: Done) -> Row:
    """Slow starts in each whole cycle, their number, ssthresh of each, and new packets acknowledged per second."""
    groups = cycles(done)
    whole = groups[1:-1]
    starts = "/".join(str(count) for count in sorted({len(group) for group in whole}))
    levels = ";".join("/".join(str(one.ssthresh) for one in group) for group in whole)
    rate = ""
    if whole:
        first, last = groups[1][0], groups[-1][0]
        rate = f"{(last.acked - first.acked) / (last.time_s - first.time_s):.4f}"
    return starts, len(whole), levels, rate


SWEEP_S = 600
SWEEP = range(3, 71)


def tahoe_reductions() -> Iterator[Row]:
    """Every reduction of the sweep over B = 2 to 69."""
    for limit in SWEEP:
        for cycle, group in enumerate(cycles(_sweep(limit))):
            for number, one in enumerate(group, start=1):
                yield (
                    *("paper", limit, cycle, number, f"{one.time_s:.5f}", one.cause),
                    *(f"{one.cwnd:.3f}", one.ssthresh, f"{one.avoidance_s:.3f}"),
                )


def tahoe_sweep() -> Iterator[Row]:
    """A row for each buffer: slow starts of the whole cycles, totals."""
    for limit in SWEEP:
        done = _sweep(limit)
        yield (
            *("paper", limit, limit - 1, *of_cycles(done)),
            *(f"{done.acked / SWEEP_S:.4f}", done.timeouts, done.sent, done.resent),
        )


@cache
def _sweep(limit: int) -> Done:
    return run(sweep_path(limit), SWEEP_S, windows=True, packetSize_=512)


# RFC 2416's modem line: packets of 1000 bytes have the RFC's times.
RFC2416 = [
    *(
        (tcp, window, size, extra)
        for tcp in ("tahoe", "reno", "sack", "fack")
        for window in (1, 4)
        for size, extra in ((1000, ""), (1024, ""), (1000, "tick0.1"))
    ),
    *(("tahoe", window, 1000, extra) for window in (1, 4) for extra in ("delack0.1", "delack0.2")),
]
AGENTS = {
    "tahoe": ("{}", "{}", "{}"),
    "reno": ("/Reno", "{}", "{}"),
    "sack": ("/Sack1", "/Sack1", "{}"),
    "fack": ("/Fack", "/Sack1", "{}"),
}


def rfc2416_events() -> Iterator[Row]:
    """Sender, modem queue and receiver; packets from 1 as in the RFC; `note` tells what had been sent before."""
    links = [Link("100Mb", 0, 100, 100), Link("1.5Mb", "25ms", 100, 100), Link("9600b", "150ms", 3, 3)]
    for tcp, window, size, extra in RFC2416:
        agent, sink, control = AGENTS[tcp]
        settings: dict[str, object] = {"packetSize_": size, "windowInit_": window, "window_": 20}
        if extra.startswith("tick"):
            settings["tcpTick_"] = extra.removeprefix("tick")
        if extra.startswith("delack"):
            settings["delack"] = extra.removeprefix("delack")
            sink = f"{'' if sink == '{}' else sink}/DelAck"
        done = run(links, 60, kind=(agent, sink, control), events=_every, **settings)
        case = "_".join(part for part in (tcp, f"iw{window}", str(size), extra) if part)
        sent: set[str] = set()
        for at, place, event, number, bytes_ in events_at(done, 2, 3):
            kind = {("R", "drop"): "drop_at_R2", ("D", "recv"): "deliver"}.get((str(place), str(event)), str(event))
            if kind not in ("send", "recv_ack", "drop_at_R2", "deliver"):
                continue
            note = ""
            if kind == "send":
                note = "retransmission" if str(number) in sent else ""
                sent.add(str(number))
            yield case, f"{float(str(at)):.6f}", kind, int(str(number)) + 1, bytes_, note


# Blanc, Avrachenkov & Collange 2008, one for each case that gamma = 30 has: mu in Mbit/s, tau in ms, b, seconds.
COMPOUND = {
    "1": (100, 50, 10, 60),
    "2": (100, 50, 25, 60),
    "3_gamma30": (50, 20, 85, 60),
    "4": (100, 50, 80, 100),
    "5": (100, 50, 420, 100),
    "6": (100, 50, 500, 100),
}


@cache
def _compound(name: str) -> Done:
    return _compound_run(name, COMPOUND[name][3], _drops)


def _compound_run(name: str, seconds: float, events: Callable[[str], bool]) -> Done:
    """Compound as ns-2's Linux agent has it, over one bottleneck of b packets, the one in service counted."""
    mbps, tau_ms, b, _ = COMPOUND[name]
    links = [Link("10Gb"), Link(f"{mbps}Mb", f"{tau_ms / 2}ms", b)]
    kind = ("/Linux", "/Sack1", "compound")
    return run(links, seconds, kind=kind, events=events, windows=True, packetSize_=1500, windowInit_=2)


def compound_networks() -> Iterator[Row]:
    """The networks, and what each run lost."""
    for name, (mbps, tau_ms, b, seconds) in COMPOUND.items():
        done = _compound(name)
        yield name, mbps, tau_ms, b, seconds, sum(line[0] == "d" for line in done.events), done.timeouts


def compound_case_drops() -> Iterator[Row]:
    """Every packet dropped at the bottleneck."""
    for name in COMPOUND:
        yield from ((name, line[1], line[10]) for line in _compound(name).events if line[0] == "d")


def compound_cwnd(name: str) -> Iterator[Row]:
    """The window, delay window included, at each change."""
    last = None
    for time_s, variable, value in _compound(name).windows:
        if variable == "cwnd_" and value != last:
            yield f"{time_s:.5f}", f"{value:g}"
            last = value


def compound_case4_events() -> Iterator[Row]:
    """The start and its losses, packet by packet."""
    return events_at(_compound_run("4", 2.2, _every), 1, 2)


def _nodes(upstream: list[tuple[float, int]], limit: int, one_way_ms: float, tick_s: float) -> Done:
    links = [Link("10Mb"), *(Link(f"{rate:.6f}", 0, queue) for rate, queue in upstream)]
    links.append(Link("1.5Mb", f"{one_way_ms}ms", limit))
    return run(links, SWEEP_S, events=_drops, windows=True, packetSize_=512, tcpTick_=tick_s)


def _of_nodes(done: Done) -> Row:
    """Mbit/s of the whole run and of 500 s, cycles, the node that lost the first packet, timeouts."""
    until = max((value for at, name, value in done.windows if name == "ack_" and at <= 500), default=0)
    first = next((line[2] for line in done.events if line[0] == "d"), "")
    starts, count, every, rate = of_cycles(done)
    levels = ";".join(sorted(set(str(every).split(";"))))
    whole, part = (acked * 4096 / seconds / 1e6 for acked, seconds in ((done.acked, SWEEP_S), (until, 500)))
    return f"{whole:.6f}", f"{part:.6f}", starts, count, levels, rate, first, done.timeouts


# Figure 7's abscissa.
SHARES = [1 + 0.05 * step for step in range(21)]


def multinode_fig7() -> Iterator[Row]:
    """Barakat & Altman 2000, Figure 7: a node of mu' and B' before one of 1.5 Mbit/s and B = 50."""
    for before in (20, 45, 80):
        for share in SHARES:
            done = _nodes([(1.5e6 * share, before + 1)], 51, 280, 0.1)
            yield "fig7", 0.1, 50, before, f"{share:.4f}", *_of_nodes(done)


def multinode_fig4() -> Iterator[Row]:
    """Figure 4: n nodes of falling rates before the last, B = 20, B_i = 17; propagation 560 ms."""
    for n in range(11):
        rates = [2 * 1.5e6 - i * 1.5e6 / (n + 1) for i in range(1, n + 1)]
        done = _nodes([(rate, 18) for rate in rates], 21, 280, 0.1)
        buffers = "/".join(["17"] * n)
        yield "fig4", 0.1, "prop", "multi" if n else "single", n, 20, buffers, *_of_nodes(done)


EVENTS = ("t_s", "node", "event", "seq", "size_bytes")
CYCLES = ("slow_starts_per_cycle", "n_full_cycles", "ssthresh_full_cycles_pkts", "throughput_full_cycles_pkt_per_s")
NODES = (
    *("throughput_whole_run_Mbps", "throughput_0_500s_Mbps", *CYCLES[:2], "ssthresh_sequences_pkts", CYCLES[3]),
    *("first_drop_of_run_node", "timeouts"),
)
TABLES: dict[str, tuple[tuple[str, ...], Callable[[], Iterator[Row]]]] = {
    **{f"tahoe_events_paper_q{limit}": (EVENTS, partial(tahoe_events, limit)) for limit in (6, 20, 21, 23)},
    "tahoe_reductions": (
        (
            *("config", "q_ns_limit_pkts", "cycle", "reduction_in_cycle", "t_s", "cause", "cwnd_before_pkts"),
            *("ssthresh_after_pkts", "ca_time_before_s"),
        ),
        tahoe_reductions,
    ),
    "tahoe_sweep": (
        (
            *("config", "q_ns_limit_pkts", "B_pkts", *CYCLES, "throughput_whole_run_pkt_per_s", "timeouts"),
            *("packets_sent", "retransmissions"),
        ),
        tahoe_sweep,
    ),
    "rfc2416_events": (("case", "t_s", "event", "packet_number_from_1", "size_bytes", "note"), rfc2416_events),
    "compound_networks": (("case", "mu_Mbps", "tau_ms", "b_pkts", "T_s", "drops", "timeouts"), compound_networks),
    "compound_case_drops": (("case", "t_s", "seq"), compound_case_drops),
    **{f"compound_case{name}_cwnd": (("t_s", "cwnd_pkts"), partial(compound_cwnd, name)) for name in COMPOUND},
    "compound_case4_events": (EVENTS, compound_case4_events),
    "multinode_fig4": (
        ("figure", "tcpTick_s", "delay_variant", "model", "n_upstream", "B_pkts", "upstream_buffers_used_pkts", *NODES),
        multinode_fig4,
    ),
    "multinode_fig7": (("figure", "tcpTick_s", "B_pkts", "Bprime_pkts", "mu_prime_over_mu", *NODES), multinode_fig7),
}


def table(name: str) -> bytes:
    """A table as CSV."""
    header, rows = TABLES[name]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows())
    return text.getvalue().encode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the tables that are here")
    parser.add_argument("names", nargs="*", help="only these tables")
    arguments = parser.parse_args()
    manifest_path = HERE / "MANIFEST.json"
    manifest = json.loads(manifest_path.read_text()) if manifest_path.exists() else {"tables": {}}
    different = []
    for name in arguments.names or TABLES:
        content = table(name)
        digest = hashlib.sha256(content).hexdigest()
        if arguments.check:
            if manifest["tables"].get(name) != digest:
                different.append(name)
            continue
        with open(HERE / f"{name}.csv.gz", "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
            packed.write(content)
        manifest["tables"][name] = digest
    if arguments.check:
        print(f"different: {', '.join(different)}" if different else "all the same")
        return 1 if different else 0
    manifest["ns"] = "2.35 (Debian ns2 2.35+dfsg)"
    manifest["tables"] = dict(sorted(manifest["tables"].items()))
    manifest_path.write_text(json.dumps(manifest, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
