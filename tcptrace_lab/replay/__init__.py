"""A capture replayed: through another path, sent again by a simulated sender, or watched as it happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcptrace_lab.capture import Capture
    from tcptrace_lab.replay.closed_loop import ClosedLoop
    from tcptrace_lab.replay.open_loop import OpenLoop
    from tcptrace_lab.scenario import ControlSpec, Scenario

__all__ = ["replay"]


def replay(
    capture: Capture,
    *,
    through: Scenario | None = None,
    control: str | ControlSpec | None = None,
    as_found: bool = False,
    settings: Sequence[str] = (),
    near: Sequence[str] = (),
) -> OpenLoop | ClosedLoop:
    """What `Capture.replay` does: open loop with `through` alone, closed loop with `control` or `as_found`.

    `settings` are KEY=VALUE overrides of the scenario that the capture was found to be.
    """
    if control is not None or as_found:
        from tcptrace_lab.replay.closed_loop import again

        return again(capture, control=control, through=through, settings=settings)
    if through is None:
        raise ValueError("say how to replay: through=scenario, control=name or as_found=True")
    from tcptrace_lab.replay.open_loop import through as carry

    return carry(capture, through, near=near)
