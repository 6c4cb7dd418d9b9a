"""The Rust core (core/src/python)."""

from typing import Any

__version__: str

class Emulator:
    """Two open, non-blocking TUN descriptors joined by a scenario's path (Linux only)."""

    def __new__(cls, spec: str, sender_fd: int, receiver_fd: int) -> Emulator: ...
    def run(self) -> dict[str, Any]:
        """Carries packets until `stop` is called from another thread; what happened, as columns."""

    def stop(self) -> None: ...
