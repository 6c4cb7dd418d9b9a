"""Writes docs/printed.md: how many of the five papers' printed numbers come out, and why each of the others does not.

    python docs/make_printed.py

Counted is what `tcptrace-lab reproduce --json` lists under "printed", each number once; models/ERRATA.md argues.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAPERS = {
    "000": "Barakat & Altman 1998, small buffers",
    "001": "Shepard & Partridge 1998, RFC 2416",
    "002": "Patel & Ganatra 2017, M-Start",
    "003": "Blanc, Avrachenkov & Collange 2008, Compound TCP",
    "004": "Barakat & Altman 2000, several nodes",
}


def printed(paper: str) -> list[dict[str, Any]]:
    """The paper's comparisons as `reproduce --json` gives them."""
    words = [sys.executable, "-m", "tcptrace_lab", "reproduce", paper, "--no-simulate", "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["printed"]
    return found


def number(value: object) -> str:
    """As a person writes it; a dash where nothing can be computed."""
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    counts, differ = [], []
    total = right = 0
    for paper, title in PAPERS.items():
        found = printed(paper)
        wrong = [one for one in found if not one["agrees"]]
        total, right = total + len(found), right + len(found) - len(wrong)
        counts.append(f"| {paper} {title} | {len(found)} | {len(found) - len(wrong)} | {len(wrong)} |")
        for one in wrong:
            cells = (paper, one["where"], one["what"], number(one["printed"]), number(one["ours"]), one["why"])
            differ.append(f"| {' | '.join(cells)} |")
    lines = [
        "# Printed numbers",
        "",
        "Written by `python docs/make_printed.py`; do not edit. Each number that a paper prints and that can be",
        "compared with what its model or its own tables give, once. The arguments: [ERRATA](../models/ERRATA.md).",
        "",
        "| paper | compared | come out | do not |",
        "|---|---:|---:|---:|",
        *counts,
        f"| all | {total} | {right} | {total - right} |",
        "",
        "## What does not come out",
        "",
        "*We get*: what the paper's own rules, tables or model give; a dash where what is printed does not let one",
        "compute it.",
        "",
        "| paper | where | what | printed | we get | why |",
        "|---|---|---|---:|---:|---|",
        *differ,
    ]
    (ROOT / "docs" / "printed.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{right} of {total} printed numbers come out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
