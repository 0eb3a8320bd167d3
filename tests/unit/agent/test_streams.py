"""What an agent sends, when, and what it does with the answers."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from agent.errors import JournalFull, OptionsError
from agent.journal import FIRST, STRIDE, Journal, JournalOptions
from agent.journal_format import FilePosition
from agent.stream import Stream
from agent.stream_events import (
    Advance,
    Advanced,
    Fold,
    Folded,
    JobHeard,
    JobParent,
    JobTold,
    JobUp,
    Portion,
    Release,
    Shrink,
    Started,
)
from agent.stream_options import StreamsOptions
from agent.streams import Streams
from job.plan_book import ALWAYS, NEVER_US, PlanBook
from job.settings import Settings
from srt.automaton import WAKE, Instant, Ref, Stored, StoreFailed, Write
from srt.frame_messages import (
    Ack,
    Counters,
    Frame,
    Nack,
    News,
    PaneLines,
    Refused,
    StreamId,
    Sync,
    SyncAnswer,
    Synced,
)
from tests.frame_data import whole_frames
from tests.plans import SECOND_US
from tests.plans import counting as plan

JOB, ID = b"j" * 16, b"\x07" * 16
UP, OTHER = Ref(b"u" * 16, "up", 1), Ref(b"o" * 16, "other", 1)
TEN = "window(time, '10 seconds')"
SETTINGS = Settings(delay_us=2 * SECOND_US, idle_us=5 * SECOND_US, lateness_us=20 * SECOND_US)


def book(*starts: int) -> PlanBook:
    made = PlanBook()
    for number, start in enumerate(starts):
        key = ["path", "status"][number % 2]
        made = made.add(made.revised(start * SECOND_US, plan(TEN, key), SETTINGS, own_feed=True), -(1 << 61))
    return made


class Agent:
    """A core whose journal is stored at once, and whose log has one file with a line a second."""

    def __init__(
        self, data: bytes | None = None, store: bool = True, unfit: str = "", settle_s: float = 0.0
    ) -> None:
        options = JournalOptions.tiny()
        journal = Journal(data or bytes(options.file_bytes), ID, options)
        self.core = Streams(
            "web1",
            journal,
            random.Random(1),
            lambda wanted: unfit or None,
            StreamsOptions(settle_s=settle_s, advance_bytes_max=100, fold_bytes_max=100),
        )
        self.now, self.length, self.store = 0.0, 0, store
        self.writes: list[Write] = []
        self.asked: list[Advance | Fold] = []
        self.give(Started({b"log": FilePosition(0)}))

    def give(self, event: Any) -> list[Any]:
        """Returns the messages that went up."""
        ups = []
        waiting = [event]
        while waiting:
            for effect in self.core.handle(waiting.pop(0), Instant(self.now, int(self.now * 1e6))):
                if isinstance(effect, JobUp):
                    ups.append(effect.message)
                elif isinstance(effect, Write):
                    self.writes.append(effect)
                    if self.store:
                        waiting.append(Stored(effect.token))
                elif isinstance(effect, Advance | Fold):
                    self.asked.append(effect)
                elif isinstance(effect, Release):
                    self.released = effect
        return ups

    def tell(self, plans: PlanBook, horizon_s: int = -1000, history: int = 1) -> list[Any]:
        news = News(1, history, plans.version, plans, horizon_s * SECOND_US, False, int(self.now * 1e6), None)
        return self.give(JobTold(JOB, news))

    def open(self, next_cut: int = FIRST) -> list[Any]:
        """Attaches, and opens its stream at `next_cut`."""
        return self.tell(book(0)) + self.answer(self.give(JobParent(JOB, UP)), next_cut)

    def answer(self, ups: list[Any], next_cut: int) -> list[Any]:
        (sync,) = [one for one in ups if isinstance(one, Sync)]
        answers = tuple(
            SyncAnswer(one.stream, one.nonce, next_cut, FIRST, -1, False) for one in sync.requests
        )
        return self.give(JobHeard(JOB, Synced(answers)))

    def grow(self, lines: int = 1) -> list[Any]:
        """At the next tick there are more lines, and the driver answers what it was asked."""
        self.now += 0.5
        self.length += lines
        ups = self.give(WAKE)
        return ups + self.read()

    def read(self, most: int = 1 << 30) -> list[Any]:
        """`most` lines at a time."""
        ups = []
        while self.asked:
            ask = self.asked.pop(0)
            if isinstance(ask, Advance):
                end = min(self.length, ask.start[b"log"].offset + most)
                at = FilePosition(end, False, end * SECOND_US)
                done = self.portion(end - ask.start[b"log"].offset)
                heard = {b"log": end * SECOND_US} if done.counters.lines else {}
                portions = {spec.key: done for spec in ask.specs if spec.deliver}
                more = end < self.length
                ups += self.give(Advanced(ask.token, {b"log": at}, heard, portions, more=more))
            else:
                first = ask.start[b"log"].offset if b"log" in ask.start else 0
                ups += self.give(Folded(ask.token, self.portion(ask.end[b"log"].offset - first)))
        return ups

    def portion(self, lines: int) -> Portion:
        return Portion((PaneLines(1, 0, lines),), (), Counters(lines, lines)) if lines else Portion()


def stored(agent: Agent) -> bytes:
    """What is in its journal."""
    data = bytearray(JournalOptions.tiny().file_bytes)
    for write in agent.writes:
        for change in write.changes:
            data[change.offset : change.offset + len(change.data)] = change.data  # type: ignore[union-attr]
    return bytes(data)


def ranges(ups: list[Any]) -> list[tuple[int, int, bool]]:
    """(from, to, solo) of the pieces, in cuts from the first."""
    return [
        ((span.start - FIRST) // STRIDE, (span.end - FIRST) // STRIDE, one.solo)
        for one in whole_frames(ups)
        for span in one.spans
    ]


def numbers(ups: list[Any]) -> list[int]:
    return [one.number for one in ups if isinstance(one, Frame)]


def test_a_piece_a_tick_from_cut_to_cut() -> None:
    agent = Agent()
    agent.open()
    ups = agent.grow(3)
    assert ranges(ups) == [(0, 1, False)]
    (piece,) = whole_frames(ups)
    assert piece.spans[0].watermark_us == SECOND_US  # of the line at 3 s, less the delay
    assert piece.panes == (PaneLines(1, 0, 3),)
    agent.give(JobHeard(JOB, Ack(tuple(numbers(ups)))))
    assert ranges(agent.grow(2)) == [(1, 2, False)]


def test_an_agent_whose_logs_are_all_finished_is_none_that_never_had_a_line() -> None:
    """It may have more lines at any moment, so it does not take the root's watermark, also when its marks are made anew."""
    agent = Agent()
    agent.open()
    agent.grow(3)
    agent.now += 0.5
    agent.give(WAKE)
    (ask,) = agent.asked
    agent.asked.clear()
    rotated = {b"log": FilePosition(3, True, 3 * SECOND_US)}
    agent.give(Advanced(ask.token, rotated, {}, {spec.key: Portion() for spec in ask.specs if spec.deliver}))
    plans = book(0)
    other = msgspec.structs.replace(SETTINGS, delay_us=SECOND_US)
    plans = plans.add(plans.revised(50 * SECOND_US, plan(TEN, "path"), other, own_feed=True), -(1 << 61))
    agent.give(JobTold(JOB, News(1, 1, plans.version, plans, 0, False, int(agent.now * 1e6), 100 * SECOND_US)))
    assert agent.core._mark(agent.core.jobs[JOB]) == 2 * SECOND_US


def test_an_agent_that_has_read_all_there_is_and_found_nothing_says_so_once() -> None:
    agent = Agent()
    agent.open()
    agent.now += 0.5
    agent.give(WAKE)
    (ask,) = agent.asked
    agent.asked.clear()
    nothing = {spec.key: Portion() for spec in ask.specs if spec.deliver}
    assert agent.give(Advanced(ask.token, {}, {}, nothing, more=True)) == []  # there is more to read
    (ask,) = agent.asked
    agent.asked.clear()
    ups = agent.give(Advanced(ask.token, {}, {}, nothing))
    assert (ranges(ups), whole_frames(ups)[0].spans[0].watermark_us) == ([(0, 0, False)], ALWAYS)
    agent.give(JobHeard(JOB, Ack(tuple(numbers(ups)))))
    for _ in range(4):
        agent.now += 0.5
        agent.give(WAKE)
        (ask,) = agent.asked
        agent.asked.clear()
        assert agent.give(Advanced(ask.token, {}, {}, nothing)) == []
    ups = agent.grow(3)
    assert (ranges(ups), whole_frames(ups)[0].spans[0].watermark_us) == ([(0, 1, False)], SECOND_US)


def test_nothing_is_sent_before_its_cut_is_durable() -> None:
    agent = Agent()
    agent.open()
    agent.store = False
    assert agent.grow() == []
    write = agent.writes[-1]
    assert agent.give(StoreFailed(write.token, "input/output error")) == []
    agent.now += 1.0
    agent.give(WAKE)
    again = agent.writes[-1]
    assert (again.changes, again.token == write.token) == (write.changes, False)
    assert ranges(agent.give(Stored(again.token))) == [(0, 1, False)]


def test_nothing_at_all_is_sent_before_the_boot_is_durable() -> None:
    agent = Agent(store=False)
    assert agent.tell(book(0)) + agent.give(JobParent(JOB, UP)) == []
    agent.give(Stored(agent.writes[0].token))
    (sync,) = agent.give(Stored(agent.writes[1].token))
    assert (sync.requests[0].start, sync.requests[0].boot, sync.requests[0].name) == (FIRST, 1, "web1")


def test_a_drained_agent_has_read_to_the_end_first() -> None:
    """It was cut off while lines came; then it hears of the draining, and reads again what lies before its frontier."""
    agent = Agent()
    agent.open()
    agent.give(JobHeard(JOB, Ack(tuple(numbers(agent.grow(3))))))
    agent.grow(2)
    agent.length += 4
    made = book(0)
    news = News(1, 2, made.version, made, -1000 * SECOND_US, True, int(agent.now * 1e6), None)
    said = agent.answer(agent.give(JobTold(JOB, news)), FIRST + STRIDE) + agent.read()
    for _ in range(6):
        said += agent.grow(0)
        agent.give(JobHeard(JOB, Ack(tuple(numbers(said)))))
    pieces = whole_frames(said)
    lines = 0
    for span in [span for piece in pieces for span in piece.spans]:
        lines += span.counters.lines
        assert (span.watermark_us == NEVER_US) <= (lines >= 6), (lines, span)
    assert lines == 6


def test_lines_that_come_after_the_end_of_a_drained_job_are_not_read() -> None:
    agent = Agent()
    agent.open()
    agent.give(JobHeard(JOB, Ack(tuple(numbers(agent.grow(3))))))
    made = book(0)
    news = News(1, 2, made.version, made, -1000 * SECOND_US, True, int(agent.now * 1e6), None)
    said = agent.answer(agent.give(JobTold(JOB, news)), FIRST + STRIDE) + agent.read()
    for _ in range(8):
        said += agent.grow(1)
        agent.give(JobHeard(JOB, Ack(tuple(numbers(said)))))
    spans = [span for piece in whole_frames(said) for span in piece.spans]
    assert spans[-1].watermark_us == NEVER_US
    assert [span.watermark_us for span in spans].count(NEVER_US) == 1
    assert sum(span.counters.lines for span in spans) <= 2


def test_three_pieces_are_on_their_way_then_reading_stops() -> None:
    agent = Agent()
    agent.open()
    ups = agent.grow() + agent.grow() + agent.grow()
    assert ranges(ups) == [(0, 1, False), (1, 2, False), (2, 3, False)]
    assert agent.grow() == []
    assert agent.core.journal.newest.files[b"log"].offset == 3
    agent.give(JobHeard(JOB, Ack((numbers(ups)[1],))))  # and so the one before it
    assert ranges(agent.grow(0)) == [(3, 4, False)]
    assert agent.core.journal.newest.files[b"log"].offset == 4


def test_what_more_there_is_to_read_is_read_as_soon_as_there_is_room() -> None:
    agent = Agent()
    agent.open()
    agent.now, agent.length = 0.5, 5
    ups = agent.give(WAKE) + agent.read(most=1)
    assert ranges(ups) == [(0, 1, False), (1, 2, False), (2, 3, False)]
    assert agent.core.wake_at > agent.now
    agent.give(JobHeard(JOB, Ack((numbers(ups)[0],))))
    assert ranges(agent.read(most=1)) == [(3, 4, False)]


def test_after_all_was_read_the_next_emit_is_not_waited_over() -> None:
    agent = Agent()
    agent.open()
    agent.now, agent.length = 0.5, 2
    agent.give(JobHeard(JOB, Ack(tuple(numbers(agent.give(WAKE) + agent.read(most=1))))))
    assert not agent.asked
    assert agent.core.wake_at == 1.0


def test_after_a_change_of_parent_pieces_go_again_and_alone_until_an_ack() -> None:
    agent = Agent()
    agent.open()
    first = agent.grow() + agent.grow()
    assert agent.give(JobParent(JOB, None)) == []
    again = agent.give(JobParent(JOB, OTHER))
    assert ranges(again) == [(0, 1, True), (1, 2, True)]
    assert [one.spans for one in whole_frames(again)] == [one.spans for one in whole_frames(first)]
    assert ranges(agent.grow()) == [(2, 3, True)]
    agent.give(JobHeard(JOB, Ack((numbers(again)[0],))))
    assert ranges(agent.grow()) == [(3, 4, False)]


@pytest.mark.parametrize("silent", [False, True])
def test_after_a_nack_or_silence_the_stream_is_opened_again(silent: bool) -> None:
    agent = Agent()
    agent.open()
    ups = agent.grow() + agent.grow()
    if silent:
        agent.now = agent.core.wake_at + 3.0
        asked = agent.give(WAKE)
    else:
        asked = agent.give(JobHeard(JOB, Nack((numbers(ups)[0],))))
    assert [type(one) for one in asked] == [Sync]
    stale = Synced((SyncAnswer(asked[0].requests[0].stream, 12345, FIRST, FIRST, -1, False),))
    assert agent.give(JobHeard(JOB, stale)) == []
    assert ranges(agent.answer(asked, FIRST + STRIDE)) == [(1, 2, False)]  # the first was committed


def test_an_answer_that_an_acknowledgement_has_overtaken_takes_nothing_back() -> None:
    """What was acknowledged since then may have been let go."""
    agent = Agent()
    agent.open()
    ups = agent.grow() + agent.grow()
    asked = agent.give(JobHeard(JOB, Nack((numbers(ups)[1],))))
    agent.give(JobHeard(JOB, Ack((numbers(ups)[0],))))
    assert ranges(agent.answer(asked, FIRST)) == [(1, 2, False)]


def test_the_root_may_know_less_and_the_log_is_read_again() -> None:
    agent = Agent()
    agent.open()
    ups = agent.grow(2) + agent.grow(3)
    agent.give(JobHeard(JOB, Ack(tuple(numbers(ups)))))
    asked = agent.tell(book(0), history=2)  # the end of its log is lost
    assert agent.answer(asked, FIRST) == []
    (fold,) = agent.asked
    assert isinstance(fold, Fold)
    again = agent.read()
    assert ranges(again) == [(0, 2, False)]
    (piece,) = whole_frames(again)
    assert (piece.panes, piece.history) == ((PaneLines(1, 0, 5),), 2)


def test_pieces_may_be_dropped_and_folded_again() -> None:
    agent = Agent()
    agent.open()
    agent.grow(2)
    agent.give(Shrink())
    asked = agent.give(JobParent(JOB, OTHER))
    assert [type(one) for one in asked] == [Sync]
    agent.answer(asked, FIRST)
    again = agent.read()
    assert ranges(again) == [(0, 1, True)]
    assert whole_frames(again)[0].panes == (PaneLines(1, 0, 2),)


def full(*_: object) -> object:
    raise JournalFull("no slot is free")


def test_a_fold_that_finds_no_room_for_its_cut_is_not_begun_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stopped on its way and needs a cut of its own. When others are let go it goes on."""
    agent = Agent()
    agent.open()
    agent.grow(2)
    agent.give(Shrink())
    agent.answer(agent.give(JobParent(JOB, OTHER)), FIRST)
    for retry in ("time has passed", "cuts are let go"):
        (ask,) = agent.asked
        agent.asked.clear()
        assert isinstance(ask, Fold)
        with monkeypatch.context() as patch:
            patch.setattr(agent.core.journal, "cut_between", full)
            agent.give(Folded(ask.token, agent.portion(1), {b"log": FilePosition(1)}, SECOND_US))
        assert agent.asked == []
        if retry == "time has passed":
            agent.now += 1.0
        else:
            monkeypatch.setattr(agent.core.journal, "thin", lambda *_: True)
            agent.tell(book(0), horizon_s=1)
            assert agent.core.wake_at == agent.now
        agent.give(WAKE)
    assert [type(one) for one in agent.asked] == [Fold]


def test_without_room_for_a_cut_reading_goes_on_as_soon_as_cuts_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent()
    agent.open()
    for _ in range(5):
        agent.give(JobHeard(JOB, Ack(tuple(numbers(agent.grow(10))))))
    with monkeypatch.context() as patch:
        patch.setattr(agent.core.journal, "cut", full)
        agent.grow(10)
    agent.read()  # what was read is read again
    agent.now += 0.5
    agent.give(WAKE)
    assert agent.asked == []
    agent.tell(book(0), horizon_s=1000)
    assert agent.core.wake_at == agent.now
    agent.give(WAKE)
    assert [type(one) for one in agent.asked] == [Advance]


def test_a_later_plan_starts_at_the_last_cut_before_it() -> None:
    agent = Agent()
    agent.open()
    for _ in range(5):
        agent.give(JobHeard(JOB, Ack(tuple(numbers(agent.grow(10))))))  # M is 10, 20, ... 50 s
    (sync,) = agent.tell(book(0, 30))
    assert [(one.stream.revision, (one.start - FIRST) // STRIDE) for one in sync.requests] == [(2, 2)]


def test_logs_are_let_go_when_acknowledged_and_before_the_horizon() -> None:
    agent = Agent()
    agent.open()
    for _ in range(5):
        agent.give(JobHeard(JOB, Ack(tuple(numbers(agent.grow(10))))))
    agent.tell(book(0), horizon_s=25)
    agent.grow(0)
    assert agent.released.files[b"log"].offset == 20
    agent.tell(book(0), horizon_s=1000)
    agent.grow(0)
    assert agent.released.files[b"log"].offset == 50


def acknowledged(agent: Agent, ticks: int) -> list[Any]:
    """What the first job sent meanwhile, all of it acknowledged."""
    sent = []
    for _ in range(ticks):
        ups = [one for one in agent.grow() if isinstance(one, Frame)]
        agent.give(JobHeard(JOB, Ack(tuple(numbers(ups)))))
        sent += ups
    return sent


def test_cuts_do_not_fill_the_journal_while_it_waits_for_jobs_to_be_heard_of() -> None:
    agent = Agent(settle_s=1e6)
    agent.open()
    assert len(acknowledged(agent, 200)) == 200
    assert agent.core.released is None


def test_a_job_that_nobody_answers_for_does_not_stop_the_others_and_keeps_its_cuts() -> None:
    agent = Agent()
    agent.open()
    assert len(acknowledged(agent, 20)) == 20
    other = b"k" * 16
    news = News(1, 1, 1, book(0), 1000 * SECOND_US, False, int(agent.now * 1e6), None)
    agent.give(JobTold(other, news))
    acknowledged(agent, 20)
    (asked,) = [one for one in agent.give(JobParent(other, UP)) if isinstance(one, Sync)]
    assert len(acknowledged(agent, 200)) == 200
    (again,) = [one for one in agent.give(JobParent(other, OTHER)) if isinstance(one, Sync)]
    assert again.requests[0].start == asked.requests[0].start
    assert asked.requests[0].start in agent.core.journal.kept


def test_after_a_start_the_cuts_of_before_stay_until_all_jobs_are_known() -> None:
    agent = Agent(settle_s=1e6)
    agent.open()
    acknowledged(agent, 5)
    found = set(agent.core.journal.kept)
    later = Agent(stored(agent), settle_s=1e6)
    later.length = agent.length
    later.open(agent.core.journal.newest.number)
    assert len(acknowledged(later, 200)) == 200
    assert found <= set(later.core.journal.kept)


def test_an_agent_that_ran_for_long_reads_on_at_once_after_a_start() -> None:
    """Nothing is let go before all jobs are heard of; there is room for the cuts of that time all the same."""
    agent = Agent()
    agent.open()
    assert len(acknowledged(agent, 500)) == 500
    later = Agent(stored(agent), settle_s=1e6)
    later.length = agent.length
    later.open(agent.core.journal.newest.number)
    assert len(acknowledged(later, 200)) == 200


def test_a_cut_up_to_which_something_may_be_on_its_way_stays() -> None:
    stream = Stream(StreamId(1, ID))
    (way,) = stream.ways
    stream.opened(way, FIRST, FIRST, -1, 0.0)
    end, later = FIRST + STRIDE, FIRST + 2 * STRIDE
    stream.add(end, None, Portion(), 1, durable=True)
    stream.add(later, None, Portion(), 2, durable=False)
    stream.restart(FIRST)
    assert end in stream.needed
    assert later not in stream.needed  # it was never sent
    stream.add(later, None, Portion(), 3, durable=True)
    stream.acknowledged(way, 3, 0.0)
    assert end not in stream.needed


def test_a_plan_that_cannot_be_run_is_refused_until_it_is_gone() -> None:
    agent = Agent(unfit="no such field")
    agent.tell(book(0))
    agent.give(JobParent(JOB, UP))
    (refused,) = agent.tell(book(0))
    assert refused == Refused(1, ID, "no such field")
    assert agent.tell(book(0)) == []
    agent.now += 3.0
    assert agent.tell(book(0)) == [refused]


def test_a_start_asks_where_to_go_on() -> None:
    agent = Agent()
    agent.open()
    agent.grow(4)
    again = Agent(stored(agent))
    again.length = 4
    again.open(FIRST)
    assert ranges(again.read()) == [(0, 1, False)]


def test_options_are_checked_together() -> None:
    with pytest.raises(OptionsError) as error:
        StreamsOptions(silence_s=0.0, folds_max=0)
    for wrong in ("folds_max must be positive", "silence_s must be positive"):
        assert wrong in str(error.value)
