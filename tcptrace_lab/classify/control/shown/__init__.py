"""Where a sender's window shows, and what was sent beside it."""
