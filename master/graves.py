"""Removed jobs: what a node remembers of them, and the writes that take what it had of them off its disk. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from master.commit_group import STORE as GROUPS
from master.group_messages import Lineage
from master.result_store import STORE as RESULTS
from master.result_store import everything
from srt.automaton import NEVER, Delete, Stored, StoreFailed, Write


class Graves:
    """Of one node."""

    def __init__(self, remembered_max: int, retry_s: float, next_token: Callable[[], int]) -> None:
        """`next_token` gives numbers for writes that nobody else uses."""
        self.again_at = NEVER
        """When writes that failed are to be tried once more."""
        self._remembered_max, self._retry_s, self._next_token = remembered_max, retry_s, next_token
        self._lineages: OrderedDict[bytes, Lineage] = OrderedDict()
        self._writing: dict[int, tuple[bytes, Write]] = {}
        self._again: list[tuple[bytes, Write]] = []

    def lineage(self, key: bytes) -> Lineage | None:
        """The lineage that was removed: whoever still has it, or an earlier one, is to be told."""
        return self._lineages.get(key)

    def history_above(self, key: bytes, wall_us: int) -> int:
        """The job is made anew: the number of its lineage, which wins over what is left anywhere of one before."""
        history, grave = max(1, wall_us // 1_000_000), self._lineages.pop(key, None)
        return history if grave is None else max(history, grave.history + 1)

    def bury(self, key: bytes, lineage: Lineage) -> list[Write]:
        """A job was removed: the writes that erase it."""
        self._lineages[key] = max(lineage, self._lineages.get(key, lineage))
        if len(self._lineages) > self._remembered_max:
            self._lineages.popitem(last=False)
        groups = Write(GROUPS, (Delete(key, key + b"\xff"),), 0)
        results = Write(RESULTS, (everything(key),), 0)
        return [self._write(key, groups), self._write(key, results)]

    def done(self, event: Stored | StoreFailed, now_s: float) -> bool:
        """Whether that write was of here."""
        buried = self._writing.pop(event.token, None)
        if buried is not None and isinstance(event, StoreFailed):
            self._again.append(buried)
            self.again_at = now_s + self._retry_s
        return buried is not None

    def tried_again(self, there: Iterable[bytes]) -> list[Write]:
        """The writes that failed. Jobs that are `there` were made anew and have written all that they have."""
        again, self._again, self.again_at = self._again, [], NEVER
        return [self._write(key, write) for key, write in again if key not in there]

    def _write(self, key: bytes, write: Write) -> Write:
        token = self._next_token()
        self._writing[token] = key, write
        return write._replace(token=token)
