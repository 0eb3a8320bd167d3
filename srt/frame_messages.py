"""What agents, vertices and the master of one job tell one another; docs/WIRE.md has the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from job.plan_book import PlanBook
from job.settings import PARTITIONS_MAX
from srt.tree_messages import U63, Key

LIVE, HISTORY = 0, 1
LANES_MAX = 2 * PARTITIONS_MAX
PART_BYTES = 256 << 10
"""A frame travels in parts of this size: 2 ms at 1 Gbit/s, for which others on the link wait."""
PARTS_MAX = 1 << 12
SPANS_MAX = 250_000
PANES_MAX = 100_000
RUNS_MAX = 250_000
REQUESTS_MAX = 4096
"""SYNCs in a message, and answers."""
NUMBERS_MAX = 65_536
"""Frames acknowledged by a message."""
REASON_MAX = 1000
"""Characters."""

I63 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
JournalId = Annotated[bytes, Meta(min_length=16, max_length=16)]
CutOrNone = Annotated[int, Meta(ge=-1, le=2**63 - 1)]


class StreamId(msgspec.Struct, frozen=True, array_like=True, order=True):
    """What has a `next`: one partition of the groups of one lane of one agent's log under the plan of one revision."""

    revision: U63
    """The feed: the revision whose row phase is folded."""
    agent: JournalId
    lane: Annotated[int, Meta(ge=0, lt=LANES_MAX)] = LIVE
    """LIVE or HISTORY, plus twice the partition."""

    @property
    def partition(self) -> int:
        return self.lane >> 1

    @property
    def is_live(self) -> bool:
        return not self.lane & HISTORY

    def of(self, partition: int) -> StreamId:
        """The same lane, of another partition."""
        return StreamId(self.revision, self.agent, 2 * partition + (self.lane & HISTORY))

    @property
    def history(self) -> StreamId:
        """The lane of what lies before it, of the same partition."""
        return StreamId(self.revision, self.agent, self.lane | HISTORY)


class Counters(msgspec.Struct, frozen=True, array_like=True):
    """What became of the lines of a range: lines = rows + filtered + outside + rejected + late."""

    lines: U63 = 0
    rows: U63 = 0
    """Went into panes of the revision."""
    filtered: U63 = 0
    """WHERE was not true of them."""
    outside: U63 = 0
    """Fell into panes that the revision does not keep."""
    rejected: U63 = 0
    late: U63 = 0
    """Fell into panes that were closed."""
    lost_bytes: U63 = 0
    """Were gone before they were read."""
    shed: U63 = 0

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
    start: U63
    end: U63
    watermark_us: I63 | None
    """Lines of this stream behind `end` that are earlier are late; None: nothing is known."""
    counters: Counters = Counters()


class PaneLines(msgspec.Struct, frozen=True, array_like=True):
    """How many lines went into a pane."""

    revision: U63
    start_us: I63
    lines: U63


class PaneRun(msgspec.Struct, frozen=True, array_like=True):
    """Groups of a pane. Table 0 is that of the groups, each further one that of a count(DISTINCT)."""

    revision: U63
    start_us: I63
    table: Annotated[int, Meta(ge=0, le=255)]
    run: Annotated[bytes, Meta(max_length=PARTS_MAX * PART_BYTES)]


class FrameBody(msgspec.Struct, frozen=True, array_like=True):
    """What a frame says; its parts are the encoded bytes of this."""

    spans: Annotated[tuple[Span, ...], Meta(min_length=1, max_length=SPANS_MAX)]
    panes: Annotated[tuple[PaneLines, ...], Meta(max_length=PANES_MAX)] = ()
    runs: Annotated[tuple[PaneRun, ...], Meta(max_length=RUNS_MAX)] = ()
    history: U63 = 0
    """Under which its pieces were folded: a plan may be lost with the end of the log, and with it what they mean."""


class Frame(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="fr"):
    """A part of a frame, which is merged pieces."""

    number: U63
    """Of the sender's own frames, ascending within a boot."""
    part: Annotated[int, Meta(ge=0, lt=PARTS_MAX)]
    last: bool
    solo: bool
    """Merge it with nothing."""
    data: Annotated[bytes, Meta(max_length=PART_BYTES)]


class SyncRequest(msgspec.Struct, frozen=True, array_like=True):
    """An agent asks where a stream goes on."""

    stream: StreamId
    start: U63
    """The cut it proposes if the stream is new."""
    split: CutOrNone
    """-1, or: register history as (start, split] and live as (split, ...)."""
    nonce: U63
    boot: U63
    instance: U63
    """Random, of this start of the agent: two with the same journal and boot are told apart by it."""
    name: Annotated[str, Meta(max_length=255)]


class SyncAnswer(msgspec.Struct, frozen=True, array_like=True):
    """Where a stream goes on: the truth."""

    stream: StreamId
    nonce: U63
    next: U63
    start: U63
    end: CutOrNone
    """Where a history lane ends; -1: nowhere."""
    split: bool
    """There is a history lane beside this one."""
    problem: Annotated[str, Meta(max_length=REASON_MAX)] = ""
    """Why the stream is refused; empty: it is open."""


class Sync(msgspec.Struct, frozen=True, array_like=True, tag="fs"):
    """Goes up behind all frames that its sender sent before."""

    requests: Annotated[tuple[SyncRequest, ...], Meta(max_length=REQUESTS_MAX)]


class Synced(msgspec.Struct, frozen=True, array_like=True, tag="fo"):
    answers: Annotated[tuple[SyncAnswer, ...], Meta(max_length=REQUESTS_MAX)]


class Ack(msgspec.Struct, frozen=True, array_like=True, tag="fa"):
    """All of these frames of the receiver is committed."""

    numbers: Annotated[tuple[U63, ...], Meta(max_length=NUMBERS_MAX)]


class Nack(msgspec.Struct, frozen=True, array_like=True, tag="fn"):
    """These frames of the receiver were not accepted and never will be as they are: open their streams again."""

    numbers: Annotated[tuple[U63, ...], Meta(max_length=NUMBERS_MAX)]


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="fx"):
    """An agent cannot run the plan of a revision."""

    revision: U63
    agent: JournalId
    reason: Annotated[str, Meta(max_length=REASON_MAX)]


class News(msgspec.Struct, frozen=True, array_like=True, tag="fw"):
    """What each PONG of the tree carries down from the leader, all of it committed."""

    epoch: U63
    history: U63
    """Rises when committed entries were lost for good: every stream must be opened again."""
    version: U63
    book: PlanBook | None
    """None: the receiver's version is not older."""
    horizon_us: I63
    """No later plan reaches back before it, and panes that start before it are closed."""
    draining: bool
    """Sources are read to their end as of now, and then no more."""
    clock_us: I63
    """The leader's wall clock."""
    watermark_us: I63 | None
    """How far the slowest agent is."""


Up = Frame | Sync | Refused
Down = Ack | Nack | Synced


class ForJob(msgspec.Struct, frozen=True, array_like=True, tag="fj"):
    """A message of one job's tree on a link that all jobs share."""

    key: Key
    body: Up | Down


FRAME_MESSAGES = (ForJob,)
"""Those that travel by themselves; the others travel in it, and News in what trees carry down."""


_MOST: dict[Any, int] = {Ack: NUMBERS_MAX, Nack: NUMBERS_MAX, Sync: REQUESTS_MAX, Synced: REQUESTS_MAX}


def messages(kind: type[Ack | Nack | Sync | Synced], items: Sequence[Any]) -> list[Any]:
    """As many messages of a kind as it takes for all items."""
    most = _MOST[kind]
    return [kind(tuple(items[at : at + most])) for at in range(0, len(items), most)]


def body_problem(body: FrameBody) -> str | None:
    """What is wrong with a frame beside its runs, if anything is. O(spans)."""
    if any(span.end < span.start for span in body.spans):
        return "a range that ends before it starts"
    if any(span.end == span.start and span.counters != _NO_LINES for span in body.spans):
        return "lines in an empty range"
    if (body.panes or body.runs) and not any(span.end > span.start for span in body.spans):
        return "content without a range"
    if len({span.stream for span in body.spans}) != len(body.spans):
        return "a stream twice"
    return None
