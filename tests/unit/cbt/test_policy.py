"""Decisions over sizes: when trees pass on, merge, split, compress and spill."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cbt.errors import OptionsError
from cbt.options import BudgetOptions, Options
from cbt.policy import (
    Pressure,
    inner_cuts,
    inner_is_due,
    leaf_cuts,
    leaf_is_due,
    pressure,
    refuse_at,
    relief_target,
    table_bytes,
)

OPTIONS = Options(leaf_bytes_max=1000, block_bytes=100, slice_bytes=10, fanout_max=4, pending_runs_max=5)
CAPPED = BudgetOptions(memory_max=1000, compress_share=0.5, spill_share=0.8, table_bytes_min=2)


def test_pressure_rises_with_what_is_used() -> None:
    assert [pressure(CAPPED, used) for used in (0, 499, 500, 799, 800, 5000)] == [0, 0, 1, 1, 2, 2]
    assert pressure(BudgetOptions(memory_max=None), 1 << 60) is Pressure.CALM


@pytest.mark.parametrize("level", [Pressure.TIGHT, Pressure.FULL])
def test_relief_ends_below_where_it_begins(level: Pressure) -> None:
    assert pressure(CAPPED, relief_target(CAPPED, level)) < level


def test_tables_share_an_eighth_of_the_cap() -> None:
    assert table_bytes(OPTIONS, BudgetOptions(memory_max=None), 1000) == OPTIONS.table_bytes_max
    assert [table_bytes(OPTIONS, CAPPED, trees) for trees in (0, 1, 5, 1000)] == [125, 125, 25, 2]


def test_inner_nodes_wait_for_a_piece_per_child() -> None:
    assert not inner_is_due(OPTIONS, 39, 1, 4)
    assert inner_is_due(OPTIONS, 40, 1, 4)
    assert inner_is_due(OPTIONS, 0, 6, 4)


def test_leaves_wait_for_as_much_as_they_have() -> None:
    assert not leaf_is_due(OPTIONS, 0, 249, 2, False, 0.5)
    assert leaf_is_due(OPTIONS, 0, 250, 2, False, 0.5)
    assert not leaf_is_due(OPTIONS, 800, 999, 2, False, 0.5)
    assert leaf_is_due(OPTIONS, 800, 1000, 2, False, 0.5)
    assert not leaf_is_due(OPTIONS, 800, 1199, 2, True, 0.5)
    assert leaf_is_due(OPTIONS, 800, 1200, 2, True, 0.5)
    assert leaf_is_due(OPTIONS, 800, 0, 6, False, 0.5)


def test_leaves_whose_groups_never_come_again_wait_longer() -> None:
    wait = 4 * OPTIONS.leaf_bytes_max
    assert leaf_is_due(OPTIONS, 800, 1000, 2, False, 0.89)
    assert not leaf_is_due(OPTIONS, 800, wait - 1, 2, False, 0.9)
    assert leaf_is_due(OPTIONS, 800, wait, 2, False, 0.9)
    assert leaf_is_due(OPTIONS, 800, 0, 6, False, 1.0)


@pytest.mark.parametrize("total", [1001, 1500, 2000, 7000])
def test_split_leaves_have_room_to_grow(total: int) -> None:
    sizes = [100] * (total // 100) + [total % 100 or 100]
    bounds = [0, *leaf_cuts(OPTIONS, sizes), len(sizes)]
    parts = [sum(sizes[a:b]) for a, b in pairwise(bounds)]
    assert len(parts) >= 2
    assert all(0 < part <= 600 for part in parts)


def test_what_need_not_be_split() -> None:
    assert leaf_cuts(OPTIONS, [100] * 10) == []
    assert leaf_cuts(OPTIONS, [5000]) == []
    assert inner_cuts(OPTIONS, 4) == []


@pytest.mark.parametrize("children", [5, 6, 9, 100])
def test_split_inner_nodes_keep_to_the_fanout(children: int) -> None:
    bounds = [0, *inner_cuts(OPTIONS, children), children]
    parts = [b - a for a, b in pairwise(bounds)]
    assert all(1 <= part <= OPTIONS.fanout_max for part in parts)


def test_options_name_all_their_problems() -> None:
    with pytest.raises(OptionsError) as raised:
        Options(block_bytes=0, fanout_max=1, pending_ratio=-1.0, leaf_bytes_max=1)
    for name in ("block_bytes", "fanout_max", "pending_ratio", "leaf_bytes_max"):
        assert name in str(raised.value)
    with pytest.raises(OptionsError, match="memory_max is 0; compress_share"):
        BudgetOptions(memory_max=0, compress_share=0.9, spill_share=0.8)
    with pytest.raises(OptionsError, match="spill_max"):
        BudgetOptions(spill_max=-1)
    assert Options.tiny().fanout_max < Options().fanout_max


def test_the_trees_that_fill_the_memory_are_refused_first() -> None:
    assert refuse_at(CAPPED, 2000, 1500, 3) == CAPPED.memory_max
    assert refuse_at(CAPPED, 2000, 1000, 2) == CAPPED.memory_max
    assert refuse_at(CAPPED, 2000, 999, 2) == 1.0625 * (CAPPED.memory_max or 0)
