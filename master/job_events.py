"""What masters and the world beside them tell each other of jobs, beside requests (master/requests.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

from cbt.tree import Tree
from job.plan import Plan
from master.requests import Coverage
from master.service import JobNotice

# Events.


class Overload(NamedTuple):
    """The node has so much to do that it must not make further jobs; both 0: not any more."""

    late_s: float
    """Events have waited so long, if that is too long."""
    use: float = 0.0
    """It works so much of the time, if that is too much; 0 to 1."""


class JobRemovedElsewhere(NamedTuple):
    """A tombstone was heard: what is here of the job made at that time or before goes, whatever its group says."""

    key: bytes
    created_us: int


class Finished(NamedTuple):
    """The answer to `Finish`: the encoded `ResultRecord`, or why there is none (no memory, no disk to spill to): then
    `Finish` comes again later."""

    token: int
    record: bytes
    problem: str = ""


class ResultsRead(NamedTuple):
    """The answer to `ReadResults`: (index, encoded record) in order of index."""

    token: int
    records: tuple[tuple[int, bytes], ...]
    more: bool
    """There are further ones."""
    marker: bytes
    """What is stored as the job's marker (master/result_store.py); empty: nothing."""
    ladder: bytes
    latest: tuple[tuple[int, bytes], ...] = ()
    """Of each window that was asked for its last edition (0: it is not here) and the digest of that."""


# Effects.


class Announce(NamedTuple):
    """What the fleet should know of a job that is led here: at every change, and again every minute."""

    key: bytes
    notice: JobNotice


class Finish(NamedTuple):
    """Work for a thread beside the core's: `master.finishing.finish(effect, memory)` makes the `Finished` of it. Groups
    may be millions, so the core does not wait for it. The tables belong to whoever takes this."""

    token: int
    plan: Plan | None
    """None: the window is withdrawn."""
    tables: dict[int, Tree]
    log_index: int
    start_us: int | None
    end_us: int | None
    edition: int
    status: str
    revision: int
    published_us: int
    lines: int
    coverage: Coverage


class ReadResults(NamedTuple):
    """Read the store: `master.result_store.read_results(store, effect)` makes the `ResultsRead` of it. In any thread."""

    token: int
    key: bytes
    after: int
    bytes_max: int
    """At least one record is read if there is one."""
    windows: tuple[tuple[int | None, int | None], ...] = ()
    """Of these the last editions are read, too."""


class ResultsStored(NamedTuple):
    """There are results up to that index to be read here: whoever waits for them may look."""

    key: bytes
    log_index: int


class JobErased(NamedTuple):
    """Everything of the job is gone from the stores of this node."""

    key: bytes


class OfJob(NamedTuple):
    """Effect: what the root of a job tells people."""

    key: bytes
    effect: Any


class NewsHere(NamedTuple):
    """Effect: what the tree carries down, for the agent of this node."""

    key: bytes
    news: bytes
