"""Verdicts: what was observed beside what theory predicts."""
