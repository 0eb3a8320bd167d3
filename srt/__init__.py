"""Srt: shared reducer trees, the overlay that merges partial aggregates. docs/FLEET.md is its map."""
