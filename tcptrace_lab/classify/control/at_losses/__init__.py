"""The same question where losses alone show a window."""
