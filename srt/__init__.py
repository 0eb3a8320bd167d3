"""Srt: shared reducer trees, the overlay that merges partial aggregates; arrives with the fleet."""
