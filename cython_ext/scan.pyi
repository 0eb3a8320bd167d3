from collections.abc import Sequence
from typing import Any, NamedTuple

from cython_ext.column import Column

LINE_BYTES_MAX: int
SAMPLES_MAX: int
BLOCK_BYTES_MAX: int
REASONS: tuple[str, ...]

class Reject(NamedTuple):
    offset: int
    size: int
    reason: str
    position: int

class TraceStep(NamedTuple):
    step: int
    start: int
    end: int

class Trace(NamedTuple):
    ok: bool
    reason: str
    position: int
    steps: list[TraceStep]
    values: dict[str, Any]

class Batch:
    columns: tuple[Column, ...]
    rows: int
    lines: int
    directives: int
    rejected: dict[str, int]
    samples: list[Reject]
    consumed: int
    directive: bytes | None

class Workspace: ...

class Scanner:
    def __init__(
        self, program: Any, wanted: Sequence[str], samples_max: int = 8, line_bytes_max: int = 4 << 20
    ) -> None: ...
    def scan(self, block: bytes, start: int = 0, stop: int = -1) -> Batch: ...
    def trace(self, line: bytes) -> Trace: ...
