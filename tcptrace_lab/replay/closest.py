"""What a capture leaves open, settled by sending it again: of the controls that it does not refute, the buffers within
its bounds and, where that is not enough, the orders in which packets may have met the queue, what comes back closest.

It errs where two of them come back alike: the likelier by the verdict is kept then. What only one order of single
packets brings back is said with the range that the other orders give.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tcptrace_lab.reconstruct.losses import NO_LOSS
from tcptrace_lab.replay.as_found import AsFound, Found
from tcptrace_lab.replay.outcome import Outcome, outcome
from tcptrace_lab.scenario import NodeSpec, Scenario
from tcptrace_lab.simulate import Run, simulate

# Another than the likeliest is taken where it comes back closer by this share of what is still "comes back".
BETTER = 0.2
# What "comes back" means: completion time within, and loss events within (and never less than one).
COMPLETION_SHARE = 0.05
EVENTS_SHARE = 0.1
# Segments lost in one event hang on the burst that met the full queue.
LOST_SHARE = 0.3
# Buffers tried on each side of the estimate.
MOST_PLACES = 4
# Together they make no more than this: a capture of a million packets is tried five times, one of thousands as often as
# there is something open.
EVENTS_TRIED = 40_000_000
MOST_TRIALS = 60
# Orders of packets at a queue: seeds of what the senders' hosts take over an ACK.
ORDERS = 8
HOST_TIME_S = 0.0003


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A scenario tried, and how far from the recording it came back: below 1 per connection is within the mark."""

    found: AsFound
    distance: float
    completion_s: tuple[float, ...]


def closest(found: AsFound) -> AsFound:
    """The same with what is open settled, and said."""
    then = [outcome(one.verdict) for one in found.connections]
    left = min(MOST_TRIALS, EVENTS_TRIED // found.most_events)
    best = _tried(found, then)
    for open_to in (_with_pace, _with_controls, _with_buffers):
        others = list(itertools.islice(open_to(best.found), left))
        left -= len(others)
        best = _best(best, others, then)
    notes: list[str] = []
    if len(found.connections) > 1 or best.distance > 1:
        tried = [_tried(one, then) for one in itertools.islice(_with_orders(best.found), left)]
        notes += _shares(found, [best, *tried])
        best = min([best, *tried], key=lambda trial: trial.distance)
    notes = [*_chosen(found, best.found), *notes]
    return replace(best.found, notes=(*best.found.notes, *notes))


def _best(likeliest: Trial, others: Iterable[AsFound], then: Sequence[Outcome]) -> Trial:
    best = min((_tried(one, then) for one in others), key=lambda trial: trial.distance, default=likeliest)
    return best if best.distance < likeliest.distance - BETTER else likeliest


def _with_pace(found: AsFound) -> Iterable[AsFound]:
    """What seems written piece by piece, and may have left by a rate."""
    for place, one in enumerate(found.connections):
        if one.paced is not None:
            name, control, written = one.paced
            yield _with(found, place, replace(one, control=control, control_name=name, written=written, paced=None))


def _with_controls(found: AsFound) -> Iterable[AsFound]:
    """One connection's control changed at a time, all others as they are; the busiest first."""
    busiest = sorted(enumerate(found.connections), key=lambda row: -row[1].written.bytes)
    for place, one in busiest:
        for name, control in one.open_controls[1:]:
            yield _with(found, place, replace(one, control=control, control_name=name))


def _with(found: AsFound, place: int, one: Found) -> AsFound:
    connections = list(found.connections)
    rows = list(found.scenario.connections)
    connections[place] = one
    rows[place] = replace(rows[place], control=one.control, application=one.written.application)
    scenario = replace(found.scenario, connections=tuple(rows))
    return replace(found, scenario=scenario, connections=tuple(connections))


def _with_buffers(found: AsFound) -> Iterable[AsFound]:
    node = found.scenario.path.nodes[0]
    if node.buffer == math.inf:
        return
    bounds = found.leader.verdict.path.buffer_packets
    low = bounds.low if bounds.low is not None else node.buffer
    high = bounds.high if bounds.high is not None else node.buffer + MOST_PLACES
    for step in range(1, MOST_PLACES + 1):
        for places in (node.buffer - step, node.buffer + step):
            if max(low, 1) <= places <= high:
                yield _over(found, replace(node, buffer=places))


def _over(found: AsFound, node: NodeSpec) -> AsFound:
    path = replace(found.scenario.path, nodes=(node,))
    return replace(found, scenario=replace(found.scenario, path=path))


def _with_orders(found: AsFound) -> Iterable[AsFound]:
    for seed in range(1, ORDERS + 1):
        rows = tuple(replace(row, jitter_s=HOST_TIME_S) for row in found.scenario.connections)
        yield replace(found, scenario=replace(found.scenario, connections=rows, seed=seed))


def _tried(found: AsFound, then: Sequence[Outcome]) -> Trial:
    run = simulate(replace(found.scenario, taps=("sender",)), most_events=found.most_events)
    figures = _figures(run, found.scenario)
    distance = sum(_distance(before, *now) for before, now in zip(then, figures, strict=True))
    return Trial(found=found, distance=distance, completion_s=tuple(now[0] for now in figures))


def _figures(run: Run, scenario: Scenario) -> list[tuple[float, int, int]]:
    """Of each connection: completion time, loss events, segments lost; from the simulator's own books."""
    packets, losses, drops = run.packets(tap="sender"), run.losses, run.drops
    losses = losses[~losses["detected_by"].isin(NO_LOSS)]
    drops = drops[drops["is_data"]]
    of = dict(iter(packets.groupby("connection")))
    found = []
    for number in range(len(scenario.connections)):
        rows = of.get(number, packets[:0])
        sent = rows[rows["is_from_sender"] & (rows["payload_len"] > 0)]
        heard = rows[~rows["is_from_sender"]]
        done_s = math.nan
        if len(sent) and len(heard):
            # Sequence numbers may wrap: counted from the first.
            first = int(sent["seq"].iloc[0])
            top = int(((sent["seq"] - first) % (1 << 32) + sent["payload_len"]).max())
            acked = (heard["ack"].to_numpy() - first) % (1 << 32)
            all_acked = np.flatnonzero((acked >= top) & (acked < 1 << 31))
            if len(all_acked):
                done_s = (int(heard["time_ns"].iloc[all_acked[0]]) - int(sent["time_ns"].iloc[0])) / 1e9
        found.append((done_s, int((losses["connection"] == number).sum()), int((drops["connection"] == number).sum())))
    return found


def _distance(then: Outcome, completion_s: float, events: int, lost: int) -> float:
    """The largest of its parts counts whole, so that no part is bought with another."""
    if math.isnan(then.completion_s) or then.completion_s <= 0:
        time = 0.0
    elif math.isnan(completion_s):
        return 100.0
    else:
        time = abs(completion_s - then.completion_s) / (COMPLETION_SHARE * then.completion_s)
    parts = (
        time,
        abs(events - then.loss_events) / max(1.0, EVENTS_SHARE * then.loss_events),
        0.5 * abs(lost - then.lost_segments) / max(2.0, LOST_SHARE * then.lost_segments),
    )
    return max(parts) + 0.1 * sum(parts)


def _chosen(before: AsFound, after: AsFound) -> list[str]:
    """What was taken that is not the likeliest."""
    words = []
    for one, now in zip(before.connections, after.connections, strict=True):
        if now.control_name not in {name for name, _ in one.open_controls}:
            writes = len(one.written.application.writes)
            words.append(
                f"{writes} writes at times of their own, or one write paced by {now.control_name}: sent again, the"
                " latter comes back closest"
            )
        elif len({name for name, _ in one.open_controls}) > 1:
            names = ", ".join(dict.fromkeys(name for name, _ in one.open_controls))
            words.append(f"the capture leaves {names} open: sent again, {now.control_name} comes back closest")
    old, new = (one.scenario.path.nodes[0].buffer for one in (before, after))
    if old != new:
        words.append(f"of the buffers that the capture leaves open {new:.0f} comes back closest, not {old:.0f}")
    return words


def _shares(found: AsFound, tried: Sequence[Trial]) -> list[str]:
    """How far single packets decide what comes of it."""
    words = []
    for place, one in enumerate(found.connections):
        times = [trial.completion_s[place] for trial in tried if not math.isnan(trial.completion_s[place])]
        if times and max(times) > min(times) * (1 + COMPLETION_SHARE):
            words.append(
                f"what comes of it hangs on single packets: connection {one.verdict.who.connection} needs"
                f" {min(times):.4g} to {max(times):.4g} s in {len(times)} orders of arrival, the closest is shown"
            )
    return words
