"""The pages and `--help` show what the commands print: each `$ tcptrace-lab ...` with its output is run again.

Lines may wrap elsewhere, and a line `...` stands for any number of lines. After a change that moves what is printed:
`python -m tests.test_docs PAGE...` runs the blocks without such a line and writes their output anew.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tcptrace_lab import read
from tcptrace_lab.cli import COMMANDS, main
from tests.conftest import ROOT

# A terminal of the width in which the pages are read; where it is too narrow for a table, columns are left out.
ENVIRONMENT = {"TZ": "UTC", "COLUMNS": "120"}
PAGES = ("README.md", "docs/tutorial.md")
BLOCK = re.compile(r"^```\n\$ tcptrace-lab (?P<words>[^\n]*)\n(?P<shown>.*?)^```$", flags=re.MULTILINE | re.DOTALL)
# Of a `--help`: indented, without a shell's signs, up to the next example or the text behind.
EXAMPLE = re.compile(
    r"^    \$ tcptrace-lab (?P<words>(?:[^\n|>&\\]|\\\n)*)\n(?P<shown>(?: {4}(?!\$ )[^\n]*\n|\n(?= {4}(?!\$ )))+)",
    flags=re.MULTILINE,
)
# What these print is an interface's, a kernel's, a screen's.
NOT_RUN = ("live", "record", "watch")
LINK = re.compile(r"\]\((?P<target>[^)#:]+)(?:#[^)]*)?\)")


def blocks(page: str) -> list[tuple[str, str]]:
    """The commands that a page shows, without the program's name, each with what is shown below it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [(block["words"], block["shown"]) for block in BLOCK.finditer(text)]


def printed(words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(shlex.split(words))
    return out.getvalue()


def as_pattern(shown: str) -> re.Pattern[str]:
    """Words one after the other, however the lines were broken."""
    parts = re.split(r"^\s*\.\.\.$", shown, flags=re.MULTILINE)
    return re.compile(r"(?s:.*)".join(r"\s+".join(map(re.escape, ["", *part.split(), ""])) for part in parts))


@pytest.fixture
def beside_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder that has the shipped captures and takes what a command writes; times are UTC's."""
    (tmp_path / "captures").symlink_to(ROOT / "captures")
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "words", "shown"),
    [pytest.param(page, *block, id=f"{page}: {block[0]}") for page in PAGES for block in blocks(page)],
)
def test_a_page_shows_what_the_command_prints(page: str, words: str, shown: str, beside_captures: None) -> None:
    now = printed(words)
    assert as_pattern(shown).fullmatch(f"\n{now}\n"), f"{page} is behind: see the head of this file\n{now}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "words", "shown"),
    [
        pytest.param(name, example["words"], example["shown"], id=example["words"])
        for name in COMMANDS
        if name not in NOT_RUN
        for example in EXAMPLE.finditer(importlib.import_module(f"tcptrace_lab.commands.{name}").__doc__ or "")
    ],
)
def test_a_help_shows_what_the_command_prints(
    command: str, words: str, shown: str, beside_captures: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "116")
    now = printed(words.replace("\\\n", " "))
    assert as_pattern(shown).fullmatch(f"\n{now}\n"), f"{command} --help is behind\n{now}"


@pytest.mark.slow
def test_the_tutorials_python_prints_what_it_shows(beside_captures: None) -> None:
    result = doctest.testfile(str(ROOT / "docs" / "tutorial.md"), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert (result.failed, result.attempted > 3) == (0, True)


def test_wrapping_and_left_out_lines_are_no_difference() -> None:
    pattern = as_pattern("one two\n    three\n...\nlast\n")
    assert pattern.fullmatch("\none\ntwo three\nfour\nfive\nlast\n\n")
    assert not pattern.fullmatch("\none two 3\nlast\n\n")


def test_every_key_of_a_verdict_is_on_its_page() -> None:
    """Down to the second level; what is within an estimate, a list's rows or a model's quantities is in the text."""
    verdict = read(ROOT / "captures" / "reno_10M.pcap.gz")[0].verdict().as_dict()
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")))
    keys = {key for key, value in verdict.items() if not isinstance(value, dict)}
    for room in set(verdict) - keys:
        keys |= {f"{room}.{key}" for key in verdict[room]}
    assert keys <= named
    assert {name for name in named if "." in name and name.partition(".")[0] in verdict} <= keys


@pytest.mark.parametrize("page", sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md")))
def test_what_a_page_links_to_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [link for link in LINK.findall(text) if not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(path.stem for path in ROOT.glob("docs/make_*.py")))
def test_a_script_that_writes_a_page_says_how_it_is_called(script: str) -> None:
    """It begins, so what it takes from the package is there."""
    command = [sys.executable, "-m", f"docs.{script}", "--help"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert (result.returncode, result.stdout[:6], result.stderr) == (0, "usage:", "")


def rewrite(page: str) -> None:
    """A page with the output of today's commands."""

    def anew(block: re.Match[str]) -> str:
        if re.search(r"^\s*\.\.\.$", block["shown"], flags=re.MULTILINE):
            return block[0]
        shown = (f"$ tcptrace-lab {block['words']}", *printed(block["words"]).rstrip().splitlines())
        return "\n".join(("```", *shown, "```"))

    path = ROOT / page
    path.write_text(BLOCK.sub(anew, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    time.tzset()
    for name in sys.argv[1:] or PAGES[1:]:
        rewrite(name)
