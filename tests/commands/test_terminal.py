"""What a person at a terminal sees: tables that fit, a pager for long ones, a bar for long work (a pseudo terminal)."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT, terminal

CAPTURES = ROOT / "captures"
TIMEOUT_S = 120.0


def at_terminal(*words: str, columns: int = 80, rows: int = 50, pager: str = "cat") -> tuple[int, str]:
    """Runs a command on a terminal of its own; its exit status and all it wrote there, control sequences too."""
    main, far = terminal()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    # Its own size, not that of the terminal the tests run in.
    there = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    child = subprocess.Popen(
        [sys.executable, "-m", "tcptrace_lab", *words],
        stdin=far,
        stdout=far,
        stderr=far,
        env={**there, "TERM": "xterm", "PAGER": pager},
        start_new_session=True,
    )
    os.close(far)
    written, until = b"", time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        try:
            piece = os.read(main, 1 << 16)
        except OSError:
            # Linux: nobody holds the other end any more.
            break
        if not piece:
            break
        written += piece
    os.close(main)
    return child.wait(TIMEOUT_S), written.decode()


def plain(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).split("\r\n")


@pytest.mark.parametrize("columns", [60, 80, 100, 130, 160])
def test_a_table_fits_the_terminal_and_cuts_no_number(columns: int) -> None:
    """Columns are left out before a number is."""
    status, text = at_terminal("analyze", str(CAPTURES / "two_reno.pcap.gz"), columns=columns)
    assert status == 0
    lines = plain(text)
    heading, first = (next(line for line in lines if line.startswith(begin)) for begin in ("# ", "0 "))
    assert all(len(line.rstrip()) <= columns for line in lines)
    assert "…" not in text
    assert {"#", "client", "server", "lasted"} <= set(heading.split())
    assert "14.3 s" in first
    assert ("tap" in heading.split()) == (columns >= 130)


@pytest.mark.parametrize("columns", [80, 120])
def test_many_verdicts_keep_number_sender_and_regime(columns: int) -> None:
    files = [str(CAPTURES / f"{name}.pcap.gz") for name in ("reno_10M", "two_reno", "short_reno", "tahoe_small_buffer")]
    status, text = at_terminal("classify", *files, columns=columns)
    assert status == 0
    lines = plain(text)
    # On a busy machine a bar came before.
    assert any({"no", "sender", "regime"} <= set(line.split()) for line in lines)
    assert "triple" in lines[-2]
    assert all(len(line.rstrip()) <= columns for line in lines)


def test_a_pipe_gets_every_sentence_whole() -> None:
    files = [str(CAPTURES / f"{name}.pcap.gz") for name in ("reno_10M", "two_reno", "short_reno", "reno_rwnd")]
    here = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    words = [sys.executable, "-m", "tcptrace_lab", "classify", *files]
    told = subprocess.run(words, capture_output=True, text=True, check=True, env=here).stdout
    assert "99% of what Reno's law allows" in told
    assert "…" not in told


def test_a_pager_is_started_when_asked_for_and_only_then() -> None:
    """Also for a table longer than the terminal."""
    asked, not_asked = (
        at_terminal("analyze", str(CAPTURES / "two_reno.pcap.gz"), *words, rows=5, pager="sed s/packets/PAGED/")
        for words in (["--pager"], [])
    )
    assert (asked[0], not_asked[0]) == (0, 0)
    assert "PAGED" in asked[1]
    assert "PAGED" not in not_asked[1]


def test_the_environment_may_set_the_width() -> None:
    """COLUMNS, in a pipe too; without it a pipe has every column."""
    words = [sys.executable, "-m", "tcptrace_lab", "analyze", str(CAPTURES / "two_reno.pcap.gz")]
    here = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    narrow, free = (
        subprocess.run(words, capture_output=True, text=True, check=True, env={**here, **more}).stdout.splitlines()
        for more in ({"COLUMNS": "70"}, {})
    )
    assert max(len(line) for line in narrow[1:]) <= 70
    assert {"start", "tap", "median"} <= set(free[1].split())


def test_an_address_is_no_picture(tmp_path: Path) -> None:
    """`:ab:` and brackets in names and addresses are text, not rich's markup."""
    odd = tmp_path / "[red]a:b:ab:.pcap.gz"
    odd.write_bytes((CAPTURES / "cubic_v6_two_nodes.pcap.gz").read_bytes())
    for command in ("analyze", "classify", "reconstruct"):
        _, text = at_terminal(command, str(odd), columns=200)
        assert "[red]a:b:ab:" in text, command


def test_long_work_shows_a_bar_and_takes_it_away() -> None:
    scenario = str(CAPTURES / "scenarios" / "small_buffers_B20.toml")
    command = ("sweep", scenario, "--over", "path.nodes.0.buffer=5:8", "--set", "duration_s=20")
    status, text = at_terminal(*command, columns=150)
    assert status == 0
    assert "4/4" in text
    # The cursor is there again, and the last thing written is the table.
    assert text.rfind("\x1b[?25h") > text.rfind("\x1b[?25l")
    assert "4/4" not in plain(text)[-2]


def test_a_capture_that_cannot_be_read_is_one_line_at_a_terminal_too(tmp_path: Path) -> None:
    status, text = at_terminal("analyze", str(tmp_path / "absent.pcap"))
    assert (status, len(plain(text))) == (2, 2)


@pytest.mark.parametrize("command", ["analyze", "classify", "reconstruct"])
def test_lines_in_a_pipe_end_where_their_text_ends(command: str) -> None:
    words = [sys.executable, "-m", "tcptrace_lab", command, str(CAPTURES / "tahoe_small_buffer.pcap.gz")]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) > 2
    assert all(line == line.rstrip() for line in lines)
