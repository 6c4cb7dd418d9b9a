"""A capture replayed: through another path, sent again by a simulated sender, or watched as it happened."""
