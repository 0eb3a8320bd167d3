"""Whether a node that is joining should found a ring instead: there is none behind its seeds, and others leave it to it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from srt.automaton import Ref
from srt.options import RingOptions

KNOWN_MAX = 1024


class Founding:
    """What a joining node has heard of others that are joining, too.

    Only who is a seed may found a ring: of itself, or of another node, which shows when that one asks it. Each of them knows
    the others that it spoke with, and the one with the least number goes first; the others then join it. Rings that are
    founded apart nevertheless merge later."""

    def __init__(self, ref: Ref, seeds: Sequence[str], options: RingOptions) -> None:
        self._number, self._options = ref.number, options
        self._others = frozenset(seeds) - {ref.address}
        self._is_own_seed = not seeds or ref.address in seeds
        self._is_seed = self._is_own_seed
        self._joining: OrderedDict[Ref, tuple[float, bool]] = OrderedDict()
        """When each said last that it is joining, and whether it may found a ring."""
        self._began_s: float | None = None

    @property
    def began(self) -> bool:
        """Whether it was asked before."""
        return self._began_s is not None

    @property
    def is_seed(self) -> bool:
        """Whether it may found a ring."""
        return self._is_seed

    def heard(self, newcomer: Ref, is_seed: bool, asks: bool, now_s: float) -> bool:
        """Another node is joining, and asks this one to let it in or has been asked. Whether it should be told that this one
        is joining, too. O(1)."""
        self._is_seed = self._is_seed or asks
        before_s, _ = self._joining.pop(newcomer, (None, False))
        self._joining[newcomer] = (now_s, is_seed)
        if len(self._joining) > KNOWN_MAX:
            self._joining.popitem(last=False)
        return asks and (before_s is None or now_s - before_s > self._options.join_retry_s / 2)

    def is_due(self, now_s: float) -> bool:
        """Whether to found a ring now; asked whenever a join was not answered. O(nodes that are joining)."""
        if self._began_s is None:
            self._began_s = now_s
        waited_s, options, joining = now_s - self._began_s, self._options, self._joining
        while joining and now_s - next(iter(joining.values()))[0] > 2.5 * options.join_retry_s:
            joining.popitem(last=False)
        if not self._is_seed:
            return False
        if not self._others:
            return True
        first = all(self._number < ref.number for ref, (_, is_seed) in joining.items() if is_seed)
        if self._others <= {ref.address for ref in joining}:  # so none of them has a ring
            return first and waited_s >= options.join_retry_s / 2
        if not self._is_own_seed or waited_s < options.found_after_s:
            return False
        return first or waited_s >= 2 * options.found_after_s
