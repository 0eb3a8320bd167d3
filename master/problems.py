"""What can go wrong with a request, as problem details (RFC 9457). Statuses are chosen here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from job.errors import JobError, SqlError
from job.settings import SettingsError
from master.requests import Refusal
from master.service import NotReloaded

MEDIA_TYPE = "application/problem+json"
TYPES_AT = "/v1/problems/"
RETRY_S = 1
"""Takeovers are over in about this time; asking sooner is of no use."""
OVERLOAD_RETRY_S = 2


class ProblemKind(NamedTuple):
    status: int
    title: str
    retry_s: int = 0
    """The same request may do well after so long: it is answered with Retry-After. 0: it will not."""


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
    "configuration": ProblemKind(422, "The configuration of the node is no good; that in force stays"),
    "sql": ProblemKind(422, "The query cannot be compiled"),
    "unconditional": ProblemKind(428, "A change has to say which revision it is made to"),
    "too-many": ProblemKind(429, "This node answers as many requests as it may", RETRY_S),
    "internal": ProblemKind(500, "A defect of elfstream"),
    "no-master": ProblemKind(503, "Nobody is known to lead the job at the moment", RETRY_S),
    "unreachable": ProblemKind(503, "The node that leads the job cannot be reached", RETRY_S),
    "busy": ProblemKind(503, "The node has too much to do", RETRY_S),
    "overloaded": ProblemKind(503, "The fleet has too much to do to take a further job", OVERLOAD_RETRY_S),
    "not-ready": ProblemKind(503, "The node cannot do its work", RETRY_S),
    "timeout": ProblemKind(504, "No answer came in time", RETRY_S),
    "loop": ProblemKind(508, "The nodes do not agree on who leads the job", RETRY_S),
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
        line: int | None = None,
        advice: str = "",
        headers: Mapping[str, str] | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """`field` is what is wrong (a member of the body, a query parameter, a header), `position` the 0-based offset into
        its text, `line` that of the body, from 1, `advice` what to write instead; `errors`, where there may be several, are
        all of them."""
        self.kind, self.detail, self.field, self.position, self.advice = kind, detail, field, position, advice
        self.line, self.errors = line, errors
        self.status, self.title, self.retry_s = KINDS[kind]
        self.headers = {**({"Retry-After": str(self.retry_s)} if self.retry_s else {}), **(headers or {})}
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
        if self.line is not None:
            document["line"] = self.line
        if self.advice:
            document["advice"] = self.advice
        if self.errors:
            document["errors"] = list(self.errors)
        return document


_OF_REFUSALS = {
    "elsewhere": "no-master",
    "leaderless": "no-master",
    "electing": "no-master",
    "unknown": "unknown",
    "exists": "exists",
    "stale": "stale",
    "invalid": "invalid",
    "busy": "busy",
    "overloaded": "overloaded",
}
_ADVICE = {
    "leaderless": "It goes on when most of them answer; if they are lost for good, see 'elfstream job recover --help'."
}


def problem_of_refusal(refusal: Refusal) -> Problem:
    """What a core refused."""
    line, advice = refusal.line or None, _ADVICE.get(refusal.kind, "")
    return Problem(_OF_REFUSALS[refusal.kind], refusal.detail, field=refusal.field, line=line, advice=advice)


def problem_of_configuration(error: NotReloaded) -> Problem:
    """What is wrong with the configuration of a node, key by key."""
    errors = [{name: value for name, value in one._asdict().items() if value not in ("", None)} for one in error.mistakes]
    advice = "elfstream check tells more, and how the logs look."
    return Problem("configuration", str(error), field=error.mistakes[0].key, advice=advice, errors=errors)


def problem_of_job(error: JobError) -> Problem:
    """What is wrong with the text of a job, its parameters or settings."""
    if isinstance(error, SqlError):
        return Problem("sql", error.message, field="sql", position=error.position, advice=error.advice)
    if isinstance(error, SettingsError):
        field = error.field if error.field == "name" else f"settings.{error.field}"
        return Problem("invalid", str(error).partition(": ")[2], field=field)
    return Problem("sql", str(error), field="parameters")
