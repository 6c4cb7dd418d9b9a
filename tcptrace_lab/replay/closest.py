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

from tcptrace_lab.classify.verdict import classify
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
# How much further or less far it may come to the first loss: by then a slow start has doubled.
FIRST_SHARE = 0.3
# RFC 6928's initial window: until it is acknowledged nothing tells.
FIRST_BYTES = 14_600
# Regimes that are looked for again.
SEVERAL = ("double", "triple")
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
# What is had in these orders where one decides: so many of what was tried.
NEAREST = 4


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A scenario tried, and how far from the recording it came back: below 1 all connections are within the mark."""

    found: AsFound
    distance: float
    completion_s: tuple[float, ...]


def closest(found: AsFound) -> AsFound:
    """The same with what is open settled, and said."""
    then = [outcome(one.verdict) for one in found.connections]
    left = min(MOST_TRIALS, EVENTS_TRIED // found.most_events)
    best = _tried(found, then)
    trials = [best]
    for open_to in (_with_pace, _with_receivers, _with_controls, _with_buffers):
        others = [_tried(one, then) for one in itertools.islice(open_to(best.found), left)]
        left -= len(others)
        trials += others
        best = _best(best, others)
    notes: list[str] = []
    if len(found.connections) > 1 or best.distance > 1:
        # One order may flatter one of them: the nearest are all had in several.
        near = sorted(trials, key=lambda trial: (trial is not best, trial.distance))[:NEAREST]
        turns = zip(*(_with_orders(trial.found) for trial in near), strict=True)
        orders = [_tried(one, then) for one in itertools.islice(itertools.chain.from_iterable(turns), left)]
        best = min([best, *orders], key=lambda trial: trial.distance)
        alike = [trial for trial in [*near, *orders] if _differ_in_order_alone(trial.found, best.found)]
        notes += _shares(found, alike)
    notes = [*_chosen(found, best.found), *notes]
    return replace(best.found, notes=(*best.found.notes, *notes))


def _best(likeliest: Trial, others: Sequence[Trial]) -> Trial:
    best = min(others, key=lambda trial: trial.distance, default=likeliest)
    return best if best.distance < likeliest.distance - BETTER else likeliest


def _differ_in_order_alone(one: AsFound, other: AsFound) -> bool:
    return one.connections == other.connections and one.scenario.path == other.scenario.path


def _with_pace(found: AsFound) -> Iterable[AsFound]:
    """What seems written piece by piece, and may have left by a rate."""
    for place, one in enumerate(found.connections):
        if one.paced is not None:
            name, control, written = one.paced
            yield _with(found, place, replace(one, control=control, control_name=name, written=written, paced=None))


def _with_receivers(found: AsFound) -> Iterable[AsFound]:
    """All whose windows opened as data came as hosts that do so: amid a recovery less is offered than at the end."""
    changed = found
    for place, one in enumerate(found.connections):
        if one.habit.opening is not None:
            habit = replace(one.habit, receiver=one.habit.opening)
            changed = _with(changed, place, replace(one, habit=habit))
    if changed is not found:
        yield changed


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
    rows[place] = replace(
        rows[place], control=one.control, application=one.written.application, receiver=one.habit.receiver
    )
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
    now = figures(run, found.scenario)
    before = [_then(one, was) for one, was in zip(found.connections, then, strict=True)]
    distance = _distance([part for one in map(_parts, before, now) for part in one])
    if distance <= 1:
        # Of what comes back otherwise; a reading of the whole takes longer than the run.
        distance += _other_regimes(run, then)
    return Trial(found=found, distance=distance, completion_s=tuple(each.completion_s for each in now))


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What is compared of a connection; `first_loss`: bytes acknowledged when the first loss was noticed."""

    completion_s: float
    loss_events: int
    lost_segments: int
    first_loss: int | None


def _then(one: Found, was: Outcome) -> Figures:
    seen = one.verdict.seen
    first = next((episode for episode in seen.episodes if episode.is_loss), None)
    return Figures(
        completion_s=was.completion_s,
        loss_events=was.loss_events,
        lost_segments=was.lost_segments,
        first_loss=None if first is None else first.una - int(seen.timeline.send_offset[0]),
    )


def figures(run: Run, scenario: Scenario) -> list[Figures]:
    """Of each connection, from the simulator's own books."""
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
        own = losses[losses["connection"] == number]
        found.append(
            Figures(
                completion_s=done_s,
                loss_events=len(own),
                lost_segments=int((drops["connection"] == number).sum()),
                first_loss=int(own["offset"].iloc[0]) if len(own) else None,
            )
        )
    return found


def _distance(parts: Sequence[float]) -> float:
    """The largest counts whole, so that no part and no connection is bought with another."""
    return max(parts) + 0.1 * sum(parts)


def _parts(then: Figures, now: Figures) -> tuple[float, ...]:
    """In completion time, loss events, segments lost and beginning: 1 is the mark of what still comes back."""
    if math.isnan(then.completion_s) or then.completion_s <= 0:
        time = 0.0
    elif math.isnan(now.completion_s):
        time = 100.0
    else:
        time = abs(now.completion_s - then.completion_s) / (COMPLETION_SHARE * then.completion_s)
    return (
        time,
        abs(now.loss_events - then.loss_events) / max(1.0, EVENTS_SHARE * then.loss_events),
        0.5 * abs(now.lost_segments - then.lost_segments) / max(2.0, LOST_SHARE * then.lost_segments),
        _apart(then, now),
    )


def _apart(then: Figures, now: Figures) -> float:
    """How differently it began: until the first loss least hangs on single packets."""
    if then.first_loss is None or now.first_loss is None:
        return float(then.first_loss is not now.first_loss)
    return min(abs(now.first_loss - then.first_loss) / max(FIRST_BYTES, FIRST_SHARE * then.first_loss), 1.0)


def _other_regimes(run: Run, then: Sequence[Outcome]) -> int:
    """How many senders have another regime now, of those that start slowly more than once in a cycle."""
    if all(was.regime not in SEVERAL for was in then):
        return 0
    regimes = {verdict.who.sender.rpartition(":")[2]: verdict.slow_starts.regime for verdict in classify(run.capture())}
    now = [regimes.get(str(port)) for port, _ in run.ports]
    return sum(was.regime in SEVERAL and after != was.regime for was, after in zip(then, now, strict=True))


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
    if any(one.habit != now.habit for one, now in zip(before.connections, after.connections, strict=True)):
        words.append("a receiver that opens its window as data comes, as Linux does, comes back closest")
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
