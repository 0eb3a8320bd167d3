"""What a fleet's documents (docs/API.md) look like on a terminal: pure functions to lines of text."""
