"""Captures taken away from the sender, turned into the sender's own view."""
