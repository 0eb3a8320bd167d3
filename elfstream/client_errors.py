"""What can go wrong between a client and a fleet."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """The fleet refused a request. `kind` is one of docs/API.md: unknown, exists, stale, sql, invalid, ...

    `field` names what is wrong, `position` is the 0-based offset into its text, `line` that of the body (from 1), `advice`
    what to write instead.
    """

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        self.status = status
        self.kind = str(document.get("type", "")).rpartition("/")[2]
        self.detail = str(document.get("detail", f"status {status}"))
        self.field: str = document.get("field") or ""
        self.position: int | None = document.get("position")
        self.line: int | None = document.get("line")
        self.advice: str = document.get("advice") or ""
        self.node: str = document.get("node") or ""
        where = f"line {self.line}: " if self.line is not None else ""
        where += f"{self.field}: " if self.field else ""
        super().__init__(where + advised(self.detail, self.advice))


def advised(detail: str, advice: str | None) -> str:
    """What is wrong, and what to do, as two sentences."""
    if not advice:
        return detail
    return f"{detail} {advice}" if detail.endswith((".", "?", "!", ":")) else f"{detail}. {advice}"


class UnreachableError(ConnectionError):
    """No node answered for as long as the client is patient."""


class OddAnswerError(UnreachableError):
    """Something answered that is no node of elfstream, or of a version that this one does not understand."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url}: what came is not what a node of elfstream says: {why}")


class ResultsLostError(Exception):
    """A watcher was away for longer than results are kept, or the job was made anew: what was published behind `after` is
    not all there. `watch(after=error.resume)` goes on with what is."""

    def __init__(self, after: int, resume: int, why: str) -> None:
        self.after, self.resume = after, resume
        super().__init__(f"results behind {after} are lost: {why}; what there is begins behind {resume}")
