"""What a verdict claims, against what is true of the run: the claims that are wrong, and those that are missing.

The truth is the run's parameters (path, control) and, for what happened in it, the verdict on the untouched capture.
"""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tcptrace_lab import _core, read
from tcptrace_lab.classify.verdict import Verdict, classify
from tcptrace_lab.reconstruct.timeline import Ints, Timeline
from tcptrace_lab.reconstruct.windows import CWND, LIMITS, RWND
from tests.conftest import ROOT, SHARED

OWN, KERNEL, IDENTIFY = ROOT / "captures", SHARED / "captures" / "kernel", SHARED / "captures" / "identify"
# Issue 10: limits over 10 points off, rate or round trip outside the interval by 5 %, buffer by 2 packets or 10 %.
POINTS, SHARE, BUFFER_PACKETS, BUFFER_SHARE = 0.1, 0.05, 2.0, 0.1
# RFC 5681 section 3.1: in slow start an ACK lets go what it acknowledges, and as much again.
RELEASED = 2
CLAIMS = (
    *("regime", "per_cycle", "initial_window", "recovery", "control", "losses", "limits"),
    *("base_rtt_s", "bottleneck_bps", "buffer_packets"),
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A good capture, and what is known of its run by other means; `controls`: names that are right for it;
    `receiver`: the same run as captured at its receiver."""

    name: str
    path: Path
    controls: frozenset[str]
    base_rtt_s: float | None
    bottleneck_bps: float | None
    buffer_packets: float | None
    receiver: Path | None = None


def runs() -> Iterator[Run]:
    """Every run with one connection whose sender-side capture and truth are at hand."""
    yield from _own()
    yield from _kernel()
    yield from _identify()


def _own() -> Iterator[Run]:
    for entry in tomllib.loads((OWN / "index.toml").read_text())["captures"]:
        if len(entry["expected"]) != 1:
            continue
        scenario = tomllib.loads((OWN / entry["scenario"]).read_text())
        rates = [float(node["rate_bps"]) for node in scenario["path"]["nodes"]]
        control = str(entry["expected"][0]["congestion_control"])
        yield Run(
            name=f"own: {entry['name']}",
            path=OWN / entry["file"],
            controls=_controls(control),
            base_rtt_s=entry["path"]["base_rtt_s"],
            bottleneck_bps=min(rates),
            buffer_packets=entry["path"]["buffer_packets"],
            receiver=_if_there(OWN / entry["file"].replace(".pcap", ".receiver.pcap")),
        )


def _kernel() -> Iterator[Run]:
    for path in sorted(KERNEL.glob("*.pcap.gz")):
        name = path.name.removesuffix(".pcap.gz")
        if name.endswith(".rcv"):
            continue
        facts = json.loads((KERNEL / f"{name}.json").read_text())
        if len(facts["params"]["flows"] or (1,)) != 1:
            continue
        derived = facts["derived"]
        yield Run(
            name=name,
            path=path,
            controls=_controls(str(facts["params"]["cc"])),
            base_rtt_s=derived["rtt_min_us"] / 1e6,
            bottleneck_bps=derived["bottleneck_rate_bps"],
            buffer_packets=derived["buffer_pkts_excl_in_service"],
            receiver=_if_there(KERNEL / f"{name}.rcv.pcap.gz"),
        )


def _identify() -> Iterator[Run]:
    index = IDENTIFY / "index.csv"
    if not index.exists():
        return
    with index.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["competitor"]:
                continue
            also = row["also_valid"].split() if row["also_valid"] else []
            yield Run(
                name=row["name"],
                path=IDENTIFY / f"{row['name']}.pcap.gz",
                controls=_controls(row["control"]) | frozenset(also),
                base_rtt_s=float(row["rtt_ms"]) / 1e3,
                bottleneck_bps=float(row["rate_mbps"]) * 1e6,
                buffer_packets=float(row["buffer_pkts"]),
                receiver=_if_there(IDENTIFY / row["receiver_capture"]),
            )


def _if_there(path: Path) -> Path | None:
    return path if path.exists() else None


def _controls(name: str) -> frozenset[str]:
    """A recipe's name as the verdict's; Tahoe is a recovery, its window Reno's."""
    known = {"ctcp": "compound", "mstart": "m_start", "tahoe": "reno", "utahoe": "reno", "reno-tahoe": "reno"}
    plain = name.removeprefix("lab_").removesuffix("g90")
    plain = known.get(plain, plain)
    return frozenset((plain,)) if plain else frozenset()


def main_verdict(path: Path, *, without: frozenset[int] = frozenset()) -> Verdict | None:
    """Of the connection with most data, those with a port of `without` apart; None where none carries any."""
    capture = read(path)
    found = [each for each in classify(capture, file=path.name) if not without & _ports(each)]
    sizes = capture.connections["bytes"]
    return max(found, key=lambda verdict: sizes.iloc[verdict.who.connection], default=None)


def _ports(verdict: Verdict) -> frozenset[int]:
    return frozenset(int(end.rpartition(":")[2]) for end in (verdict.who.sender, verdict.who.receiver))


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Of each claim: wrong (with what was said and what is true), silent where the untouched capture's is not, told."""

    wrong: dict[str, str]
    silent: frozenset[str]
    told: frozenset[str] = frozenset()


def judge_claims(run: Run, whole: Verdict, worse: Verdict | None, *, keeps: str) -> Judged:
    """`whole`: the untouched capture's verdict; `worse`: the degraded one's; `keeps`: as the degrader has it.

    A control that the untouched capture's verdict names as wrongly is not the degradation's doing.
    """
    good = whole.as_dict()
    if worse is None:
        return Judged(wrong={}, silent=frozenset(name for name in CLAIMS if _is_told(good, name)))
    bad = worse.as_dict()
    wrong: dict[str, str] = {}
    told = frozenset(name for name in CLAIMS if _is_told(bad, name))
    silent = {name for name in CLAIMS if name not in told and _is_told(good, name)}
    # What was split on the way was other packets there than those that the queue held and dropped.
    uncounted = ("losses", "buffer_packets") if "resized" in keeps else ()
    for name in (name for name in CLAIMS if name in told and name not in uncounted):
        why = _why_wrong(name, run, whole, worse, keeps)
        if why:
            wrong[name] = why
    return Judged(wrong=wrong, silent=frozenset(silent), told=told)


def _said(verdict: dict[str, Any], name: str) -> Any:
    starts, tcp = verdict["slow_starts"], verdict["sender_tcp"]
    return {
        "regime": starts["regime"],
        "per_cycle": starts["per_cycle"],
        "initial_window": verdict["initial_window"]["segments"],
        "recovery": tcp["recovery"],
        "control": tcp["congestion_control"],
        "losses": verdict["losses"]["total"],
        "limits": verdict["limits"],
        **{key: verdict["path"][key] for key in CLAIMS[7:]},
    }[name]


def _is_told(verdict: dict[str, Any], name: str) -> bool:
    said = _said(verdict, name)
    if name == "regime":
        return said != "undecided"
    if name in CLAIMS[7:]:
        return any(said[key] is not None for key in ("value", "low", "high"))
    return said is not None and said not in ([], {})


def _why_wrong(name: str, run: Run, whole: Verdict, worse: Verdict, keeps: str) -> str:
    good, bad = whole.as_dict(), worse.as_dict()
    told, true = _said(bad, name), _said(good, name)
    span = _span(run, whole, worse)
    if name in CLAIMS[7:]:
        return _outside(name, told, getattr(run, name))
    if name == "losses":
        # Of a piece that was made longer it is not known which losses it has.
        return "" if {"longer", "piece"} <= set(keeps.split()) else _losses(bad["losses"], whole, span)
    if name == "limits":
        # A stall that was added at the end is the receiver's: what is true then is not in the untouched capture.
        last_ns = int(worse.seen.timeline.send_ns[-1]) + _way_back_ns(run, worse)
        end_ns = min(span[1], max(last_ns, span[0]))
        if worse.who.tap.unanswered_ns and "piece" not in keeps:
            # Told of all the data, also of what lies behind the last ACK.
            end_ns = whole.seen.timeline.end_ns
        here = worse.seen.timeline
        # Of a piece they are told from its first ACK on: what left first away from the sender had left long before.
        back_ns = _way_back_ns(run, worse)
        heard_ns = int(here.ack_ns[0]) + back_ns if not here.has_start and len(here.ack_ns) else span[0]
        true = _limits_within(whole, (max(span[0], heard_ns), end_ns))
        # Said to be unknown: it may be any of them.
        doubt = whole.limits.get("unknown", 0.0)
        slack = POINTS + told.get("unknown", 0.0) + doubt
        less = max((told.get(key, 0.0) - true.get(key, 0.0) for key in true), default=0.0)
        more = max((true.get(key, 0.0) - told.get(key, 0.0) for key in true), default=0.0)
        if "longer" in keeps or (less <= POINTS + doubt and more <= slack):
            return ""
        return f"{told}, is {true}"
    if name == "control":
        known = run.controls
        is_right = not known or told in known or (told == true and whole is not worse)
        return "" if is_right else f"{told}, is {'/'.join(sorted(known))}"
    if ("piece" in keeps or not worse.seen.timeline.has_start) and name in ("regime", "per_cycle"):
        counts = bad["slow_starts"]["per_cycle"]
        every = [cycle.slow_starts for cycle in whole.seen.cycles]
        fits = any(every[at : at + len(counts)] == counts for at in range(len(every) - len(counts) + 1))
        # What ends before anything was lost has the slow start that it begins with, whatever follows.
        fits |= counts == [1] and not worse.seen.episodes and _ends_before_losses(run, whole, worse)
        return "" if fits or (name == "regime" and told == true) else f"{counts}, is {every}"
    if name in ("regime", "per_cycle") and not _is_told(good, name):
        return ""
    if name in ("regime", "per_cycle") and worse.seen.cycles and not worse.seen.cycles[-1].is_whole:
        # What the end cuts short there may have been over here: what is told rests on the cycles before.
        counts, every = (verdict["slow_starts"]["per_cycle"] for verdict in (bad, good))
        if name == "regime" and not counts:
            counts = [cycle.slow_starts for cycle in worse.seen.cycles[:-1]]
        if counts and len(counts) < len(every) and every[: len(counts)] == counts:
            return ""
    if name in ("regime", "per_cycle") and worse.seen.cycles:
        # Taps end apart: whether what the end cuts short was long enough to count is no matter of the run, nor is a
        # regime that rests on it.
        both = [[cycle.slow_starts for cycle in verdict.seen.cycles] for verdict in (whole, worse)]
        is_cut = len(good["slow_starts"]["per_cycle"]) != len(bad["slow_starts"]["per_cycle"])
        if both[0] == both[1] and (is_cut or name == "per_cycle"):
            return ""
    if name == "recovery" and true is None and told is not None:
        return f"{told}, unknown in the whole capture"
    return "" if told == true else f"{told}, is {true}"


def _span(run: Run, whole: Verdict, worse: Verdict) -> tuple[int, int]:
    """The part of the run that the degraded capture has, in the untouched one's time."""
    there, here, back_ns = whole.seen.timeline, worse.seen.timeline, _way_back_ns(run, worse)
    # ACKs alone may have been captured before.
    begins = here.start_ns if here.has_start or not len(here.send_ns) else int(here.send_ns[0])
    return max(begins + back_ns, there.start_ns), min(here.end_ns + back_ns, there.end_ns)


def _ends_before_losses(run: Run, whole: Verdict, worse: Verdict) -> bool:
    """Whether the degraded capture begins with the connection and ends before its sender noticed a loss."""
    first = min((each.time_ns for each in whole.seen.episodes), default=None)
    return worse.seen.timeline.has_start and (first is None or _span(run, whole, worse)[1] < first)


def _way_back_ns(run: Run, worse: Verdict) -> int:
    """By how much the sender is later than a receiver's tap has it: on the way back."""
    is_there = worse.who.tap.vantage.value == "receiver" and run.base_rtt_s is not None
    return int((run.base_rtt_s or 0.0) * 1e9 / 2) if is_there else 0


def _losses(told: dict[str, Any], whole: Verdict, span: tuple[int, int]) -> str:
    """The total, and with what may have gone unseen, around what was lost and noticed in the part."""
    table = whole.seen.losses
    table = table[~table["spurious"].astype(bool)]
    episodes = whole.seen.episodes
    begins = np.array([episodes[event].time_ns for event in table["event"]], dtype=np.int64)
    ends = np.array([episodes[event].end_ns for event in table["event"]], dtype=np.int64)
    slack = 50_000_000
    packets = np.maximum(np.round(table["length"].to_numpy() / whole.seen.timeline.smss), 1).astype(int)
    most = int(packets[(ends >= span[0] - slack) & (begins <= span[1] + slack)].sum())
    least = int(packets[(table["time_ns"].to_numpy() >= span[0] + slack) & (ends <= span[1] - slack)].sum())
    total, unseen = told["total"], told["possible_unseen"]
    # What the untouched capture itself leaves open.
    most += int(whole.losses["possible_unseen"])
    if total <= most and total + unseen >= least:
        return ""
    return f"{total} (+ {unseen} unseen), is {least}" + (f" to {most}" if most > least else "")


def _limits_within(whole: Verdict, span: tuple[int, int]) -> dict[str, float]:
    """The untouched capture's `limits`, over a part of its time."""
    # Not the table of windows, which leaves open where the flight stands: a control that goes by delay stands too.
    timeline, table = whole.seen.timeline, whole.seen.timeline.observed.windows()
    times = table["time_ns"]
    sent, heard = np.searchsorted(timeline.send_ns, times), np.searchsorted(timeline.ack_ns, times, side="right")
    known = (sent > 0) & (sent < len(timeline.send_ns)) & (heard > 0)
    done = timeline.snd_max[np.maximum(sent - 1, 0)] <= timeline.snd_una[np.maximum(heard - 1, 0)]
    # A pause behind the last ACK lasts until the last segment.
    last_ns = int(timeline.send_ns[-1]) if known[-1] and done[-1] else times[-1]
    done &= timeline.rwnd[np.maximum(heard - 1, 0)] >= timeline.smss
    begin, end = np.maximum(times, span[0]), np.append(times[1:], last_ns)
    end = np.minimum(end, min(span[1], int(timeline.send_ns[-1])))
    spans = np.maximum(end - begin, 0)
    resumes = timeline.send_ns[np.minimum(sent, len(timeline.send_ns) - 1)]
    # Pauses count as the application's.
    written, until = _written_late(timeline)
    late = np.zeros(len(timeline.ack_ns) + 1, dtype=np.int64)
    late[written + 1] = until
    pauses = np.where(known & done, np.maximum(resumes - times, 0), 0)
    pauses = np.minimum(np.maximum(pauses, late[heard] - times), spans)
    codes, total = table["limited_by"], max(float(spans.sum()), 1.0)
    # Until the first duplicate nothing told of a loss: what held the sender before held it still.
    asked = [each for each in whole.seen.episodes if each.dupacks and each.is_loss and each.detected_by != "rto"]
    before = [int(timeline.acks_before_send[each.first_send]) - each.dupacks - 1 for each in asked]
    at = np.searchsorted(times, timeline.ack_ns[[place for place in before if place > 0]])
    codes = codes.copy()
    codes[at] = codes[at - 1]
    # What is sent behind a pause is limited by what the next ACK shows; a host's own time is none.
    # Of the windows the one that it fills.
    behind, last = np.append(codes[1:], codes[-1:]), np.maximum(heard - 1, 0)
    is_full = timeline.observed.column("flight")[last] + timeline.smss > timeline.rwnd[last]
    behind = np.where(is_full, RWND, np.where(behind == RWND, CWND, behind))
    codes = np.where(pauses > _core.HOST_NS, behind, codes)
    shares = {name: float((spans - pauses)[codes == code].sum()) / total for code, name in enumerate(LIMITS)}
    if whole.identified.control == "bbr":
        # It sends at its control's own rate, whenever ACKs come.
        shares["cwnd"], shares["application"] = shares["cwnd"] + shares["application"], 0.0
    shares["application"] += float(pauses.sum()) / total
    told = whole.limits
    if not told.get("cwnd") and abs(shares["cwnd"] + shares["application"] - told.get("application", 0.0)) <= POINTS:
        # A word at a time, each held until the last was answered (RFC 896).
        shares["cwnd"], shares["application"] = 0.0, shares["cwnd"] + shares["application"]
    return {name: round(share, 4) for name, share in shares.items()}


def _written_late(timeline: Timeline) -> tuple[Ints, Ints]:
    """Behind which ACKs a burst left that none of them released, and when (core/src/infer/sender/in_flight/room.rs)."""
    sends = np.flatnonzero(timeline.acks_before_send > 0)
    acks = timeline.acks_before_send[sends] - 1
    waited = timeline.send_ns[sends] - np.maximum(timeline.send_ns[np.maximum(sends - 1, 0)], timeline.ack_ns[acks])
    is_late = waited > _core.HOST_NS
    # The last behind each.
    acks, place = np.unique(acks[is_late][::-1], return_index=True)
    first, waited = sends[is_late][::-1][place], waited[is_late][::-1][place]
    top = np.append(timeline.first_offset, timeline.snd_max)
    written = top[timeline.sends_before_next_ack[acks]] - top[first]
    _, samples = timeline.rtt
    pause = max(_core.HOST_NS, int(np.median(samples)) // _core.PAUSE_PARTS) if len(samples) else 0
    known = (written > timeline.smss) & ((written > RELEASED * timeline.newly_acked[acks]) | (waited > pause))
    return acks[known], timeline.send_ns[first[known]]


def _outside(name: str, told: dict[str, Any], true: float | None) -> str:
    if true is None:
        return ""
    value, low, high = told["value"], told["low"], told["high"]
    if name == "buffer_packets":
        slack = max(BUFFER_PACKETS, BUFFER_SHARE * true)
        # The packet in service apart, a path without waiting places is not one of these runs.
        is_out = (low is not None and low > true + slack) or (high is not None and high < true - slack)
    else:
        is_out = (low is not None and low > true * (1 + SHARE)) or (high is not None and high < true * (1 - SHARE))
    if not is_out:
        return ""
    numbers = ", ".join("?" if number is None else f"{number:.4g}" for number in (value, low, high))
    return f"{numbers.replace(', ', ' [', 1)}], is {true:.4g}"
