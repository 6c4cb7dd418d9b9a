"""What a sender shows whoever controls its window: how it starts, recovers, and what holds it back."""
