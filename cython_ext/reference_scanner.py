"""`cython_ext.scan` in plain Python, under the same names: what takes its place where the kernels are not compiled.

The same rows and rejects by way of `reference_scan`, some hundred times slower. Columns are lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cython_ext import reference_scan, reference_scan_json
from cython_ext.reference_scan_verdict import Rejected

LINE_BYTES_MAX = reference_scan.LINE_BYTES_MAX
SAMPLES_MAX = 8
STRING = 5  # job.types.Kind


class Reject(NamedTuple):
    offset: int
    size: int
    reason: str
    position: int


class Trace(NamedTuple):
    """What a line was read as; without the steps, which the kernel tells."""

    ok: bool
    reason: str
    position: int
    steps: list[Any]
    values: dict[str, Any]


class ListColumn:
    """A column whose values are a list: those that `Column.to_list` of the kernel gives, DECIMALs as scaled integers."""

    constant = False

    def __init__(self, kind: int, values: list[Any]) -> None:
        self.kind, self.values = kind, values

    @property
    def length(self) -> int:
        return len(self.values)

    def to_list(self) -> list[Any]:
        return self.values

    def take(self, rows: Sequence[int]) -> ListColumn:
        """The column of these rows."""
        return ListColumn(self.kind, [self.values[row] for row in rows])


class Batch(NamedTuple):
    columns: tuple[ListColumn, ...]
    rows: int
    lines: int
    directives: int
    rejected: dict[str, int]
    samples: list[Reject]
    consumed: int
    directive: bytes | None


class Scanner:
    """Cuts blocks of bytes into columns, as `cython_ext.scan.Scanner`."""

    def __init__(
        self,
        program: Any,
        wanted: Sequence[str],
        samples_max: int = SAMPLES_MAX,
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        self._program, self._wanted = program, list(wanted)
        self._samples_max, self._line_bytes_max = samples_max, line_bytes_max

    def scan(self, block: bytes, start: int = 0, stop: int = -1) -> Batch:
        text = block[start : len(block) if stop < 0 else stop]
        found = reference_scan.scan(self._program, self._wanted, text, self._samples_max, self._line_bytes_max)
        fields = self._program.fields
        return Batch(
            tuple(
                ListColumn(int(fields[name].kind) if name in fields else STRING, values)
                for name, values in zip(self._wanted, found.columns, strict=True)
            ),
            found.rows,
            found.lines,
            found.directives,
            found.rejected,
            [Reject(at + start, size, reason, position) for at, size, reason, position in found.samples],
            found.consumed + start,
            found.directive,
        )

    def trace(self, line: bytes) -> Trace:
        read = reference_scan.read_line if hasattr(self._program, "steps") else reference_scan_json.read_document
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            if not line or len(line) > self._line_bytes_max:
                raise Rejected("too_long" if line else "blank")
            values = read(self._program, self._wanted, line)
        except Rejected as rejected:
            return Trace(False, rejected.reason, rejected.position, [], {})
        return Trace(True, "", len(line), [], {name: values.get(name) for name in self._wanted})
