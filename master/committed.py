"""The state that follows from a job's log: a pure function of its entries, the same on every member of the group.

An entry that does not fit the state it meets is void: a new leader may decide again what an old one had decided already.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cbt.budget import Budget
from cbt.errors import MemoryCapError, SpillError
from cbt.options import Options as TreeOptions
from cbt.tree import Tree
from job.plan_book import ALWAYS, NEVER_US, REVISIONS_MAX, PlanBook, PlanBookError, Revision, covering
from job.settings import Settings
from job.times import later
from master.committed_parts import (
    Counts,
    Dropped,
    Published,
    StreamState,
    WindowKey,
    WindowPublished,
    WindowState,
    mark_of,
    registered,
    share_marks,
)
from master.entries import (
    FINAL,
    WITHDRAWN,
    Delivered,
    DerivedEntry,
    Drain,
    Entry,
    Era,
    Forget,
    FrameEntry,
    Ingest,
    Part,
    PlanEntry,
    PlanText,
    Publish,
    Reg,
    Remove,
    Stop,
    decode_entry,
)
from master.group_messages import steps_between
from master.ingested import Ingested, Shape, shape_of, window_fault
from master.open_windows import OpenWindows
from master.requests import BACKFILL, Coverage, ResultRecord
from srt.content import Content
from srt.errors import ContentError
from srt.frame_messages import HISTORY, LIVE, Counters, PaneLines, Span, StreamId

RUN_BYTES_MAX = 1 << 30
EMPTY_ROW_MAX = 10_000
"""Windows without lines that are shown one after the other; further ones are left out until there are lines again."""
ERA_INDEX_BITS = 40
ERA_EDITION_BITS = 20


class Committed:
    """Feed it the entries in order with `apply`."""

    def __init__(self, budget: Budget, tree_options: TreeOptions = TreeOptions()) -> None:  # noqa: B008 - frozen
        self._budget, self._tree_options = budget, tree_options
        self.index = 0
        """Of the last entry applied."""
        self.book = PlanBook()
        self.past: tuple[Revision, ...] = ()
        """The last revisions that were closed: a plan that fails goes back to one of them."""
        self.streams: dict[StreamId, StreamState] = {}
        self.roster: dict[bytes, bool] = {}
        """Every agent that ever registered; False: forgotten."""
        self.names: dict[bytes, str] = {}
        self.windows = OpenWindows()
        self.horizon_us = ALWAYS
        """Windows that start earlier are final, published and beyond their allowed lateness. Never falls."""
        self.derived: tuple[DerivedEntry, ...] = ()
        """The last revisions of a derived job, which has no book."""
        self.boundary_us = NEVER_US
        """E of the first plan: windows before it may be ingested. No later plan begins before it, for the horizon is never
        before it either."""
        self.ingested = Ingested()
        self.texts: dict[int, PlanText] = {}
        """Of the revisions in the book and of those in `past`."""
        self.problems: dict[int, str] = {}
        """Of the same revisions: why an agent could not run it."""
        self.draining = self.stopped = self.removed = False
        self.created_us = self.changed_us = 0
        """Wall clock of the leader at the first plan, and at the last change of the job."""
        self.era = self.history = 0
        """How far the lineage is from that of the first plan, and its number."""
        self.delivered = self.published = 0
        """Indexes: up to which the webhook has got the results, and of the last result."""
        self.editions = 0
        """Results published."""
        self.filled_us = ALWAYS
        """Windows that start earlier were looked at, whether they are empty."""
        self.empty_row = 0
        self.counts = Counts()
        self.closed = Counters()
        """Of streams that are closed."""
        self.dropped: dict[int, Dropped] = {}
        """By open feed."""
        self.content = Content(budget, tree_options)
        self._parts: list[bytes] = []
        """Of an entry that is not whole yet."""
        self._marks: dict[int, tuple[int | None, int | None]] = {}

    @property
    def between(self) -> bool:
        """The last entry applied is a part that others have to follow: no snapshot stands for that."""
        return bool(self._parts)

    # entries

    def apply(self, index: int, data: bytes) -> list[Published]:
        """Takes the next entry; returns what readers may see now. Raises EntryError for what is no entry. O(spans + panes
        touched * windows of a pane + roster)."""
        self.index = index
        entry: Entry | None = decode_entry(data)
        if isinstance(entry, Part):
            entry = self._joined(entry)
        if entry is None:
            return []
        self._parts = []
        done = (
            self._life(entry)
            if isinstance(entry, Delivered | Drain | Stop | Remove | Era)
            else self._content(entry)
        )
        if done is None:
            self.counts.void += 1
            return []
        if not self.stopped:
            self._fill()
            self._close()
        return done

    def _joined(self, part: Part) -> Entry | None:
        """The entry whose last part this is."""
        if part.number == 0:
            self._parts = []
        elif part.number != len(self._parts):
            self._parts = []
            return None
        self._parts.append(part.data)
        return decode_entry(b"".join(self._parts)) if part.last else None

    def _content(self, entry: Entry) -> list[Published] | None:
        if self.stopped:
            return None
        if isinstance(entry, FrameEntry):
            return self._frame(entry)
        if isinstance(entry, Reg):
            return self._register(entry)
        if isinstance(entry, PlanEntry):
            return self._plan(entry)
        if isinstance(entry, Publish):
            return self._publish(entry)
        if isinstance(entry, Ingest):
            return self._ingest(entry)
        if isinstance(entry, DerivedEntry):
            return self._derive(entry)
        return self._forget(entry.agent) if isinstance(entry, Forget) else None  # a part of parts

    def _life(self, entry: Delivered | Drain | Stop | Remove | Era) -> list[Published] | None:
        """What becomes of the job as a whole."""
        if isinstance(entry, Era):
            if entry.history == self.history:
                return None
            self.era, self.history = self.era + steps_between(self.history, entry.history), entry.history
            for key in list(self.windows):  # readers may have seen editions of it that are lost
                self.windows.mark(key)
            return []
        if isinstance(entry, Delivered):
            if entry.upto <= self.delivered:
                return None
            self.delivered = entry.upto
            return []
        if self.removed or (self.stopped and not isinstance(entry, Remove)):
            return None
        if isinstance(entry, Drain):
            if self.draining:
                return None
            self.draining = True
        else:
            self.stopped = True
            self.removed = isinstance(entry, Remove)
        self.changed_us = max(self.changed_us, entry.made_us)
        return []

    def _register(self, entry: Reg) -> list[Published] | None:
        live = StreamId(entry.revision, entry.agent, LIVE)
        if live in self.streams or entry.revision not in self.book.feeds:
            return None
        self.streams |= registered(entry, self.book.partitions(entry.revision))
        self.roster.setdefault(entry.agent, True)
        self.names[entry.agent] = entry.name
        self._marks.clear()
        return []

    def _forget(self, agent: bytes) -> list[Published] | None:
        if not self.roster.get(agent):
            return None
        self.roster[agent] = False
        self._marks.clear()
        return []

    def _frame(self, entry: FrameEntry) -> list[Published] | None:
        kept = {(pane.revision, pane.start_us) for pane in entry.panes if self._drop_reason(pane) is None}
        runs = [run for run in entry.runs if (run.revision, run.start_us) in kept]
        panes = [pane for pane in entry.panes if (pane.revision, pane.start_us) in kept]
        try:
            content = self.content.staged(panes, runs, RUN_BYTES_MAX)
        except ContentError:
            return None
        if not self.fits(entry.spans) or not self.content.fits(content):
            return None
        self.content.merge(content)
        for pane in entry.panes:
            if (reason := self._drop_reason(pane)) is not None:
                self._drop(pane.revision, pane.lines, reason == "late")
        known = [span for span in entry.spans if span.stream in self.streams]
        for span in known:
            self._advance(span)
        for stream in {span.stream.of(0): None for span in known}:
            share_marks(self.streams, stream, self.book.partitions(stream.revision))
        for pane in panes:
            self._touch(pane.revision, pane.start_us)
        return []

    def _advance(self, span: Span) -> None:
        state, mark = self.streams[span.stream], span.watermark_us
        state.next = span.end
        state.counters = state.counters + span.counters
        state.watermark_us = later(mark, state.watermark_us)
        self._marks.pop(span.stream.revision, None)
        if not self.roster[span.stream.agent]:
            self.roster[span.stream.agent] = True  # it is back (F4)
            self._marks.clear()

    def fits(self, spans: Iterable[Span]) -> bool:
        """Whether every piece starts exactly at its stream's `next` (R1). Streams of closed feeds say nothing any more."""
        for span in spans:
            if self.book.is_closed(span.stream.revision):
                continue
            state = self.streams.get(span.stream)
            if state is None or span.start != state.next or (state.end >= 0 and span.end > state.end):
                return False
        return True

    def _drop_reason(self, pane: PaneLines) -> str | None:
        """A pane that its feed does not keep is late all the same if the plan it belonged to is closed: nobody else counts
        its lines then."""
        start = pane.start_us
        if self.book.keeps(pane.revision, start):
            return "late" if start < self.horizon_us else None
        wanted = self.boundary_us <= start < self.horizon_us and not self.book.kept(start)
        return "late" if wanted else "outside"

    def _drop(self, feed: int, lines: int, late: bool) -> None:
        """The streams of a closed feed show nothing any more; what was lost of them is shown beside those of the oldest."""
        feeds = self.book.feeds
        here = feed if feed in feeds else min(feeds, default=feed)
        self.dropped.setdefault(here, Dropped()).add(lines, late, feed == here)
        self.counts.note(lines, late)

    def _touch(self, feed: int, pane_us: int) -> None:
        """A pane has new content: its windows that may still be published differ from what readers saw."""
        for revision in self.book.fed_by(feed):
            for start in covering(pane_us, revision):
                if start >= self.horizon_us and self.book.owns(revision.number, start):
                    self.windows.mark(_key(revision, start))

    # plans

    def _plan(self, entry: PlanEntry) -> list[Published] | None:
        revision = entry.revision
        if self.derived:
            return None
        try:
            self.book = self.book.add(revision, self.plan_horizon_us)
        except PlanBookError:
            return None
        self._note_text(entry)
        self.boundary_us = min(self.boundary_us, revision.start_us)
        self._marks.clear()
        for key in list(self.content.lines):
            if not self.book.keeps(*key):
                self._drop(key[0], self.content.drop(key), late=False)
        # Windows that changed hands: those readers saw are published again, by the new owner or as withdrawn.
        for key, state in list(self.windows.items()):
            if key[0] >= revision.start_us:
                if state.count:
                    self.windows.mark(key)
                else:
                    self.windows.drop(key)
        for feed, pane in self.content.lines:
            if feed == revision.feed:
                self._touch(feed, pane)
        return []

    def _note_text(self, entry: PlanEntry) -> None:
        known = {one.number for one in (*self.past, *self.book.revisions)}
        self.texts[entry.revision.number] = entry.text
        if entry.failed:
            self.problems[entry.failed] = entry.problem
        self.texts = {number: text for number, text in self.texts.items() if number in known}
        self.problems = {number: text for number, text in self.problems.items() if number in known}
        self._note_made(entry.text.made_us, entry.history, entry.revision.settings)
        self.filled_us = min(self.filled_us, entry.revision.start_us)

    def _note_made(self, made_us: int, history: int, settings: Settings) -> None:
        self.created_us = self.created_us or made_us
        self.changed_us = max(self.changed_us, made_us)
        self.history = self.history or history
        retain = min(self.ingested.retain_us, settings.retain_us)
        self.ingested = msgspec.structs.replace(self.ingested, retain_us=retain)

    def _derive(self, entry: DerivedEntry) -> list[Published] | None:
        number = self.derived[-1].number + 1 if self.derived else 1
        if self.book.revisions or entry.number != number:
            return None
        self.derived = (*self.derived, entry)[-REVISIONS_MAX:]
        self._note_made(entry.text.made_us, entry.history, entry.settings)
        return []

    @property
    def exists(self) -> bool:
        """It has a first revision: it is a job."""
        return bool(self.book.revisions or self.derived)

    @property
    def revision(self) -> int:
        """The current one; 0: there is none yet."""
        return self.derived[-1].number if self.derived else self.book.revisions[-1].number if self.book.revisions else 0

    def has_revision(self, number: int) -> bool:
        """Whether it is open."""
        derived = any(one.number == number for one in self.derived)
        return derived or self.book.revision(number) is not None

    @property
    def settings(self) -> Settings:
        """Those in force."""
        if self.derived:
            return self.derived[-1].settings
        return self.book.revisions[-1].settings if self.book.revisions else Settings()

    @property
    def drained(self) -> bool:
        """Whether all sources were read to their end, and all windows are final."""
        feed = self.book.feeds[-1] if self.book.feeds else 0
        agents = [agent for agent, on in self.roster.items() if on]
        return (
            self.draining
            and all((self.agent_reach(feed, agent) or 0) >= NEVER_US for agent in agents)
            and not self.windows.unsettled_count
        )

    @property
    def endless(self) -> bool:
        return bool(self.book.revisions) and not self.book.revisions[-1].slide_us

    @property
    def plan_horizon_us(self) -> int:
        """H: a plan that needs the logs again may not reach back before it. For an endless window there is no such time: its
        logs are let go once they are committed."""
        return NEVER_US if self.endless else self.horizon_us

    # windows

    def reach(self, feed: int) -> int | None:
        """How far the slowest agent of the roster is under a feed; None: one has not begun, or there is none."""
        return self.marks(feed)[0]

    def marks(self, feed: int) -> tuple[int | None, int | None]:
        """The same, and how far the fastest is; None: none has begun. Cached, else O(roster)."""
        if feed not in self._marks:
            marks = [self.agent_reach(feed, agent) for agent, on in self.roster.items() if on]
            known = [mark for mark in marks if mark is not None]
            slowest = min(known) if known and len(known) == len(marks) else None
            self._marks[feed] = slowest, max(known, default=None)
        return self._marks[feed]

    def agent_reach(self, feed: int, agent: bytes) -> int | None:
        """How far an agent is; None: nothing is known of its time. O(partitions)."""
        mark = self.agent_mark(feed, agent)
        return None if mark == ALWAYS else mark

    def agent_mark(self, feed: int, agent: bytes) -> int | None:
        """See `mark_of`. O(partitions)."""
        return mark_of(self.streams.get, feed, agent, self.book.partitions(feed))

    def has_lines(self, feed: int, agent: bytes) -> bool:
        """Whether lines of an agent were committed that had a time. O(1)."""
        some = [self.streams.get(StreamId(feed, agent, lane)) for lane in (LIVE, HISTORY)]
        return any(one is not None and one.counters.lines > one.counters.rejected for one in some)

    def missing(self, feed: int, end_us: int) -> list[bytes]:
        """The agents of the roster that have not reached `end_us`. O(roster)."""
        return [
            agent
            for agent, on in self.roster.items()
            if on and ((mark := self.agent_reach(feed, agent)) is None or mark < end_us)
        ]

    def window_owner(self, key: WindowKey) -> Revision | None:
        """The revision whose window it is; None: no plan has that window any more."""
        owner = self.book.owner(key[0])
        if owner is None or _key(owner, key[0]) != key or (owner.slide_us and key[0] % owner.slide_us):
            return None
        return owner

    def complete(self, key: WindowKey) -> bool:
        """Whether every agent of the roster has reached its end (F1)."""
        owner = self.window_owner(key)
        mark = None if owner is None else self.reach(owner.feed)
        return mark is not None and mark >= key[1]

    def _publish(self, entry: Publish) -> list[Published] | None:
        key = (entry.start_us, entry.end_us)
        state = self.windows.get(key)
        if state is None or entry.count != self.next_edition(state):
            return None
        owner = self.window_owner(key)
        if (entry.status == WITHDRAWN) != (owner is None) or (
            entry.status == FINAL and not self.complete(key)
        ):
            return None
        # Nothing more will be said of one that is withdrawn until a plan has it again.
        self.windows.published(key, entry.count, FINAL if owner is None else entry.status)
        tables, lines = ({}, 0) if owner is None else self.window_tables(owner, key)
        index = self._next_result()
        covered = self.coverage(entry.agents, entry.missing, owner.feed if owner else None)
        return [
            WindowPublished(
                index,
                *key,
                entry.count,
                entry.status,
                entry.agents,
                entry.missing,
                owner,
                tables,
                lines,
                covered,
                entry.made_us,
            )
        ]

    def _next_result(self) -> int:
        """Counts a result; returns its index."""
        self.published, self.editions = (self.era << ERA_INDEX_BITS) + self.index, self.editions + 1
        return self.published

    def shape(self, revision: int) -> Shape | None:
        """What windows of that revision look like that may be ingested; None: it is not known, or not any more. O(1)."""
        return shape_of(revision, self.derived, (*self.past, *self.book.revisions), self.boundary_us)

    def _ingest(self, entry: Ingest) -> list[Published] | None:
        shape = self.shape(entry.revision)
        endless = entry.end_us == NEVER_US
        window = (None, None) if endless else (entry.start_us, entry.end_us)
        if shape is None or window_fault(shape, *window) or entry.edition <= self.era << ERA_EDITION_BITS:
            return None
        index = self._next_result()
        self.ingested = self.ingested.after(entry, index)
        covered = Coverage(0, (), entry.lines, entry.lines, 0, 0, 0, 0, 0)
        return [
            ResultRecord(
                index, window[0], window[1], entry.edition, FINAL, entry.revision, entry.made_us, entry.lines, covered,
                shape.columns, entry.rows, entry.packed, BACKFILL, entry.digest,
            )
        ]  # fmt: skip

    def next_edition(self, state: WindowState) -> int:
        """Beyond every one that readers may have seen."""
        return max(state.count, self.era << ERA_EDITION_BITS) + 1

    def coverage(self, agents: int, missing: tuple[str, ...], feed: int | None) -> Coverage:
        """Of the streams of one feed, so each line counts once: those of another one read some lines again. None: of the
        last. O(streams)."""
        shown = feed if feed is not None else self.book.feeds[-1] if self.book.feeds else 0
        counters = sum((one.counters for key, one in self.streams.items() if key.revision == shown), Counters())
        return self.dropped.get(shown, Dropped()).coverage(agents, missing, counters)

    def window_tables(self, owner: Revision, key: WindowKey) -> tuple[dict[int, Tree], int]:
        """The merged tables and the lines of a window; blocks are shared. O(panes + blocks)."""
        tables: dict[int, Tree] = {}
        lines = 0
        for start in range(key[0], key[1], owner.pane_us) if owner.pane_us else (0,):
            lines += self.content.lines.get((owner.feed, start), 0)
            for number, tree in self.content.tables.get((owner.feed, start), {}).items():
                if number not in tables:
                    tables[number] = Tree(tree.key_kinds, tree.state_kinds, self._tree_options, self._budget)
                try:
                    tables[number].merge(tree)
                except (MemoryCapError, SpillError) as problem:
                    self.content.tight = (
                        problem  # the groups are in the tree; whoever feeds us must slow down
                    )
        return tables, lines

    def _fill(self) -> None:
        """Windows without lines that everybody has passed are shown, too, if they are wanted: at most EMPTY_ROW_MAX in a
        row, and none behind the last line of a job that is drained. O(open windows) where they are wanted."""
        if not any(revision.settings.empty for revision in self.book.revisions):
            return
        for revision in self.book.revisions:
            end, mark = self.book.end_us(revision.number), self.reach(revision.feed)
            if revision.start_us >= end or self.filled_us >= end or not revision.slide_us:
                continue
            if mark is None:
                return
            known = sorted(start for start, _ in self.windows)
            last = mark - revision.size_us if mark < NEVER_US else max(known, default=ALWAYS)
            first = max(self.filled_us, self.horizon_us, revision.start_us)
            if first == ALWAYS and known:
                first = known[0]
            if first > ALWAYS:
                self.filled_us = self._fill_from(revision, first, min(last, end - 1), known)
            if last < end:
                return

    def _fill_from(self, revision: Revision, first: int, last: int, known: list[int]) -> int:
        """Marks the empty windows of [first, last]; returns where to go on."""
        slide = revision.slide_us
        start = -(-first // slide) * slide
        while start <= last:
            key = (start, start + revision.size_us)
            if key in self.windows:
                self.empty_row = 0
            elif not revision.settings.empty or self.empty_row >= EMPTY_ROW_MAX:
                later = [at for at in known if start < at <= last]
                start = (min(later) if later else last // slide * slide + slide) - slide
            else:
                self.empty_row += 1
                self.windows.mark(key)
            start += slide
        return max(first, start)

    # what is over

    def _close(self) -> None:
        """Moves the horizon, frees the panes before it, closes revisions with their streams (C5)."""
        horizon = min([self._first_open(revision) for revision in self.book.revisions], default=ALWAYS)
        horizon = min(horizon, self.windows.first_unsettled(horizon))
        if horizon <= self.horizon_us:
            return
        self.horizon_us = horizon
        self.windows.drop_before(horizon)
        for pane in [pane for pane in self.content.lines if pane[1] < horizon]:
            self.content.drop(pane)
        book = self.book.close(horizon)
        if book is not self.book:
            over = len(self.book.revisions) - len(book.revisions)
            self.past = (*self.past, *self.book.revisions[:over])[-REVISIONS_MAX:]
            self.book = book
            self._close_streams()

    def _first_open(self, revision: Revision) -> int:
        """The start of its first window that is not beyond its lateness; NEVER_US when all are."""
        if not revision.slide_us:
            return ALWAYS
        mark = self.reach(revision.feed)
        first = max(revision.start_us, self.horizon_us if mark is None else revision.first_open(mark))
        return min(first, NEVER_US) if first < self.book.end_us(revision.number) else NEVER_US

    def _close_streams(self) -> None:
        feeds = set(self.book.feeds)
        for stream in [stream for stream in self.streams if stream.revision not in feeds]:
            self.closed = self.closed + self.streams.pop(stream).counters
        for key in [key for key in self.content.lines if key[0] not in feeds]:
            self.content.drop(key)
        self.dropped = {feed: lines for feed, lines in self.dropped.items() if feed in feeds}
        self._marks.clear()


def _key(revision: Revision, start_us: int) -> WindowKey:
    return (start_us, start_us + revision.size_us) if revision.slide_us else (0, NEVER_US)
