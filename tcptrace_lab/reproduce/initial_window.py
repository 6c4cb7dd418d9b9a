"""RFC 2416: the printed times, the conclusions, and other starts into other buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tcptrace_lab.models import initial_window as model
from tcptrace_lab.models.initial_window_start import StartTimeline, timeline
from tcptrace_lab.models.initial_window_transfer import RECOVERIES, Transfer, transfer
from tcptrace_lab.reproduce.paper import Figure, Reproduction, Row, Sources, Table, compared
from tcptrace_lab.scenario import Scenario
from tcptrace_lab.scenario_file import parse

if TYPE_CHECKING:
    import matplotlib.figure

SCENARIO: dict[str, Any] = {
    "title": "RFC 2416",
    "profile": "ns2",
    "duration_s": 60,
    "taps": ["sender"],
    "path": {
        "packet_bytes": 1000,
        "access_rate_bps": 100e6,
        "nodes": [
            {"rate_bps": 1.5e6, "buffer": 100, "counts_in_service": True, "delay_s": 0.025},
            {"rate_bps": 9600, "buffer": 3, "counts_in_service": True, "delay_s": 0.15},
        ],
        "reverse": [{"rate_bps": 9600, "delay_s": 0.15}, {"rate_bps": 1.5e6, "delay_s": 0.025}, {"rate_bps": 100e6}],
    },
    "control": {"name": "tahoe", "rto": {"initial_s": 3, "granularity_s": 0.01}},
}

# The two traces: initial window, printed time, packet number of the ACK.
PRINTED: tuple[tuple[int, float, int], ...] = (
    *((1, at, n) for at, n in ((1.222, 1), (2.444, 2), (3.278, 3), (4.111, 4), (4.944, 5), (5.778, 6))),
    *((1, at, 6) for at in (6.111, 7.444, 8.278)),
    *((4, at, n) for at, n in ((1.222, 1), (2.055, 2), (2.889, 3), (3.722, 3), (4.555, 3), (5.389, 3))),
)
# Rounding to the printed digit, and the 0.2 ms that ns-1.2a2 did not take for an ACK on the 1.5 Mb/s link, thrice.
TOLERANCE_S = 7e-4


def reproduce(sources: Sources) -> Reproduction:
    """The RFC's two traces and what it concludes from them."""
    times, conclusions = _times(sources), _conclusions()
    return Reproduction(
        paper="001",
        title="RFC 2416, When TCP starts up with four packets into only three buffers",
        tables=(times, conclusions, _transfers(sources), _others("first_lost"), _others("retransmitted")),
        printed=(
            *compared(times, where="start", what="event", ours="model"),
            *compared(conclusions, ours="model"),
        ),
        figures=(
            Figure(name="starts", title="RFC 2416: one-packet and four-packet starts", draw=_draw, size=(8.0, 6.0)),
            Figure(
                name="shift",
                title="RFC 2416 continued: how much later the one-packet start has N than the other N - 3",
                draw=_draw_shift,
            ),
        ),
        notes=(
            "Times are those of 1000-byte packets; the RFC says 1024. 6.111 is a misprint for 6.611, 2.66 for 2.56.",
        ),
    )


def scenario(packets: int, *, packet_bytes: int = 1000, buffers: int = 3) -> Scenario:
    """The RFC's network with another start, packet size or number of buffers."""
    overrides = (
        f"control.initial_window={packets}",
        f"path.packet_bytes={packet_bytes}",
        f"path.nodes.1.buffer={buffers}",
    )
    return parse(SCENARIO, overrides=overrides)


def start(packets: int, *, packet_bytes: int = 1000, buffers: int = 3) -> StartTimeline:
    """The model of that start."""
    chain = model.reduce_chain(scenario(packets, packet_bytes=packet_bytes, buffers=buffers).path)
    return timeline(initial_window=packets, **chain)


def ack_times(run: StartTimeline) -> list[float]:
    """When ACKs come, up to the third duplicate."""
    at = np.sort(run.ack_at[~np.isnan(run.ack_at)])
    return [float(value) for value in at if value <= run.retransmitted]


def _times(sources: Sources) -> Table:
    rows: list[Row] = []
    for packets in (1, 4):
        printed = [(at, number) for start_of, at, number in PRINTED if start_of == packets]
        ours, wide = ack_times(start(packets)), ack_times(start(packets, packet_bytes=1024))
        ns2 = [
            float(row["t_s"])
            for row in sources.rows("rfc2416_events.csv", case=f"tahoe_iw{packets}_1000", event="recv_ack")
        ]
        simulated = _simulated(sources, packets)
        seen: set[int] = set()
        for i, (at, number) in enumerate(printed):
            agrees = abs(at - ours[i]) < TOLERANCE_S
            rows.append(
                (
                    packets,
                    f"{'duplicate ' if number in seen else ''}ACK {number}",
                    f"{at:.3f}",
                    f"{ours[i]:.6f}",
                    f"{ns2[i]:.6f}" if ns2 else None,
                    f"{simulated[i]:.6f}" if simulated else None,
                    f"{wide[i]:.6f}",
                    agrees,
                    "" if agrees else f"misprint: an ACK before + 0.833 is {ours[i]:.3f}",
                )
            )
            seen.add(number)
    return Table(
        name="times",
        title="When ACKs come to the sender, s",
        columns=("start", "event", "printed", "model", "ns-2", "simulator", "model, 1024 B", "agrees", "remark"),
        rows=tuple(rows),
        notes=(f"agrees: within {TOLERANCE_S * 1e3:g} ms of the printed time.",),
    )


def _simulated(sources: Sources, packets: int) -> list[float]:
    """Times at which the simulator's sender gets ACKs; none where it is not to run."""
    run = sources.run(SCENARIO, f"control.initial_window={packets}")
    if run is None:
        return []
    rows = run.packets(tap="sender")
    return [float(at) / 1e9 for at in rows["time_ns"][~rows["is_from_sender"]]]


def _conclusions() -> Table:
    runs = {packets: start(packets) for packets in (1, 4)}
    chain = model.reduce_chain(scenario(4).path)
    seconds, packets, ahead = (float(value) for value in model.shift(initial_window=4, ack_timer=0.0, **chain))
    wide = 3 * 8 * 1024 / 9600
    lost = {k: ", ".join(str(n + 1) for n in np.flatnonzero(run.is_lost)) for k, run in runs.items()}
    rows: list[Row] = [
        ("first lost, one-packet start", 7, int(runs[1].first_lost), int(runs[1].first_lost) == 7, f"all: {lost[1]}"),
        ("first lost, four-packet start", 4, int(runs[4].first_lost), int(runs[4].first_lost) == 4, f"all: {lost[4]}"),
        ("shift in packets", 3, int(packets), int(packets) == 3, ""),
        ("shift in time, s", 2.889, round(seconds, 3), abs(seconds - 2.889) < TOLERANCE_S, "8.278 - 5.389"),
        (
            "three 1024-byte packets at 9600 b/s, s",
            2.66,
            wide,
            abs(wide - 2.66) < 5e-3,
            "misprint: 3 x 8192 / 9600 is 2.56",
        ),
        (
            "four-packet start ahead by, s",
            0.229,
            round(ahead, 3),
            abs(ahead - 0.229) < 1e-3,
            f"2.889 - 2.66; with 2.56 s {2.889 - wide:.3f}, with the 1000 B used {ahead:.3f}",
        ),
        (
            "... as a share of a packet's time",
            "about one fifth",
            round(ahead * 9600 / 8000, 3),
            abs(ahead * 9600 / 8000 - 0.2) < 0.05,
            f"0.229 s is {0.229 * 9600 / 8192:.2f} of a 1024-byte packet",
        ),
    ]
    return Table(
        name="conclusions",
        title="The RFC's discussion",
        columns=("what", "printed", "model", "agrees", "remark"),
        rows=tuple(rows),
    )


# Packets whose arrival is compared, and how long the transfers are followed.
COMPARED = (7, 10, 13, 20, 30, 40, 60, 100)
TRANSFER_S = 120


def _shifts(recovery: str) -> tuple[Transfer, Transfer, list[float]]:
    """Both starts, and how much later the one-packet start has N complete than the other N - 3, for N = 4, 5, ..."""
    path = scenario(1).path
    one, four = (transfer(path, recovery, packets, until=TRANSFER_S) for packets in (1, 4))
    return one, four, [one.complete(n) - four.complete(n - 3) for n in range(4, COMPARED[-1] + 1)]


def _transfers(sources: Sources) -> Table:
    """The traces continued: the RFC's shift of 2.889 s and three packets, with each recovery."""
    rows: list[Row] = []
    same: list[bool] = []
    for recovery in RECOVERIES:
        one, four, shifts = _shifts(recovery)
        timeouts = "".join(str(sum(event.what == "timeout" for event in run.events)) for run in (one, four))
        for packet in COMPARED:
            ahead = one.complete(packet) - four.complete(packet)
            times = (one.complete(packet), four.complete(packet), shifts[packet - 4], ahead)
            rows.append((recovery, f"{timeouts[0]}, {timeouts[1]}", packet, *(round(value, 3) for value in times)))
        for packets, run in ((1, one), (4, four)):
            ns2 = sources.rows("rfc2416_events.csv", case=f"{recovery}_iw{packets}_1000", event="recv_ack")
            ours = [event for event in run.events if event.what in ("ack", "duplicate")]
            same += [
                abs(float(row["t_s"]) - event.at) < 1e-6 and int(row["packet_number_from_1"]) == event.packet
                for row, event in zip(ns2, ours, strict=False)
            ]
    note = f"ACKs at the sender, ns-2's to the microsecond: {sum(same)} of {len(same)} in 60 s." if same else ""
    return Table(
        name="transfers",
        title="The traces continued: when everything up to packet N has arrived, s",
        columns=("recovery", "timeouts", "N", "one-packet", "four-packet", "shift to N - 3", "four-packet ahead at N"),
        rows=tuple(rows),
        notes=(
            "Printed: a shift of 2.889 s whichever TCP is used, and much less than 0.229 s from it where a timer goes "
            "off. It holds up to the first timeout; after it 2.319 s remain with Tahoe and Reno. FACK has none: it "
            "always holds.",
            *((note,) if note else ()),
        ),
    )


def _draw_shift(canvas: matplotlib.figure.Figure) -> None:
    axes = canvas.subplots()
    for recovery, style in zip(RECOVERIES, ("-", "--", "-", "-."), strict=True):
        shifts = _shifts(recovery)[2]
        axes.step(range(4, 4 + len(shifts)), shifts, style, where="mid", label=recovery)
    axes.axhline(2.889, color="gray", linestyle=":", label="printed, 2.889 s")
    axes.axhline(2.5, color="gray", linewidth=0.7, label="three packets' time, 2.5 s")
    axes.set_xlabel("packet N of the one-packet start")
    axes.set_ylabel("shift, s")
    axes.set_ylim(0, 7.5)
    axes.legend(loc="upper center", ncols=5, fontsize=8)


def _others(what: str) -> Table:
    """Any k-packet start into any b buffers: the first packet lost, or when it is sent again."""
    starts = np.arange(1, 11)
    buffers = np.array([1, 2, 3, 4, 5, 6, 8, 10, 16])
    chain = model.reduce_chain(scenario(1).path)
    k, b = np.meshgrid(starts, buffers)
    run = timeline(initial_window=k, **{**chain, "places": b})
    found = run.first_lost if what == "first_lost" else np.round(run.retransmitted, 3)
    rows = tuple((int(places), *map(float, line)) for places, line in zip(buffers, found, strict=True))
    title = "First packet lost" if what == "first_lost" else "When it is sent again (third duplicate ACK), s"
    note = "k <= b: packet 2 b + 2 - k; k > b: packet b + 1." if what == "first_lost" else ""
    return Table(
        name=what,
        title=f"{title}, of a k-packet start into b buffers before a 9600 b/s link",
        columns=("b", *(f"k={k}" for k in starts)),
        rows=rows,
        notes=(note or "Empty: fewer than three duplicate ACKs come; only the retransmission timer is left.",),
    )


def _draw(canvas: matplotlib.figure.Figure) -> None:
    top, bottom = canvas.subplots(2, 1, sharex=True)
    for axes, packets in ((top, 1), (bottom, 4)):
        run = start(packets)
        number = np.arange(1, run.sent.size + 1)
        axes.plot(run.sent, number, ".", color="black", label="sent")
        axes.plot(run.sent[run.is_lost], number[run.is_lost], "x", color="tab:red", markersize=8, label="lost at R2")
        axes.plot(run.ack_at, run.ack_number, "+", color="tab:blue", label="ACK")
        axes.plot(run.retransmitted, run.first_lost, "s", color="tab:red", fillstyle="none", label="retransmitted")
        printed = [(at, n) for start_of, at, n in PRINTED if start_of == packets]
        axes.plot(*zip(*printed, strict=True), "o", fillstyle="none", color="tab:green", label="ACK, printed")
        axes.set_ylabel("packet")
        axes.set_xlim(-0.2, 9)
        axes.set_title(f"{packets}-packet start", fontsize=9)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    bottom.set_xlabel("time at the sender, s")
