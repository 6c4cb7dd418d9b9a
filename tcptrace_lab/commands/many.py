"""Verdicts on the connections of one capture as they come: of many on every core, in their order, none of them kept."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection, context
from multiprocessing.connection import Connection as Pipe
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tcptrace_lab import _core
from tcptrace_lab.classify.verdict import Verdict, classify, verdicts
from tcptrace_lab.errors import LabError
from tcptrace_lab.reconstruct.sender import sender

if TYPE_CHECKING:
    from tcptrace_lab.capture import Capture

Told = TypeVar("Told")
# Connections that a process judges in a row: what it tells of them is sent at once.
IN_A_ROW = 16
# So many rows of connections may be told before those that come first: processes do not wait for each other.
AHEAD = 32


def each_told(capture: Capture, tell: Callable[[Verdict], Told]) -> Iterator[Told]:
    """What `tell` makes of each verdict: of many something that another process can send."""
    numbers = np.flatnonzero(capture.columns["bytes"] > 0)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    # What another thread holds at the moment would be held in a forked process for ever.
    if cores < 2 or threading.active_count() > 1:
        yield from map(tell, classify(capture))
        return
    at = 0
    while at < len(numbers):
        # Read once, by whom the others are forked from.
        last = capture.read_ahead(int(numbers[at]))[-1]
        upto = int(np.searchsorted(numbers, last, side="right"))
        yield from _shared(capture, numbers[at:upto].tolist(), tell, cores)
        at = upto


def _shared(capture: Capture, numbers: Sequence[int], tell: Callable[[Verdict], Told], cores: int) -> Iterator[Told]:
    """Of these, whose rows were read."""
    rows = [numbers[at : at + IN_A_ROW] for at in range(0, len(numbers), IN_A_ROW)]
    forked = context.ForkContext()
    ends: list[Pipe] = []
    processes = []
    try:
        for place in range(min(cores, len(rows))):
            end, other = forked.Pipe(duplex=False)
            process = forked.Process(target=_judge, args=(capture, rows[place::cores], tell, other), daemon=True)
            with warnings.catch_warnings():
                # Numpy's threads, which have nothing to do.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            other.close()
            ends.append(end)
            processes.append(process)
        yield from _in_order(ends, len(rows))
    finally:
        for process in processes:
            process.terminate()
            process.join()
            process.close()


def _in_order(ends: Sequence[Pipe], rows: int) -> Iterator[Told]:
    """What comes through the pipes, in turn from one after the other, but not read far ahead of its turn."""
    places = {end: place for place, end in enumerate(ends)}
    come: dict[int, list[Told]] = {}
    for row in range(rows):
        while row not in come:
            near = [end for end, place in places.items() if place < min(row + AHEAD, rows)]
            for end in connection.wait(near):
                assert isinstance(end, Pipe)
                try:
                    told = end.recv()
                except EOFError:
                    raise LabError("a process that judged some of the connections has ended") from None
                if isinstance(told, Exception):
                    raise told
                come[places[end]] = told
                places[end] += len(ends)
        yield from come.pop(row)


def _judge(capture: Capture, rows: Sequence[Sequence[int]], tell: Callable[[Verdict], Told], out: Pipe) -> None:
    """In a process of its own."""
    # Whoever began it ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _core.stay_alone()
    try:
        judged = verdicts(capture, (sender(capture[number]) for row in rows for number in row))
        for row in rows:
            out.send([tell(next(judged)) for _ in row])
    except LabError as error:
        out.send(LabError(str(error)))
