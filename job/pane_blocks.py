"""The panes of sliding windows merged in few pieces.

A window of n panes is merged again for every slide, so panes are merged in *blocks* of about sqrt(n), each once. The
blocks that lie wholly inside a window are its *core*, which is the same for about sqrt(n) windows and merged once for them.
So a window is made of a core and the single panes at its two ends: about sqrt(n) pieces instead of n, and its groups are
not met much more than once. States can only be merged, not subtracted, so a running total is out of reach.
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

from sortedcontainers import SortedDict

from job.panes import PaneState, PaneStore
from job.window import pane_us


class _Merged(NamedTuple):
    """The panes that start in [start, end) as one state."""

    start: int
    end: int
    state: PaneState
    seen: tuple[int, int]
    """How many panes, and the sum of their versions: panes only grow, so equal means unchanged."""


class PaneBlocks:
    """The merged states of the windows of one size and slide over `store`. They are charged to the store's budget."""

    def __init__(self, store: PaneStore, size_us: int, slide_us: int) -> None:
        self.store = store
        self.merges = 0
        """States merged into others so far."""
        self._size_us = size_us
        self._block_us = pane_us(size_us, slide_us) * block_panes(size_us, slide_us)
        self._is_blocked = self._block_us > pane_us(size_us, slide_us)
        self._blocks: SortedDict[int, _Merged] = SortedDict()
        self._core: _Merged | None = None
        self._changes = store.changes

    def window(self, start_us: int) -> tuple[PaneState, bool]:
        """The state of the window that starts at `start_us` as of now, and whether it is the caller's own; if not, it is
        only to be read, for it is a pane or was merged for other windows, too."""
        if self._changes != self.store.changes:
            self._forget_changed()
        pieces = self._pieces(start_us, start_us + self._size_us)
        return self._merged(pieces), len(pieces) != 1

    def release_before(self, start_us: int) -> None:
        """Frees what no window from `start_us` on has wholly inside it."""
        for at in list(self._blocks.irange(maximum=start_us, inclusive=(True, False))):
            del self._blocks[at]
        if self._core is not None and self._core.start < start_us:
            self._core = None

    def _pieces(self, start: int, end: int) -> list[PaneState]:
        size = self._block_us
        first, last = -(-start // size) * size, end // size * size
        if not self._is_blocked or first >= last:
            return self._panes(start, end)
        return [*self._core_of(first, last), *self._panes(start, first), *self._panes(last, end)]

    def _panes(self, start: int, end: int) -> list[PaneState]:
        panes = self.store.panes
        return [panes[at] for at in panes.irange(start, end, inclusive=(True, False))]

    def _core_of(self, first: int, last: int) -> list[PaneState]:
        """The blocks from `first` to `last` as one state, or none when the log has no lines there."""
        if self._core is not None and (self._core.start, self._core.end) == (first, last):
            return [self._core.state]
        self._core = None  # before the new one takes memory
        blocks = [state for at in range(first, last, self._block_us) for state in self._block(at)]
        if len(blocks) > 1:
            self._core = _Merged(first, last, self._merged(blocks), self._seen(first, last))
            self._core.state.pack()
            return [self._core.state]
        return blocks

    def _block(self, at: int) -> list[PaneState]:
        known: _Merged | None = self._blocks.get(at)
        if known is not None:
            return [known.state]
        end = at + self._block_us
        members = self._panes(at, end)
        if len(members) > 1:
            members = [self._merged(members)]
            self._blocks[at] = _Merged(at, end, members[0], self._seen(at, end))
        return members

    def _merged(self, pieces: list[PaneState]) -> PaneState:
        if len(pieces) == 1:
            return pieces[0]
        state = PaneState(self.store.shape, self.store.memory)
        for piece in pieces:
            state.merge(piece)
        self.merges += len(pieces)
        return state

    def _seen(self, start: int, end: int) -> tuple[int, int]:
        members = self._panes(start, end)
        return len(members), sum(member.version for member in members)

    def _forget_changed(self) -> None:
        """Frees what has panes in it that grew since."""
        self._changes = self.store.changes
        for at, block in list(self._blocks.items()):
            if block.seen != self._seen(at, block.end):
                del self._blocks[at]
        core = self._core
        if core is not None and core.seen != self._seen(core.start, core.end):
            self._core = None


def block_panes(size_us: int, slide_us: int) -> int:
    """Panes of a block: 1 where blocks would not pay, because windows have few panes or share few of them.

    A window without blocks merges all its n panes; with them 3 sqrt(n) pieces at most, beside the panes that are new in it.
    """
    pane = pane_us(size_us, slide_us)
    panes, root = size_us // pane, isqrt(size_us // pane)
    return root if 3 * root + slide_us // pane < panes else 1
