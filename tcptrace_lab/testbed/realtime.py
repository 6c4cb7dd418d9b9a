"""A core loop in a thread of its own, at real-time priority where that is allowed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from tcptrace_lab.errors import LabError


class RealTime:
    """Runs `run` (which releases the interpreter) until it ends or `stop` makes it end."""

    def __init__(
        self, name: str, run: Callable[[], dict[str, Any]], stop: Callable[[], None], *, priority: int
    ) -> None:
        self._run = run
        self._stop = stop
        self._priority = priority
        self._report: dict[str, Any] = {}
        self._error: OSError | None = None
        self.scheduling = "normal"
        self._thread = threading.Thread(target=self._carry, name=name, daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        try:
            # Of this thread alone; a packet delivered late is a longer path.
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(self._priority))
            self.scheduling = f"SCHED_FIFO {self._priority}"
        except PermissionError:
            pass
        try:
            self._report = self._run()
        except OSError as error:
            self._error = error

    def result(self) -> dict[str, Any]:
        """Waits for the end; what the loop reports."""
        while self._thread.is_alive():
            # In short waits: a thread that waits for ever is deaf to Ctrl-C.
            self._thread.join(0.1)
        if self._error is not None:
            raise LabError(f"recording: the {self._thread.name} stopped: {self._error}")
        return self._report

    def close(self) -> dict[str, Any]:
        """Stops the loop; what it reports."""
        self._stop()
        return self.result()
