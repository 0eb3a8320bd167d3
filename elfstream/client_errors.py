"""What can go wrong between a client and a fleet."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """The fleet refused a request. `kind` is one of docs/API.md: unknown, exists, stale, sql, invalid, ...

    `field` names what is wrong, `position` is the 0-based offset into its text, `advice` what to write instead.
    """

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        self.status = status
        self.kind = str(document.get("type", "")).rpartition("/")[2]
        self.detail = str(document.get("detail", f"status {status}"))
        self.field: str = document.get("field") or ""
        self.position: int | None = document.get("position")
        self.advice: str = document.get("advice") or ""
        self.node: str = document.get("node") or ""
        where = f"{self.field}: " if self.field else ""
        super().__init__(where + self.detail + (f" {self.advice}" if self.advice else ""))


class UnreachableError(ConnectionError):
    """No node answered for as long as the client is patient."""


class ResultsLostError(Exception):
    """A watcher was away for longer than results are kept, or the job was made anew: what was published behind `after` is
    not all there. `watch(after=error.resume)` goes on with what is."""

    def __init__(self, after: int, resume: int, why: str) -> None:
        self.after, self.resume = after, resume
        super().__init__(f"results behind {after} are lost: {why}; what there is begins behind {resume}")
