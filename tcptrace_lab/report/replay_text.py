"""What a replay tells a person."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcptrace_lab.replay.open_loop import OpenLoop

WIDTH = 118


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
        # Little: the time that packets waited, over the run's length, is the mean queue.
        mean = float(bins["wait_ns"].sum()) / max(row["span_ns"], 1)
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
    causes = [(name, row[f"drops_{name}{suffix}"]) for name in ("overflow", "random")]
    told = ", ".join(f"{count} {name}" for name, count in causes if count)
    p50, p95, most = (row[f"delay_{name}_ns{suffix}"] for name in ("p50", "p95", "max"))
    if p50 is None:
        return f"{packets} packets, all dropped"
    delays = f"{_ms(p50)} (half), {_ms(p95)} (95 %), {_ms(most)} (most)"
    return f"{packets} packets, {row[f'drops{suffix}']} dropped{f' ({told})' if told else ''}; delay {delays}"


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3g} ms"
