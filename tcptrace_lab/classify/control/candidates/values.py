"""What is answered to the values of a parameter, asked only as far as the answers differ.

A threshold is met or it is not: between two values that did the same, all do. So nobody is asked for those.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Values(Generic[Answer]):
    """`ask`: the answers to some values; who has none is hopeless. `known`: those that are there already."""

    def __init__(
        self,
        ask: Callable[[list[float]], dict[float, Answer]],
        is_same: Callable[[Answer, Answer], bool],
        known: dict[float, Answer] | None = None,
    ) -> None:
        self._ask = ask
        self._is_same = is_same
        self.known: dict[float, Answer | None] = dict(known or {})

    def answers(self, values: Sequence[float]) -> dict[float, Answer]:
        """To all of these but the hopeless."""
        left = sorted(set(values))
        while left := [each for each in left if each not in self.known and self._around(each) is None]:
            places = sorted(self.known)
            chosen = [
                each
                for place, run in groupby(left, key=lambda value: bisect(places, value))
                for each in _some(list(run), is_first=place == 0, is_last=place == len(places))
            ]
            found = self._ask(chosen)
            self.known.update({each: found.get(each) for each in chosen})
        told = {each: self.known[each] if each in self.known else self._around(each) for each in sorted(set(values))}
        return {each: answer for each, answer in told.items() if answer is not None}

    def _around(self, value: float) -> Answer | None:
        """What the nearest on both sides say, if that is the same."""
        places = sorted(self.known)
        at = bisect(places, value)
        if not 0 < at < len(places):
            return None
        low, high = self.known[places[at - 1]], self.known[places[at]]
        return low if low is not None and high is not None and self._is_same(low, high) else None


def _some(run: list[float], *, is_first: bool, is_last: bool) -> list[float]:
    """Of values between two that are known: what parts them, and where none is known beyond them the last of them."""
    # In five: all are there after three rounds where all differ, and few are asked for where none does.
    step = -(-len(run) // 5)
    ends = [run[0]] * is_first + [run[-1]] * is_last
    return sorted({*ends, *run[step - 1 :: step]})
