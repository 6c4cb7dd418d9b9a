"""Which congestion control it was: candidates replayed over a capture, and the set that it does not refute."""
