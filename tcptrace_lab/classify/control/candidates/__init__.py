"""The table's controls, replayed side by side over a capture, and how likely that leaves each."""
