"""What the parts of the scan oracle say about a line that is no good."""

from __future__ import annotations


class Rejected(Exception):  # noqa: N818  (a verdict on a line, not an error)
    """The line is no good, for `reason`, seen at `position`."""

    def __init__(self, reason: str, position: int = 0) -> None:
        self.reason, self.position = reason, position
        super().__init__(f"{reason} at {position}")
