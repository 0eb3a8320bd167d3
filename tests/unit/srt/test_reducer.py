"""What a vertex merges, ships, answers and forgets."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from cbt.budget import Budget
from cbt.options import BudgetOptions, Options
from srt.automaton import NEVER, WAKE, Instant, PeerLost, Received, Ref, Send
from srt.content import Content
from srt.errors import OptionsError
from srt.frame_messages import (
    FRAME_MESSAGES,
    Ack,
    ForJob,
    Frame,
    Nack,
    Refused,
    Sync,
    SyncAnswer,
    Synced,
    SyncRequest,
)
from srt.frames import Assemblies, WholeFrame, messages_of
from srt.reducer import (
    ChildrenChanged,
    FreeChildren,
    HoldChildren,
    ParentBusy,
    ParentChanged,
    ParentRoom,
    Reducer,
    ReducerOptions,
)
from srt.wire import MESSAGE_BYTES_MAX, Wire
from tests.frame_data import AGENTS, frame, groups_of, stream, whole_frames

ME, UP, OTHER = (Ref(bytes([200 + n]) * 16, f"up{n}", 1) for n in range(3))
CHILDREN = [Ref(bytes([n]) * 16, f"child{n}", 1) for n in range(4)]


class Vertex:
    """A reducer and what it sent, by receiver."""

    def __init__(self, **options: Any) -> None:
        self.budget = Budget()
        self.core = Reducer(ME, self.budget, ReducerOptions(**options), Options.tiny())
        self.now = 0.0
        self.core.handle(ParentChanged(UP), self.instant)
        self.acknowledge_first()

    def acknowledge_first(self) -> None:
        """So that it is not solo any more."""
        self.give(CHILDREN[3], frame(900, {stream(7): (0, 1)}))
        (sent,) = self.shipped()
        self.core.handle(Received(UP, Ack((sent.number,))), self.instant)

    @property
    def instant(self) -> Instant:
        return Instant(self.now, 0)

    def give(self, child: Ref, whole: WholeFrame) -> list[Any]:
        return [
            effect
            for part in messages_of(whole)
            for effect in self.core.handle(Received(child, part), self.instant)
        ]

    def hear(self, message: Any, sender: Ref = UP) -> list[Any]:
        return self.core.handle(Received(sender, message), self.instant)

    def shipped(self) -> list[WholeFrame]:
        """What it ships once the hold time is over."""
        self.now += self.core.options.hold_s
        return frames(self.core.handle(WAKE, self.instant))


def frames(effects: list[Any], to: Ref = UP) -> list[WholeFrame]:
    return whole_frames(one.message for one in effects if isinstance(one, Send) and one.to == to)


def content_of(whole: WholeFrame) -> Content:
    return Content(Budget(), Options()).staged(whole.panes, whole.runs, 1 << 20)


def test_frames_of_several_children_become_one() -> None:
    vertex = Vertex()
    assert (
        vertex.give(CHILDREN[0], frame(1, {stream(0): (0, 5)}, {10: {"/a": 2, "/b": 1}}, watermark_us=7))
        == []
    )
    assert vertex.give(CHILDREN[1], frame(4, {stream(1): (3, 4)}, {10: {"/a": 3}, 20: {"/c": 1}})) == []
    assert vertex.give(CHILDREN[0], frame(2, {stream(0): (5, 6)}, {20: {"/c": 1}}, watermark_us=9)) == []
    (sent,) = vertex.shipped()
    assert [(span.stream, span.start, span.end, span.watermark_us) for span in sent.spans] == [
        (stream(0), 0, 6, 9),
        (stream(1), 3, 4, None),
    ]
    assert sent.spans[0].counters.lines == 4
    content = content_of(sent)
    assert groups_of(content, 1, 10) == {"/a": 5, "/b": 1}
    assert groups_of(content, 1, 20) == {"/c": 2}
    assert content.lines == {(1, 10): 6, (1, 20): 2}
    assert vertex.hear(Ack((sent.number,))) == [
        Send(CHILDREN[0], Ack((1, 2))),
        Send(CHILDREN[1], Ack((4,))),
    ]
    assert vertex.hear(Ack((sent.number,))) == []  # nothing is kept
    assert vertex.core.wake_at == NEVER
    vertex.core.check()


@pytest.mark.parametrize("ends", [(0, 5), (3, 6), (6, 7), (0, 4)])
def test_ranges_that_do_not_continue_are_never_merged(ends: tuple[int, int]) -> None:
    vertex = Vertex()
    vertex.give(CHILDREN[0], frame(1, {stream(0): (0, 5)}, {10: {"/a": 1}}))
    (first,) = frames(
        vertex.give(CHILDREN[1], frame(1, {stream(0): ends, stream(1): (0, 1)}, {10: {"/a": 1}}))
    )
    assert [(span.start, span.end) for span in first.spans] == [(0, 5)]
    (second,) = vertex.shipped()
    assert [(span.start, span.end) for span in second.spans] == [ends, (0, 1)]


def test_a_repeat_that_ends_where_the_outbox_starts_is_merged() -> None:
    vertex = Vertex()
    vertex.give(CHILDREN[0], frame(1, {stream(0): (5, 6)}, {10: {"/a": 1}}))
    assert vertex.give(CHILDREN[1], frame(1, {stream(0): (2, 5)}, {10: {"/a": 1}})) == []
    (sent,) = vertex.shipped()
    assert [(span.start, span.end) for span in sent.spans] == [(2, 6)]


def test_solo_frames_go_alone_but_not_before_what_came_earlier_of_their_stream() -> None:
    vertex = Vertex()
    vertex.give(CHILDREN[0], frame(1, {stream(0): (0, 5)}, {10: {"/a": 1}}))
    (alone,) = frames(vertex.give(CHILDREN[1], frame(1, {stream(1): (0, 1)}, {10: {"/b": 1}}, solo=True)))
    assert alone.solo
    assert [span.stream for span in alone.spans] == [stream(1)]
    first, repeat = frames(
        vertex.give(CHILDREN[0], frame(2, {stream(0): (0, 5)}, {10: {"/a": 1}}, solo=True))
    )
    assert (first.solo, repeat.solo) == (False, True)
    assert first.number < repeat.number


def test_it_ships_when_all_live_children_have_reported() -> None:
    vertex = Vertex(hold_s=100.0, forget_after_s=200.0)
    vertex.core.handle(ChildrenChanged(frozenset(CHILDREN[:2])), vertex.instant)
    assert vertex.give(CHILDREN[0], frame(1, {stream(0): (0, 1)})) == []
    assert vertex.give(CHILDREN[0], frame(2, {stream(0): (1, 2)})) == []
    assert len(frames(vertex.give(CHILDREN[1], frame(1, {stream(1): (0, 1)})))) == 1


def test_it_ships_at_the_size_limit() -> None:
    vertex = Vertex(hold_s=100.0, forget_after_s=200.0, frame_bytes_max=4000)
    shipped = []
    for number in range(60):
        groups = {f"/page{number}{n}": 1 for n in range(10)}
        shipped += frames(
            vertex.give(CHILDREN[0], frame(number, {stream(0): (number, number + 1)}, {10: groups}))
        )
    assert len(shipped) > 2
    assert all(one.run_bytes < 8000 for one in shipped)


def test_under_a_cap_of_memory_frames_are_an_eighth_of_it() -> None:
    vertex = Vertex(hold_s=20.0)
    vertex.core = Reducer(ME, Budget(BudgetOptions(memory_max=80_000)), ReducerOptions(hold_s=20.0), Options.tiny())
    vertex.core.handle(ParentChanged(UP), vertex.instant)
    vertex.hear(Ack((1,)))
    shipped = []
    for number in range(30):
        groups = {f"/page{number}{n}": 1 for n in range(30)}
        whole = frame(number, {stream(0): (number, number + 1)}, {10: groups})
        shipped += frames(vertex.give(CHILDREN[0], whole))
        vertex.hear(Ack(tuple(one.number for one in shipped)))
    assert len(shipped) > 2
    assert all(one.run_bytes < 20_000 for one in shipped)


def test_after_a_change_of_parent_it_sends_again_unchanged_and_alone() -> None:
    vertex = Vertex()
    sent = []
    for number in range(2):
        vertex.give(CHILDREN[0], frame(number, {stream(0): (number, number + 1)}, {10: {"/a": 1}}))
        sent += vertex.shipped()
    assert vertex.core.handle(ParentChanged(None), vertex.instant) == []
    vertex.give(CHILDREN[1], frame(1, {stream(1): (0, 1)}))
    assert vertex.shipped() == []  # nowhere to send it
    again = frames(vertex.core.handle(ParentChanged(OTHER), vertex.instant), OTHER)
    assert [one._replace(solo=False) for one in again[:2]] == sent
    assert [one.solo for one in again] == [True] * 3
    vertex.hear(Ack((again[0].number,)), UP)  # it helps, but is not of this attachment
    vertex.give(CHILDREN[0], frame(5, {stream(0): (2, 3)}))
    assert vertex.core._solo
    vertex.hear(Ack((again[1].number,)), OTHER)
    assert not vertex.core._solo


def test_frames_without_an_answer_are_forgotten_and_their_senders_told() -> None:
    vertex = Vertex()
    for number in range(2):
        vertex.give(CHILDREN[0], frame(number, {stream(0): (number, number + 1)}))
        vertex.shipped()
    vertex.now += vertex.core.options.forget_after_s
    assert vertex.core.handle(WAKE, vertex.instant) == [Send(CHILDREN[0], Nack((n,))) for n in (0, 1)]
    assert vertex.core.counters.forgotten == 2
    assert vertex.budget.used_bytes < 10_000


def test_with_half_of_what_may_be_in_flight_it_merges_on_and_with_most_of_it_holds_its_children() -> None:
    vertex = Vertex(pending_max=4)
    for number in range(3):
        vertex.give(CHILDREN[0], frame(number, {stream(0): (number, number + 1)}, {10: {"/a": 1}}))
        assert bool(vertex.shipped()) == (number < 3)
    assert vertex.give(CHILDREN[0], frame(3, {stream(0): (3, 4)}, {10: {"/a": 1}})) == []
    assert vertex.shipped() == []
    effects = vertex.give(CHILDREN[1], frame(1, {stream(1): (0, 1)}, solo=True))
    assert len(frames(effects)) == 1, "what goes alone goes on"
    assert effects[1:] == [HoldChildren()]
    told = vertex.give(CHILDREN[1], frame(2, {stream(1): (1, 2)}, solo=True))
    assert told[0] == Send(CHILDREN[0], Nack((0,))), "the oldest is forgotten beyond the limit"
    effects = vertex.hear(Ack((3, 4, 5)))
    assert effects[:2] == [Send(CHILDREN[0], Ack((1, 2))), Send(CHILDREN[1], Ack((1,)))]
    assert groups_of(content_of(frames(effects)[0]), 1, 10) == {"/a": 1}
    assert effects[-1] == FreeChildren()
    vertex.core.check()


def test_bytes_on_their_way_are_bounded() -> None:
    vertex = Vertex(pending_bytes_max=2000)
    for number in range(20):
        groups = {f"/page{number}{n}": 1 for n in range(20)}
        alone = frame(number, {stream(0): (number, number + 1)}, {10: groups}, solo=True)
        vertex.give(CHILDREN[0], alone)
        vertex.core.check()
    assert vertex.core.counters.forgotten > 5


def test_while_the_parent_is_busy_it_merges_and_sends_nothing() -> None:
    vertex = Vertex()
    assert vertex.core.handle(ParentBusy(OTHER), vertex.instant) == []
    vertex.give(CHILDREN[0], frame(1, {stream(0): (0, 1)}, {10: {"/a": 1}}))
    assert len(vertex.shipped()) == 1, "another node's link says nothing"
    vertex.core.handle(ParentBusy(UP), vertex.instant)
    for number in range(2, 5):
        vertex.give(CHILDREN[0], frame(number, {stream(0): (number - 1, number)}, {10: {"/a": 1}}))
        assert vertex.shipped() == []
    request = SyncRequest(stream(0), 3, -1, 77, 1, 5, "web1")
    assert vertex.hear(Sync((request,)), CHILDREN[0]) == []
    vertex.now += 100
    assert not [one for one in vertex.core.handle(WAKE, vertex.instant) if one.to == UP]
    effects = vertex.core.handle(ParentRoom(UP), vertex.instant)
    (sent,) = frames(effects)
    assert groups_of(content_of(sent), 1, 10) == {"/a": 3}
    assert effects[-1] == Send(UP, Sync((request,)))


def test_children_are_held_while_the_outbox_is_half_full_and_cannot_leave() -> None:
    vertex = Vertex(frame_bytes_max=40_000)
    vertex.core.handle(ParentBusy(UP), vertex.instant)
    told = []
    for number in range(20):
        groups = {f"/page{number}{n}": 1 for n in range(30)}
        whole = frame(number, {stream(0): (number, number + 1)}, {10: groups})
        told += vertex.give(CHILDREN[0], whole)
    assert told == [HoldChildren()]
    vertex.now += 1
    effects = vertex.core.handle(ParentRoom(UP), vertex.instant)
    assert effects[-1] == FreeChildren()
    assert sum(sum(groups_of(content_of(one), 1, 10).values()) for one in frames(effects)) == 600
    vertex.core.check()


def test_frames_have_to_hold_the_runs_of_trees() -> None:
    with pytest.raises(OptionsError, match="frame_bytes_max 4000000 is below two runs of 2097152"):
        Reducer(ME, Budget(), ReducerOptions(frame_bytes_max=4_000_000))


def test_syncs_do_not_wait_for_answers_that_are_lost() -> None:
    vertex = Vertex(pending_max=3)
    for number in range(3):
        vertex.give(CHILDREN[0], frame(number, {stream(0): (number, number + 1)}))
        vertex.shipped()
    assert len(vertex.core._flight) == 2, "half of what may be in flight"
    request = SyncRequest(stream(0), 3, -1, 77, 1, 5, "web1")
    before, sync, held = vertex.hear(Sync((request,)), CHILDREN[0])
    assert held == HoldChildren()
    assert isinstance(before.message, Frame)
    assert sync == Send(UP, Sync((request,)))


def test_when_the_link_broke_everything_goes_again_to_the_same_parent() -> None:
    vertex = Vertex()
    vertex.give(CHILDREN[0], frame(1, {stream(0): (0, 1)}))
    (sent,) = vertex.shipped()
    vertex.core.handle(PeerLost(OTHER), vertex.instant)
    vertex.core.handle(PeerLost(UP), vertex.instant)
    vertex.core.handle(PeerLost(UP), vertex.instant)
    assert vertex.core.wake_at == vertex.now + vertex.core.options.again_s
    vertex.now = vertex.core.wake_at
    again = frames(vertex.core.handle(WAKE, vertex.instant))
    assert again == [sent._replace(solo=True)]
    assert vertex.core.wake_at == vertex.now + vertex.core.options.forget_after_s, "once"


def test_the_link_gets_a_burst_at_a_time_and_syncs_stay_behind_the_frames() -> None:
    vertex = Vertex(burst_bytes=1)
    vertex.core.handle(ParentBusy(UP), vertex.instant)
    for number in range(3):
        vertex.give(CHILDREN[0], frame(number, {stream(0): (number, number + 1)}, solo=True))
    vertex.hear(Sync((SyncRequest(stream(0), 3, -1, 77, 1, 5, "web1"),)), CHILDREN[0])
    vertex.now += 1
    bursts = [vertex.core.handle(ParentRoom(UP), vertex.instant)]
    for _ in range(2):
        vertex.now = vertex.core.wake_at
        bursts.append(vertex.core.handle(WAKE, vertex.instant))
    assert [[type(one.message) for one in burst] for burst in bursts] == [[Frame], [Frame], [Frame, Sync]]


def test_frames_in_flight_go_to_disk_when_memory_is_short_and_are_sent_again_from_there(
    tmp_path: Path,
) -> None:
    vertex = Vertex()
    budget = Budget(BudgetOptions(memory_max=60_000, spill_dir=str(tmp_path)))
    vertex.core = Reducer(ME, budget, ReducerOptions(), Options.tiny())
    vertex.core.handle(ParentChanged(UP), vertex.instant)
    sent = []
    for number in range(40):
        groups = {f"/page{number}{n}": 1 for n in range(200)}
        vertex.give(CHILDREN[0], frame(number, {stream(0): (number, number + 1)}, {10: groups}))
        sent += vertex.shipped()
    assert vertex.core._flight.size > 60_000
    assert budget.used_bytes < 60_000
    vertex.core.check()
    again = frames(vertex.core.handle(ParentChanged(OTHER), vertex.instant), OTHER)
    assert [one._replace(solo=True) for one in sent] == again
    os.pwrite(budget.spill_file._file, b"rot" * 20_000, 0)  # type: ignore[union-attr]
    effects = vertex.core.handle(ParentChanged(UP), vertex.instant)
    lost = {number for one in effects if isinstance(one.message, Nack) for number in one.message.numbers}
    assert lost
    assert frames(effects) == [one for one in again if one.number - 1 not in lost]
    vertex.hear(Ack(tuple(range(100))), UP)
    vertex.core.check()
    assert budget.spill_file.bytes_used == 0  # type: ignore[union-attr]


def test_frames_that_are_not_sound_are_refused_whole() -> None:
    vertex = Vertex()
    good = frame(1, {stream(0): (0, 5)}, {10: {"/a": 1}, 20: {"/a": 1}})
    bad = good.runs[1].run[:-3] + b"xyz"
    broken = good._replace(runs=(good.runs[0], type(good.runs[1])(1, 20, 0, bad)))
    assert vertex.give(CHILDREN[0], broken) == [Send(CHILDREN[0], Nack((1,)))]
    assert vertex.shipped() == []
    assert vertex.core.counters.refused == 1


def test_nothing_is_applied_before_the_last_part() -> None:
    whole = frame(1, {stream(0): (0, 5)}, {10: {"/a": 1}, 20: {"/b": 1}})
    (data,) = whole.parts()
    first, second = Frame(1, 0, False, False, data[:100]), Frame(1, 1, True, False, data[100:])
    sender = CHILDREN[0]
    for order in (
        [first],
        [second],
        [second, first],
        [first, first, first],
        [first, Frame(2, 1, True, False, data[100:])],
        [first, first, Frame(1, 1, True, False, data[101:])],
    ):
        begun = Assemblies(1000, 1000, 5)
        assert [begun.take(sender, part) for part in order] == [None] * len(order)
    begun = Assemblies(1000, 1000, 5)
    assert [begun.take(sender, part) for part in (second, first, second)] == [None, None, whole]
    assert begun.held_bytes == 0
    small = Assemblies(101, 1000, 5)
    assert (small.take(sender, first), small.take(sender, second), small.dropped) == (None, None, 1)


def test_begun_frames_are_bounded_and_the_oldest_goes() -> None:
    for begun in (Assemblies(1000, 250, 9), Assemblies(1000, 1000, 2)):
        whole = frame(1, {stream(0): (0, 5)}, {10: {f"/a{n}": 1 for n in range(30)}})
        (data,) = whole.parts()
        for sender in CHILDREN[:3]:
            begun.take(sender, Frame(1, 0, False, False, data[:100]))
        assert begun.held_bytes == 200
        last = Frame(1, 1, True, False, data[100:])
        assert [begun.take(sender, last) for sender in CHILDREN[:3]] == [None, whole, whole]


def test_a_frame_that_cannot_be_put_together_is_refused_at_its_last_part() -> None:
    vertex = Vertex()
    assert vertex.hear(Frame(7, 1, False, False, b"x"), CHILDREN[0]) == []
    assert vertex.hear(Frame(7, 2, True, False, b"x"), CHILDREN[0]) == [Send(CHILDREN[0], Nack((7,)))]
    assert vertex.hear(Frame(8, 0, True, False, b"no body"), CHILDREN[0]) == [Send(CHILDREN[0], Nack((8,)))]


def test_large_frames_travel_in_parts() -> None:
    rng = random.Random(1)
    groups = {rng.randbytes(15).hex(): 1 for n in range(70_000)}
    whole = frame(1, {stream(0): (0, 5)}, {10: groups})
    messages = messages_of(whole)
    assert len(messages) > 1
    assert all(
        len(Wire(*FRAME_MESSAGES).encode(ForJob(bytes(16), one))) < MESSAGE_BYTES_MAX for one in messages
    )
    vertex = Vertex()
    assert vertex.give(CHILDREN[0], whole) == []
    assert groups_of(content_of(vertex.shipped()[0]), 1, 10) == groups


def test_syncs_travel_behind_the_outbox_and_their_answers_find_back() -> None:
    vertex = Vertex()
    request = SyncRequest(stream(0), 3, -1, 77, 1, 5, "web1")
    vertex.give(CHILDREN[1], frame(1, {stream(1): (0, 1)}))
    assert vertex.hear(Sync((request,)), CHILDREN[0]) == []
    vertex.now += 1
    first, second = vertex.core.handle(WAKE, vertex.instant)
    assert isinstance(first.message, Frame)
    assert second == Send(UP, Sync((request,)))
    answer = SyncAnswer(stream(0), 77, 3, 3, -1, False)
    assert vertex.hear(Synced((answer,))) == [Send(CHILDREN[0], Synced((answer,)))]
    assert vertex.hear(Synced((answer,))) == []
    assert vertex.hear(Synced((SyncAnswer(stream(0), 78, 3, 3, -1, False),))) == []


def test_remembered_syncs_are_bounded() -> None:
    vertex = Vertex(syncs_max=2, sync_keep_s=1.0)
    for nonce in range(3):
        vertex.hear(Sync((SyncRequest(stream(0), 3, -1, nonce, 1, 5, ""),)), CHILDREN[nonce])
    answers = tuple(SyncAnswer(stream(0), nonce, 3, 3, -1, False) for nonce in range(3))
    assert [one.to for one in vertex.hear(Synced(answers))] == CHILDREN[1:3]


def test_a_refusal_of_a_plan_is_passed_on() -> None:
    message = Refused(2, AGENTS[0], "no such field")
    assert Vertex().hear(message, CHILDREN[0]) == [Send(UP, message)]


def test_options_are_checked_together() -> None:
    with pytest.raises(OptionsError) as error:
        ReducerOptions(hold_s=40.0, pending_max=0)
    for wrong in ("hold_s 40.0", "pending_max is 0, below 1"):
        assert wrong in str(error.value)
