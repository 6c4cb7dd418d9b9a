"""What the laws share: their parameters, and when a path and a control are theirs."""

from __future__ import annotations

from tcptrace_lab.models import conditions
from tcptrace_lab.models.prediction import Parameter, Reason, reason

from tcptrace_lab.scenario import ControlSpec, PathSpec

LOSS = Parameter(name="loss", unit="1", meaning="p, loss events per packet sent", example=0.01, high=1.0)
ROUND_TRIP = Parameter(name="round_trip", unit="s", meaning="RTT", example=0.1)
ACK_SEGMENTS = Parameter(name="ack_segments", unit="1", meaning="b, packets per ACK", example=1, low=1, low_open=False,
                         high=16, high_open=False)  # fmt: skip
W_MAX = Parameter(name="w_max", unit="packets", meaning="W_m, the receiver's limit", example=1e6, low=1, low_open=False)

# A window "without limit" as a number, so that arithmetic stays finite.
UNLIMITED = 1e9


def shared_reasons(path: PathSpec, control: ControlSpec, *windows: str) -> tuple[Reason, ...]:
    """Random loss, no slow start after every loss, and one of the named windows."""
    return (
        conditions.has_random_loss(path),
        reason(path.base_rtt_s > 0, f"a round trip takes {path.base_rtt_s:.6g} s", "a round trip takes no time"),
        conditions.has_window(control, *windows),
        reason(
            control.recovery != "tahoe",
            f"the sender recovers as {control.recovery}, without a slow start",
            "Tahoe slow-starts after every loss; the law halves the window",
        ),
    )


def is_below_link(path: PathSpec, rate: float) -> Reason:
    """The loss limits, not the link: else the queue at the bottleneck makes its own losses and delay."""
    return reason(
        rate < path.mu_pps,
        f"the law's {rate:.6g} packets/s are below the bottleneck's {path.mu_pps:.6g}",
        f"the law's {rate:.6g} packets/s exceed the bottleneck's {path.mu_pps:.6g}: the link limits, not the loss",
    )
