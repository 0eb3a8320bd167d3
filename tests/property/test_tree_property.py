"""Trees against a dict and a plain group table: one history, many options, forced collisions.

All trees of a machine see the same rows, merges and runs under other options: a few groups per node, a cap of a few
kilobytes with and without a disk, the defaults. Their answers must be the same bytes.
"""

from __future__ import annotations

import gc
import random
import tempfile
from collections.abc import Callable
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cbt.aggregate import Finish, StateKind
from cbt.budget import Budget
from cbt.check import check
from cbt.node import HASH_END
from cbt.options import BudgetOptions, Options
from cbt.tree import Batch, Tree
from cython_ext.column import Column, Selection
from cython_ext.groups import GroupTable, _test_hash_bits
from job.types import Kind

KEYS = [Kind.STRING, Kind.BIGINT]
STATES = [
    StateKind.COUNT, StateKind.SUM, StateKind.SUM_DECIMAL_WIDE, StateKind.SUM_DOUBLE, StateKind.MIN_STRING,
    StateKind.MAX_DOUBLE, StateKind.MIN_BOOLEAN, StateKind.MAX_DECIMAL, StateKind.MIN_TIMESTAMP, StateKind.HLL_STRING,
    StateKind.QUANTILES_DOUBLE,
]  # fmt: skip
FINISHES: list[tuple[int, Finish]] = [
    (0, Finish.COUNT), (1, Finish.SUM), (1, Finish.COUNT), (2, Finish.SUM), (3, Finish.SUM), (3, Finish.AVG),
    (4, Finish.VALUE), (5, Finish.VALUE), (6, Finish.VALUE), (7, Finish.VALUE), (8, Finish.VALUE),
    (9, Finish.ESTIMATE), (10, Finish.QUANTILE), (10, Finish.COUNT),
]  # fmt: skip


class Row(NamedTuple):
    text: str | None
    whole: int | None
    decimal: int | None
    double: float | None
    flag: bool | None


FEW_ROWS = st.lists(
    st.builds(
        Row,
        st.one_of(st.none(), st.sampled_from(["", "a", "b", "ab", "c" * 130]), st.integers(0, 60).map(str)),
        st.one_of(st.none(), st.sampled_from([0, 1, -(2**63), 2**63 - 1]), st.integers(-300, 300)),
        st.one_of(st.none(), st.sampled_from([0, 10**38 - 1, -(10**38) + 1]), st.integers(-9, 9)),
        st.one_of(st.none(), st.sampled_from([0.0, 1e308, -1e308, 5e-324]), st.floats()),
        st.one_of(st.none(), st.booleans()),
    ),
    max_size=40,
)


def many_rows(seed: int, count: int) -> list[Row]:
    source = random.Random(seed)
    return [
        Row(
            source.choice([None, "", "c" * 130, *map(str, range(100))]),
            source.choice([None, 0, -(2**63), source.randrange(1000)]),
            source.choice([None, 10**38 - 1, source.randrange(-9, 9)]),
            source.choice([None, 1e308, -1e308, 5e-324, source.random()]),
            source.choice([None, True, False]),
        )
        for _ in range(count)
    ]


ROWS = st.one_of(FEW_ROWS, st.builds(many_rows, st.integers(0, 1 << 32), st.integers(1, 150)))


def feed(target: Tree | GroupTable, rows: list[Row], selection: Selection | None = None) -> None:
    text = Column.from_list(Kind.STRING, [row.text for row in rows])
    key = Column.from_list(Kind.BIGINT, [None if row.whole is None else row.whole % 3 for row in rows])
    whole = Column.from_list(Kind.BIGINT, [row.whole for row in rows])
    time = Column.from_list(Kind.TIMESTAMP, [row.whole for row in rows])
    decimal = Column.from_list(Kind.DECIMAL, [row.decimal for row in rows])
    double = Column.from_list(Kind.DOUBLE, [row.double for row in rows])
    flag = Column.from_list(Kind.BOOLEAN, [row.flag for row in rows])
    inputs = [None, whole, decimal, double, text, double, flag, decimal, time, text, double]
    masks = [None, None, flag, None, flag, None, None, None, flag, None, None]
    target.update([text, key], inputs, masks, len(rows), selection)


def canonical(tree: Tree) -> bytes | None:
    """All groups as one block: equal trees have equal bytes."""
    return tree.merger(0, HASH_END).next_block(1 << 30)


def answers(batch: Batch | GroupTable) -> dict[object, tuple[str, ...]]:
    columns = [
        batch.finish(state, how, 0.4 if how is Finish.QUANTILE else 0.0, 38, 0)[0].to_list()
        for state, how in FINISHES
    ]
    key_columns = batch.keys()
    keys = zip(*(column.to_list() for column in key_columns), strict=True)
    return {key: tuple(map(repr, values)) for key, *values in zip(keys, *columns, strict=True)}


def all_answers(batches: list[Batch]) -> dict[object, tuple[str, ...]]:
    found: dict[object, tuple[str, ...]] = {}
    for batch in batches:
        part = answers(batch)
        assert not part.keys() & found.keys(), "a group comes twice"
        found.update(part)
    return found


class Trees(RuleBasedStateMachine):
    @initialize(bits=st.sampled_from([64, 64, 5, 0]))
    def begin(self, bits: int) -> None:
        _test_hash_bits(bits)
        self.directory = tempfile.TemporaryDirectory()
        tight = BudgetOptions(memory_max=10 << 20, table_bytes_min=256, compress_share=0.0, spill_share=1.0)
        full = BudgetOptions(
            memory_max=30_000, table_bytes_min=256, compress_share=0.05, spill_share=0.1,
            spill_dir=self.directory.name,
        )  # fmt: skip
        self.budgets = [Budget(tight), Budget(full)]
        self.makers: list[Callable[[], Tree]] = [
            lambda: Tree(KEYS, STATES),
            lambda: Tree(KEYS, STATES, Options.tiny()),
            lambda: Tree(KEYS, STATES, Options(table_bytes_max=2000, block_bytes=300, leaf_bytes_max=1500)),
            lambda: Tree(KEYS, STATES, Options.tiny(), self.budgets[0]),
            lambda: Tree(KEYS, STATES, Options.tiny(), self.budgets[1]),
        ]
        self.trees = [make() for make in self.makers]
        self.others = [make() for make in self.makers]
        self.table = GroupTable(KEYS, STATES)
        self.other_table = GroupTable(KEYS, STATES)
        self.model: dict[object, int] = {}
        self.other_model: dict[object, int] = {}

    @rule(rows=ROWS)
    def update(self, rows: list[Row]) -> None:
        for tree in self.trees:
            feed(tree, rows)
        feed(self.table, rows)
        self._count(self.model, rows)

    @rule(rows=ROWS, data=st.data())
    def update_selected(self, rows: list[Row], data: st.DataObject) -> None:
        chosen = [i for i in range(len(rows)) if data.draw(st.booleans())]
        for tree in self.trees:
            feed(tree, rows, Selection.from_list(chosen))
        feed(self.table, rows, Selection.from_list(chosen))
        self._count(self.model, [rows[i] for i in chosen])

    @rule(rows=ROWS)
    def update_other(self, rows: list[Row]) -> None:
        for tree in self.others:
            feed(tree, rows)
        feed(self.other_table, rows)
        self._count(self.other_model, rows)

    @staticmethod
    def _count(model: dict[object, int], rows: list[Row]) -> None:
        for row in rows:
            key = (row.text, None if row.whole is None else row.whole % 3)
            model[key] = model.get(key, 0) + 1

    @rule()
    def merge(self) -> None:
        for tree, other in zip(self.trees, self.others, strict=True):
            before = canonical(other)
            tree.merge(other)
            assert canonical(other) == before
        self._merge_models()

    def _merge_models(self) -> None:
        self.table.merge(self.other_table)
        for key, count in self.other_model.items():
            self.model[key] = self.model.get(key, 0) + count

    @rule(shift=st.integers(0, 3))
    def exchange_runs(self, shift: int) -> None:
        """Runs made under one set of options go into trees of another."""
        for number, tree in enumerate(self.trees):
            for run in self.others[(number + shift) % len(self.others)].runs():
                tree.insert_run(run)
        self._merge_models()

    @rule(bound=st.integers(0, HASH_END))
    def split_and_join(self, bound: int) -> None:
        for number, make in enumerate(self.makers):
            tree = self.trees[number]
            low, high = tree.split(0, bound), tree.split(bound, HASH_END)
            check(low)
            check(high)
            joined = make()
            joined.merge(high)
            joined.merge(low)
            assert canonical(joined) == canonical(tree)
            assert len(list(low.batches(bound))) == 0
            self.trees[number] = joined

    @rule()
    def drain(self) -> None:
        for tree in self.trees:
            tree.drain()

    @rule()
    def give_way(self) -> None:
        for tree in self.trees:
            tree.compress(lambda: False)
            tree.spill(lambda: False)

    @rule(rows=ROWS)
    def snapshots_stand_still(self, rows: list[Row]) -> None:
        before = [all_answers(list(tree.batches())) for tree in self.trees]
        running = [tree.batches() for tree in self.trees]
        self.update(rows)
        self.give_way()
        assert [all_answers(list(batches)) for batches in running] == before

    @precondition(lambda self: len(self.model) > 30)
    @rule()
    def clear(self) -> None:
        for tree in self.trees:
            tree.clear()
            assert len(tree) == 0
        self.table = GroupTable(KEYS, STATES)
        self.model.clear()

    @invariant()
    def all_are_sound(self) -> None:
        for tree in (*self.trees, *self.others):
            check(tree)
            assert len(tree) >= len(list(tree.batches()))
        for budget in self.budgets:
            if budget.spill_file is not None:
                budget.spill_file.check()

    @invariant()
    def all_say_the_same(self) -> None:
        first, *rest = [canonical(tree) for tree in self.trees]
        assert all(found == first for found in rest)
        counted = GroupTable(KEYS, STATES)
        counted.merge(self.table)
        expected = answers(counted)
        assert {key: int(values[0]) for key, values in expected.items()} == self.model
        for tree in self.trees:
            assert all_answers(list(tree.batches())) == expected

    def teardown(self) -> None:
        if hasattr(self, "trees"):
            del self.trees, self.others
            gc.collect()
            for budget in self.budgets:
                assert budget.used_bytes == 0
                assert budget.tree_count == 0
                assert budget.spill_file is None or budget.spill_file.length == 0
                budget.close()
            self.directory.cleanup()
        _test_hash_bits()


TestTrees = Trees.TestCase
TestTrees.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)
