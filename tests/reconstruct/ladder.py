"""Hand-written timelines: segments and ACKs in milliseconds and whole segments, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from tcptrace_lab.reconstruct.reconstruction import Reconstruction
from tcptrace_lab.reconstruct.timeline import build

SMSS = 1000
MS = 1_000_000


def ladder(
    sent: Sequence[tuple[float, int]],
    acks: Sequence[tuple[float, int]],
    *,
    sacked: dict[int, int] | None = None,
    rwnd: int = 1 << 30,
    dsacks: tuple[tuple[int, int], ...] = (),
    blocks: dict[int, list[tuple[int, int]]] | None = None,
    lengths: dict[int, int] | None = None,
    short: Sequence[int] = (),
    has_start: bool = True,
) -> Reconstruction:
    """`sent`: (ms, segment number from 0); `acks`: (ms, next segment expected).

    `sacked`: ACK's index -> highest; `blocks`: ACK's index -> its SACK blocks, from which `sacked` follows. `lengths`:
    send's index -> segments, where they are more than one (offload). `short`: the segments of half the length.
    """

    def at(number: int) -> int:
        return number * SMSS - SMSS // 2 * sum(each < number for each in short)

    sizes = [(lengths or {}).get(index, 1) for index in range(len(sent))]
    told = blocks or {}
    top = sacked or {index: max(right for _, right in found) for index, found in told.items()}
    edges = [[(at(left), at(right)) for left, right in told.get(index, [])] for index in range(len(acks))]
    return Reconstruction(
        build(
            {
                "send_ns": [round(time * MS) for time, _ in sent],
                "send_offset": [at(number) for _, number in sent],
                "send_end": [at(number + size) for (_, number), size in zip(sent, sizes, strict=True)],
                "ack_ns": [round(time * MS) for time, _ in acks],
                "ack_offset": [at(number) for _, number in acks],
                "rwnd": [rwnd] * len(acks),
                "sack_high": [at(top.get(index, 0)) for index in range(len(acks))],
                "sacked": [SMSS if index in top else 0 for index in range(len(acks))],
            },
            smss=SMSS,
            has_start=has_start,
            has_sack=bool(top),
            blocks=edges if told else (),
            dsacks=tuple((at(left), at(right)) for left, right in dsacks),
        )
    )


def rounds(
    windows: Sequence[int], *, rtt_ms: float = 100.0, first: int = 0, begin_ms: float = 0.0
) -> tuple[list[tuple[float, int]], list[tuple[float, int]]]:
    """A sender that keeps each round trip's window; ACKs of every segment, a millisecond apart, release the next."""
    last = [(begin_ms + 0.01 * index, first + index) for index in range(windows[0])]
    sent, acks = list(last), list[tuple[float, int]]()
    number, heard_ms = first + windows[0], begin_ms
    for window, following in zip(windows, [*windows[1:], 0], strict=True):
        now: list[tuple[float, int]] = []
        for index, (time, segment) in enumerate(last):
            heard_ms = max(heard_ms + 1.0, time + rtt_ms)
            acks.append((heard_ms, segment + 1))
            due = (following * (index + 1)) // window - (following * index) // window
            now.extend((heard_ms + 0.01 * (extra + 1), number + extra) for extra in range(due))
            number += due
        sent.extend(now)
        last = now
    return sent, acks
