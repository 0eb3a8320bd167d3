"""The windows that may still be published, ordered by their starts and by their ends, and apart those of which readers have
not seen the last yet: a change costs what it touches and what it closes, not what is open."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView

from sortedcontainers import SortedDict, SortedList, SortedSet

from master.committed_parts import WindowKey, WindowState
from master.entries import FINAL


class OpenWindows:
    """A mapping in ascending order, changed only by its methods. Each costs O(log windows) for a window it touches."""

    def __init__(self, states: Mapping[WindowKey, WindowState] | None = None) -> None:
        self._states: SortedDict[WindowKey, WindowState] = SortedDict(states or {})
        self._ends: SortedList[tuple[int, int]] = SortedList((end, start) for start, end in self._states)
        self._unsettled: SortedSet[WindowKey] = SortedSet(
            key for key, state in self._states.items() if _is_unsettled(state)
        )
        self._touched: dict[WindowKey, None] = {}

    # what there is

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[WindowKey]:
        return iter(self._states)

    def __contains__(self, key: object) -> bool:
        return key in self._states

    def __getitem__(self, key: WindowKey) -> WindowState:
        state: WindowState = self._states[key]
        return state

    def get(self, key: WindowKey) -> WindowState | None:
        state: WindowState | None = self._states.get(key)
        return state

    def items(self) -> ItemsView[WindowKey, WindowState]:
        items: ItemsView[WindowKey, WindowState] = self._states.items()
        return items

    def values(self) -> ValuesView[WindowState]:
        values: ValuesView[WindowState] = self._states.values()
        return values

    @property
    def unsettled_count(self) -> int:
        """Windows that are not final, or have changed since. O(1)."""
        return len(self._unsettled)

    def first_unsettled(self, otherwise: int) -> int:
        """The start of the first of them."""
        return int(self._unsettled[0][0]) if self._unsettled else otherwise

    def ending(self, after_us: int, upto_us: int) -> Iterator[WindowKey]:
        """Those with ends in (after, upto]. O(log windows + found)."""
        for end, start in self._ends.irange((after_us + 1,), (upto_us + 1,), inclusive=(True, False)):
            yield start, end

    def newest(self) -> WindowKey | None:
        """Of the windows that hold the newest lines the fullest: the first that ends behind the last start. O(those)."""
        if not self._states:
            return None
        last_start = self._states.peekitem(-1)[0][0]
        return min((start, end) for end, start in self._ends.irange((last_start + 1,)))

    # what changes

    def mark(self, key: WindowKey) -> None:
        """It has another content than readers saw; it is made if it is not there."""
        state = self._states.get(key)
        if state is None:
            self._states[key] = WindowState()
            self._ends.add((key[1], key[0]))
        else:
            state.changed = True
        self._unsettled.add(key)
        self._touched[key] = None

    def published(self, key: WindowKey, edition: int, status: str) -> None:
        """Readers have seen it as it is now."""
        state = self[key]
        state.count, state.status, state.changed = edition, status, False
        if status == FINAL:
            self._unsettled.discard(key)
        else:
            self._unsettled.add(key)  # it was final, but an agent has come back that is behind its end
        self._touched[key] = None

    def drop(self, key: WindowKey) -> None:
        del self._states[key]
        self._ends.remove((key[1], key[0]))
        self._unsettled.discard(key)
        self._touched[key] = None

    def drop_before(self, start_us: int) -> None:
        """All that start earlier."""
        while self._states and (first := self._states.peekitem(0)[0])[0] < start_us:
            self.drop(first)

    def take_touched(self) -> list[WindowKey]:
        """What was marked, published or dropped since the last time."""
        touched, self._touched = list(self._touched), {}
        return touched

    def check(self) -> None:
        """Raises AssertionError unless the orders agree. O(windows log windows)."""
        if [(start, end) for end, start in sorted(self._ends)] != sorted(self._states, key=lambda key: key[::-1]):
            raise AssertionError("the ends are not those of the windows")
        if list(self._unsettled) != [key for key, state in self._states.items() if _is_unsettled(state)]:
            raise AssertionError("other windows are unsettled than are noted")


def _is_unsettled(state: WindowState) -> bool:
    return state.changed or state.status != FINAL
