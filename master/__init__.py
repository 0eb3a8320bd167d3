"""Master: what finishes windows and serves results."""
