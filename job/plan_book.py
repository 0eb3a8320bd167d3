"""The plan revisions of a job that still have open windows, and which windows and panes each owns.

A revision owns the windows that *start* at its E or later, but before the E of every later one. Panes near a change are kept
under both plans, for windows of the old one reach beyond the E of the new one. A revision is fed by its own streams, or,
when only the result phase changed, by those of an earlier one (`feed`): then it owns windows over panes that already
exist. Values only: a book changes by making another.
"""

from __future__ import annotations

from math import lcm

import msgspec

from job.durations import duration_text
from job.errors import JobError
from job.plan import Plan
from job.settings import Settings
from job.times import EPOCH, MICROSECOND
from job.value_texts import time_text
from job.watermark import Timing
from job.window import pane_us

REVISIONS_MAX = 8
"""Revisions with open windows; further changes wait, and only the last of them is wanted."""
ALWAYS = -(1 << 62)
"""Before every event time."""
NEVER_US = 1 << 62
"""After every event time."""


class PlanBookError(JobError):
    """A revision that the book cannot take."""


class BookFull(PlanBookError):  # noqa: N818 - not an error of whoever asks: the change waits
    """As many revisions as may be are open."""


def row_plan(plan: Plan) -> Plan:
    """The plan whose row phase reads the log: the innermost."""
    while plan.inner is not None:
        plan = plan.inner
    return plan


class Revision(msgspec.Struct, frozen=True, array_like=True):
    """A plan and the event time from which on it owns the windows."""

    number: int
    start_us: int
    """E: it owns windows that start here or later, as far as no later revision does."""
    plan: Plan
    feed: int
    """The revision whose streams fill its panes: itself, or an earlier one of the same row phase."""
    pane_us: int
    """The length of those panes; 0: one endless pane."""
    settings: Settings = Settings()
    """In force from this revision on; of a job those of its last one."""
    read_us: int = ALWAYS
    """With an endless window and `since`: what was logged from about then on counts, too."""

    @property
    def timing(self) -> Timing:
        return self.settings.timing

    @property
    def split(self) -> bool:
        """Whether agents read what lies before the present in a lane of its own."""
        return self.settings.since_us > 0

    @property
    def size_us(self) -> int:
        window = row_plan(self.plan).window
        return 0 if window is None else window.size_us

    @property
    def slide_us(self) -> int:
        window = row_plan(self.plan).window
        return 0 if window is None else window.slide_us

    @property
    def partitions(self) -> int:
        """Into how many parts its groups are divided, by their hash; one group is not."""
        return self.settings.partitions if row_plan(self.plan).keys else 1

    def first_open(self, watermark_us: int) -> int:
        """The start of the earliest window that is not beyond the allowed lateness at that watermark."""
        if not self.slide_us:
            return ALWAYS
        beyond = watermark_us - self.settings.lateness_us - self.size_us
        return beyond // self.slide_us * self.slide_us + self.slide_us


class PlanBook(msgspec.Struct, frozen=True, array_like=True):
    """All revisions with open windows, ascending, and a version that rises with each change."""

    version: int = 0
    revisions: tuple[Revision, ...] = ()

    # who owns what

    def revision(self, number: int) -> Revision | None:
        return next((known for known in self.revisions if known.number == number), None)

    def end_us(self, number: int) -> int:
        """The first window start that the revision does not own any more. Raises KeyError for one that is not here."""
        for index, known in enumerate(self.revisions):
            if known.number == number:
                return min([later.start_us for later in self.revisions[index + 1 :]], default=NEVER_US)
        raise KeyError(number)

    def owner(self, window_start_us: int) -> Revision | None:
        """The revision that owns the window starting there: the last whose E is not after it. None: it is closed or was
        never wanted."""
        found = None
        for known in self.revisions:
            if known.start_us <= window_start_us:
                found = known
        return found

    def owns(self, number: int, window_start_us: int) -> bool:
        owner = self.owner(window_start_us)
        return owner is not None and owner.number == number

    def fed_by(self, feed: int) -> list[Revision]:
        """The revisions whose windows are made of the panes of `feed`."""
        return [known for known in self.revisions if known.feed == feed]

    def partitions(self, feed: int) -> int:
        """Of the streams of a feed; 1 where there is none."""
        return next((known.partitions for known in self.revisions if known.feed == feed), 1)

    @property
    def trees(self) -> int:
        """How many reducer trees the job has: the most partitions of any feed."""
        return max((known.partitions for known in self.revisions), default=1)

    @property
    def feeds(self) -> list[int]:
        """The revisions whose streams are open, ascending; of those that own no window any more too, until they close."""
        return sorted({known.feed for known in self.revisions})

    def panes(self, feed: int) -> tuple[int, int]:
        """The panes [first, end) that the windows of a feed need; first == end: none. O(revisions).

        The last window before the next E starts at most one slide before it, so panes up to E + size - slide are kept,
        or some more where E is a boundary of panes but not of windows.
        """
        ranges = []
        for known in self.fed_by(feed):
            end = self.end_us(known.number)
            if end != NEVER_US and known.slide_us:
                last_start = (end - 1) // known.slide_us * known.slide_us
                end = last_start + known.size_us if last_start >= known.start_us else known.start_us
            if end > known.start_us:
                ranges.append((known.start_us, end))
        if not ranges:
            return 0, 0
        return min(first for first, _ in ranges), max(end for _, end in ranges)

    def keeps(self, feed: int, pane_start_us: int) -> bool:
        """Whether a window of `feed` is made of that pane."""
        first, end = self.panes(feed)
        return first <= pane_start_us < end

    def kept(self, pane_start_us: int) -> bool:
        """Whether a window of any feed that is open is made of that pane."""
        return any(self.keeps(feed, pane_start_us) for feed in self.feeds)

    def over_us(self) -> int:
        """Panes before it belonged to plans that are closed; ALWAYS: no plan is. What is older than the first plan of the
        job counts among them from then on."""
        if not self.revisions or self.revisions[0].number == 1:
            return ALWAYS
        return min([first for first, end in map(self.panes, self.feeds) if first < end], default=ALWAYS)

    def is_closed(self, feed: int) -> bool:
        """Whether a feed was open once and is not any more."""
        return bool(self.revisions) and feed <= self.revisions[-1].number and feed not in self.feeds

    # change

    def next_boundary(self, at_us: int, plan: Plan) -> int:
        """The earliest E, not before `at_us`, at which `plan` may take over: a window of old and new starts there."""
        window = row_plan(plan).window
        slides = [known.slide_us for known in self.revisions[-1:]] + (
            [] if window is None else [window.slide_us]
        )
        step = lcm(*[slide for slide in slides if slide])
        return -(-at_us // step) * step

    def revised(
        self,
        start_us: int,
        plan: Plan,
        settings: Settings = Settings(),  # noqa: B008 - frozen
        own_feed: bool = False,
        read_us: int = ALWAYS,
    ) -> Revision:
        """The next revision, fed by the streams there are if only the result phase differs (unless `own_feed`)."""
        last = self.revisions[-1] if self.revisions else None
        number = 1 if last is None else last.number + 1
        window = row_plan(plan).window
        pane = 0 if window is None else pane_us(window.size_us, window.slide_us)
        made = Revision(number, start_us, plan, number, pane, settings, read_us)
        fits = last is not None and pane % (last.pane_us or 1) == 0 and start_us >= self.panes(last.feed)[0]
        same = last is not None and _same_rows(last.plan, plan) and last.partitions == made.partitions
        if last is not None and fits and not own_feed and same:
            return msgspec.structs.replace(made, feed=last.feed, pane_us=last.pane_us)
        return made

    def add(self, revision: Revision, horizon_us: int) -> PlanBook:
        """The book with one more revision. Raises PlanBookError, or BookFull when it has to wait."""
        last = self.revisions[-1] if self.revisions else None
        self._check_order(revision, last, horizon_us)
        self._check_feed(revision)
        if len(self.revisions) >= REVISIONS_MAX:
            raise BookFull(
                f"{REVISIONS_MAX} revisions have open windows; the change waits until one is closed"
            )
        return PlanBook(self.version + 1, (*self.revisions, revision))

    def _check_order(self, revision: Revision, last: Revision | None, horizon_us: int) -> None:
        pane, start = revision.pane_us, revision.start_us
        if last is not None and revision.number <= last.number:
            raise PlanBookError(
                f"revision {revision.number} comes after {last.number}: numbers ascend, also for a rollback"
            )
        endless = last is not None and pane == last.pane_us == 0 and revision.feed == last.feed
        if start < horizon_us and last is not None and not endless:
            if pane == last.pane_us == 0:
                raise PlanBookError(
                    "the one window of this job has all lines since it began, and these would have to be read again: "
                    "without a window HAVING, ORDER BY, LIMIT and settings but partitions can change, for others make "
                    "another job"
                )
            raise PlanBookError(
                f"revision {revision.number} would start at {_when(start)}, before the horizon {_when(horizon_us)}: "
                "windows before it are closed and their logs may be gone"
            )
        if last is not None and (pane == 0) != (last.pane_us == 0):
            raise PlanBookError(
                "a job with windows cannot become one without, nor the other way; make another job"
            )
        for length in {pane, 0 if last is None else last.pane_us} - {0}:
            if start % length:
                raise PlanBookError(
                    f"revision {revision.number} would start at {_when(start)}, where no pane of {duration_text(length)} "
                    f"begins; the next one does at {_when(-(-start // length) * length)}"
                )

    def _check_feed(self, revision: Revision) -> None:
        pane = revision.pane_us
        if pane and (revision.size_us % pane or revision.slide_us % pane):
            raise PlanBookError(
                f"revision {revision.number} has windows of {duration_text(revision.size_us)} by "
                f"{duration_text(revision.slide_us)} over panes of {duration_text(pane)}: whole panes only, or a feed "
                "of its own"
            )
        if revision.feed == revision.number:
            return
        source = self.revisions[-1] if self.revisions else None
        if source is None or revision.feed != source.feed:
            raise PlanBookError(
                f"revision {revision.number} is to be fed by {revision.feed}; only the feed of the last revision still "
                "gets all lines"
            )
        if revision.start_us < self.panes(source.feed)[0]:
            raise PlanBookError(
                f"revision {revision.number} would start at {_when(revision.start_us)}, before the panes of feed "
                f"{source.feed} do; "
                "it needs a feed of its own"
            )
        if source.partitions != revision.partitions:
            raise PlanBookError(
                f"revision {revision.number} has {revision.partitions} partitions and feed {source.feed} "
                f"{source.partitions}: it needs a feed of its own"
            )
        if source.pane_us != pane:
            raise PlanBookError(
                f"the panes of feed {source.feed} are {duration_text(source.pane_us)} long, not {duration_text(pane)}"
            )

    def close(self, horizon_us: int) -> PlanBook:
        """The book without the revisions that own no window from the horizon on (C5). The last revision never closes.
        Closing goes from the oldest on, so that owners are never found among older plans."""
        over = 0
        while over < len(self.revisions) - 1 and self.end_us(self.revisions[over].number) <= horizon_us:
            over += 1
        return PlanBook(self.version + 1, self.revisions[over:]) if over else self


def feed_plan(revision: Revision) -> Plan:
    """The plan by which lines become panes: the row phase, with windows as long as a pane. It is the same from whichever of
    the revisions of a feed it is taken."""
    plan = row_plan(revision.plan)
    if plan.window is None:
        return plan
    window = msgspec.structs.replace(plan.window, size_us=revision.pane_us, slide_us=revision.pane_us)
    return msgspec.structs.replace(plan, window=window)


def _same_rows(old: Plan, new: Plan) -> bool:
    """Whether both keep the same states of the same lines: they differ in windows over panes and in the result phase."""
    one, other = row_plan(old), row_plan(new)
    if (one.window is None) != (other.window is None):
        return False
    times = [window.time for window in (one.window, other.window) if window is not None]
    return (one.source, one.where, one.keys, one.aggregates) == (
        other.source,
        other.where,
        other.keys,
        other.aggregates,
    ) and len(set(times)) <= 1


def covering(pane_start_us: int, revision: Revision) -> range:
    """The starts of the windows of `revision` that hold the pane starting there, ascending; all of them, owned or not."""
    if not revision.slide_us:
        return range(1)
    into = pane_start_us % revision.slide_us
    last = pane_start_us - into
    first = last - (revision.size_us - 1 - into) // revision.slide_us * revision.slide_us
    return range(first, last + 1, revision.slide_us)


def _when(us: int) -> str:
    """RFC 3339, for people."""
    try:
        return time_text(EPOCH + us * MICROSECOND)
    except OverflowError:
        return "the beginning" if us < 0 else "the end"
