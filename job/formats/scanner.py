"""Scanning one file: blocks in, batches out, with the columns that the file's own #Fields lines name."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cython_ext.scan import Batch, Scanner
from job.errors import FormatError
from job.formats import w3c
from job.formats.format import Format, zoned
from job.formats.program import LineProgram, Program

SAMPLES_MAX = 8


class SourceScanner:
    """Scans the blocks of one file; every batch has the columns `wanted`, in that order.

    Columns that this file does not have are all NULL. One per file and thread: what a #Fields line says holds for the
    blocks fed after it. Raises FormatError for a wanted field that the format does not know.
    """

    def __init__(self, format: Format, wanted: Sequence[str], samples_max: int = SAMPLES_MAX) -> None:
        self.format = format
        fields = format.fields
        for name in wanted:
            if name not in fields and not format.open_fields:
                raise FormatError(f"format {format.name} has no field {name!r}; it has {', '.join(fields)}")
        self._wanted = [format.twins.get(name, name) for name in wanted]
        self._samples_max = samples_max
        self._use(format.program)

    @property
    def program(self) -> Program:
        """What the lines that follow are read with."""
        return self._program

    def feed(self, block: bytes, start: int = 0, stop: int = -1) -> list[Batch]:
        """Scans the whole lines of `block[start:stop]`; one batch for each stretch of lines with the same columns."""
        stop = len(block) if stop < 0 else stop
        batches = [self._scanner.scan(block, start, stop)]
        while (batch := batches[-1]).directive is not None:
            self._follow(batch.directive)
            if batch.consumed >= stop:
                break
            batches.append(self._scanner.scan(block, batch.consumed, stop))
        return batches

    def _follow(self, directive: bytes) -> None:
        try:
            program = w3c.compile_format(directive.decode("utf-8", "backslashreplace"))
        except FormatError:
            program = w3c.unread()  # columns nobody can name: the lines below are rejected, as above any #Fields line
        self._use(program)

    def _use(self, program: Program) -> None:
        self._program: Program = zoned(program, self.format.zone)
        full = _with_fields(self._program, self.format) if isinstance(self._program, LineProgram) else self._program
        self._scanner = Scanner(full, self._wanted, self._samples_max)


def _with_fields(program: LineProgram, format: Format) -> LineProgram:
    """`program` with all fields of `format`, which are NULL where no step writes them.

    A column of this file that has the name of a field but another type is not that field.
    """
    fields = {**program.fields, **format.program.fields}
    if fields == program.fields:
        return program
    other = {name for name, of in program.fields.items() if fields[name] != of}
    steps = tuple(
        replace(step, outputs=tuple(None if name in other else name for name in step.outputs))
        for step in program.steps
    )
    return replace(program, fields=fields, steps=steps)
