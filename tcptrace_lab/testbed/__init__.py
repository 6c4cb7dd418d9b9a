"""Recording real kernel runs in private network namespaces."""
