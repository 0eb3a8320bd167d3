"""What can go wrong with a request, as problem details (RFC 9457). Statuses are chosen here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from job.errors import JobError, SqlError
from job.settings import SettingsError
from master.requests import Refusal

MEDIA_TYPE = "application/problem+json"
TYPES_AT = "/v1/problems/"
RETRY_S = 1
"""Takeovers are over in about this time; asking sooner is of no use."""


class ProblemKind(NamedTuple):
    status: int
    title: str
    retry: bool = False
    """The same request may do well soon: it is answered with Retry-After."""


KINDS: dict[str, ProblemKind] = {
    "invalid": ProblemKind(400, "A part of the request has no sound value"),
    "unauthorized": ProblemKind(401, "The token or certificate of the fleet is missing or wrong"),
    "forbidden": ProblemKind(403, "The request comes from a page or a host name that is not this node's"),
    "not-found": ProblemKind(404, "There is nothing at this address"),
    "unknown": ProblemKind(404, "There is no such job, agent or node"),
    "method": ProblemKind(405, "This cannot be done with what is at this address"),
    "not-acceptable": ProblemKind(406, "There is no such form of the answer"),
    "exists": ProblemKind(409, "Another job has this name"),
    "stale": ProblemKind(412, "The job has changed since you read it"),
    "too-large": ProblemKind(413, "The body is too large"),
    "media-type": ProblemKind(415, "The body has to be JSON and to say so"),
    "sql": ProblemKind(422, "The query cannot be compiled"),
    "unconditional": ProblemKind(428, "A change has to say which revision it is made to"),
    "too-many": ProblemKind(429, "This node answers as many requests as it may", retry=True),
    "internal": ProblemKind(500, "A defect of elfstream"),
    "no-master": ProblemKind(503, "Nobody is known to lead the job at the moment", retry=True),
    "unreachable": ProblemKind(503, "The node that leads the job cannot be reached", retry=True),
    "busy": ProblemKind(503, "The node has too much to do", retry=True),
    "not-ready": ProblemKind(503, "The node cannot do its work", retry=True),
    "timeout": ProblemKind(504, "No answer came in time", retry=True),
    "loop": ProblemKind(508, "The nodes do not agree on who leads the job", retry=True),
}


class Problem(Exception):  # noqa: N818 - an answer, no error of ours
    """A request that is not done, and why."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        field: str = "",
        position: int | None = None,
        advice: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`field` is what is wrong (a member of the body, a query parameter, a header), `position` the 0-based offset into
        its text, `advice` what to write instead."""
        self.kind, self.detail, self.field, self.position, self.advice = kind, detail, field, position, advice
        self.status, self.title, retry = KINDS[kind]
        self.headers = {**({"Retry-After": str(RETRY_S)} if retry else {}), **(headers or {})}
        super().__init__(detail)

    def document(self, node: str) -> dict[str, Any]:
        """As JSON has it; `node` is the address of the node that found the problem."""
        document: dict[str, Any] = {
            "type": TYPES_AT + self.kind,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "node": node,
        }
        if self.field:
            document["field"] = self.field
        if self.position is not None:
            document["position"] = self.position
        if self.advice:
            document["advice"] = self.advice
        return document


_OF_REFUSALS = {
    "elsewhere": "no-master",
    "unknown": "unknown",
    "exists": "exists",
    "stale": "stale",
    "invalid": "invalid",
    "busy": "busy",
}


def problem_of_refusal(refusal: Refusal) -> Problem:
    """What a core refused."""
    return Problem(_OF_REFUSALS[refusal.kind], refusal.detail, field=refusal.field)


def problem_of_job(error: JobError) -> Problem:
    """What is wrong with the text of a job, its parameters or settings."""
    if isinstance(error, SqlError):
        return Problem("sql", error.message, field="sql", position=error.position, advice=error.advice)
    if isinstance(error, SettingsError):
        field = error.field if error.field == "name" else f"settings.{error.field}"
        return Problem("invalid", str(error).partition(": ")[2], field=field)
    return Problem("sql", str(error), field="parameters")
