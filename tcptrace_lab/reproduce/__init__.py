"""A paper's tables and figures again: published values, the models', the simulator's and ns-2's side by side.

One file per paper with `reproduce(sources) -> Reproduction`; `PAPERS` is the table of them.
"""

from tcptrace_lab.reproduce.paper import Figure, Reproduction, Row, Sources, Table

# Number of the paper, module of this package, what it is.
PAPERS: tuple[tuple[str, str, str], ...] = (
    ("000", "small_buffers", "Barakat & Altman 1998: one, two or three slow starts per cycle (small buffers)"),
    ("001", "initial_window", "RFC 2416: four packets into three buffers"),
    ("002", "m_start", "Patel & Ganatra 2017: TCP M-Start"),
    ("003", "compound", "Blanc, Avrachenkov & Collange 2008: an isolated Compound TCP connection"),
    ("004", "several_nodes", "Barakat & Altman 2000: TCP with several bottleneck nodes"),
)

__all__ = ["PAPERS", "Figure", "Reproduction", "Row", "Sources", "Table"]
