"""The bottleneck's rate where something else than the bottleneck sets when its ACKs come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tcptrace_lab.classify.path.rate import _mode, bottleneck_rate
from tcptrace_lab.classify.path.runs import Runs
from tcptrace_lab.classify.verdict import classify
from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.tap.clock import FINE, read_apart_ns
from tcptrace_lab.reconstruct.timeline import Ints, build
from tcptrace_lab.scenario import ConnectionSpec, NodeSpec, PathSpec, Scenario
from tcptrace_lab.simulate import simulate
from tests.classify.test_limits import PATH, SACK, verdicts

MS = 1_000_000
TRUE_PPS = 10e6 / 8 / 1500


def in_turns(times: Ints, *, turn_ms: float, apart_ns: int = 20_000) -> Ints:
    """As a radio hands them over: all that came since its last turn, one right behind the other."""
    turn = -(-times // round(turn_ms * MS))
    place = np.arange(len(times)) - np.searchsorted(turn, turn)
    found: Ints = (turn * round(turn_ms * MS) + apart_ns * place).astype(np.int64)
    return found


def jittered(times: Ints, *, mean_ms: float) -> Ints:
    """Each held up by a random time, none overtaken."""
    late = np.random.default_rng(5).exponential(mean_ms * MS, len(times))
    found: Ints = np.maximum.accumulate(times + late.astype(np.int64))
    return found


@pytest.mark.parametrize("way_back", ["turns", "jitter"])
def test_bursts_that_the_way_back_made_are_no_bottleneck(way_back: str) -> None:
    """10 Mbit/s: the fastest runs of six segments are up to a half faster, and not evenly so."""
    found, _ = verdicts(ConnectionSpec(control=SACK), seconds=10.0)
    timeline = found.seen.timeline
    late = in_turns(timeline.ack_ns, turn_ms=5) if way_back == "turns" else jittered(timeline.ack_ns, mean_ms=4)
    rate = bottleneck_rate(Reconstruction(replace(timeline, ack_ns=late)))
    assert rate.low is not None
    assert rate.low <= 1.02 * TRUE_PPS
    assert rate.value is None or rate.value == pytest.approx(TRUE_PPS, rel=0.05)
    assert rate.high is None or rate.high >= TRUE_PPS


@pytest.mark.parametrize("turn_ms", [2, 3, 8, 20])
def test_turns_of_a_radio_even_out_over_longer_runs(turn_ms: float) -> None:
    """Of 10 Mbit/s two or three packets come together: runs of six are often a fifth too fast, long ones never.

    Of turns as long as several runs only those tell through which a queue stood.
    """
    found, _ = verdicts(ConnectionSpec(control=SACK), seconds=10.0)
    timeline = found.seen.timeline
    rate = bottleneck_rate(Reconstruction(replace(timeline, ack_ns=in_turns(timeline.ack_ns, turn_ms=turn_ms))))
    assert rate.value == pytest.approx(TRUE_PPS, rel=0.01)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low <= TRUE_PPS <= rate.high


@pytest.mark.parametrize(
    ("turn_ms", "apart_ns", "host_ns"), [(2, 20_000, 12_000), (8, 20_000, 12_000), (40, 8_000, 4_000)]
)
def test_acks_that_a_radio_bunches_release_segments_at_once(turn_ms: float, apart_ns: int, host_ns: int) -> None:
    """Within a bunch, however long, the next ACK comes sooner than any host answers: it is the window at work."""
    found, _ = verdicts(ConnectionSpec(control=SACK), seconds=10.0)
    timeline = found.seen.timeline
    late, known = in_turns(timeline.ack_ns, turn_ms=turn_ms, apart_ns=apart_ns), timeline.acks_before_send
    send_ns = np.where(known > 0, late[np.maximum(known - 1, 0)] + host_ns, timeline.send_ns)
    seen = Reconstruction(replace(timeline, ack_ns=late, send_ns=np.maximum.accumulate(send_ns)))
    assert seen.limits["application"] < 0.02


@pytest.mark.parametrize("written_ns", [7_000, 10_000, 14_000])
def test_a_receiver_that_reads_many_at_once_writes_its_answers_at_its_own_pace(written_ns: int) -> None:
    """300 Mbit/s, interrupts 300 us apart: runs of six segments lie within one, or over three of them, not two."""
    pps = 300e6 / 8 / 1500
    path = PathSpec(nodes=(NodeSpec(rate_bps=300e6, buffer=300, delay_s=0.005),), return_delay_s=0.005)
    found, _ = verdicts(ConnectionSpec(control=SACK), seconds=0.6, path=path)
    timeline = found.seen.timeline
    answers_ns = np.maximum.accumulate(in_turns(timeline.ack_ns, turn_ms=0.3, apart_ns=written_ns))
    apart_ns = read_apart_ns(in_turns(np.repeat(timeline.ack_ns, 2), turn_ms=0.3, apart_ns=500), answers_ns)
    assert apart_ns == 300_000
    # All read at once, no interrupts are apart; each read alone, no answer waits for another.
    assert read_apart_ns(np.arange(100) * 1_000, 200_000 + np.arange(50) * written_ns) == 0
    assert read_apart_ns(timeline.ack_ns, timeline.ack_ns + 20_000) == 0
    rate = bottleneck_rate(Reconstruction(replace(timeline, ack_ns=answers_ns)), replace(FINE, resolution_ns=apart_ns))
    assert rate.value == pytest.approx(pps, rel=0.02)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low <= pps <= rate.high


def test_acks_that_wait_behind_the_other_sides_data_show_no_rate() -> None:
    """Its queue of up to 60 ms, a packet each 1.2 ms, sets when they come."""
    found, _ = verdicts(ConnectionSpec(control=SACK), seconds=10.0)
    timeline = found.seen.timeline
    queued = timeline.ack_ns + 60 * MS * (timeline.ack_ns // MS % 700) // 700
    late = np.maximum.accumulate(-(-queued // 1_200_000) * 1_200_000) + np.arange(len(queued))
    bare = np.zeros_like(timeline.is_bare)
    rate = bottleneck_rate(Reconstruction(replace(timeline, ack_ns=late, is_bare=bare)))
    assert rate.value is None or rate.value == pytest.approx(TRUE_PPS, rel=0.05)
    assert rate.low is None or rate.low <= 1.02 * TRUE_PPS


def paced_anew(times: Ints, begin_ns: int) -> Ints:
    """On a path whose rate is another every 0.4 s: time runs at the given factors."""
    factors = np.tile([1.0, 2.0, 0.5, 1.5], 20)
    edges = np.arange(len(factors) + 1) * 400 * MS
    found: Ints = begin_ns + np.interp(times - begin_ns, edges, np.append(0, np.cumsum(400 * MS * factors))).astype(int)
    return found


def test_a_rate_that_changes_is_told_as_what_it_changes_between() -> None:
    """Half, two thirds, once and twice 10 Mbit/s: not one of them, and not the fastest, is the rate."""
    found, _ = verdicts(ConnectionSpec(control=SACK), seconds=10.0)
    timeline = found.seen.timeline
    ack_ns, send_ns = (paced_anew(times, timeline.start_ns) for times in (timeline.ack_ns, timeline.send_ns))
    rate = bottleneck_rate(Reconstruction(replace(timeline, ack_ns=ack_ns, send_ns=send_ns)))
    assert rate.between == pytest.approx((TRUE_PPS / 2, TRUE_PPS * 2), rel=0.01)
    assert rate.low == pytest.approx(TRUE_PPS / 2, rel=0.01)
    assert rate.high is None


@pytest.mark.parametrize(("before", "after"), [(2.0, 0.5), (0.5, 2.0), (1.5, 1.0)])
def test_a_rate_that_steps_is_told_as_both(before: float, after: float) -> None:
    """A route or a radio's that became another in the middle: neither is the rate."""
    found, _ = verdicts(ConnectionSpec(control=SACK), seconds=24.0)
    timeline = found.seen.timeline
    begin, middle, end = timeline.start_ns, timeline.start_ns + 12_000 * MS, timeline.start_ns + 30_000 * MS
    known = [begin, middle, end]
    spent = begin + np.cumsum([0, (middle - begin) / before, (end - middle) / after])
    ack_ns, send_ns = (np.interp(times, known, spent).astype(np.int64) for times in (timeline.ack_ns, timeline.send_ns))
    rate = bottleneck_rate(Reconstruction(replace(timeline, ack_ns=ack_ns, send_ns=send_ns)))
    assert rate.between == pytest.approx(sorted((TRUE_PPS * before, TRUE_PPS * after)), rel=0.01)


@pytest.mark.parametrize("start_s", [6.0, 12.0])
def test_another_flow_that_comes_later_is_no_step_of_the_rate(start_s: float) -> None:
    """Of what this one alone shows: its share falls to half, and the buffer takes as long as before to empty."""
    flow = ConnectionSpec(control=SACK)
    scenario = Scenario(
        path=PATH,
        connections=(flow, replace(flow, start_s=start_s)),
        duration_s=24.0,
        profile="rfc",
        taps=("sender",),
    )
    for found in classify(simulate(scenario).capture(tap="sender")):
        assert bottleneck_rate(found.seen).between is None


def test_two_flows_that_take_turns_are_no_rate_that_changes() -> None:
    """Of what each alone shows: runs of its own packets are the link's, longer ones its share, which moves."""
    flow = ConnectionSpec(control=SACK)
    done = simulate(Scenario(path=PATH, connections=(flow, flow), duration_s=20.0, profile="rfc", taps=("sender",)))
    for found in classify(done.capture(tap="sender")):
        rate = bottleneck_rate(found.seen)
        assert rate.between is None
        assert rate.low is None or rate.low <= 1.01 * TRUE_PPS
        assert rate.high is None or rate.high >= TRUE_PPS


def test_a_queue_of_acks_is_no_bottleneck_of_the_data() -> None:
    """40 Mbit/s there and 0.3 Mbit/s back, where 20 ACKs wait and others are dropped: what is left comes evenly."""
    path = PathSpec(
        nodes=(NodeSpec(rate_bps=40e6, buffer=100, delay_s=0.015),),
        return_delay_s=0.015,
        reverse=(NodeSpec(rate_bps=0.3e6, buffer=20),),
    )
    found, _ = verdicts(ConnectionSpec(control=SACK), path=path)
    rate = found.path.bottleneck_bps
    assert rate.value is None
    assert "way back" in rate.method
    assert rate.low is None or rate.low <= 40e6
    assert "bottleneck" not in found.diagnosis


@pytest.mark.parametrize(("pps", "held_ms"), [(6000.0, 1.0), (9000.0, 0.7), (4000.0, 1.5)])
def test_acks_that_tell_of_more_than_delayed_ones_show_the_rate_over_as_many(pps: float, held_ms: float) -> None:
    """A receiver's card hands over what came within a time (GRO): an ACK tells of six, as a run of three ACKs does
    elsewhere."""
    random, count, window = np.random.default_rng(3), 30_000, 250
    passed = np.arange(1, count + 1) / pps * 1e9
    turn = np.floor((passed + random.uniform(0, 0.15e6 * held_ms, count)) / (held_ms * MS))
    done = np.flatnonzero(np.diff(turn, append=turn[-1] + 1)) + 1
    heard = np.maximum(passed[done - 1], (turn[done - 1] + 1) * held_ms * MS)
    ack_ns = (heard + random.uniform(0, 0.1e6 * held_ms, len(done)) + 10 * MS).astype(np.int64)
    released = np.searchsorted(done, np.arange(count) - window + 1)
    send_ns = np.where(np.arange(count) < window, 0, ack_ns[np.minimum(released, len(done) - 1)] + 10_000)
    columns = {
        "send_ns": (send_ns + np.arange(count)).tolist(),
        "send_offset": (1448 * np.arange(count)).tolist(),
        "send_end": (1448 * np.arange(1, count + 1)).tolist(),
        "ack_ns": ack_ns.tolist(),
        "ack_offset": (1448 * done).tolist(),
    }
    rate = bottleneck_rate(Reconstruction(build(columns, smss=1448)))
    assert rate.value == pytest.approx(pps, rel=0.01)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low <= pps <= rate.high


@pytest.mark.parametrize(
    ("is_read_slowly", "uneven", "bounds"), [(False, 1.2, True), (True, 1.2, False), (True, 1.0, True)]
)
def test_a_receiver_that_acknowledges_as_it_reads_bounds_no_rate(
    *, is_read_slowly: bool, uneven: float, bounds: bool
) -> None:
    """A queue stands and ACKs come at many rates: others use it, or window updates tell of what came before."""
    rates = np.repeat([220.0, 240.0, 260.0, 280.0], [80, 60, 40, 50])
    every, none = np.full(len(rates), 60 * MS, dtype=np.float64), np.zeros(len(rates), dtype=bool)
    runs = Runs(
        rates=rates,
        spans_ns=6e9 / rates,
        delay_ns=every,
        least_ns=every,
        base_ns=20 * MS,
        uneven=np.full(len(rates), uneven),
        slowed=~none,
        compressed=none,
        is_inferred=False,
        rwnd=np.array([4, 1, 1, 1] if is_read_slowly else [4, 4]),
    )
    found = _mode(runs, "runs of 6 segments", FINE, own=20.0)
    assert found is not None
    assert (found.value is not None, found.low is not None, found.high) == (bounds, bounds, None)


def in_waves(times: Ints, *, acks: int, share: float) -> Ints:
    """So many come ever sooner by an even step, the next at its time: `share` of the time of those."""
    step = np.arange(len(times)) % (acks + 1)
    apart = np.diff(times, prepend=times[:1])
    found: Ints = (times - share * np.where(step < acks, step, 0) * apart).astype(np.int64)
    return np.maximum.accumulate(found)


@pytest.mark.parametrize(("buffer", "share"), [(4, 0.06), (4, 0.1), (8, 0.06), (8, 0.1)])
def test_short_runs_that_are_faster_than_the_path_bound_no_rate(buffer: int, share: float) -> None:
    """10 Mbit/s over a short queue: of ten segments each ACK comes sooner by as much than the one before."""
    path = PathSpec(nodes=(NodeSpec(rate_bps=10e6, buffer=buffer, delay_s=0.02),), return_delay_s=0.02)
    found, _ = verdicts(ConnectionSpec(control=SACK), seconds=10.0, path=path)
    timeline = found.seen.timeline
    rate = bottleneck_rate(Reconstruction(replace(timeline, ack_ns=in_waves(timeline.ack_ns, acks=10, share=share))))
    assert rate.low is not None
    assert rate.low <= 1.01 * TRUE_PPS
