"""What agents, vertices and the master of one job and partition tell one another (docs/WIRE_FRAMES.md)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from job.plan_book import PlanBook

LIVE, HISTORY = 0, 1
SPANS_MAX = 1_000_000
PANES_MAX = 100_000
RUNS_MAX = 10_000
CHUNK_RUN_BYTES = 1 << 20
"""Bytes of runs after which a chunk ends."""
CHUNK_RUN_BYTES_MAX = 16 << 20
"""More than that no chunk may hold."""


class StreamId(msgspec.Struct, frozen=True, array_like=True, order=True):
    """What has a `next`: one lane of one agent's log under the plan of one revision."""

    revision: int
    """The feed: the revision whose row phase is folded."""
    agent: bytes
    """The journal id, 16 bytes."""
    lane: int = LIVE


class Counters(msgspec.Struct, frozen=True, array_like=True):
    """What became of the lines of a range: lines = rows + filtered + outside + rejected + late."""

    lines: int = 0
    rows: int = 0
    """Went into panes of the revision."""
    filtered: int = 0
    """WHERE was not true of them."""
    outside: int = 0
    """Fell into panes that the revision does not keep."""
    rejected: int = 0
    late: int = 0
    """Fell into panes that were closed."""
    lost_bytes: int = 0
    """Were gone before they were read."""
    shed: int = 0

    def __add__(self, other: Counters) -> Counters:
        return Counters(
            self.lines + other.lines,
            self.rows + other.rows,
            self.filtered + other.filtered,
            self.outside + other.outside,
            self.rejected + other.rejected,
            self.late + other.late,
            self.lost_bytes + other.lost_bytes,
            self.shed + other.shed,
        )


_NO_LINES = Counters()


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A piece's place: the range (start, end] of cuts of a stream. Equal cuts: only the watermark is new."""

    stream: StreamId
    start: int
    end: int
    watermark_us: int | None
    """Lines of this stream behind `end` that are earlier are late; None: nothing is known."""
    counters: Counters = Counters()


class PaneLines(msgspec.Struct, frozen=True, array_like=True):
    """How many lines went into a pane."""

    revision: int
    start_us: int
    lines: int


class PaneRun(msgspec.Struct, frozen=True, array_like=True):
    """Groups of a pane. Table 0 is that of the groups, each further one that of a count(DISTINCT)."""

    revision: int
    start_us: int
    table: int
    run: bytes


class Frame(msgspec.Struct, frozen=True, array_like=True, tag="frame"):
    """One chunk of a frame: merged pieces. The first chunk has the spans and the panes."""

    number: int
    """Of the sender's own frames, ascending within a boot."""
    chunk: int
    last: bool
    solo: bool
    """Merge it with nothing."""
    spans: tuple[Span, ...] = ()
    panes: tuple[PaneLines, ...] = ()
    runs: tuple[PaneRun, ...] = ()
    history: int = 0
    """Under which its pieces were folded: a plan may be lost with the end of the log, and with it what they mean."""


class SyncRequest(msgspec.Struct, frozen=True, array_like=True):
    """An agent asks where a stream goes on."""

    stream: StreamId
    start: int
    """The cut it proposes if the stream is new."""
    split: int
    """-1, or: register history as (start, split] and live as (split, ...)."""
    nonce: int
    boot: int
    instance: int
    """Random, of this start of the agent: two with the same journal and boot are told apart by it."""
    name: str


class SyncAnswer(msgspec.Struct, frozen=True, array_like=True):
    """Where a stream goes on: the truth."""

    stream: StreamId
    nonce: int
    next: int
    start: int
    end: int
    """Where a history lane ends; -1: nowhere."""
    split: bool
    """There is a history lane beside this one."""
    problem: str = ""
    """Why the stream is refused; empty: it is open."""


class Sync(msgspec.Struct, frozen=True, array_like=True, tag="sync"):
    """Goes up behind all frames that its sender sent before."""

    requests: tuple[SyncRequest, ...]


class Synced(msgspec.Struct, frozen=True, array_like=True, tag="synced"):
    answers: tuple[SyncAnswer, ...]


class Ack(msgspec.Struct, frozen=True, array_like=True, tag="ack"):
    """All of these frames of the receiver is committed."""

    numbers: tuple[int, ...]


class Nack(msgspec.Struct, frozen=True, array_like=True, tag="nack"):
    """These frames of the receiver were not accepted and never will be as they are: open their streams again."""

    numbers: tuple[int, ...]


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """An agent cannot run the plan of a revision."""

    revision: int
    agent: bytes
    reason: str


class News(msgspec.Struct, frozen=True, array_like=True, tag="news"):
    """What each PONG of the tree carries down from the leader, all of it committed."""

    epoch: int
    history: int
    """Rises when committed entries were lost for good: every stream must be opened again."""
    version: int
    book: PlanBook | None
    """None: the receiver's version is not older."""
    horizon_us: int
    """No later plan reaches back before it, and panes that start before it are closed."""
    draining: bool
    """Sources are read to their end as of now, and then no more."""
    clock_us: int
    """The leader's wall clock."""
    watermark_us: int | None
    """How far the slowest agent is."""


Up = Frame | Sync | Refused
Down = Ack | Nack | Synced


class ForJob(msgspec.Struct, frozen=True, array_like=True, tag="job"):
    """A message of one job's tree on a link that all jobs share."""

    key: Annotated[bytes, Meta(min_length=16, max_length=16)]
    body: Up | Down


def frame_problem(frame: Frame) -> str | None:
    """What is wrong with a chunk beside its runs, if anything is. O(spans)."""
    if frame.number < 0 or frame.chunk < 0:
        return "negative numbers"
    if len(frame.spans) > SPANS_MAX or len(frame.panes) > PANES_MAX or len(frame.runs) > RUNS_MAX:
        return "too many spans, panes or runs"
    if frame.chunk and (frame.spans or frame.panes):
        return "spans or panes behind the first chunk"
    if not frame.chunk and not frame.spans:
        return "no spans"
    if sum(len(run.run) for run in frame.runs) > CHUNK_RUN_BYTES_MAX:
        return "a chunk beyond its limit"
    if any(span.end < span.start or len(span.stream.agent) != 16 for span in frame.spans):
        return "a range that ends before it starts, or an agent without a sound id"
    moved = any(span.end > span.start for span in frame.spans)
    if any(span.end == span.start and span.counters != _NO_LINES for span in frame.spans):
        return "lines in an empty range"
    if not frame.chunk and not moved and (frame.panes or frame.runs or not frame.last):
        return "content without a range"
    if len({span.stream for span in frame.spans}) != len(frame.spans):
        return "a stream twice"
    return None
