"""A stream of several partitions: read once, cut once, sent in parts that each have a `next` of their own."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.folding import Scanned, StreamFold
from agent.journal import FIRST, STRIDE, Journal, JournalOptions
from agent.journal_format import FilePosition
from agent.stream_events import (
    Advance,
    Advanced,
    Fold,
    Folded,
    FoldSpec,
    JobHeard,
    JobParent,
    JobTold,
    JobTrees,
    JobUp,
    Portion,
    Shrink,
    Started,
)
from agent.streams import Streams, StreamsOptions
from cbt.memory import Memory
from cython_ext.column import Column
from job.plan_book import ALWAYS, NEVER_US, PlanBook
from job.settings import Settings
from job.types import Kind
from srt.automaton import WAKE, Instant, Ref, Stored, Write
from srt.content import Content
from srt.frame_messages import (
    LANES_MAX,
    Ack,
    Counters,
    Nack,
    News,
    PaneLines,
    PaneRun,
    StreamId,
    Sync,
    SyncAnswer,
    Synced,
)
from srt.frames import WholeFrame
from tests.frame_data import groups_of, runs_of, whole_frames
from tests.plans import SECOND_US, counting, plan
from tests.sim.cut_truth import canonical

JOB, ID, UP = b"j" * 16, b"\x07" * 16, Ref(b"u" * 16, "up", 1)
TEN = "window(time, '10 seconds')"
PATHS = ("/a", "/b", "/c", "/d")
"""The group of the n-th line is the n-th of these, and so on; each partition has some."""


def book(*partitions: int) -> PlanBook:
    """A revision for each number of partitions."""
    made = PlanBook()
    for number, count in enumerate(partitions):
        chosen = Settings(delay_us=2 * SECOND_US, idle_us=5 * SECOND_US, partitions=count)
        made = made.add(made.revised(number * 1000 * SECOND_US, counting(TEN), chosen), ALWAYS)
    return made


class Agent:
    """A core whose journal is stored at once, with a line a second, and what went up the tree of each partition."""

    def __init__(self, partitions: int = 3) -> None:
        options = StreamsOptions(settle_s=0.0, advance_bytes_max=100, fold_bytes_max=100)
        tiny = JournalOptions.tiny()
        journal = Journal(bytes(tiny.file_bytes), ID, tiny)
        self.core = Streams("web1", journal, random.Random(1), lambda wanted: None, options)
        self.now, self.length, self.lost_bytes = 0.0, 0, 0
        self.asked: list[Advance | Fold] = []
        self.trees: list[int] = []
        self.ups: dict[int, list[Any]] = defaultdict(list)
        self.give(Started({b"log": FilePosition(0)}))
        self.give(JobParent(JOB, UP))
        self.tell(book(partitions))

    def give(self, event: Any) -> None:
        waiting = [event]
        while waiting:
            for effect in self.core.handle(waiting.pop(0), Instant(self.now, int(self.now * 1e6))):
                if isinstance(effect, JobUp):
                    self.ups[effect.partition].append(effect.message)
                elif isinstance(effect, Write):
                    waiting.append(Stored(effect.token))
                elif isinstance(effect, Advance | Fold):
                    self.asked.append(effect)
                elif isinstance(effect, JobTrees):
                    self.trees.append(effect.trees)
                    waiting += [JobParent(JOB, UP, partition) for partition in range(effect.trees)]

    def tell(self, plans: PlanBook, history: int = 1) -> None:
        clock_us = int(self.now * 1e6)
        self.give(JobTold(JOB, News(1, history, plans.version, plans, ALWAYS, False, clock_us, None)))

    def up(self, partition: int) -> list[Any]:
        return self.ups.pop(partition, [])

    def frames(self, partition: int) -> list[WholeFrame]:
        return whole_frames(self.up(partition))

    def answer(self, partition: int, following: int) -> None:
        """To the SYNC that went up its tree."""
        (sync,) = [one for one in self.up(partition) if isinstance(one, Sync)]
        (request,) = sync.requests
        assert request.stream == StreamId(request.stream.revision, ID).of(partition)
        answered = SyncAnswer(request.stream, request.nonce, following, FIRST, -1, False)
        self.give(JobHeard(JOB, Synced((answered,)), partition))

    def open(self, *following: int) -> None:
        for partition, at in enumerate(following):
            self.answer(partition, at)

    def acknowledge(self, partition: int, frames: list[WholeFrame]) -> None:
        self.give(JobHeard(JOB, Ack(tuple(one.number for one in frames)), partition))

    def grow(self, lines: int = 4) -> None:
        self.now += 0.5
        self.length += lines
        self.give(WAKE)
        self.read()

    def read(self) -> None:
        while self.asked:
            ask = self.asked.pop(0)
            at = FilePosition(self.length, False, self.length * SECOND_US or None)
            if isinstance(ask, Advance):
                first = ask.start[b"log"].offset
                heard = {b"log": self.length * SECOND_US} if self.length > first else {}
                portions = {
                    spec.key: self.portion(spec, first, self.length) for spec in ask.specs if spec.deliver
                }
                self.give(Advanced(ask.token, {b"log": at}, heard, portions))
            else:
                first = ask.start[b"log"].offset if b"log" in ask.start else 0
                self.give(Folded(ask.token, self.portion(ask.spec, first, ask.end[b"log"].offset)))

    def portion(self, spec: FoldSpec, first: int, end: int) -> Portion:
        if first == end:
            return Portion()
        parts: list[tuple[PaneRun, ...]] = []
        for partition in range(spec.partitions):
            mine = [PATHS[line % 4] for line in range(first, end) if line % 4 % spec.partitions == partition]
            parts.append(runs_of(1, 0, {path: mine.count(path) for path in mine}) if mine else ())
        lines = end - first
        return Portion((PaneLines(1, 0, lines),), tuple(parts), Counters(lines, lines, lost_bytes=self.lost_bytes))


def cut(number: int) -> int:
    return FIRST + number * STRIDE


def ranges(frames: list[WholeFrame]) -> list[tuple[int, int]]:
    return [
        ((span.start - FIRST) // STRIDE, (span.end - FIRST) // STRIDE) for one in frames for span in one.spans
    ]


def opened(partitions: int = 3) -> Agent:
    agent = Agent(partitions)
    agent.open(*[FIRST] * partitions)
    return agent


def groups(one: WholeFrame) -> set[str]:
    """The paths in a frame."""
    from cbt.budget import Budget
    from cbt.options import Options

    return set(groups_of(Content(Budget(), Options()).staged(one.panes, one.runs, 1 << 20), 1, 0))


def test_each_tree_gets_its_groups_and_the_first_tells_of_lines() -> None:
    agent = opened()
    assert agent.trees == [3]
    agent.grow(5)
    found = [agent.frames(partition) for partition in range(3)]
    assert [ranges(some) for some in found] == [[(0, 1)]] * 3
    assert [groups(some[0]) for some in found] == [{"/a", "/d"}, {"/b"}, {"/c"}]
    assert [some[0].spans[0].counters.lines for some in found] == [5, 0, 0]
    assert [some[0].panes for some in found] == [(PaneLines(1, 0, lines),) for lines in (5, 0, 0)]
    assert {some[0].spans[0].watermark_us for some in found} == {3 * SECOND_US}
    assert len({some[0].number for some in found}) == 1


def test_an_idle_agent_sends_one_watermark_not_one_for_each_partition() -> None:
    agent = opened()
    agent.grow()
    for partition in range(3):
        agent.acknowledge(partition, agent.frames(partition))
    agent.now += 6.0  # the file is idle: its time goes on
    agent.grow(0)
    agent.now += 1.0
    agent.grow(0)
    (idle,) = agent.frames(0)
    assert ranges([idle]) == [(1, 1)]
    assert (agent.up(1), agent.up(2)) == ([], [])


def test_nothing_is_read_or_sent_before_all_are_open() -> None:
    agent = Agent()
    agent.answer(0, FIRST)
    agent.answer(2, FIRST)
    agent.grow()
    assert agent.ups.keys() <= {1}
    agent.answer(1, FIRST)
    agent.grow(0)
    assert [ranges(agent.frames(partition)) for partition in range(3)] == [[(0, 1)]] * 3


def test_a_refused_piece_is_asked_for_in_its_tree_and_goes_again_there_alone() -> None:
    agent = opened()
    agent.grow()
    first = {partition: agent.frames(partition) for partition in range(3)}
    agent.give(JobHeard(JOB, Nack((first[1][0].number,)), 1))
    agent.acknowledge(0, first[0])
    agent.grow()
    assert agent.ups.keys() == {1}
    agent.answer(1, FIRST)
    agent.grow(0)
    assert ranges(agent.frames(1))[:1] == [(0, 1)]
    assert ranges(agent.frames(0)) == [(1, 2)]
    agent.acknowledge(2, first[2])


def test_a_start_reads_from_the_least_next_and_stops_at_the_others() -> None:
    """Who is ahead gets nothing that it has; the lines are told by the first that has not heard of them, lost bytes alone if
    the first partition has."""
    agent = opened()
    for _ in range(3):
        agent.grow()
        for partition in range(3):
            agent.acknowledge(partition, agent.frames(partition))
    agent.tell(book(3), history=2)  # as after a forced recovery
    agent.lost_bytes = 7
    agent.open(cut(2), cut(1), cut(3))
    agent.read()
    found = [agent.frames(partition) for partition in range(3)]
    assert [ranges(some) for some in found] == [[(2, 3)], [(1, 2), (2, 3)], []]
    told = [[one.spans[0].counters for one in some] for some in found]
    assert told[0] == [Counters(4, 4, lost_bytes=7)]
    assert told[1] == [Counters(lost_bytes=7), Counters()]
    agent.acknowledge(0, found[0])
    agent.acknowledge(1, found[1])
    agent.lost_bytes = 0
    agent.grow()
    assert [ranges(agent.frames(partition)) for partition in range(3)] == [[(3, 4)]] * 3


def test_a_cut_that_is_not_known_any_more_is_a_gap_of_that_partition() -> None:
    agent = opened(2)
    for _ in range(3):
        agent.grow()
        for partition in range(2):
            agent.acknowledge(partition, agent.frames(partition))
    agent.tell(book(2), history=2)
    agent.open(cut(1), cut(1) + 5)  # the next that is known is the second
    agent.read()
    found = [agent.frames(partition) for partition in range(2)]
    assert [[(one.spans[0].start, one.spans[0].end) for one in some] for some in found] == [
        [(cut(1), cut(2)), (cut(2), cut(3))],
        [(cut(1) + 5, cut(3))],
    ]
    assert found[1][0].spans[0].counters == Counters(lost_bytes=1)


def test_content_that_was_dropped_is_read_again_for_who_needs_it() -> None:
    agent = opened(2)
    agent.grow()
    first = [agent.frames(partition) for partition in range(2)]
    agent.give(Shrink())
    agent.acknowledge(0, first[0])
    agent.give(JobHeard(JOB, Nack((first[1][0].number,)), 1))
    agent.answer(1, FIRST)
    agent.read()
    (again,) = agent.frames(1)
    assert (again.spans, again.runs) == (first[1][0].spans, first[1][0].runs)
    assert not agent.up(0)


def test_a_change_of_partitions_opens_streams_of_its_own_and_trees_stay_as_long_as_needed() -> None:
    agent = opened(2)
    agent.tell(book(2, 3))
    assert agent.trees == [2, 3]
    assert [request.stream.revision for one in agent.up(2) for request in one.requests] == [2]
    later = PlanBook(9, book(2, 1).revisions[1:])
    agent.tell(later)
    assert agent.trees == [2, 3, 1]
    (stream,) = agent.core.jobs[JOB].streams.values()
    assert (stream.id.revision, len(stream.ways)) == (2, 1)


def test_the_same_revision_may_have_other_partitions_after_entries_were_lost() -> None:
    agent = opened(2)
    other = book(3)
    agent.tell(PlanBook(other.version + 1, other.revisions), history=2)
    (stream,) = agent.core.jobs[JOB].streams.values()
    assert len(stream.ways) == 3


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), min_size=1, max_size=200),
    st.integers(1, 64),
)
def test_partitions_are_the_whole_and_share_no_group(lines: list[tuple[int, int]], partitions: int) -> None:
    """Of the pairs of count(DISTINCT), too: they are where their group is."""
    spec = FoldSpec((JOB, StreamId(1, ID)), plan(TEN), -NEVER_US, NEVER_US, -NEVER_US, partitions=partitions)
    fold = StreamFold(spec, Memory())
    columns = {
        "time": Column.from_list(int(Kind.TIMESTAMP), [SECOND_US] * len(lines)),
        "path": Column.from_list(int(Kind.STRING), [f"/{path}" for path, _ in lines]),
        "status": Column.from_list(int(Kind.BIGINT), [status for _, status in lines]),
        "bytes": Column.from_list(int(Kind.BIGINT), [1] * len(lines)),
    }
    fold.add(Scanned(columns, len(lines), 0))
    whole = _tables(fold.portion(spec._replace(partitions=1)).parts[0])
    parts = fold.portion(spec).parts
    assert len(parts) == partitions
    seen: set[str] = set()
    for part in parts:
        tables = _tables(part)
        paths = {path for number, tree in tables.items() for path in _paths(tree)}
        assert not paths & seen
        seen |= paths
        if 1 in tables:
            assert set(_paths(tables[1])) == set(_paths(tables[0]))
    merged = _tables([run for part in parts for run in part])
    assert {number: canonical(tree) for number, tree in merged.items()} == {
        number: canonical(tree) for number, tree in whole.items()
    }


def _tables(runs: Any) -> dict[int, Any]:
    from cbt.tree import Tree
    from srt.content import run_kinds

    tables: dict[int, Tree] = {}
    for run in runs:
        keys, states = run_kinds(run.run)
        tables.setdefault(run.table, Tree(keys, states)).insert_run(run.run)
    return tables


def _paths(tree: Any) -> list[str]:
    return [path for batch in tree.batches() for path in batch.keys()[0].to_list()]


def test_a_stream_is_named_by_lane_and_partition() -> None:
    stream = StreamId(3, ID)
    assert [stream.of(5).lane, stream.of(5).history.lane, stream.history.of(5).lane] == [10, 11, 11]
    assert [stream.of(5).partition, stream.of(5).history.partition] == [5, 5]
    assert (stream.of(5).is_live, stream.of(5).history.is_live) == (True, False)
    assert msgspec.msgpack.encode(stream.history) == b"\x93\x03\xc4\x10" + ID + b"\x01"
    assert msgspec.msgpack.encode(stream.of(5).history) == b"\x93\x03\xc4\x10" + ID + b"\x0b"
    for lane in (-1, LANES_MAX):
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(msgspec.msgpack.encode([3, ID, lane]), type=StreamId)
