from collections.abc import Sequence

from cython_ext.column import Column, Selection

def sort_rows(
    columns: Sequence[Column], descending: Sequence[bool], nulls_first: Sequence[bool], limit: int = -1
) -> Selection: ...
def split_rows(column: Column) -> list[tuple[int, Selection]]: ...
