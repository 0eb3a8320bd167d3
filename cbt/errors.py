"""Errors of the aggregates, their tables and trees."""

from __future__ import annotations

from cython_ext.groups import InvariantError
from cython_ext.run import RunError

__all__ = [
    "AggregateError",
    "CbtError",
    "InvariantError",
    "MemoryCapError",
    "OptionsError",
    "RunError",
    "SpillError",
]


class CbtError(Exception):
    """Something the caller asked of the tables cannot be done. `str(error)` is fit to be shown."""


class AggregateError(CbtError):
    """An aggregate that does not exist for the type of its argument."""


class OptionsError(CbtError):
    """Options that contradict each other or make no sense; all problems in one message."""


class MemoryCapError(CbtError):
    """The groups do not fit under the memory cap, compressed as they are, and there is nowhere to spill them."""


class SpillError(CbtError):
    """Runs could not be written to, or read back from, the spill directory."""
