"""Other readers behind `tcptrace_lab.read(..., backend=)`: each feeds the same connection table in the core."""
