"""What the agent's streams and their driver tell one another.

The driver reads logs and folds them in threads; it keeps the promises that stand here. It answers each `Advance` and each
`Fold` exactly once, whatever becomes of the stream meanwhile; a range whose bytes are gone is answered, too, with what is
left and `lost_bytes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from agent.journal_format import Positions
from job.plan import Plan
from job.plan_book import ALWAYS
from srt.automaton import Ref
from srt.frame_messages import Counters, News, PaneLines, PaneRun, StreamId

StreamKey = tuple[bytes, StreamId]
"""The job's tree and the stream in it."""


class FoldSpec(NamedTuple):
    """How lines become the content of one stream."""

    key: StreamKey
    plan: Plan
    """Its row phase reads the log; its window is as long as a pane (job.plan_book.feed_plan)."""
    first_pane_us: int
    end_pane_us: int
    """Lines in panes outside of [first, end) are dropped and counted as `outside`."""
    closed_us: int
    """Others in panes that start earlier are dropped and counted as `late`."""
    over_us: int = ALWAYS
    """Outside of [first, end), what is in panes before this belonged to plans that are closed, and counts as `late`, too."""
    deliver: bool = True
    """Only for `Advance`: hand out what was folded since the trees were fresh, and drop the trees."""
    fresh: bool = True
    """Only for `Advance`: begin with empty trees, whatever there are."""
    partitions: int = 1
    """Into how many parts the groups are divided."""


class Portion(NamedTuple):
    """The fold of a range: the same range under the same spec gives the same, but for what is closed by then."""

    panes: tuple[PaneLines, ...] = ()
    parts: tuple[tuple[PaneRun, ...], ...] = ()
    """The groups of each partition; none: there are no groups at all."""
    counters: Counters = Counters()


class Advance(NamedTuple):
    """Effect: read on from the frontier, into every stream of `specs`.

    The driver keeps one set of trees per stream over successive advances, until its portion is delivered or it is missing
    from the next one. It may begin to read ahead, but hands out nothing beyond the positions that it answers. It stops at a
    line end: at the end of all files, after about `bytes_max` bytes, or when the event time crosses a pane boundary.
    """

    token: int
    start: Positions
    specs: tuple[FoldSpec, ...]
    bytes_max: int
    clock_us: int | None = None
    """The roots' wall clock, the one that is ahead: lines too far beyond it are rejected. None: nothing is known of it."""


class Advanced(NamedTuple):
    """Event: how far the frontier is now."""

    token: int
    files: Positions
    """Every file of `start`, and all others that there were when reading began; they are read from 0. A file of which
    nothing was read yet is here, too: it holds the watermark back."""
    heard: Mapping[bytes, int]
    """The greatest event time per file, of those that had new lines."""
    portions: Mapping[StreamKey, Portion]
    """For every spec to be delivered."""
    overfull: frozenset[StreamKey] = frozenset()
    """Streams whose trees had to be dropped for want of memory: they will be read again."""
    gone: frozenset[bytes] = frozenset()
    """Files of `start` that need not be in cuts once they are released: finished ones that are not on disk any more, and
    those of sources that are not configured any more. Others must stay in the cuts, or they would seem new."""
    more: bool = False
    """It stopped at a limit; there is more to read at once."""


class Fold(NamedTuple):
    """Effect: read the range of `start` to `end` again, for one stream. Files that are not in `start` begin at 0."""

    token: int
    spec: FoldSpec
    start: Positions
    end: Positions
    bytes_max: int
    """It may stop at a line end after about so many bytes."""


class Folded(NamedTuple):
    """Event: the fold of that range, or of its beginning."""

    token: int
    portion: Portion
    reached: Positions | None = None
    """Where it stopped; None: at the end."""
    latest_us: int | None = None
    """The greatest event time it met."""


class Release(NamedTuple):
    """Effect: nobody will ask for bytes before these positions again (A7); files finished there may be closed (A9)."""

    files: Positions


class Started(NamedTuple):
    """Event, once, first: the logs as they are found. `files` are where reading begins if the journal is new."""

    files: Positions


class JobTold(NamedTuple):
    """Event: the news in a PONG or a multicast of a job's tree."""

    job: bytes
    news: News


class JobParent(NamedTuple):
    """Event: the vertex to which a job's messages go, in the tree of a partition; None: there is none."""

    job: bytes
    parent: Ref | None
    partition: int = 0


class JobHeard(NamedTuple):
    """Event: an Ack, Nack or Synced for this agent, from the tree of a partition."""

    job: bytes
    message: Any
    partition: int = 0


class JobGone(NamedTuple):
    """Event: the job is stopped."""

    job: bytes


class SourcesChanged(NamedTuple):
    """Event: the sources here are others, so plans may run that did not, or not any more."""


class JobUp(NamedTuple):
    """Effect: a Frame, Sync or Refused for the parent in the tree of a partition."""

    job: bytes
    message: Any
    partition: int = 0


class JobTrees(NamedTuple):
    """Effect: the agent takes part in the trees of so many partitions of the job from now on."""

    job: bytes
    trees: int


class Shrink(NamedTuple):
    """Event: memory is short; pieces that were sent are dropped, and folded again if they must be sent again."""


class Trouble(NamedTuple):
    """Effect: what a person should know."""

    problem: str
