"""A sender's own account, and a reconstruction held against it."""
