"""Runs in memory and on disk: blocks that know where their bytes are, and who pays for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Protocol

from cbt.codec import compress, expand
from cbt.spill import Extent, SpillFile
from cython_ext.run import RunShape, block_head, check_sum, compress_block, expand_block, expanded_size

BLOCK_OVERHEAD_BYTES = 420
"""What a block takes beside its bytes: the objects that refer to it, as measured. Many small blocks are mostly this."""

_moving = Lock()
"""Held while a block changes its place, never while bytes are made: trees of several threads may share a block."""


class Payer(Protocol):
    """Who is charged for the memory of blocks (cbt/budget.py)."""

    def charge(self, size: int) -> None: ...


class Block:
    """Groups of ascending hash: their bytes in memory, as they are or compressed, or on disk.

    What it stands for never changes, so trees and snapshots share blocks; where its bytes are does. Memory and disk are
    given back when the last reference goes.
    """

    __slots__ = ("_charged", "_data", "_extent", "_payer", "_spill", "first", "groups", "last", "raw_bytes", "settled")

    def __init__(self, data: bytes, payer: Payer) -> None:
        self._charged = 0
        self._payer = payer
        self._extent: Extent | None = None
        self._spill: SpillFile | None = None
        self.groups, self.first, self.last = block_head(data)
        self.raw_bytes = len(data)
        """Once no column is compressed; `data` is such."""
        self.settled = False
        """Compressed, or found not worth it."""
        self._data: bytes | None = data
        self._charge()

    def __del__(self) -> None:
        self._payer.charge(-self._charged)
        if self._extent is not None and self._spill is not None:
            self._spill.free(self._extent)

    def _charge(self) -> None:
        size = BLOCK_OVERHEAD_BYTES + (0 if self._data is None else len(self._data))
        self._payer.charge(size - self._charged)
        self._charged = size

    @property
    def memory_bytes(self) -> int:
        return 0 if self._data is None else len(self._data)

    @property
    def spilled_bytes(self) -> int:
        return 0 if self._extent is None else self._extent.size

    def stored(self) -> bytes:
        """The bytes as they are kept, compressed or not. Raises SpillError or RunError when the disk gives back others."""
        data = self._data
        if data is not None:
            return data
        if self._extent is None or self._spill is None:
            raise RuntimeError("a block without bytes")
        data = self._spill.read(self._extent)
        check_sum(data)
        return data

    def open(self, shape: RunShape) -> bytes:
        """The uncompressed bytes."""
        return expand_block(shape, self.stored(), expand)

    def compress(self, shape: RunShape) -> bool:
        """Compresses the block where it lies in memory as it is; whether that made it smaller."""
        plain = self._data
        if self.settled or plain is None:
            return False
        data = compress_block(shape, plain, compress)
        with _moving:
            if self._data is not plain:
                return False  # another tree has moved it meanwhile
            self._data = data
            self.settled = True
            self._charge()
        return len(data) < len(plain)

    def spill(self, spill: SpillFile) -> None:
        """Moves the bytes to disk. Raises SpillError, and then keeps them."""
        data = self._data
        if data is None:
            return
        extent = spill.write(data)
        with _moving:
            moved = self._data is data
            if moved:
                self._extent, self._spill = extent, spill
                self._data = None
                self._charge()
        if not moved:
            spill.free(extent)

    def check(self, shape: RunShape) -> None:
        """Raises RunError unless the head is that of the bytes."""
        data = self.stored()
        if block_head(data) != (self.groups, self.first, self.last) or expanded_size(shape, data) != self.raw_bytes:
            raise ValueError("a block has other bytes than it says")


class Run:
    """Blocks one behind the other in order of hash: each group once."""

    __slots__ = ("blocks", "groups", "raw_bytes")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.blocks = list(blocks)
        self.groups = sum(block.groups for block in self.blocks)
        self.raw_bytes = sum(block.raw_bytes for block in self.blocks)

    @property
    def spilled(self) -> bool:
        """Whether most of it is on disk: its first block is, for blocks go there one by one."""
        return bool(self.blocks) and self.blocks[0].spilled_bytes > 0


def opened(shape: RunShape, blocks: Iterable[Block]) -> Iterator[bytes]:
    """The uncompressed bytes of blocks, one at a time."""
    for block in blocks:
        yield block.open(shape)


def used_up(shape: RunShape, blocks: list[Block]) -> Iterator[bytes]:
    """The same of blocks that are not needed any more: each leaves the list, and gives its memory back, when it has been
    read. So what is merged is not in memory twice."""
    blocks.reverse()
    while blocks:
        yield blocks[-1].open(shape)
        blocks.pop()
