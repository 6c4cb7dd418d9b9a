"""RR-6778's drawings that stand for rules: the four phases (Figure 1) and the two flow charts (Figures 3 and 13).

The images are not in the text. Figure 1 is drawn from section 2's equations with Figure 9's parameters; the charts ask
what sections 3.3 and 4 ask, in an order that is inferred where the text leaves it open (models/ERRATA.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tcptrace_lab.models import compound_cases as cases
from tcptrace_lab.models import compound_phases as phases
from tcptrace_lab.models.compound_oscillation import LONGEST_RISE, PRIORITY, is_feasible, oscillation
from tcptrace_lab.models.prediction import FloatArray
from tcptrace_lab.reproduce.compound_runs import CASES, PACKET_BITS
from tcptrace_lab.reproduce.paper import Figure, Row, Table

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

Numbers = Mapping[str, float]
PHASE_NAMES = ("buffer empty, superlinear", "not empty, superlinear", "constant window", "linear")


@dataclass(frozen=True, kw_only=True)
class Question:
    """One diamond of a flow chart: what it asks, and the answer if it holds."""

    text: str
    holds: Callable[[Numbers], bool]
    answer: str


@dataclass(frozen=True, kw_only=True)
class FlowChart:
    """Questions in order; the last answer stands if none holds."""

    questions: tuple[Question, ...]
    otherwise: Callable[[Numbers], str]
    otherwise_text: str

    def follow(self, numbers: Numbers) -> str:
        """The answer for one set of numbers."""
        return next((q.answer for q in self.questions if q.holds(numbers)), None) or self.otherwise(numbers)

    def table(self, name: str, title: str) -> Table:
        """The same chart as rows."""
        rows: list[Row] = [(place, q.text, q.answer) for place, q in enumerate(self.questions, start=1)]
        rows.append((len(rows) + 1, "else", self.otherwise_text))
        return Table(name=name, title=title, columns=("step", "if", "then"), rows=tuple(rows))

    def draw(self, axes: matplotlib.axes.Axes) -> None:
        """Questions down the left, answers to the right."""
        rows = len(self.questions)
        axes.set_xlim(0, 10)
        axes.set_ylim(-0.6, rows + 0.6)
        axes.axis("off")
        diamond = {"boxstyle": "round,pad=0.45", "facecolor": "#eef3fa", "edgecolor": "tab:blue"}
        box = {"boxstyle": "square,pad=0.45", "facecolor": "#f3f3f3", "edgecolor": "black"}
        arrow = {"arrowstyle": "->", "color": "gray", "shrinkA": 14, "shrinkB": 14}
        for place, question in enumerate(self.questions):
            y = rows - place
            axes.annotate("", (3.4, y - 1), (3.4, y), arrowprops=arrow)
            axes.annotate("", (8.4, y), (5.9, y), arrowprops={**arrow, "shrinkA": 0})
            axes.text(3.4, y, _greek(question.text), ha="center", va="center", bbox=diamond)
            axes.text(8.6, y, question.answer, ha="center", va="center", bbox=box)
            axes.text(7.5, y + 0.08, "yes", ha="center", va="bottom", color="gray")
            axes.text(3.5, y - 0.5, "no", ha="left", va="center", color="gray")
        axes.text(3.4, 0, _greek(self.otherwise_text), ha="center", va="center", bbox=box)


GREEK = {"theta_max": "θmax", "mu tau": "μτ", "alpha": "α", "beta ": "β", "beta": "β", "gamma": "γ", "Delta_": "Δ",
         ">=": "≥"}  # fmt: skip


def _greek(text: str) -> str:
    """As the paper sets it."""
    for word, letter in GREEK.items():
        text = text.replace(word, letter)
    return text


def _lives(rises: int, falls: int) -> Callable[[Numbers], bool]:
    return lambda numbers: bool(is_feasible(rises, falls, numbers["bdp"], numbers["gamma"]) > 0)


def _smallest(numbers: Numbers) -> str:
    """m:1 with the smallest m >= 4 that can live."""
    found = oscillation(numbers["bdp"], numbers["gamma"])
    living = (m for m in range(4, LONGEST_RISE + 1) if _lives(m, 1)(numbers))
    return f"{next(living, int(found.rises))}:1"


OSCILLATION = FlowChart(
    questions=tuple(
        Question(
            text=f"Delta_{m} < gamma, Delta_{m + 1} >= gamma, Delta_{m + 2} {'<' if n == 1 else '>='} gamma",
            holds=_lives(m, n),
            answer=f"{m}:{n}",
        )
        for m, n in PRIORITY
    ),
    otherwise=_smallest,
    otherwise_text="m:1 with the smallest m >= 4 that lives",
)
CASE = FlowChart(
    questions=(
        Question(
            text="b < alpha (mu tau)^k",
            holds=lambda n: n["b"] < 0.125 * n["bdp"] ** 0.75,
            answer="case 1",
        ),
        Question(
            text="b < theta_max - mu tau and b < beta mu tau / (1 - beta)",
            holds=lambda n: n["b"] < n["theta_max"] - n["bdp"] and n["b"] < n["bdp"],
            answer="case 2",
        ),
        Question(text="b < theta_max - mu tau", holds=lambda n: n["b"] < n["theta_max"] - n["bdp"], answer="case 3"),
        Question(text="b < beta mu tau / (1 - beta)", holds=lambda n: n["b"] < n["bdp"], answer="case 4"),
        Question(
            text="b < (beta mu tau + gamma) / (1 - beta)",
            holds=lambda n: n["b"] < n["bdp"] + 2 * n["gamma"],
            answer="case 5",
        ),
    ),
    otherwise=lambda _: "case 6",
    otherwise_text="case 6",
)


@dataclass(frozen=True, kw_only=True)
class FourPhases:
    """Figure 1's curves (packets over s): w = w_c + w_d; `bounds` are t_1 to t_4 from the loss's end."""

    t: FloatArray
    w: FloatArray
    w_c: FloatArray
    bounds: tuple[float, ...]
    bdp: float
    theta: float
    w_f: float

    @property
    def w_d(self) -> FloatArray:
        """The delay window."""
        return self.w - self.w_c


def four_phases(number: int = 4, points: int = 80) -> FourPhases:
    """Equations (3), (5), (8)-(12), one phase after the other, with the parameters of Figure 9 (case 4)."""
    mbps, ms, b, gamma, _ = CASES[number]
    mu, tau = mbps * 1e6 / PACKET_BITS, ms / 1e3
    theta = float(oscillation(mu * tau, gamma).theta)
    one = cases.cycle(number, mu=mu, tau=tau, buffer=b, theta=theta)
    grown = float(one.w_start)
    begin, bounds = 0.0, []
    t, w, w_c = [], [], []
    for phase, lasts in enumerate(float(value) for value in one.time):
        start = float(one.starts[phase])
        s = np.linspace(0, lasts, points)
        w.append(
            (
                phases.window_1(s, start, tau),
                phases.window_2(s, start, mu),
                np.full(points, start),
                phases.window_4(s, start, mu),
            )[phase]
        )
        gain = (s / tau, phases.congestion_2(s, start, mu), phases.congestion_3(s, start, mu), w[-1] - w[-1][0])[phase]
        w_c.append(grown + gain)
        t.append(begin + s)
        grown += float(gain[-1])
        begin += lasts
        bounds.append(begin)
    return FourPhases(
        t=np.concatenate(t),
        w=np.concatenate(w),
        w_c=np.concatenate(w_c),
        bounds=tuple(bounds),
        bdp=mu * tau,
        theta=theta,
        w_f=float(one.w_end),
    )


def tables() -> tuple[Table, Table]:
    """Figures 3 and 13 as text."""
    return (
        OSCILLATION.table("figure_3", "Figure 3: how to find the type of oscillation"),
        CASE.table("figure_13", "Figure 13: the case from mu tau and b (beta = 1/2)"),
    )


def figures() -> tuple[Figure, Figure, Figure]:
    """Figures 1, 3 and 13."""
    return (
        Figure(
            name="figure_1",
            title="Figure 1: the four phases (rebuilt: 100 Mb/s, 50 ms, b = 80, gamma = 30)",
            draw=_draw_figure_1,
        ),
        Figure(
            name="figure_3",
            title="Figure 3: how to find the type of oscillation (order inferred from sections 3.3, 5.1)",
            draw=lambda canvas: OSCILLATION.draw(canvas.subplots()),
            size=(7.0, 5.6),
        ),
        Figure(
            name="figure_13",
            title="Figure 13: the case from mu tau and b (rebuilt from sections 4.1 to 4.6)",
            draw=lambda canvas: CASE.draw(canvas.subplots()),
            size=(7.0, 5.6),
        ),
    )


def _draw_figure_1(canvas: matplotlib.figure.Figure) -> None:
    axes = canvas.subplots()
    found = four_phases()
    for line, label, color in (
        (found.w, "w", "black"),
        (found.w_c, "$w_c$", "tab:blue"),
        (found.w_d, "$w_d$", "tab:orange"),
    ):
        axes.plot(found.t, line, color=color, label=label)
    begin = 0.0
    for phase, end in enumerate(found.bounds):
        axes.axvspan(begin, end, color=f"C{phase}", alpha=0.08)
        axes.annotate(str(phase + 1), ((begin + end) / 2, 570), ha="center", va="center")
        # t_2 follows close upon t_1.
        axes.annotate(f"$t_{phase + 1}$", (end, 8), ha="left" if phase == 1 else "right", va="bottom")
        begin = end
    for level, name in ((found.bdp, r"$\mu\tau$"), (found.theta, r"$\theta$"), (found.w_f, r"$\mu\tau + b$")):
        axes.axhline(level, color="gray", linestyle="--", linewidth=0.7)
        axes.annotate(name, (found.bounds[-1], level), ha="right", va="bottom", color="gray")
    axes.set_xlim(0, found.bounds[-1])
    axes.set_ylim(0, 600)
    axes.set_xlabel("s after the recovery (" + ", ".join(f"{i}: {name}" for i, name in enumerate(PHASE_NAMES, 1)) + ")")
    axes.set_ylabel("packets")
    axes.legend(loc="center right")
