"""What a tap can show: where it stood, its clock and the sender's, and what it did not capture."""
