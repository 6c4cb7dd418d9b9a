"""Writes docs/printed.md: how many of the five papers' printed numbers come out, and which do not.

    python docs/make_printed.py

Counted is what `tcptrace-lab reproduce` compares one by one; models/ERRATA.md says of each that differs what follows
instead and why.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
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


def reproduced(paper: str) -> dict[str, Any]:
    """The paper's tables as `reproduce --json` gives them."""
    words = [sys.executable, "-m", "tcptrace_lab", "reproduce", paper, "--no-simulate", "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def compared(tables: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Each printed number that is compared: what it is, and whether it comes out."""
    found: list[tuple[str, bool]] = []
    for table in tables:
        for row in table["rows"]:
            if "agrees" in row:
                name = row.get("what") or f"{row.get('start', '')}: {row.get('event', '')}"
                found.append((f"{row.get('where') or row.get('section') or ''} {name}".strip(), bool(row["agrees"])))
            elif "disagree" in row:
                wrong = str(row["disagree"] or "").replace(",", " ").split()
                # Each printed cell stands before ours.
                printed = [
                    key
                    for key, after in pairwise(row)
                    if after.strip() in ("ours", f"{key} ours") and row[key] is not None
                ]
                found += [(f"{table['name']} cycle {row['cycle']}: {key}", key not in wrong) for key in printed]
    return found


def main() -> int:
    lines = [
        "# Printed numbers",
        "",
        "Written by `python docs/make_printed.py`; do not edit. Each number that a paper prints and that",
        "`tcptrace-lab reproduce` compares with what its model or its own tables give. Why one does not come out:",
        "[models/ERRATA.md](../models/ERRATA.md).",
        "",
        "| paper | compared | come out | do not |",
        "|---|---:|---:|---|",
    ]
    total = right = 0
    for paper, title in PAPERS.items():
        found = compared(reproduced(paper)["tables"])
        wrong = [name for name, agrees in found if not agrees]
        total, right = total + len(found), right + len(found) - len(wrong)
        shown = "; ".join(dict.fromkeys(wrong)) if len(wrong) <= 8 else f"{len(wrong)}, see the errata"
        lines.append(f"| {paper} {title} | {len(found)} | {len(found) - len(wrong)} | {shown} |")
    lines.append(f"| all | {total} | {right} | {total - right} |")
    (ROOT / "docs" / "printed.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{right} of {total} printed numbers come out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
