"""What the HTTP faces need of the node below them: questions to its core, its results, and what gossip knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from job.plan import Schema
from master.requests import Place, Refusal, ResultRecord
from srt.automaton import Ref


class Refused(Exception):  # noqa: N818 - an answer, no error of ours
    """A request that the core refused."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.detail)


class JobNotice(msgspec.Struct, frozen=True, array_like=True):
    """What every node knows of a job, by gossip."""

    name: str
    source: str
    """Agents that have it take part."""
    state: str
    """running, stopped or removed."""
    revision: int
    created_us: int
    changed_us: int
    trees: int = 1
    """One per partition, of the revision with the most."""


class NodeNotice(msgspec.Struct, frozen=True, array_like=True):
    """What every node knows of another, by gossip; it is told again now and then while it runs."""

    name: str
    ref: Ref
    kind: str
    """agent or worker."""
    version: str
    started_us: int
    told_us: int
    sources: tuple[str, ...] = ()
    left: bool = False


class Reloaded(NamedTuple):
    """What a configuration that was read again has changed. Keys as operators write them, such as `node.log_level` or, of a
    source by its name, `sources.access.paths`."""

    config: str
    """Digest of the configuration in force."""
    changed: tuple[str, ...]
    """In force now."""
    restart: tuple[str, ...]
    """These differ, too, and wait for a restart."""


class ConfigMistake(NamedTuple):
    """One thing that is wrong with a configuration file."""

    key: str
    """Empty: the whole file."""
    problem: str
    file: str
    line: int | None
    advice: str


class NotReloaded(Exception):  # noqa: N818 - an answer, no error of ours
    """The configuration is no good; that in force stays."""

    def __init__(self, mistakes: Sequence[ConfigMistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(f"{one.key}: {one.problem}" if one.key else one.problem for one in mistakes))


class ResultReader(Protocol):
    """The results of the jobs whose group this node is a member of. Any thread; blocks for a read of the disk."""

    def between(
        self,
        key: bytes,
        from_us: int | None,
        to_us: int | None,
        *,
        status: str | None,
        editions: bool,
        after: Place | None,
        limit: int,
    ) -> Sequence[ResultRecord]:
        """Windows that start in [from, to), in order of time: the latest edition of each if it has the `status`, or with
        `editions` all that have it. `after` is the `place` of the last record of the page before. The endless window
        counts as one that starts at 0."""
        ...

    def newest(self, key: bytes, status: str) -> ResultRecord | None:
        """The window that starts last of those that have an edition of that status: its latest such one. Of what is
        ingested that is seldom what came last."""
        ...

    def since(self, key: bytes, index: int, limit: int) -> Sequence[ResultRecord]:
        """What was published behind that index, in the order of publication."""
        ...

    def last_index(self, key: bytes) -> int:
        """Of the newest record; 0: there is none."""
        ...

    def lacks(self, key: bytes) -> tuple[int, int] | None:
        """(first, last] of the indexes of which this node may lack results, as it is new in the group and they are still
        being sent; None: it has all that are kept. Ask another member for those."""
        ...

    def dropped_index(self, key: bytes) -> int:
        """Of the newest record that was dropped when its time to be kept was over; 0: all are there."""
        ...


class NodeService(Protocol):
    """A running node, as the loop thread sees it."""

    @property
    def ref(self) -> Ref: ...
    @property
    def results(self) -> ResultReader: ...

    async def ask(self, key: bytes, request: Any) -> Any:
        """The answer of the core to one of master/requests.py. Raises Refused, TimeoutError."""
        ...

    async def published(self, key: bytes, index: int) -> None:
        """Waits until there is a result behind that index."""
        ...

    def jobs(self) -> Sequence[JobNotice]: ...
    def nodes(self) -> Sequence[NodeNotice]: ...
    def schemas(self) -> dict[str, Schema]:
        """The sources of the fleet: for each name the fields that its agents' formats have."""
        ...

    async def reload(self) -> Reloaded:
        """Reads the configuration of this node again, as SIGHUP does. Raises NotReloaded."""
        ...

    def metrics(self) -> str:
        """Of this node, as Prometheus reads them."""
        ...

    def faults(self) -> Sequence[str]:
        """What keeps this node from its work, each a sentence for people; none: it is ready."""
        ...
