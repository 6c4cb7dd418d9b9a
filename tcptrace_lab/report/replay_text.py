"""What a replay tells a person."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tcptrace_lab.numbers import seconds

if TYPE_CHECKING:
    from tcptrace_lab.replay.closed_loop import ClosedLoop
    from tcptrace_lab.replay.open_loop import OpenLoop
    from tcptrace_lab.replay.outcome import Outcome
    from tcptrace_lab.scenario import PathSpec

WIDTH = 110


def open_loop_lines(run: OpenLoop, through: str) -> Iterator[str]:
    """A capture through another path: what it met there, and what that cannot tell."""
    row, counts = run.summary, run.counts
    yield f"{run.recording.name} through {through}, open loop"
    carried = counts["records"] - counts["elsewhere"]
    notes = [f"{counts[name]} {words}" for name, words in _COUNTED if counts[name]]
    yield f"  carried     {carried} of {counts['records']} packets" + (f" ({', '.join(notes)})" if notes else "")
    for name, suffix in (("there", ""), ("back", "_back")):
        yield f"  {name:10}  {_way(row, suffix)}"
    nodes = run.nodes[run.nodes["node"] >= 0]
    for node in nodes.itertuples():
        bins = run.queue[(run.queue["node"] == node.node) & (run.queue["is_reverse"] == node.is_reverse)]
        where = f"{'reverse' if node.is_reverse else 'node'} {node.node}"
        longest = int(bins["waiting_max"].max()) if len(bins) else 0
        # Little: the time that packets waited, over that until the last is out, is the mean queue.
        mean = float(bins["wait_ns"].sum()) / 1e9 / max(row["duration_s"] + row["late_s"], 1e-9)
        drops = f"{node.packets_dropped} of {node.packets_in} dropped"
        yield f"  {where:10}  {drops}, {mean:.1f} packets waiting on average, {longest} at most"
    cut = run.cut
    if cut is not None:
        yield f"  cut         {cut}"
    yield "  cannot know"
    for sentence in run.cannot_know:
        yield from textwrap.wrap(sentence, WIDTH, initial_indent="    - ", subsequent_indent="      ")


_COUNTED = (
    ("elsewhere", "do not cross the path"),
    ("cut_up", "super-segments cut to what the wire carried"),
    ("out_of_order", "recorded out of order"),
)


def _way(row: dict[str, Any], suffix: str) -> str:
    packets = row[f"packets{suffix}"]
    if not packets:
        return "no packets"
    causes = [(name, row[f"drops_{name}{suffix}"]) for name in ("overflow", "codel", "policed", "random")]
    told = ", ".join(f"{count} {name}" for name, count in causes if count)
    p50, p95, most = (row[f"delay_{name}{suffix}_s"] for name in ("p50", "p95", "max"))
    if math.isnan(p50):
        return f"{packets} packets, all dropped"
    delays = f"{seconds(p50)} (half), {seconds(p95)} (95 %), {seconds(most)} (most)"
    return f"{packets} packets, {row[f'drops{suffix}']} dropped{f' ({told})' if told else ''}; delay {delays}"


def closed_loop_lines(run: ClosedLoop, through: str | None) -> Iterator[str]:
    """A capture sent again: how it was understood, and then beside now."""
    from tcptrace_lab.replay.closed_loop import understood

    where = f"over the path of {through}" if through else "over the path that it shows"
    yield f"{run.recording.name} sent again {where}"
    yield from _wrapped("path", _path(run.scenario.path))
    for note in run.notes:
        yield from _wrapped("", note)
    for (one, words), (then, now) in zip(understood(run.found), run.outcomes, strict=True):
        who = one.verdict.who
        yield f"  connection {who.connection}  {who.sender} -> {who.receiver}"
        yield from _wrapped("  sender", words)
        yield f"    {'':22}{'then':>16}{'now':>16}"
        for name, told in _ROWS:
            yield f"    {name:22}{told(then):>16} {told(now):>15}"


def closed_loop_answer(run: ClosedLoop, written: list[str]) -> dict[str, Any]:
    """The same as JSON has it."""
    from dataclasses import asdict

    from tcptrace_lab.replay.closed_loop import understood
    from tcptrace_lab.scenario_file import scenario_table
    from tcptrace_lab.tables import finite

    def plain(outcome: Outcome) -> Any:
        return finite(asdict(outcome))

    connections = [
        {
            "connection": one.verdict.who.connection,
            "sender": one.verdict.who.sender,
            "control": one.control_name,
            "understood": words,
            "then": plain(then),
            "now": plain(now),
        }
        for (one, words), (then, now) in zip(understood(run.found), run.outcomes, strict=True)
    ]
    return {
        "capture": run.recording.name,
        "scenario": finite(scenario_table(run.scenario)),
        "notes": list(run.notes),
        "is_cut": run.is_cut,
        "connections": connections,
        "files": written,
    }


def _wrapped(name: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"  {name:10}  ", subsequent_indent=" " * 14)


def _path(path: PathSpec) -> str:
    words = []
    for node in path.nodes:
        rate = "no limit" if node.rate_bps == math.inf else f"{node.rate_bps / 1e6:.4g} Mbit/s"
        buffer = "unlimited" if node.buffer == math.inf else f"{node.buffer:.0f} {node.buffer_unit}"
        lost = f", loses {len(node.drop_packets)} packets by number" if node.drop_packets else ""
        words.append(f"{rate}, buffer {buffer}{lost}")
    return f"{'; '.join(words)}; round trip {seconds(path.base_rtt_s)}, packets of {path.packet_bytes} bytes"


def _number(value: float, unit: str = "", scale: float = 1.0, digits: int = 4) -> str:
    return "-" if math.isnan(value) else f"{value * scale:.{digits}g}{unit}"


def _counts(counts: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, counts[:4]))
    return (shown + (" .." if len(counts) > 4 else "")) or "-"


def _limits(limits: Mapping[str, float]) -> str:
    if not limits:
        return "-"
    name = max(limits, key=lambda key: limits[key])
    return f"{name} {limits[name]:.0%}"


_ROWS: tuple[tuple[str, Callable[[Outcome], str]], ...] = (
    ("completion time", lambda row: _number(row.completion_s, " s", digits=5)),
    ("goodput", lambda row: _number(row.goodput_bps, " Mbit/s", 1e-6)),
    ("loss events", lambda row: str(row.loss_events)),
    ("segments lost", lambda row: str(row.lost_segments)),
    ("timeouts", lambda row: str(row.timeouts)),
    ("slow starts per cycle", lambda row: _counts(row.slow_starts)),
    ("regime", lambda row: row.regime),
    ("round trip, half", lambda row: _number(row.rtt_median_s, " ms", 1e3)),
    ("round trip, most", lambda row: _number(row.rtt_max_s, " ms", 1e3)),
    ("largest window", lambda row: _number(row.window_max)),
    ("limited by", lambda row: _limits(row.limits)),
)
