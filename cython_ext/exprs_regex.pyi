from collections.abc import Callable, Sequence
from typing import Any

from cython_ext.column import Column

_Match = Callable[[Any, bytes, int, int], Sequence[tuple[int, int]]]

def found(text: Column, match: _Match, anchor: Any) -> Column: ...
def extracted(text: Column, match: _Match, anchor: Any, group: int) -> Column: ...
