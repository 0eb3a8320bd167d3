"""A published window made a result record: rows finished, written as JSON and packed. A pure function of the window.

It is the work of a thread beside the core's, since groups may be millions. Of a top-k job all groups came to the root:
a sum over agents may lift any group into the result, so none can be left out on the way without being wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import zstandard

from cbt.errors import MemoryCapError, SpillError
from cbt.memory import Memory
from cbt.tree import Tree
from job.json_values import JSON_VALUES
from job.panes import ENDLESS_PANE, PaneState, PaneStore, StateShape
from job.plan import Plan
from master.job_events import Finish, Finished
from master.requests import ResultColumn, ResultRecord
from master.stages import Stages
from master.window_values import slices, values
from master.windows import FinishedWindow

ZSTD_LEVEL = 3
LONG_GROUPS = 20_000
"""Some ten milliseconds' work."""
_encode_json = msgspec.json.Encoder().encode
_encode = msgspec.msgpack.Encoder().encode


def is_long(task: Finish) -> bool:
    """Whether it takes so long that others should not wait for it. O(runs)."""
    return sum(len(tree) for tree in task.tables.values()) > LONG_GROUPS


def finish(task: Finish, memory: Memory) -> Finished:
    """The record of a window. O(groups log rows). In any thread; `memory` may be shared."""
    try:
        columns, rows, packed = _rows(task, memory)
    except (MemoryCapError, SpillError, MemoryError) as problem:
        return Finished(task.token, b"", str(problem) or "no memory")
    record = ResultRecord(
        task.log_index, task.start_us, task.end_us, task.edition, task.status, task.revision,
        task.published_us, task.lines, task.coverage, columns, rows, packed,
    )  # fmt: skip
    return Finished(task.token, _encode(record))


def _rows(task: Finish, memory: Memory) -> tuple[tuple[ResultColumn, ...], int, bytes]:
    if task.plan is None:
        return (), 0, zstandard.compress(b"[]", ZSTD_LEVEL)
    stages = Stages(task.plan, memory)
    store = _store(stages.source, task.start_us, task.tables, memory)
    window = stages.finish_window(store, task.start_us)
    columns = tuple(ResultColumn(column.name, str(column.type)) for column in window.columns)
    return columns, window.rows, _packed(window)


def _store(plan: Plan, start_us: int | None, tables: dict[int, Tree], memory: Memory) -> PaneStore:
    """All panes of the window as one."""
    shape = StateShape(plan)
    store = PaneStore(shape, memory)
    state = PaneState(shape, memory)
    state.groups = tables.get(0, state.groups)
    state.pairs = [tables.get(number + 1, empty) for number, empty in enumerate(state.pairs)]
    store.panes[ENDLESS_PANE if start_us is None else start_us] = state
    return store


def _packed(window: FinishedWindow) -> bytes:
    """Its header tells the size, so that readers can set a limit."""
    return zstandard.compress(b"".join(rows_json(window)), ZSTD_LEVEL)


def rows_json(window: FinishedWindow) -> Iterator[bytes]:
    """The rows as a JSON array of arrays, piece by piece."""
    yield b"["
    between = b""
    for columns, rows in slices(window):
        made = []
        for column in columns:
            convert = JSON_VALUES.get(column.type.kind)
            found = values(column, rows)
            made.append(
                found if convert is None else [None if value is None else convert(value) for value in found]
            )
        part = _encode_json(list(zip(*made, strict=True)))[1:-1]
        if part:
            yield between + part
            between = b","
    yield b"]"
