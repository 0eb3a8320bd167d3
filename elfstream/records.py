"""Logs to records, without a question: what `elfstream parse` prints.

Reads with one thread, in order, so that the output keeps the order of the log.
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import IO, Any, NamedTuple

import msgspec

from agent.files import Block, Inputs
from agent.line_counts import LineCounts
from elfstream.embedded import PROGRESS_INTERVAL_S, SAMPLE_BYTES_MAX, Progress, RejectedLineError
from elfstream.rejects import kept_line
from elfstream.result import RejectSample
from job.errors import FormatError
from job.formats import Format, SourceScanner, find
from job.formats.program import LineProgram
from job.times import time_of
from job.types import STRING, Kind, Type

_ALL = 1 << 30


class RecordField(NamedTuple):
    """A field of the records: the name it is written under, its type, and the format's field that it is."""

    name: str
    type: Type
    source: str


def chosen_fields(format: Format, names: Sequence[str], inputs: Inputs) -> tuple[RecordField, ...]:
    """The named fields of a format, in any case and by any name that SQL takes, as they are written there; without names
    all of them, of a format whose logs name their columns those that the first log names.

    Raises FormatError for a name that the format does not have, InputError.
    """
    fields = format.fields
    if not names:
        chosen = (_logged_fields(inputs) if format.directives else None) or fields
        return tuple(RecordField(name, fields[name], name) for name in chosen)
    known = {alias.lower(): field for alias, field in format.aliases.items()} | {name.lower(): name for name in fields}
    found = []
    for name in names:
        source = known.get(name.lower(), name)
        if source not in fields and not format.open_fields:
            raise FormatError(f"format {format.name} has no field {name!r}. {_advice(name, known, fields)}")
        found.append(RecordField(name, fields.get(source, STRING), source))
    return tuple(found)


def _advice(name: str, known: Iterable[str], fields: Iterable[str]) -> str:
    near = difflib.get_close_matches(name.lower(), list(known), n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(near)}?" if near else f"It has {', '.join(fields)}"


def _logged_fields(inputs: Inputs) -> list[str]:
    """The fields that the first #Fields line of the logs names; none without such a line."""
    for line in inputs.head()[1].splitlines():
        if line.startswith(b"#Fields:"):
            program = find(line.decode("utf-8", "backslashreplace")).program
            assert isinstance(program, LineProgram)
            written = {output for step in program.steps for output in step.outputs}
            return [name for name in program.fields if name in written]
    return []


class RecordReader:
    """One pass over some logs. `counts` tells what became of their lines so far, `samples` has the first reject.

    Rejected lines go to `rejects` as they stand in the log; with `strict` the first one raises RejectedLineError.
    """

    def __init__(
        self,
        inputs: Inputs,
        format: Format,
        fields: Sequence[RecordField],
        strict: bool,
        rejects: IO[bytes] | None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.counts = LineCounts()
        self.samples: list[RejectSample] = []
        self._inputs, self._format, self._fields = inputs, format, tuple(fields)
        self._strict, self._rejects, self._progress = strict, rejects, progress
        self._started = self._reported = time.monotonic()
        self._done_bytes, self._total_bytes = 0, inputs.total_bytes()

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The fields of each good line. Raises InputError, RejectedLineError."""
        for _, batches, _ in self._scanned(_ALL if self._rejects else 1):
            for batch in batches:
                columns = [
                    _values(column, field) for column, field in zip(batch.columns, self._fields, strict=True)
                ]
                yield from zip(*columns, strict=True)

    def documents(self) -> Iterator[bytes]:
        """Each good line of a log of JSON documents, without the blanks between its values. Raises as `rows`."""
        for block, _, rejected in self._scanned(_ALL):
            start = 0
            for line in block.data[: block.stop].split(b"\n"):
                if start not in rejected and start < block.stop:
                    yield compact(line) + b"\n"
                start += len(line) + 1

    def _scanned(self, samples_max: int) -> Iterator[tuple[Block, list[Any], set[int]]]:
        """(block, its batches, offsets of its rejected lines: at least the first `samples_max`)."""
        names = [field.source for field in self._fields]
        for path in self._inputs.paths:
            scanner = SourceScanner(self._format, names, samples_max)
            lines_before = 0
            with self._inputs.open(path) as file:
                for block in file.blocks():
                    batches = scanner.feed(block.data, 0, block.stop)
                    rejects = [reject for batch in batches for reject in batch.samples]
                    for batch in batches:
                        self.counts.add(batch)
                    self._note(path, block, rejects, lines_before)
                    lines_before += sum(batch.lines for batch in batches)
                    yield block, batches, {reject.offset for reject in rejects}
                    self._report(path, self._done_bytes + file.done_bytes)
                self._done_bytes += file.done_bytes

    def _report(self, path: str, done_bytes: int) -> None:
        """Calls the progress callback, at most ten times a second."""
        now = time.monotonic()
        if self._progress is None or now - self._reported < PROGRESS_INTERVAL_S:
            return
        self._reported = now
        self._progress(Progress(done_bytes, self._total_bytes, self.counts.lines, now - self._started, path))

    def _note(self, path: str, block: Block, rejects: Sequence[Any], lines_before: int) -> None:
        for reject in rejects:
            text = block.data[reject.offset : reject.offset + reject.size]
            if self._rejects is not None:
                self._rejects.write(kept_line(text, reject.reason, reject.size + block.skipped))
            if not self.samples:
                line = lines_before + block.data.count(b"\n", 0, reject.offset) + 1
                place = block.offset + reject.offset
                cut = text[:SAMPLE_BYTES_MAX]
                size = reject.size + block.skipped
                self.samples.append(RejectSample(path, line, place, reject.reason, reject.position, cut, size))
            if self._strict:
                raise RejectedLineError(self.samples[0])


def _values(column: Any, field: RecordField) -> list[Any]:
    kind = field.type.kind
    values: list[Any] = column.to_list(field.type.scale if kind is Kind.DECIMAL else -1)
    if kind is Kind.TIMESTAMP:
        times: dict[int | None, datetime | None] = {micros: time_of(micros) for micros in set(values)}
        return [times[micros] for micros in values]
    return values


_LONE_BYTE = re.compile("[\udc80-\udcff]")


def compact(document: bytes) -> bytes:
    """A JSON document in one line without blanks, its numbers and strings as they were written; a byte that is no UTF-8
    becomes `\\\\xHH`, as in the fields of a query."""
    try:
        document.decode()
    except UnicodeDecodeError:
        text = document.decode("utf-8", "surrogateescape")
        document = _LONE_BYTE.sub(lambda match: f"\\\\x{ord(match[0]) - 0xDC00:02X}", text).encode()
    return msgspec.json.format(document, indent=-1)
