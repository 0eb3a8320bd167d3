"""Blocks: what they stand for stays while their place changes, also under the hands of two trees at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cbt.run
from cbt.aggregate import StateKind
from cbt.budget import Budget, Ledger
from cbt.codec import compress
from cbt.errors import RunError
from cbt.options import BudgetOptions
from cbt.run import BLOCK_OVERHEAD_BYTES, Block
from cbt.spill import SpillFile
from cython_ext.column import Column
from cython_ext.groups import GroupTable
from cython_ext.merge import SortedTable
from cython_ext.run import RunShape, is_compressed
from job.types import Kind


@pytest.fixture(name="shape")
def a_shape() -> RunShape:
    return RunShape(GroupTable([Kind.BIGINT], [StateKind.COUNT]))


@pytest.fixture(name="data")
def some_data(shape: RunShape) -> bytes:
    table = GroupTable([Kind.BIGINT], [StateKind.COUNT])
    table.update([Column.from_list(Kind.BIGINT, list(range(500)))], [None], [None], 500)
    data = SortedTable(shape, table).next_block(1 << 20)
    assert data is not None
    return data


def between(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Has another thread's `action` fall into the next compression."""

    def slow(column: Any) -> bytes:
        monkeypatch.setattr(cbt.run, "compress", compress)
        action()
        return compress(column)

    monkeypatch.setattr(cbt.run, "compress", slow)


def test_two_trees_may_compress_a_block_at_once(
    shape: RunShape, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(Budget(BudgetOptions()))
    held = [Block(data, ledger)]
    between(monkeypatch, lambda: held[0].compress(shape))
    assert not held[0].compress(shape)
    assert is_compressed(shape, held[0].stored())
    assert ledger.used_bytes == held[0].memory_bytes + BLOCK_OVERHEAD_BYTES < len(data)
    assert held[0].open(shape) == data
    held.clear()
    assert ledger.used_bytes == 0


def test_one_tree_may_spill_what_another_compresses(
    shape: RunShape, data: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ledger, spill = Ledger(Budget(BudgetOptions())), SpillFile(str(tmp_path))
    held = [Block(data, ledger)]
    between(monkeypatch, lambda: held[0].spill(spill))
    held[0].compress(shape)
    assert held[0].memory_bytes == 0
    assert ledger.used_bytes == BLOCK_OVERHEAD_BYTES
    assert held[0].open(shape) == data
    held.clear()
    spill.check()
    assert (spill.length, ledger.used_bytes) == (0, 0)
    spill.close()


def test_two_trees_may_spill_a_block_at_once(
    shape: RunShape, data: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ledger, spill = Ledger(Budget(BudgetOptions())), SpillFile(str(tmp_path))
    held = [Block(data, ledger)]
    write = spill.write

    def slow(content: bytes) -> Any:
        monkeypatch.undo()
        held[0].spill(spill)
        return write(content)

    monkeypatch.setattr(spill, "write", slow)
    held[0].spill(spill)
    spill.check()
    assert spill.bytes_used == held[0].spilled_bytes == len(data)
    assert held[0].open(shape) == data
    held.clear()
    spill.check()
    assert (spill.length, ledger.used_bytes) == (0, 0)
    spill.close()


def test_a_block_may_be_compressed_while_it_is_opened(
    shape: RunShape, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = Block(data, Ledger(Budget(BudgetOptions())))
    stored = block.stored

    def late(self: Block) -> bytes:
        monkeypatch.undo()
        block.compress(shape)
        return stored()

    monkeypatch.setattr(Block, "stored", late)
    assert block.open(shape) == data


def test_bytes_that_are_no_block_are_charged_to_nobody() -> None:
    ledger = Ledger(Budget(BudgetOptions()))
    with pytest.raises(RunError, match="are no block"):
        Block(b"short", ledger)
    assert ledger.used_bytes == 0
