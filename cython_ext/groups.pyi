from collections.abc import Sequence
from typing import Self, final

from cython_ext.column import Column, Selection
from cython_ext.group_index import KEY_BYTES_MAX as KEY_BYTES_MAX
from cython_ext.group_index import GroupIndex
from cython_ext.group_index import InvariantError as InvariantError
from cython_ext.group_index import _test_hash_bits as _test_hash_bits

__all__ = ["KEY_BYTES_MAX", "GroupTable", "InvariantError"]

@final
class GroupTable(GroupIndex):
    key_kinds: tuple[int, ...]
    state_kinds: tuple[int, ...]
    frozen: bool
    def __new__(cls, key_kinds: Sequence[int], state_kinds: Sequence[int], seed: int = 0) -> Self: ...
    def update(
        self,
        keys: Sequence[Column],
        inputs: Sequence[Column | None],
        masks: Sequence[Column | None],
        rows: int,
        selection: Selection | None = None,
    ) -> None: ...
    def update_until(
        self,
        keys: Sequence[Column],
        inputs: Sequence[Column | None],
        masks: Sequence[Column | None],
        rows: int,
        selection: Selection | None = None,
        start: int = 0,
        bytes_max: int = ...,
    ) -> int: ...
    def clear(self, keep_memory: bool = True) -> None: ...
    @property
    def entry_bytes(self) -> int: ...
    def merge(self, other: GroupTable) -> None: ...
    def ensure_group(self) -> None: ...
    @property
    def bytes_used(self) -> int: ...
    def keys(self) -> list[Column]: ...
    def finish(
        self, state: int, how: int, parameter: float = 0.0, precision: int = 0, scale: int = 0
    ) -> tuple[Column, int]: ...
    def count_distinct(self, pairs: GroupTable, key_count: int) -> Column: ...
    def sketches(self, state: int) -> list[bytes]: ...
    def check(self) -> None: ...
