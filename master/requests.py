"""What faces ask of a node's core, and what it answers. docs/DAEMON.md says how they travel.

A face gives the core an `Ask` with a token of its own and gets one `Answer` with that token: one of the views below, or a
`Refusal`. Requests for a job are answered where the job's group leads; elsewhere they are refused as `elsewhere`, with the
node to ask. Plans are compiled by the face; the core never sees a parser.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from job.derived import Derived
from job.plan import Plan
from job.settings import JobSpec
from srt.automaton import Ref

LIVE, BACKFILL = "live", "backfill"
"""Where a result comes from."""


class Ask(NamedTuple):
    """Event."""

    token: int
    key: bytes
    """The job's."""
    request: Any


class Answer(NamedTuple):
    """Effect. `body` is a view, or a Refusal."""

    token: int
    body: Any


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is not done. kind: `elsewhere` (`master` leads), `unknown` (no such job), `exists` (another job has the
    name), `stale` (another revision is the current one), `invalid` (`field` is wrong),
    `leaderless` (most members of its group do not answer), `electing` (they do, and elect a leader), `busy` (try again),
    `overloaded` (the same, but later)."""

    kind: str
    detail: str
    field: str = ""
    master: Ref | None = None
    line: int = 0
    """Of the body, from 1: what is wrong stands there."""


# Requests. Those that make or change a job are answered by its `JobView`, once they are durable; RemoveJob by the last one.


class FindMaster(NamedTuple):
    """Who leads the job, from any node: a `MasterAt`."""


class SubmitJob(NamedTuple):
    """Make a job, at the node closest to its key. The same once more is no error. Answered when it is durable."""

    spec: JobSpec
    plan: Plan | None
    """None: of a derived job."""


class ChangeJob(NamedTuple):
    """A new revision. `start_us` None: as soon as no line that was read is before it; the past: back to the horizon."""

    spec: JobSpec
    plan: Plan | None
    expected_revision: int
    """Refused as stale if another is the current one; 0: whichever is."""
    start_us: int | None = None


class StopJob(NamedTuple):
    """No agent reads for the job any more. With `drain` they read to the end as of now, and all windows become final."""

    drain: bool = False


class RemoveJob(NamedTuple):
    """Stops the job and removes its results. Its name may be used again."""


class ForgetAgent(NamedTuple):
    """The agent of that name is not expected back."""

    name: str


class RecoverJob(NamedTuple):
    """Asked of one member: it goes on alone from its log, under a new lineage. What only the others had is lost for good."""


class NoteDelivered(NamedTuple):
    """The job's webhook has got all results up to that index of its log: another master goes on behind it."""

    upto: int


class GivenWindow(NamedTuple):
    """A window that was computed elsewhere, with sound values (master/given_windows.py)."""

    line: int
    """Of the request's body, from 1."""
    start_us: int | None
    """None: the endless one."""
    end_us: int | None
    revision: int
    columns: tuple[ResultColumn, ...]
    lines: int
    rows: int
    packed: bytes
    """As ResultRecord has them."""
    digest: bytes
    """Of columns and rows."""


class IngestWindows(NamedTuple):
    """Windows that were computed elsewhere become results of the job: an `IngestView`, once they are committed and stored
    here. Some of them may be even if the answer is `busy`; the same once more is no error."""

    windows: tuple[GivenWindow, ...]


class DescribeJob(NamedTuple):
    """A `JobView`."""


class DescribeVertex(NamedTuple):
    """This node's own place in the job's tree, from any node: a `VertexView`; refused as `unknown` where it has none."""


class DescribeNode(NamedTuple):
    """This node, from itself: a `NodeView`. The key means nothing."""


# Views.


class MasterAt(msgspec.Struct, frozen=True):
    ref: Ref | None
    """None: no node is known that could lead it."""
    leads: bool
    """False: there is no such job; the node is where it would be made."""


class RevisionView(msgspec.Struct, frozen=True):
    revision: int
    sql: str
    settings: dict[str, Any]
    """`Settings.shown()`."""
    plan: Plan | None
    """None: of a derived job."""
    start_us: int | None
    """It owns windows from here on; None: all."""
    made_us: int
    state: str
    """open, closed, or failed (an agent cannot run it: `problem`)."""
    problem: str = ""
    parameters: dict[str, bool | int | float | str | None] = {}
    """As JobSpec has them."""


class Coverage(msgspec.Struct, frozen=True):
    """What a job's answers rest on: of the streams that feed the window's revision (of a job: its last one), since these
    began. lines = rows + filtered + rejected + late + outside, but for late lines of streams that were closed meanwhile."""

    agents: int
    missing: tuple[str, ...]
    lines: int
    rows: int
    filtered: int
    rejected: int
    late: int
    lost_bytes: int
    shed: int
    outside: int = 0
    """Lines in no window of the revision, for their time belongs to another one or is before the job's begin."""


class Rates(msgspec.Struct, frozen=True):
    """What a job did a second, over `over_s` up to its last commit. Lines are those of the streams that `Coverage` counts;
    None: nothing is read for it, its windows are computed elsewhere. A line that is late counts as parsed, too."""

    over_s: float
    results: float
    """Published, each edition of a window by itself."""
    lines: float | None = None
    parsed: float | None = None
    rejected: float | None = None
    late: float | None = None


class JobView(msgspec.Struct, frozen=True):
    name: str
    state: str
    """starting, running, changing, draining, stopped or removed: what it is."""
    wanted: str
    """running, stopped or removed: what it shall be."""
    revision: int
    """The current one, for If-Match."""
    revisions: tuple[RevisionView, ...]
    created_us: int
    master: Ref
    group: tuple[Ref, ...]
    coverage: Coverage
    watermark_us: int | None
    horizon_us: int | None
    windows_open: int
    editions: int
    """Results published since the job began."""
    published: int
    """Index of the newest of them, whether it is stored yet or let go by now; 0: there is none."""
    delivered: int = 0
    """Index up to which its webhook has got the results."""
    boundary_us: int | None = None
    """Windows that start here or later are live; those before may be ingested. None: none may, or all (`derived`)."""
    derived: Derived | None = None
    """It has no plan then."""
    waits_for: tuple[tuple[str, int], ...] = ()
    """Agents that hold windows up, and how far each of them is, in microseconds: they are behind the one that is furthest by
    more than `deadline`, and by more than `delay`, `idle` and `emit` explain. The one that is least far first."""
    rates: Rates | None = None
    """None: its leader knows too little yet."""


class IngestView(msgspec.Struct, frozen=True):
    """What became of windows that were given."""

    stored: int
    """For the first time."""
    same: int
    """They were there, with the same columns and rows."""
    replaced: int
    """They were there otherwise: each has a further edition."""


class VertexView(msgspec.Struct, frozen=True):
    ref: Ref
    role: str
    """root, inner or leaf."""
    parent: Ref | None
    children: tuple[Ref, ...]
    agents: int
    """At and below it."""
    frames_in: int = 0
    frames_out: int = 0


class NodeView(msgspec.Struct, frozen=True):
    ref: Ref
    kind: str
    """agent or worker."""
    neighbours: tuple[Ref, ...]
    masters: tuple[str, ...]
    """Keys, hexadecimal, of the jobs that are led here."""
    memory_bytes: int
    memory_max: int


# Results.


class ResultColumn(msgspec.Struct, frozen=True, array_like=True):
    name: str
    type: str
    """As SQL writes it: BIGINT, DECIMAL(18,6), STRUCT<start: TIMESTAMP, end: TIMESTAMP> ..."""


class Place(NamedTuple):
    """Where a record stands in the order of time. (start, end, edition) names it: there is no other with the same."""

    start_us: int | None
    end_us: int | None
    edition: int


class ResultRecord(msgspec.Struct, frozen=True, array_like=True):
    """A window as it was published once: never changes. The same on every member of the group."""

    index: int
    """Of its entry in the job's log, with the number of forced recoveries above its 40 lower bits: the id of the event.
    It ascends with each publication."""
    start_us: int | None
    """None: the endless window."""
    end_us: int | None
    edition: int
    """1, 2, ...: of this window."""
    status: str
    """tentative, final or withdrawn."""
    plan: int
    """The plan revision that owns the window; 0: none any more, it is withdrawn."""
    published_us: int
    """Wall clock of the leader."""
    lines: int
    coverage: Coverage
    columns: tuple[ResultColumn, ...]
    rows: int
    packed: bytes
    """zstd of JSON: an array of rows, each an array of values as docs/CLI.md writes them in JSON."""
    origin: str = LIVE
    """live, or backfill: computed elsewhere."""
    digest: bytes = b""
    """Of columns and rows, where it was given."""

    @property
    def place(self) -> Place:
        return Place(self.start_us, self.end_us, self.edition)
