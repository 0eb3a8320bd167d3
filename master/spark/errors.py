"""What can go wrong where jobs meet Spark and Parquet."""

from __future__ import annotations

from master.errors import MasterError


class SinkError(MasterError):
    """A folder of Parquet files cannot be written, or is not what it should be."""


class SwapError(SinkError):
    """The file system cannot swap two folders in one step."""


class FleetReadError(MasterError):
    """A fleet cannot be reached, or refuses, or does not have what was asked for."""


class ResultOptionError(MasterError):
    """An option of the source of results makes no sense."""


class NoJobError(MasterError):
    """A query names no job, or one that is not there."""


class JoinError(MasterError):
    """The answer of a join cannot become results."""
