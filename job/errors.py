"""Errors of the job layer: all are the asker's to mend, so all say what, where and what to write instead."""

from __future__ import annotations


class JobError(Exception):
    """Something in the text of a job, a format or a parameter is wrong. `str(error)` is fit to be shown."""


class SqlError(JobError):
    """A query that cannot be compiled.

    `position` is the 0-based offset into `sql` (None where the parser gives none), `advice` what to write instead.
    """

    def __init__(self, message: str, sql: str, position: int | None = None, advice: str = "") -> None:
        self.message, self.sql, self.position, self.advice = message, sql, position, advice
        super().__init__(self.render())

    def render(self) -> str:
        """The message, the offending line of the query with a caret below it, and the advice."""
        parts = [self.message]
        if self.position is not None:
            start = self.sql.rfind("\n", 0, self.position) + 1
            end = self.sql.find("\n", self.position)
            line = self.sql[start : end if end >= 0 else len(self.sql)]
            parts += ["  " + line, "  " + " " * (self.position - start) + "^"]
        if self.advice:
            parts.append(self.advice)
        return "\n".join(parts)


class FormatError(JobError):
    """A log format that is unknown, cannot be compiled, or does not match the log."""


class ParameterError(JobError):
    """A `:name` parameter that is missing, unknown or of an unusable value."""
