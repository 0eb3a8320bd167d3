"""What a node tells the fleet through the directory, and what it does about what the fleet tells. Pure.

It tells which node this is and which sources it has, and the notices of the masters here. It makes the agent here take part
in the jobs that read one of its sources, and tells masters when a job was removed elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from agent.stream_events import Trouble
from elfstream.notices import (
    DIRECTORY,
    JOB,
    NODE,
    NODE_TOLD_S,
    SOURCE,
    SOURCE_TOLD_S,
    NoticeError,
    SourceNotice,
    job_entry,
    node_entry,
    notice_of,
    source_entry,
)
from elfstream.partition_trees import PartitionTrees
from job.plan import Schema
from job.types import Type
from master.job_events import Announce, JobRemovedElsewhere
from master.service import JobNotice, NodeNotice
from srt.automaton import NEVER, Instant, Wake
from srt.directory import Directory, EntryChanged, EntryEnded, Tell
from srt.directory_messages import Entry
from srt.options import DirectoryOptions
from srt.ring import LeaveRing, Ring, RingActive
from srt.tree_messages import Kind


class HaveSources(NamedTuple):
    """Event: the agent here reads these sources, with the fields of their formats; at the start, and when they change."""

    sources: Mapping[str, Schema]


class JoinJob(NamedTuple):
    """Effect: the local agent reads for this job from now on."""

    key: bytes


class LeaveJob(NamedTuple):
    """Effect: it does not any more."""

    key: bytes


@dataclass(frozen=True)
class About:
    """What a node says of itself."""

    name: str = ""
    """Empty: its address."""
    version: str = "?"


class NoticeBoard:
    """The directory of one node, with what is told and done."""

    def __init__(
        self,
        ring: Ring,
        kind: Kind,
        rng: random.Random,
        stored: Mapping[bytes, bytes],
        about: About = About(),
        options: DirectoryOptions = DIRECTORY,
    ) -> None:
        """`stored` is what the store of the directory holds."""
        self.ref, self.about = ring.ref, about
        self.directory = Directory(ring, rng, stored, options)
        self.sources: dict[str, Schema] = {}
        self.joined: dict[bytes, int] = {}
        """Jobs that the agent here takes part in: when they were created."""
        self.trees = PartitionTrees()
        for entry in self.directory.of_kind(JOB):
            self._know(entry.key, notice_of(entry))
        self._kind, self._rng = kind, rng
        self._tell_at = NEVER
        self._started_us = 0
        self._told_us = 0
        self._now = Instant(0.0, 0)
        self._out: list[Any] = []

    # the automaton

    @property
    def wake_at(self) -> float:
        return min(self.directory.wake_at, self._tell_at)

    def handle(self, event: Any, now: Instant) -> list[Any]:
        self._now, self._out = now, []
        if isinstance(event, RingActive):
            self._started_us = self._started_us or now.wall_us
            self._tell_all()
        elif isinstance(event, HaveSources):
            self._have(event.sources)
        elif isinstance(event, Announce):
            self._announce(event)
        elif isinstance(event, LeaveRing):
            self._tell_node(left=True)
        else:
            self._directory(event)
            if isinstance(event, Wake) and now.s >= self._tell_at:
                self._tell_all()
        return self._out

    # what others ask

    def jobs(self) -> list[JobNotice]:
        """Those that were not removed, by name."""
        found = (notice_of(entry) for entry in self.directory.of_kind(JOB))
        return sorted(
            (one for one in found if isinstance(one, JobNotice) and one.state != "removed"),
            key=lambda one: one.name,
        )

    def nodes(self) -> list[NodeNotice]:
        """Those that did not leave and told of themselves lately, by name."""
        found = (notice_of(entry) for entry in self.directory.of_kind(NODE))
        return sorted(
            (one for one in found if isinstance(one, NodeNotice) and not one.left), key=lambda one: one.name
        )

    def schemas(self) -> dict[str, Schema]:
        """For each source the fields that all of its agents have, of the same type."""
        schemas: dict[str, Schema] = {}
        for entry in self.directory.of_kind(SOURCE):
            notice = notice_of(entry)
            if isinstance(notice, SourceNotice):
                known = schemas.get(notice.name)
                schemas[notice.name] = notice.schema if known is None else _common(known, notice.schema)
        return schemas

    # telling

    def _announce(self, event: Announce) -> None:
        try:
            self._directory(Tell(job_entry(event.key, event.notice)))
        except NoticeError as problem:
            self._out.append(Trouble(str(problem)))
            return
        known = self.directory.get(JOB, event.key)
        notice = None if known is None else notice_of(known)
        if isinstance(notice, JobNotice) and notice != event.notice:
            self._removed(event.key, notice)  # the master was away when it was

    def _tell_all(self) -> None:
        self._tell_at = self._now.s + NODE_TOLD_S * (0.9 + 0.2 * self._rng.random())
        self._tell_node()
        self._tell_sources()

    def _tell_node(self, left: bool = False) -> None:
        """A clock that was set back does not make it old: what was told ascends within a boot."""
        self._told_us = max(self._now.wall_us, self._told_us + 1)
        notice = NodeNotice(
            self.about.name or self.ref.address,
            self.ref,
            self._kind.name.lower(),
            self.about.version,
            self._started_us,
            self._told_us,
            tuple(sorted(self.sources)),
            left,
        )
        try:
            self._directory(Tell(node_entry(notice), hasty=left))
        except NoticeError as problem:
            self._out.append(Trouble(str(problem)))

    def _tell_sources(self) -> None:
        """Whoever finds that an entry was not told again for an hour tells it, for all agents that have the source."""
        wall_us = self._now.wall_us
        for name, schema in self.sources.items():
            try:
                entry = source_entry(SourceNotice(name, schema), wall_us)
            except NoticeError as problem:
                self._out.append(Trouble(str(problem)))
                continue
            known = self.directory.get(SOURCE, entry.key)
            due_us = int(SOURCE_TOLD_S * 1e6 * (0.9 + 0.2 * self._rng.random()))
            if known is None or known.version[0] + due_us <= wall_us:
                self._directory(Tell(entry))

    # doing

    def _directory(self, event: Any) -> None:
        for effect in self.directory.handle(event, self._now):
            if isinstance(effect, EntryChanged):
                if effect.entry.kind == JOB:
                    self._changed(effect.entry)
            elif not isinstance(effect, EntryEnded):
                self._out.append(effect)

    def _have(self, sources: Mapping[str, Schema]) -> None:
        self.sources = dict(sources)
        for entry in list(self.directory.of_kind(JOB)):
            self._changed(entry)
        if self._tell_at < NEVER:
            self._tell_all()

    def _changed(self, entry: Entry) -> None:
        notice = notice_of(entry)
        if not isinstance(notice, JobNotice):
            return
        self._know(entry.key, notice)
        key, joined = entry.key, self.joined.get(entry.key)
        wanted = notice.state == "running" and notice.source in self.sources
        if joined is not None and (not wanted or joined != notice.created_us):
            del self.joined[key]
            self._out.append(LeaveJob(key))
        if wanted and key not in self.joined:
            self.joined[key] = notice.created_us
            self._out.append(JoinJob(key))
        self._removed(key, notice)

    def _know(self, key: bytes, notice: Any) -> None:
        if isinstance(notice, JobNotice):
            self.trees.know(key, notice.name, 0 if notice.state == "removed" else notice.trees)

    def _removed(self, key: bytes, notice: JobNotice) -> None:
        if notice.state == "removed":
            self._out.append(JobRemovedElsewhere(key, notice.created_us))


def _common(one: Schema, other: Schema) -> Schema:
    def both(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in mine.items() if theirs.get(name) == value}

    fields: dict[str, Type] = both(one.fields, other.fields)
    return Schema(fields, one.open_fields and other.open_fields, both(one.aliases, other.aliases))
