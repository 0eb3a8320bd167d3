"""What a query gives back: typed rows, the columns that name them, and what was read to get them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from job.types import BIGINT, STRING, Type
from master.column_names import free_names
from master.window_values import slices, values
from master.windows import FinishedWindow


class ResultColumn(NamedTuple):
    """Name and type of a column, in SELECT order."""

    name: str
    type: Type


def with_publication(columns: Sequence[ResultColumn], edition: str) -> tuple[ResultColumn, ...]:
    """With two more, which tell of the window that a row is of: `status`, and its edition under that name. Where the query
    has a column that is called so, which is likely of `status`, theirs gets a _ behind."""
    status, edition = free_names(("status", edition), [column.name for column in columns])
    return (*columns, ResultColumn(status, STRING), ResultColumn(edition, BIGINT))


class Row(tuple[Any, ...]):
    """One row: a tuple in SELECT order that also answers to `row.name`, `row["name"]` and `asdict()`."""

    __slots__ = ()
    _columns: dict[str, int] = {}  # noqa: RUF012  (set once per result by row_class)

    def __getattr__(self, name: str) -> Any:
        try:
            return tuple.__getitem__(self, self._columns[name])
        except KeyError:
            raise AttributeError(f"no column {name!r}; there are {', '.join(self._columns)}") from None

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self._columns:
                raise KeyError(f"no column {key!r}; there are {', '.join(self._columns)}")
            key = self._columns[key]
        return tuple.__getitem__(self, key)

    def asdict(self) -> dict[str, Any]:
        """The row as a dict in SELECT order."""
        return dict(zip(self._columns, self, strict=True))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.asdict().items())
        return f"Row({values})"


def row_class(columns: Iterable[ResultColumn]) -> type[Row]:
    """The Row type of one result."""
    names = {column.name: index for index, column in enumerate(columns)}
    return type("Row", (Row,), {"__slots__": (), "_columns": names})


class RejectSample(NamedTuple):
    """A line that was no record: where it stands (1-based line, byte offset), why, and the 0-based column of the fault.

    `text` is its start, `size_bytes` its whole length without the line end.
    """

    path: str
    line_number: int
    offset: int
    reason: str
    position: int
    text: bytes
    size_bytes: int = 0


@dataclass
class Stats:
    """What was read. lines == parsed + rejected + directives, always."""

    lines: int = 0
    parsed: int = 0
    directives: int = 0
    rejected_by: Counter[str] = field(default_factory=Counter)
    eval_errors: int = 0
    """Row expressions that failed and became NULL."""
    overflow: int = 0
    """Aggregates that left their type and became NULL."""
    bytes: int = 0
    """Uncompressed bytes of the logs."""
    seconds: float = 0.0
    groups: int = 0
    """Groups of the log, summed over windows."""
    peak_memory: int = 0
    """Peak resident memory of the process in bytes."""
    peak_tree_memory: int = 0
    """Peak of the bytes that count towards memory_max: groups in trees, and rows of the result."""
    spilled_bytes: int = 0
    """Bytes written to the spill directory."""
    trailing_garbage: list[str] = field(default_factory=list)
    """Compressed files with bytes behind the end of their data, which were ignored."""
    samples: list[RejectSample] = field(default_factory=list)

    @property
    def rejected(self) -> int:
        return self.rejected_by.total()

    def asdict(self) -> dict[str, Any]:
        """The figures of `--stats`."""
        return {
            "lines": self.lines,
            "parsed": self.parsed,
            "rejected": self.rejected,
            "rejected_by": dict(sorted(self.rejected_by.items())),
            "directives": self.directives,
            "eval_errors": self.eval_errors,
            "overflow": self.overflow,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "groups": self.groups,
            "peak_memory": self.peak_memory,
            "peak_tree_memory": self.peak_tree_memory,
            "spilled_bytes": self.spilled_bytes,
            "trailing_garbage": self.trailing_garbage,
        }


class Result:
    """The rows of a finished query. Iterating yields `Row`s: window by window, in the order of the query."""

    def __init__(
        self,
        columns: tuple[ResultColumn, ...],
        windows: list[FinishedWindow],
        stats: Stats,
        format: str,
        detection: str,
    ) -> None:
        self.columns, self.stats, self.format, self.detection = columns, stats, format, detection
        self._windows = windows

    def __len__(self) -> int:
        return sum(window.rows for window in self._windows)

    def __iter__(self) -> Iterator[Row]:
        make = row_class(self.columns)
        for window in self._windows:
            for columns, rows in slices(window):
                made = [values(column, rows) for column in columns]
                yield from map(make, zip(*made, strict=True))

    def to_arrow(self) -> Any:
        """The rows as a pyarrow.Table. Raises ImportError with advice when pyarrow is not installed."""
        try:
            from master.arrow_rows import arrow_table
        except ImportError as error:
            raise ImportError("to_arrow() needs pyarrow: pip install 'elfstream[arrow]'") from error
        return arrow_table(self.columns, list(self))

    def to_pandas(self) -> Any:
        """The rows as a pandas.DataFrame. Raises ImportError with advice when pandas or pyarrow is not installed."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas: pip install 'elfstream[pandas]'") from error
        return self.to_arrow().to_pandas()
