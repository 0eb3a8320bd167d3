"""Errors of the agent: what it cannot read."""

from __future__ import annotations


class InputError(Exception):
    """A log that is missing, unreadable or broken. `path` names it; `str(error)` says what, where and what to do."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        super().__init__(f"{path}: {message}")


class JournalError(Exception):
    """The journal cannot be made, or cannot do what was asked; says which and why."""


class JournalFull(JournalError):  # noqa: N818 - a state of the journal, not a fault
    """No slot is free; reading stops until cuts are thinned out."""


class OptionsError(Exception):
    """Options that contradict each other; all problems in one message."""


class InvariantError(AssertionError):
    """A promise of this program to itself is broken: a bug, to be reported with its message."""
