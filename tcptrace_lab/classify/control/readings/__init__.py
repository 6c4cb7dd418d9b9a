"""The readings of a capture, and who fits one."""
