"""Plans that ran over a source until its format was changed: their lines are lost to them, and counted so."""

from __future__ import annotations

from collections.abc import Iterable

from agent.log_id import of_source
from agent.sources import Sources
from agent.stream_events import Fold, FoldSpec, Portion, StreamKey
from job.plan import Plan
from srt.frame_messages import Counters

JUDGED_MAX = 10_000


class UnfitPlans:
    """Which streams cannot be fed any more. What is submitted after a change is judged by the core, with the same words."""

    def __init__(self, sources: Sources) -> None:
        """Before a change all plans fit: only those that do are sent here."""
        self.troubles: list[str] = []
        self._sources, self._changed = sources, False
        self._judged: dict[StreamKey, tuple[Plan, bool]] = {}
        self._lost: dict[StreamKey, int] = {}
        """Bytes that were read and not folded, of the streams of the last advance that are unfit."""
        self._source: dict[StreamKey, str] = {}
        """What those read."""

    def change(self, sources: Sources) -> None:
        """Other sources from now on."""
        self._sources, self._changed = sources, True
        self._judged.clear()

    def asked(self, specs: Iterable[FoldSpec]) -> set[StreamKey]:
        """The streams of an advance. Which of them have to be read again: what was read for them before they were unfit and
        is not handed out is in no count. Nor has what was lost of a stream to be kept that begins anew, fits or is not
        asked for: those lines are read again, or are lost again then. O(streams)."""
        before, self._lost, again = self._lost, {}, set[StreamKey]()
        for spec in specs:
            if not self.is_unfit(spec):
                continue
            if spec.fresh or spec.key in before:
                self._lost[spec.key] = 0 if spec.fresh else before[spec.key]
                self._source[spec.key] = spec.plan.source
            else:
                again.add(spec.key)
        self._source = {key: self._source[key] for key in self._lost}
        return again

    def is_unfit(self, spec: FoldSpec) -> bool:
        """O(plan) the first time."""
        if not self._changed:
            return False
        known = self._judged.get(spec.key)
        if known is None or known[0] != spec.plan:
            problem = self._sources.can_run(spec.plan)
            if problem is not None:
                self.troubles.append(f"a running job gets no lines of this agent any more: {problem}")
            if len(self._judged) >= JUDGED_MAX:
                self._judged.clear()
            known = self._judged[spec.key] = (spec.plan, problem is not None)
        return known[1]

    def lose(self, source: str, size: int) -> None:
        """`size` bytes of that source were read, or were gone before."""
        for key, name in self._source.items():
            if name == source:
                self._lost[key] += size

    def portion(self, key: StreamKey) -> Portion:
        """What a stream without trees gets: what it lost since the last time."""
        lost = self._lost.get(key, 0)
        if lost:
            self._lost[key] = 0
        return Portion(counters=Counters(lost_bytes=lost))


def lost_range(source: str, ask: Fold) -> Portion:
    """A range that cannot be read again for this stream: all of it is lost. O(files)."""
    lost = 0
    for name, at in ask.end.items():
        if of_source(source, name):
            lost += max(0, at.offset - (ask.start[name].offset if name in ask.start else 0))
    return Portion(counters=Counters(lost_bytes=lost))
