"""What goes into the log together: frames merged into one entry, others beside it, and the answers that wait for them.

The leader judges by the committed state and its own tail behind it: everything appended or about to be.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any

import msgspec

from cbt.budget import Budget
from cbt.options import Options as TreeOptions
from master.committed import Committed
from master.committed_parts import StreamState, mark_of, registered, share_marks
from master.entries import Entry, FrameEntry, Publish, Reg, encode_entries
from srt.automaton import Ref, Send
from srt.content import Content
from srt.frame_messages import (
    Ack,
    Nack,
    Span,
    StreamId,
    SyncAnswer,
    Synced,
    messages,
)
from srt.frames import joined


class Verdict(Enum):
    """What R1 makes of a frame: the whole of it or nothing."""

    ACCEPT = "every piece starts at its stream's next"
    DUPLICATE = "all of it is in the log already"
    REFUSE = "anything else"


class Group:
    """One group commit that is being filled or is on its way."""

    def __init__(self, budget: Budget, tree_options: TreeOptions) -> None:
        self.content = Content(budget, tree_options)
        self.spans: dict[StreamId, Span] = {}
        self.entries: list[Entry] = []
        self.finals: list[Publish] = []
        """Of windows that the frame closes."""
        self.acks: list[tuple[Ref, int]] = []
        self.answers: list[tuple[Ref, SyncAnswer]] = []
        self.expected: deque[bytes] = deque()
        """Entries that were appended and are not committed yet."""

    def __bool__(self) -> bool:
        return bool(self.spans or self.entries)

    def encoded(self) -> list[bytes]:
        """The entries: what a frame rests on is in the log before it, what rests on the frame behind it."""
        entries = list(self.entries)
        if self.spans:
            spans = tuple(self.spans[stream] for stream in sorted(self.spans))
            entries.append(FrameEntry(spans, self.content.panes(), tuple(self.content.runs())))
        entries += self.finals
        self.expected = deque(data for entry in entries for data in encode_entries(entry))
        return list(self.expected)

    def replies(self) -> list[Any]:
        """What may leave now that it is committed (R2)."""
        acks: dict[Ref, list[int]] = defaultdict(list)
        for sender, number in self.acks:
            acks[sender].append(number)
        answers: dict[Ref, list[SyncAnswer]] = defaultdict(list)
        for sender, answer in self.answers:
            answers[sender].append(answer)
        effects: list[Any] = [
            Send(sender, one) for sender, numbers in acks.items() for one in messages(Ack, numbers)
        ]
        effects += [Send(sender, one) for sender, some in answers.items() for one in messages(Synced, some)]
        return effects


class Tail:
    """The log's end as the leader sees it: committed, on its way, and being filled."""

    def __init__(self, committed: Committed, budget: Budget, tree_options: TreeOptions) -> None:
        self.committed = committed
        self._budget, self._tree_options = budget, tree_options
        self.streams: dict[StreamId, StreamState] = {}
        """Those that the tail changes."""
        self.open = self._group()
        self.sent: Group | None = None
        """One at a time is on its way; what comes meanwhile is merged."""

    def _group(self) -> Group:
        return Group(self._budget, self._tree_options)

    def stream(self, stream: StreamId) -> StreamState | None:
        return _first_of(self.streams, self.committed.streams, stream)

    def judge(self, spans: Iterable[Span]) -> Verdict:
        """R1. O(spans)."""
        fresh = repeated = True
        for span in spans:
            if self.committed.book.is_closed(span.stream.revision):
                continue
            state = self.stream(span.stream)
            if state is None or (state.end >= 0 and span.end > state.end):
                return Verdict.REFUSE
            fresh = fresh and span.start == state.next
            repeated = (
                repeated and span.end <= state.next and not _newer(span.watermark_us, state.watermark_us)
            )
        if repeated:
            return Verdict.DUPLICATE
        return Verdict.ACCEPT if fresh else Verdict.REFUSE

    def accept(self, sender: Ref, number: int, spans: tuple[Span, ...], content: Content) -> None:
        """Merges an accepted frame into the group that is being filled."""
        group = self.open
        merged = joined(group.spans, spans)
        if merged is None:
            raise AssertionError("accepted pieces continue what the tail has of their streams")
        group.spans.update(merged)
        group.content.merge(content)
        group.acks.append((sender, number))
        for span in spans:
            state = self.stream(span.stream)
            if state is None:
                continue  # of a closed feed
            mark = span.watermark_us if _newer(span.watermark_us, state.watermark_us) else state.watermark_us
            self.streams[span.stream] = StreamState(state.start, span.end, state.end, mark, state.counters)

    def register(self, entry: Reg) -> None:
        """Both lanes of all partitions of a stream, before anybody else proposes others (R3)."""
        self.open.entries.append(entry)
        self.streams |= registered(entry, self.committed.book.partitions(entry.revision))

    def has(self, kind: type[Entry]) -> bool:
        """Whether an entry of that kind is on its way or about to be. O(entries)."""
        groups = (self.sent, self.open)
        return any(isinstance(one, kind) for group in groups if group is not None for one in group.entries)

    @property
    def newest(self) -> Group | None:
        """The last group whose commit everything judged so far rests on; None: all is committed."""
        return self.open if self.open else self.sent

    @property
    def may_ship(self) -> bool:
        """There are entries to append, and none are on their way."""
        return self.sent is None and bool(self.open)

    def foreseen(self) -> dict[int, int]:
        """How far the slowest agent is under each feed of the open group's frame once that is applied, if no other entry of
        the group may change that. Feeds under which somebody has not begun are left out. O(roster)."""
        state, spans = self.committed, self.open.spans
        if not spans or any(not isinstance(one, Publish) for one in self.open.entries):
            return {}
        agents = {agent for agent, on in state.roster.items() if on} | {stream.agent for stream in spans}
        found = {}
        for feed in {stream.revision for stream in spans} & set(state.book.feeds):
            known_or_ahead = partial(_first_of, self._shared(feed), state.streams)
            partitions = state.book.partitions(feed)
            marks = [mark_of(known_or_ahead, feed, agent, partitions) for agent in agents]
            known = [mark for mark in marks if mark is not None]
            if known and len(known) == len(marks):
                found[feed] = min(known)
        return found

    def _shared(self, feed: int) -> dict[StreamId, StreamState]:
        """The streams of a feed that the tail changes, as the frame will leave them."""
        partitions = self.committed.book.partitions(feed)
        if partitions == 1:
            return self.streams
        found: dict[StreamId, StreamState] = {}
        for stream in {one.of(0) for one in self.open.spans if one.revision == feed}:
            for lane in map(stream.of, range(partitions)):
                known = self.stream(lane)
                assert known is not None, "all partitions are opened at once (R3)"
                found[lane] = msgspec.structs.replace(known)
            share_marks(found, stream, partitions)
        return found

    def close(self, finals: list[Publish]) -> None:
        """These go behind the open group's frame; what was to be said of the same windows before it is said by them."""
        closed = {(one.start_us, one.end_us) for one in finals}
        kept = [one for one in self.open.entries if not isinstance(one, Publish) or (one.start_us, one.end_us) not in closed]
        self.open.entries, self.open.finals = kept, finals

    def ship(self) -> list[bytes]:
        """The entries to append now; it has to be that it `may_ship`."""
        self.sent, self.open = self.open, self._group()
        return self.sent.encoded()

    def committed_one(self, entry: bytes) -> bool:
        """An entry is committed and applied; whether it was the last of the group on its way."""
        if self.sent is None or not self.sent.expected or self.sent.expected[0] != entry:
            return False
        self.sent.expected.popleft()
        return not self.sent.expected

    def settled(self) -> list[Any]:
        """The group on its way is committed: returns what may leave."""
        assert self.sent is not None, "no group is on its way"
        group, self.sent = self.sent, None
        begun = {(one.revision, one.agent) for one in self.open.entries if isinstance(one, Reg)}
        self.streams = {
            stream: state
            for stream, state in self.streams.items()
            if stream in self.open.spans or (stream.revision, stream.agent) in begun
        }
        return group.replies()

    def refused(self) -> list[Any]:
        """NACKs for every frame that is not committed: an entry of ours was void."""
        groups = [group for group in (self.sent, self.open) if group is not None]
        return [Send(sender, Nack((number,))) for group in groups for sender, number in group.acks]


def _first_of(
    ahead: Mapping[StreamId, StreamState], committed: Mapping[StreamId, StreamState], stream: StreamId
) -> StreamState | None:
    return ahead.get(stream) or committed.get(stream)


def _newer(mark: int | None, known: int | None) -> bool:
    return mark is not None and (known is None or mark > known)
