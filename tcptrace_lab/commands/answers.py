"""Where verdicts go as they come: JSON to standard output or a file, a table, lines or full text for a person."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tcptrace_lab.errors import LabError

if TYPE_CHECKING:
    from tcptrace_lab.classify.verdict import Verdict
    from tcptrace_lab.report.verdict_text import Line


class Told(NamedTuple):
    """Of one verdict what is asked for, as another process can send it: what --expect asks, JSON, keys, a line."""

    regime: str
    case: int | None
    control: str | None
    text: str | None = None
    plain: dict[str, Any] | None = None
    line: Line | None = None


class Answers:
    """Answers to all files; what goes to standard output or to a .json is not kept."""

    def __init__(self, *, json: bool, output: str | None) -> None:
        self.regimes: set[str] = set()
        self.cases: set[int | None] = set()
        self.controls: set[str | None] = set()
        self._json, self._output = json, output
        self._is_list = output is not None and output.endswith(".json")
        self.is_text = not (json or output)
        self._lists: list[IO[str]] = []
        self._count = 0
        self._table: list[dict[str, Any]] = []
        self._judged: list[tuple[Verdict, dict[str, Any]]] = []
        self._lines: list[Line] = []
        self._files = ExitStack()

    def __enter__(self) -> Answers:
        from tcptrace_lab.whole_files import replacing

        if self._json:
            self._lists.append(sys.stdout)
        if self._is_list and self._output is not None:
            temporary = self._files.enter_context(replacing(self._output))
            self._lists.append(self._files.enter_context(open(temporary, "w", encoding="utf-8")))
        return self

    def __exit__(self, *raised: Any) -> bool | None:
        if raised[0] is None:
            self._end()
        elif isinstance(raised[1], LabError) and self._count:
            # What was told stays a list.
            self._end_lists()
        return self._files.__exit__(*raised)

    def tell(self, verdict: Verdict, more: dict[str, Any] | None = None) -> Told:
        """What is kept of a verdict that is not printed in full."""
        from tcptrace_lab._core import json_text

        plain = {**verdict.as_dict(), **(more or {})}
        return Told(
            regime=plain["slow_starts"]["regime"],
            case=plain["compound"]["case"],
            control=plain["sender_tcp"]["congestion_control"],
            text=json_text(plain, within=1) if self._json or self._is_list else None,
            plain=plain if self._output is not None and not self._is_list else None,
            line=self._line(plain) if self.is_text else None,
        )

    @staticmethod
    def _line(plain: dict[str, Any]) -> Line:
        from tcptrace_lab.report.verdict_text import line_of

        return line_of(plain)

    def may_be_full(self, more: int) -> bool:
        """Whether so many more verdicts are few enough for a person to read each in full."""
        if not self.is_text:
            # What prints text is not even loaded.
            return False
        from tcptrace_lab.report.verdict_text import IN_FULL

        return self._count + more <= IN_FULL

    def add_full(self, verdict: Verdict, more: dict[str, Any]) -> None:
        """One that may be printed in full."""
        self.add(self.tell(verdict, more))
        if self.is_text:
            self._judged.append((verdict, more))

    def add(self, told: Told) -> None:
        """The next."""
        self.regimes.add(told.regime)
        self.cases.add(told.case)
        self.controls.add(told.control)
        if told.text is not None:
            for out in self._lists:
                out.write(f"{',' if self._count else '['}\n {told.text}")
        if told.plain is not None:
            self._table.append(told.plain)
        if told.line is not None:
            self._lines.append(told.line)
        self._count += 1

    def _end(self) -> None:
        self._end_lists()
        if self._output is not None and not self._is_list:
            from tcptrace_lab.tables import flat, write_table

            write_table(flat(self._table), self._output)
        if self.is_text:
            from tcptrace_lab.report.verdict_text import print_lines, print_verdicts

            if len(self._judged) == self._count and (self.may_be_full(0) or any(more for _, more in self._judged)):
                print_verdicts(self._judged)
            else:
                print_lines(self._lines)

    def _end_lists(self) -> None:
        for out in self._lists:
            out.write("\n]\n" if self._count else "[]\n")
