"""The regime of a run: slow starts per loss cycle, the cases and oscillation of Compound."""
