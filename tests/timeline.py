"""A TCP test as a timeline: what the sender's capture must show, in tcpdump-like notation.

    0.100 > 1001:2001 x              the sender sends bytes 1001 to 2000, and the path loses them
    0.201 < ack 1001 sack 2001:3001  it receives an ACK with a SACK block
                      | cwnd 5       and its window is then 5 segments (also: ssthresh 3, state recovery)
    ...                              anything, until a packet as the next line says

The flags of a SYN or FIN stand first (`> S 0`, `< S. ack 1`); a pure ACK of the sender is `> ack 1`. Numbers are
relative; times are compared to the millisecond. Every data packet up to the last `x` has its line: the lines say which
packets, counted from 1, the path drops. The path sends one full segment of 1000 bytes per millisecond and adds 50 ms
each way, so that ACKs arrive one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tcptrace_lab.scenario import (
    ApplicationSpec,
    ConnectionSpec,
    ControlSpec,
    NodeSpec,
    PathSpec,
    ReceiverSpec,
    Scenario,
)
from tcptrace_lab.simulate import Run, simulate

SEGMENT = 1000
STATES = {"open": 0, "disorder": 1, "recovery": 3, "loss": 4}

_LINE = re.compile(
    r"(?P<time>\d+\.\d+)\s+(?P<way>[<>])(?:\s+(?P<flags>[SFRP]\.?)(?=\s|$))?(?:\s+(?P<seq>\d+)(?::(?P<end>\d+))?)?"
    r"(?:\s+ack\s+(?P<ack>\d+))?(?:\s+sack\s+(?P<sack>\d+:\d+(?:,\d+:\d+)*))?(?:\s+(?P<lost>x))?"
    r"(?:\s*\|\s*(?P<state>[a-z]+\s+\w+(?:\s+[a-z]+\s+\w+)*))?\s*"
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One packet at the sender; what a test does not say is None."""

    time_ms: int
    way: str
    flags: str | None = None
    seq: int | None = None
    end: int | None = None
    ack: int | None = None
    sack: tuple[tuple[int, int], ...] | None = None
    is_lost: bool = False
    state: dict[str, str] = field(default_factory=dict)
    text: str = ""

    def matches(self, seen: Line) -> bool:
        """Whether everything said here is so there; times apart by a rounding are the same."""
        said = [(name, getattr(self, name)) for name in ("way", "flags", "seq", "end", "ack", "sack")]
        return abs(self.time_ms - seen.time_ms) <= 1 and all(
            value is None or value == getattr(seen, name) for name, value in said
        )


def timeline(
    text: str,
    *,
    control: ControlSpec,
    receiver: ReceiverSpec | None = None,
    bytes_: int = 0,
    application: ApplicationSpec | None = None,
    seconds: float = 10.0,
) -> Run:
    """Run the scenario that the lines describe and hold the sender's capture against them."""
    wanted = [parse(line) for line in text.strip().splitlines() if line.split("#")[0].strip()]
    data = [line for line in wanted if line is not None and line.way == ">" and line.end is not None]
    lost = tuple(number for number, line in enumerate(data, start=1) if line.is_lost)
    rate_bps = 8 * (SEGMENT + 40) * 1000.0
    scenario = Scenario(
        path=PathSpec(
            nodes=(NodeSpec(rate_bps=rate_bps, delay_s=0.05, drop_packets=lost),),
            return_delay_s=0.05,
            packet_bytes=SEGMENT + 40,
        ),
        connections=(
            ConnectionSpec(
                control=control,
                receiver=receiver or ReceiverSpec(),
                application=application
                or (ApplicationSpec(kind="bytes", bytes=bytes_) if bytes_ else ApplicationSpec()),
            ),
        ),
        duration_s=seconds,
        taps=("sender",),
    )
    run = simulate(scenario)
    compare(wanted, seen_by_sender(run), run)
    return run


def parse(line: str) -> Line | None:
    """A line of the notation; None for `...`."""
    text = line.split("#", maxsplit=1)[0].strip()
    if text == "...":
        return None
    match = _LINE.fullmatch(text)
    if match is None:
        raise ValueError(f"not in the notation: {text!r}")
    words = (match["state"] or "").split()
    return Line(
        time_ms=round(float(match["time"]) * 1000),
        way=match["way"],
        flags=match["flags"] or None,
        seq=_number(match["seq"]),
        end=_number(match["end"]),
        ack=_number(match["ack"]),
        sack=_blocks(match["sack"]),
        is_lost=match["lost"] is not None,
        state=dict(zip(words[::2], words[1::2], strict=True)),
        text=text,
    )


def seen_by_sender(run: Run) -> list[Line]:
    """The capture at the sender in the same notation, numbers relative to both initial ones."""
    packets = run.packets(tap="sender")
    starts = {way: int(packets["seq"][packets["is_from_sender"] == way].iloc[0]) for way in (True, False)}
    lines = []
    for row in packets.itertuples():
        is_out = bool(row.is_from_sender)
        seq = (int(row.seq) - starts[is_out]) % 2**32
        ack = (int(row.ack) - starts[not is_out]) % 2**32
        flags = "".join(name for name, bit in (("S", 2), ("F", 1), ("R", 4)) if row.flags & bit)
        has_ack = bool(row.flags & 16)
        shown = flags + ("." if has_ack else "") if flags else None
        length = int(row.payload_len)
        # A receiver's blocks are numbers of the sender, and the other way round.
        sack = tuple(
            ((left - starts[not is_out]) % 2**32, (right - starts[not is_out]) % 2**32) for left, right in row.sack
        )
        said = [f"{row.time_ns / 1e9:.4f} {'>' if is_out else '<'}", shown, f"{seq}:{seq + length}" if length else None]
        said += [f"ack {ack}" if has_ack else None, "sack " + ",".join(f"{a}:{b}" for a, b in sack) if sack else None]
        lines.append(
            Line(
                time_ms=round(row.time_ns / 1e6),
                way=">" if is_out else "<",
                flags=shown,
                seq=seq,
                end=seq + length if length else None,
                ack=ack if has_ack else None,
                sack=sack,  # type: ignore[arg-type]
                state={"time_ns": str(row.time_ns)},
                text=" ".join(word for word in said if word),
            )
        )
    return lines


def compare(wanted: Sequence[Line | None], seen: Sequence[Line], run: Run) -> None:
    """Each wanted line in its turn; a mistake shows the whole ladder up to it."""
    place, skips = 0, False
    for line in wanted:
        if line is None:
            skips = True
            continue
        start = place
        while skips and place < len(seen) and not line.matches(seen[place]):
            place += 1
        if place >= len(seen) or not line.matches(seen[place]):
            fail(line, seen[: max(place, start) + 1])
        check_state(line, seen[place], seen[: place + 1], run)
        place, skips = place + 1, False


def check_state(line: Line, found: Line, ladder: Sequence[Line], run: Run) -> None:
    """The sender's variables after the packet at `found`."""
    if not line.state:
        return
    rows = run.windows
    row = rows[rows["time_ns"] <= int(found.state["time_ns"])].iloc[-1]
    actual = {
        "cwnd": row["cwnd"] / row["smss"],
        "ssthresh": row["ssthresh"] / row["smss"],
        "state": next(name for name, number in STATES.items() if number == row["state"]),
    }
    for name, value in line.state.items():
        is_same = actual[name] == value if name == "state" else int(actual[name]) == int(value)
        if not is_same:
            fail(line, ladder, f"{name} is {actual[name]}")


def fail(line: Line, ladder: Sequence[Line], reason: str = "not so") -> None:
    shown = "\n".join(f"    {row.text}" for row in ladder)
    pytest.fail(f"wanted {line.text!r}: {reason}\n{shown}  <- here", pytrace=False)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _blocks(text: str | None) -> tuple[tuple[int, int], ...] | None:
    if text is None:
        return None
    pairs = (block.split(":") for block in text.split(","))
    return tuple((int(left), int(right)) for left, right in pairs)
