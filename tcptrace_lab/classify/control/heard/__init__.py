"""What a control heard: ACKs, round trips, losses and the marks between them."""
