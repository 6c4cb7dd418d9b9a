"""Rounds, phases, cycles and losses: what the sender did, from what was seen."""
