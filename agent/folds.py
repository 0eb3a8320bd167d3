"""The ranges that an agent's core has asked to be read again. Pure."""

from __future__ import annotations

from typing import NamedTuple

from agent.stream_events import StreamKey


class FoldUnderWay(NamedTuple):
    key: StreamKey
    start: int
    target: int
    joins: bool
    """There is so little to read that the frontier waits for it."""


class Folds:
    """By the token of the `Fold`."""

    def __init__(self, most: int) -> None:
        """`most` of live lanes, and of history lanes."""
        self._most = most
        self._folds: dict[int, FoldUnderWay] = {}

    def may_begin(self, live: bool) -> bool:
        """A live lane does not wait for history lanes: others may wait for it."""
        return sum(fold.key[1].is_live == live for fold in self._folds.values()) < self._most

    def begin(self, token: int, fold: FoldUnderWay) -> None:
        self._folds[token] = fold

    def end(self, token: int) -> FoldUnderWay:
        return self._folds.pop(token)

    def join(self, newest: int) -> bool:
        """Whether a live lane is about to reach the frontier, which waits for it. For one with much to read again it goes
        on, and that one comes nearer each time."""
        return any(fold.joins and fold.target == newest for fold in self._folds.values())

    @property
    def cuts(self) -> set[int]:
        """Where they begin and end."""
        return {cut for fold in self._folds.values() for cut in (fold.start, fold.target)}
