"""The Rust core (core/src/python)."""

__version__: str
