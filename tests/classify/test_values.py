"""Values of a parameter, asked only as far as the answers differ."""

from __future__ import annotations

import operator

import pytest

from tcptrace_lab.classify.control.candidates.values import Values


def told(steps: list[float], hopeless: float = 1e9) -> tuple[Values[int], list[float]]:
    """Answers are how many of these a value has passed; and what has been asked for."""
    asked: list[float] = []

    def ask(values: list[float]) -> dict[float, int]:
        asked.extend(values)
        return {each: sum(each > step for step in steps) for each in values if each < hopeless}

    return Values(ask, operator.eq), asked


@pytest.mark.parametrize(("steps", "most"), [([], 6), ([40.5], 16), ([3.5, 4.5, 77.5], 30), (list(range(100)), 100)])
def test_every_value_has_its_answer_though_few_were_asked_for(steps: list[float], most: int) -> None:
    values, asked = told(steps)
    found = values.answers(range(1, 101))
    assert found == {each: sum(each > step for step in steps) for each in range(1, 101)}
    assert len(asked) == len(set(asked)) <= most


def test_what_lies_between_two_alike_is_not_asked_for_later_either() -> None:
    values, asked = told([40.5])
    values.answers(range(1, 101))
    before = len(asked)
    assert values.answers([20.25, 60.5]) == {20.25: 0, 60.5: 1}
    assert len(asked) == before
    assert values.answers([40.75, 101]) == {40.75: 1, 101: 1}
    assert asked[before:] == [40.75, 101]


def test_nothing_is_said_of_the_hopeless_nor_of_what_lies_beside_them() -> None:
    values, asked = told([], hopeless=50)
    assert values.answers(range(1, 101)) == dict.fromkeys(range(1, 50), 0)
    assert set(asked) >= set(range(50, 101))
