"""From a configuration to the cores of a node, opened from what its stores hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from agent.journal import ORIGIN, Journal, JournalOptions
from agent.journal import STORE as JOURNAL
from agent.journal_format import Positions
from agent.log_id import of_source
from agent.sources import Source, Sources
from agent.stream_options import StreamsOptions
from agent.streams import Streams
from agent.tail_options import TailOptions
from cbt.memory import Memory
from elfstream import __version__, descriptors
from elfstream.config.model import NodeConfig, SourceConfig
from elfstream.embedded import schema_of
from elfstream.node import NodeCore, NodeOptions
from elfstream.notice_board import About, HaveSources
from job.plan import Plan
from master.commit_group import STORE as GROUPS
from srt.automaton import Ref
from srt.directory import STORE as DIRECTORY
from srt.reducer_tree import ReducerTree
from srt.ring import Ring
from srt.tree_messages import Kind

Reader = TypeVar("Reader")
KNOWN_LOGS = "logs"
"""File with what is known of the logs beside the journal."""


class Stored(Protocol):
    """What the stores hold when a node starts: `srt.stores.Stores`, or disks in virtual time."""

    def read(self, store: str) -> dict[bytes, bytes]:
        """All keys and values of a store."""
        ...

    def file(self, store: str, size: int) -> bytes:
        """The preallocated file of a store."""
        ...


@dataclass(frozen=True)
class Bounds:
    """Of the cores; simulations shrink them, so that limits are met soon."""

    node: NodeOptions = field(default_factory=NodeOptions)
    journal: JournalOptions = field(default_factory=JournalOptions)
    streams: StreamsOptions = field(default_factory=StreamsOptions)


class Parts(NamedTuple, Generic[Reader]):
    """`reader` is there for agents alone; `first` are the events that the core gets first."""

    core: NodeCore
    reader: Reader | None
    first: list[Any]


def build(
    config: NodeConfig,
    ref: Ref,
    stores: Stored,
    memory: Memory,
    rng: random.Random,
    sources: Sources,
    can_run: Callable[[Plan], str | None],
    open_logs: Callable[[Positions | None, str, bytes], Reader],
    bounds: Bounds = Bounds(),
) -> Parts[Reader]:
    """`can_run` is asked as that of Sources, and may change its mind when they change. `open_logs` makes the reader of an
    agent (`agent.log_reader.LogReader`, or a model of it) from the files of the newest cut (None: the journal is new), the
    path of what is known of the logs, and the journal's id.

    Raises StoreError, GroupStoreError, JournalError, OSError."""
    kind = Kind.AGENT if config.is_agent else Kind.WORKER
    ring = Ring(ref, [str(address) for address in config.join], rng, role=kind)
    trees = ReducerTree(ring, kind, rng)
    streams, reader = None, None
    first: list[Any] = []
    if config.is_agent:
        journal = Journal(stores.file(JOURNAL, bounds.journal.file_bytes), rng.randbytes(16), bounds.journal)
        newest = journal.newest
        start = None if newest.number == ORIGIN else newest.files
        path = str(Path(config.data_dir) / KNOWN_LOGS)
        reader = open_logs(start, path, journal.journal_id)
        streams = Streams(config.name, journal, rng, can_run, bounds.streams, of_source=of_source)
        first.append(told(sources))
    core = NodeCore(
        ring,
        trees,
        streams,
        memory.budget,
        rng,
        stores.read(GROUPS),
        replace(bounds.node, about=About(config.name, __version__)),
        memory.options,
        stores.read(DIRECTORY),
    )
    return Parts(core, reader, first)


def told(sources: Sources) -> HaveSources:
    """What the core is told of the sources here."""
    return HaveSources({name: schema_of(one.format) for name, one in sources.by_name.items()})


def sources_of(config: NodeConfig) -> Sources:
    """Raises FormatError, OptionsError."""
    return Sources(
        Source(one.name, one.paths, one.log_format(), tail_options(one, len(config.sources)))
        for one in config.sources
    )


def tail_options(source: SourceConfig, sources: int) -> TailOptions:
    """How a source, one of so many, is followed."""
    shares = descriptors.of_sources(descriptors.limit(), sources)
    return TailOptions(
        read_from=source.read_from,
        open_max=shares.open_max,
        held_max=shares.held_max,
        open_deleted_max=min(TailOptions.open_deleted_max, shares.open_max),
    )
