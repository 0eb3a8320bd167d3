"""The lines of a split as columns, with our scanner: what every task over logs does first. Needs no session.

However a file is cut, its splits together have the rows, the rejects and the directives of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agent.errors import InputError
from agent.files import Block, LogFile
from agent.line_counts import SAMPLE_BYTES_MAX, SAMPLES_MAX, LineCounts, RejectSample
from job.formats import Format, SourceScanner
from master.spark.splits import PROOF_BYTES, Split, proof_of

if TYPE_CHECKING:
    from cython_ext.column import Column
    from cython_ext.scan import Batch


class ScannedRows(NamedTuple):
    """The good lines of a block, at least one: `columns` by name of field, `rows` values each. Where the kernels are not
    compiled (`kernels.COMPILED`), columns are `cython_ext.reference_scanner.ListColumn`s."""

    columns: dict[str, Column]
    rows: int


class SplitScan:
    """The scan of one split. `counts` and `samples` (the first rejects) grow while it is iterated; for one pass.

    `wanted` are the fields to read; what is rejected does not depend on them. Raises FormatError for one that the format
    does not have, InputError while reading, also where the file is not what it was when the split was made.
    """

    def __init__(
        self, split: Split, format: Format, wanted: Sequence[str], samples_max: int = SAMPLES_MAX
    ) -> None:
        self.split = split
        self.counts = LineCounts()
        self.samples: list[RejectSample] = []
        self.places: list[tuple[int, int]] = []
        """Of each sample: its line in the split, from 1, and its size in bytes."""
        self.bytes = 0
        """Uncompressed, of the lines."""
        self.garbage = False
        """Whether bytes behind the end of compressed data were met, and ignored."""
        self._wanted = list(dict.fromkeys(wanted))
        self._samples_max = samples_max
        self._scanner = SourceScanner(format, self._wanted, samples_max)
        if split.directive:
            self._scanner.feed(split.directive)

    def __iter__(self) -> Iterator[ScannedRows]:
        split = self.split
        with LogFile(split.path) as file:
            self._check(file)
            blocks = file.blocks() if split.packed else file.section(split.start, split.stop, split.size_bytes)
            for block in blocks:
                lines, at = self.counts.lines, block.offset
                for batch in self._scanner.feed(block.data, 0, block.stop):
                    self.counts.add(batch)
                    self._sample(block, batch, lines)
                    if batch.rows:
                        yield ScannedRows(dict(zip(self._wanted, batch.columns, strict=True)), batch.rows)
                self.bytes += file.offset - at
            self.garbage = file.garbage

    def _check(self, file: LogFile) -> None:
        split = self.split
        changed = split.packed and file.size_bytes != split.size_bytes
        if changed or proof_of(file.packed_head(min(PROOF_BYTES, split.size_bytes))) != split.proof:
            raise InputError(split.path, "is another file than when the scan was planned; leave it be, and start again")

    def _sample(self, block: Block, batch: Batch, lines: int) -> None:
        for one in batch.samples[: self._samples_max - len(self.samples)]:
            text = block.data[one.offset : one.offset + min(one.size, SAMPLE_BYTES_MAX)]
            sample = RejectSample(self.split.path, block.offset + one.offset, one.reason, one.position, text)
            self.samples.append(sample)
            self.places.append((lines + block.data.count(b"\n", 0, one.offset) + 1, one.size + block.skipped))
