"""The path that a capture shows: round trip, bottleneck, buffer, and why packets were lost on it."""
