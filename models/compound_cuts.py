"""When Compound cuts its window twice: losses and recovery of cases 1 to 3, round by round (RR-6778, 4.1-4.3).

Blanc et al. 2008 cut the window once for one lost packet, and note that in their simulations several are lost and the
window is mostly "reduced twice". Derived here for the Linux module of ns-2.35 and its recovery, rate halving:

1. The update that takes the window over mu tau + b overflows by up to one increase, alpha w^k.
2. The loss is seen a round trip later, just after the next update. By equation (14) that one knows the queue before
   the last two increases: unless it was gamma by then, another increase is sent, and lost whole.
3. Rate halving sends a packet for every second ACK until the losses are mended: one round trip, or two after such a
   second burst. It leaves (1 - beta) w_f or (1 - beta)^2 w_f; from the latter slow start returns to (1 - beta) w_f.
4. A round trip later comes the first update. The module reckons its increase from all packets sent since the update
   before the loss, (1 + (1 - beta) + (1 - beta)^2) w_f after two round trips, and sends it as one burst. If it does
   not fit into b the window is cut a second time.

In case 1 the loss falls anywhere between two updates, so (1 + 1/2 + (1 - beta)) w_f packets count in (4); as alpha
w_f^k alone is b there, the second cut is certain.

The draft's senders reckon their increase from the window, so that (4) never is: `compound_steps`.

Omitted: the packets themselves. What lies in the queue before the burst of (4) was 0 to 8 in the simulator: so near the
edge paths differ, and cycles with one cut and with two may alternate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from tcptrace_lab.models import compound_phases as phases
from tcptrace_lab.models.compound_cases import Cycle
from tcptrace_lab.models.prediction import FloatArray

# Slow start sends two packets for each ACK: they lie in the queue when the burst of (4) comes.
PAIR = 2
# Case 1: where between two updates the loss is seen, in rounds, on average.
BETWEEN_UPDATES = 0.5


@dataclass(frozen=True, kw_only=True)
class Descent:
    """From the first overflow to the first increase after the last loss; windows in packets.

    `peak` is w_f as the loss is seen, `top` what the growth before it is counted to; `rounds` are (window, seconds) of
    the recoveries and what lies between them; `sent` counts all packets, `lost` of them were in vain.
    """

    peak: FloatArray
    top: FloatArray
    w_start: FloatArray
    rounds: tuple[tuple[FloatArray, FloatArray], ...]
    sent: FloatArray
    lost: FloatArray
    backlog_time: FloatArray
    cuts: FloatArray
    second_cut: FloatArray  # the buffer of (4) below which there is one, packets

    @property
    def time(self) -> FloatArray:
        """Seconds from the loss's detection on."""
        return np.asarray(sum(seconds for _, seconds in self.rounds))


@dataclass(frozen=True, kw_only=True)
class Network:
    """Path and rule: mu in packets/s, a lone packet's round trip in s, b and gamma in packets."""

    rate: FloatArray
    round_trip: FloatArray
    buffer: FloatArray
    gamma: FloatArray
    beta: FloatArray
    alpha: float = phases.ALPHA
    k: float = phases.K

    @property
    def pipe(self) -> FloatArray:
        """Packets in flight that leave no queue."""
        return np.asarray(self.rate * self.round_trip)

    @property
    def full(self) -> FloatArray:
        """mu tau + b."""
        return np.asarray(self.pipe + self.buffer)

    def increase(self, window: ArrayLike) -> FloatArray:
        """alpha w^k, packets a round trip."""
        return np.asarray(self.alpha * np.asarray(window, dtype=np.float64) ** self.k)

    def seconds(self, window: FloatArray) -> FloatArray:
        """A round trip with so many packets sent; what does not fit is lost and takes no time."""
        return np.asarray(np.clip(window, self.pipe, self.full) / self.rate)

    def second_burst_share(self) -> FloatArray:
        """(2): the share of overflows that another increase follows.

        The window passes mu tau + b by x, anything up to an increase; the queue known is b + x less two increases.
        """
        step = self.increase(self.full)
        return np.asarray(np.clip((self.gamma + 2 * step - self.buffer) / step, 0, 1))


def descents(number: ArrayLike, on: Network) -> tuple[Descent, Descent, FloatArray]:
    """Cases 1 to 3: the descents without and with a second burst, and the share of the latter."""
    is_first = np.asarray(number) == 1
    step, keep = on.increase(on.full), 1 - on.beta
    share = np.where(is_first, 0, on.second_burst_share())
    # x of (1) is below its share of an increase where a second burst follows, above it where none does.
    low, high = share * step / 2, (1 + share) * step / 2
    # Case 1: increases follow the window of the round before. The window is one ahead, takes the one that overflows and
    # one more before the loss is seen.
    filled = phases.burst_overflow(on.buffer, alpha=on.alpha, k=on.k)
    early = np.minimum(filled + (3 + BETWEEN_UPDATES) * on.increase(filled), on.full + 1.5 * step)
    once = _descent(
        on,
        # Where the queue is known it is taken off again: two increases above the pipe are left.
        peak=np.where(is_first, early, np.minimum(on.pipe + 2 * step, on.full + high)),
        top=np.where(is_first, early, on.full + high + step / 2),
        lost=np.where(is_first, 1.0, high),
        counted=1 + keep + np.where(is_first, BETWEEN_UPDATES, 0),
        has_second_burst=False,
    )
    twice = _descent(
        on,
        peak=on.full + low + step,
        top=on.full + low + step / 2,
        lost=low + step,
        counted=1 + keep + keep**2,
        has_second_burst=True,
    )
    return once, twice, share


def _descent(
    on: Network, *, peak: FloatArray, top: FloatArray, lost: FloatArray, counted: FloatArray, has_second_burst: bool
) -> Descent:
    """(3) and (4) for a loss seen at a window of `peak` packets; `counted` windows enter into the burst of (4)."""
    keep = 1 - on.beta
    half = keep * peak
    # The first round trip of a recovery still meets the full queue.
    rounds = [(half, on.seconds(peak))]
    if has_second_burst:
        rounds.append((keep * half, on.seconds(keep * half)))
    rounds.append((half, on.seconds(half)))
    burst = on.increase(counted * peak)
    is_cut = on.buffer < burst + PAIR
    window = half + burst
    # One more update comes before this loss is seen.
    seen = window + on.increase(half)
    for following in (window, keep * seen, keep * seen):
        rounds.append((np.where(is_cut, following, 0), np.where(is_cut, on.seconds(following), 0)))
    sent = sum(following for following, _ in rounds) + np.where(is_cut, seen - window, 0)
    queue = np.clip(peak - on.pipe, 0, on.buffer)
    left = np.maximum(queue - half, 0)
    # The queue drains at half of mu in the first round trip.
    backlog = (queue**2 - left**2) / on.rate
    backlog = backlog + sum(np.clip(following - on.pipe, 0, on.buffer) * seconds for following, seconds in rounds[1:])
    return Descent(
        peak=peak,
        top=top,
        w_start=np.where(is_cut, keep * seen + on.increase((1 + keep) * seen), window),
        rounds=tuple(rounds),
        # The second burst is sent after `top`.
        sent=np.asarray(sent + (on.increase(on.full) if has_second_burst else 0)),
        lost=lost + np.where(is_cut, np.maximum(burst + PAIR - on.buffer, 1), 0),
        backlog_time=np.asarray(backlog),
        cuts=np.where(is_cut, 2.0, 1.0),
        second_cut=burst + PAIR,
    )


def second_cut_buffer(number: ArrayLike, on: Network) -> FloatArray:
    """(4): the buffer, packets, below which the likelier descent ends in a second cut."""
    once, twice, share = descents(number, on)
    return np.where(share >= 0.5, twice.second_cut, once.second_cut)


def cycle(number: ArrayLike, one: Cycle, on: Network) -> Cycle:
    """`one` with the losses and recoveries of cases 1 to 3; the others are as they were.

    Where some overflows have a second burst and some have not, windows and totals are the means.
    """
    once, twice, share = descents(number, on)
    is_early = np.asarray(number) <= 3

    def mean(first: ArrayLike, second: ArrayLike, otherwise: ArrayLike) -> FloatArray:
        return np.where(is_early, (1 - share) * np.asarray(first) + share * np.asarray(second), otherwise)

    grown = [_growth(down, on) for down in (once, twice)]
    return Cycle(
        w_end=mean(once.peak, twice.peak, one.w_end),
        w_start=mean(once.w_start, twice.w_start, one.w_start),
        starts=tuple(mean(grown[0].starts[i], grown[1].starts[i], one.starts[i]) for i in range(4)),
        ends=tuple(mean(grown[0].ends[i], grown[1].ends[i], one.ends[i]) for i in range(4)),
        time=tuple(mean(grown[0].time[i], grown[1].time[i], one.time[i]) for i in range(4)),
        loss_time=mean(once.time, twice.time, one.loss_time),
        # Throughput is of packets that arrive.
        sent=mean(grown[0].sent + once.sent - once.lost, grown[1].sent + twice.sent - twice.lost, one.sent),
        backlog_time=mean(
            grown[0].backlog + once.backlog_time, grown[1].backlog + twice.backlog_time, one.backlog_time
        ),
        cuts=mean(once.cuts, twice.cuts, one.cuts),
        lost=mean(once.lost, twice.lost, one.lost),
    )


@dataclass(frozen=True, kw_only=True)
class _Growth:
    starts: tuple[FloatArray, ...]
    ends: tuple[FloatArray, ...]
    time: tuple[FloatArray, ...]
    sent: FloatArray
    backlog: FloatArray
    alpha: FloatArray


def _growth(down: Descent, on: Network) -> _Growth:
    """Phases 1 and 2, equations (3) and (8), from half an increase below the first window to `top`."""
    first = down.w_start - on.increase(down.w_start) / 2
    filled = np.clip(on.pipe, first, down.top)
    zero = np.zeros_like(filled)
    k = on.k
    # The module's increases are whole numbers, half a packet less on average: taken at the middle of the way.
    less = 0.5 / (first * down.top) ** (k / 2)
    a = np.maximum(on.alpha - less, on.alpha / 2)
    queued = (down.top ** (3 - k) - filled ** (3 - k)) / ((3 - k) * a * on.rate)
    lasts = phases.duration_2(filled, down.top, on.rate, alpha=a, k=k)
    # Phase 1 has a queue after all: the burst of an update, alpha w^k, waits as long as packets follow it at mu. Each
    # cut leaves them at (1 - beta) of the rate before; a burst drains into the gaps and closes them, so that
    # (w - w_start) / (1 - load) follow at mu, until all w do. The integral over time is that of these / mu over w.
    load = (1 - on.beta) ** down.cuts
    closed = np.minimum(filled, first / load)
    bursts = ((closed - first) ** 2 / (1 - load) + filled**2 - closed**2) / (2 * on.rate)
    return _Growth(
        starts=(first, filled, down.top, down.top),
        ends=(filled, down.top, down.top, down.top),
        time=(phases.duration_1(first, filled, on.round_trip, alpha=a, k=k), lasts, zero, zero),
        sent=phases.sent_1(first, down.top, alpha=a, k=k),
        backlog=bursts + np.maximum(queued - on.pipe * lasts, 0),
        alpha=a,
    )


def trajectory(number: int, on: Network, points: int = 60) -> FloatArray:
    """Figures 6-8 with the losses as they are: (t, w) of one cycle for scalar parameters, the likelier descent."""
    once, twice, share = descents(number, on)
    down = twice if share >= 0.5 else once
    growth = _growth(down, on)
    rows: list[tuple[float, float]] = []
    now = 0.0
    for phase, window in ((0, phases.window_1), (1, phases.window_2)):
        lasts = float(growth.time[phase])
        if lasts <= 0:
            continue
        t = np.linspace(0, lasts, points)
        w = window(t, growth.starts[phase], (on.round_trip, on.rate)[phase], alpha=growth.alpha, k=on.k)
        rows += [(now + float(x), float(y)) for x, y in zip(t, w, strict=True)]
        now += lasts
    for window_, lasts_ in down.rounds:
        if lasts_ > 0:
            rows += [(now, float(window_)), (now + float(lasts_), float(window_))]
            now += float(lasts_)
    return np.array(rows)
