"""Errors of the agent: what it cannot read."""

from __future__ import annotations


class InputError(Exception):
    """A log that is missing, unreadable or broken. `path` names it; `str(error)` says what, where and what to do."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        super().__init__(f"{path}: {message}")


class OptionsError(Exception):
    """Options that contradict each other; all problems in one message."""


class InvariantError(AssertionError):
    """A promise of this program to itself is broken: a bug, to be reported with its message."""
