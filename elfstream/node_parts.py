"""From a configuration to the cores of a node, opened from what its stores hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from agent.journal import ORIGIN, Journal, JournalOptions
from agent.journal import STORE as JOURNAL
from agent.log_id import of_source
from agent.log_reader import LogReader
from agent.sources import Source, Sources
from agent.streams import Streams
from agent.tail_options import TailOptions
from cbt.memory import Memory
from elfstream import __version__
from elfstream.config.model import NodeConfig
from elfstream.embedded import schema_of
from elfstream.node import NodeCore, NodeOptions
from elfstream.notice_board import About, HaveSources
from job.plan import Plan
from master.commit_group import STORE as GROUPS
from srt.automaton import Instant, Ref
from srt.directory import STORE as DIRECTORY
from srt.reducer_tree import ReducerTree
from srt.ring import Ring
from srt.tree_messages import Kind

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


class Parts(NamedTuple):
    """`first` are the events that the core gets first."""

    core: NodeCore
    reader: LogReader | None
    first: list[Any]


def build(
    config: NodeConfig,
    ref: Ref,
    stores: Stored,
    memory: Memory,
    rng: random.Random,
    sources: Sources,
    can_run: Callable[[Plan], str | None],
    clock: Callable[[], Instant] | None = None,
) -> Parts:
    """`can_run` is asked as that of Sources, and may change its mind when they change. With a `clock` that is not the
    system's logs are looked at by that, without hints of the kernel.

    Raises StoreError, GroupStoreError, JournalError, OSError."""
    kind = Kind.AGENT if config.is_agent else Kind.WORKER
    ring = Ring(ref, [str(address) for address in config.join], rng, role=kind)
    trees = ReducerTree(ring, kind, rng)
    streams, reader, first = None, None, []
    if config.is_agent:
        streams, reader = _agent(config, sources, stores, memory, rng, can_run, clock)
        first.append(told(sources))
    core = NodeCore(
        ring,
        trees,
        streams,
        memory.budget,
        rng,
        stores.read(GROUPS),
        NodeOptions(about=About(config.name, __version__)),
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
        Source(one.name, one.paths, one.log_format(), TailOptions(read_from=one.read_from))
        for one in config.sources
    )


def _agent(
    config: NodeConfig,
    sources: Sources,
    stores: Stored,
    memory: Memory,
    rng: random.Random,
    can_run: Callable[[Plan], str | None],
    clock: Callable[[], Instant] | None,
) -> tuple[Streams, LogReader]:
    options = JournalOptions()
    journal = Journal(stores.file(JOURNAL, options.file_bytes), rng.randbytes(16), options)
    newest = journal.newest
    start = None if newest.number == ORIGIN else newest.files
    path = str(Path(config.data_dir) / KNOWN_LOGS)
    if clock is None:
        reader = LogReader(sources, start, memory, path, journal.journal_id)
    else:
        reader = LogReader(
            sources,
            start,
            memory,
            path,
            journal.journal_id,
            hints=False,
            clock=lambda: clock().s,
            wall_us=lambda: clock().wall_us,
        )
    return Streams(config.name, journal, rng, can_run, of_source=of_source), reader
