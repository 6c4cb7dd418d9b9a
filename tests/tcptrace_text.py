"""tcptrace's long output (`-l -r -n`) as numbers."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path

# A label, a colon, a value, twice on a line: the direction a to b, and b to a.
PAIR = re.compile(r"^\s*(?P<label>[^:]+):\s+(?P<first>\S+)(?:\s+\S+)?\s+(?P=label):\s+(?P<second>\S+)")


@dataclass(frozen=True)
class Traced:
    """One connection as tcptrace saw it: `values[label] = (a to b, b to a)`; RTTs in milliseconds."""

    a: str
    b: str
    complete: str
    values: dict[str, tuple[str, str]]


def read(path: Path) -> list[Traced]:
    """Every connection of one reference file."""
    return parse(gzip.decompress(path.read_bytes()).decode("latin-1"))


def parse(text: str) -> list[Traced]:
    """Every connection of an output."""
    found = []
    for part in re.split(r"^TCP connection \d+:$", text, flags=re.MULTILINE)[1:]:
        hosts = re.findall(r"host \w+:\s+(\S+)", part)
        complete = re.search(r"complete conn:\s+(\w+)", part)
        assert complete is not None
        values = {}
        for line in part.splitlines():
            match = PAIR.match(line)
            if match is not None:
                label = match["label"].strip()
                # "initial window" stands twice: bytes, then packets.
                label = f"{label} pkts" if label in values else label
                values[label] = (match["first"], match["second"])
        found.append(Traced(hosts[0], hosts[1], complete[1], values))
    return found
