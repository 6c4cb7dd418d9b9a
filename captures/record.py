"""Records every scenario of captures/scenarios/recorded again and writes captures/index.toml (root, Linux).

    sudo .venv/bin/python captures/record.py            # all of them
    sudo .venv/bin/python captures/record.py reno_10M   # one; the others' entries stay
    .venv/bin/python captures/record.py --index         # only the index, from the files that are there

Run it while the machine does nothing else: a recording that a freeze has disturbed is made again, four times at most,
and the least disturbed is kept.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from tcptrace_lab.scenario import Scenario
from tcptrace_lab.scenario_file import load
from tcptrace_lab.testbed import record
from tcptrace_lab.testbed.recording import sha256

HERE = Path(__file__).parent
SCENARIOS = HERE / "scenarios" / "recorded"
ATTEMPTS = 4
HEAD = """\
# Captures of our own recording: the real Linux kernel, sender and receiver, over an emulated path.
# Written by captures/record.py. `expected` is measured from the kernel's own rows (NAME.truth.csv.gz) and from the
# path's log (NAME.drops.csv), never from the capture; see README.md.
"""


def main() -> None:
    """Record what is named (all, without names), then write the index of what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*", help="these only (default: all)")
    parser.add_argument("--index", action="store_true", help="record nothing")
    arguments = parser.parse_args()
    names = arguments.names or sorted(path.stem for path in SCENARIOS.glob("*.toml"))
    for name in () if arguments.index else names:
        scenario = load(SCENARIOS / f"{name}.toml")
        recording = record(scenario, output=HERE / name, sender=who(scenario), attempts=ATTEMPTS)
        print(recording.summary(), end="", flush=True)
        if not recording.is_clean:
            print(f"  {name}: disturbed at each of {ATTEMPTS} attempts; this is the least disturbed one", flush=True)
    found = sorted(path for path in SCENARIOS.glob("*.toml") if (HERE / f"{path.stem}.json").exists())
    (HERE / "index.toml").write_text(HEAD + "".join(entry(path) for path in found), encoding="utf-8")


def who(scenario: Scenario) -> str:
    """The kernel sends what it can."""
    return "own" if scenario.control.recovery == "tahoe" else "kernel"


def entry(scenario: Path) -> str:
    """One table of the index."""
    name = scenario.stem
    about = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    shows = re.match(r"(?:# .*\n)+", scenario.read_text(encoding="utf-8"))
    if shows is None:
        sys.exit(f"{scenario}: must begin with a comment that says what it shows")
    others = [tap for tap in about["tcpdump"] if not (HERE / f"{name}.pcap.gz").samefile(tap_file(name, tap, about))]
    rows: dict[str, Any] = {
        "name": name,
        "file": f"{name}.pcap.gz",
        "shows": " ".join(line.removeprefix("# ") for line in shows[0].splitlines()),
        "scenario": f"scenarios/recorded/{scenario.name}",
        "vantage": next(iter(about["tcpdump"])),
        "sender": about.get("sender", "kernel"),
        "kernel": about["kernel"],
        "sha256": sha256(HERE / f"{name}.pcap.gz"),
        "packets": next(iter(about["tcpdump"].values()))["captured"],
        "truth": f"{name}.truth.csv.gz",
        "drops": f"{name}.drops.csv",
        "freezes": len(about["emulator"]["freezes"]),
    }
    lines = ["", "[[captures]]", *(f"{key} = {toml(value)}" for key, value in rows.items())]
    for tap in others:
        file = tap_file(name, tap, about)
        counts = {
            "vantage": tap,
            "file": file.name,
            "sha256": sha256(file),
            "packets": about["tcpdump"][tap]["captured"],
        }
        lines += ["", "[[captures.also]]", *(f"{key} = {toml(value)}" for key, value in counts.items())]
    drops, derived = about["drops"], about["derived"]
    path = {
        "base_rtt_s": round(derived["base_rtt_s"], 6),
        "bdp_packets": round(derived["bdp_packets"], 2),
        "buffer_packets": int(derived["buffer_packets_waiting"]),
        **{f"drops_{reason}": count for reason, count in drops.items()},
    }
    lines += ["", "[captures.path]", *(f"{key} = {toml(value)}" for key, value in path.items())]
    for congestion, (port, measured) in zip(about["congestion_control"], about["measured"].items(), strict=True):
        kinds = [event["kind"] for event in measured["loss_events"]]
        avoidance = [event["cwnd_before"] for event in measured["loss_events"] if event["phase"] == "avoidance"]
        expected = {
            "client_port": int(port),
            "congestion_control": congestion,
            "retransmissions": measured["retransmissions"],
            "fast_retransmits": kinds.count("fast_retransmit"),
            "timeouts": kinds.count("rto") + kinds.count("rto_backoff"),
            "slow_starts_per_cycle": measured["slow_starts_per_cycle"],
            "cwnd_max": measured["cwnd_max"],
            "w_max": avoidance,
        }
        lines += ["", "[[captures.expected]]", *(f"{key} = {toml(value)}" for key, value in expected.items())]
    return "\n".join(lines) + "\n"


def tap_file(name: str, tap: str, about: dict[str, Any]) -> Path:
    """Where the capture of a tap lies: the first tap's name has no suffix."""
    first = next(iter(about["tcpdump"]))
    return HERE / (f"{name}.pcap.gz" if tap == first else f"{name}.{tap}.pcap.gz")


def toml(value: object) -> str:
    """Strings, numbers and lists of numbers: their JSON is their TOML."""
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
