"""Runs the expressions of a plan over blocks of rows.

An `Evaluator` is prepared once: equal subtrees become one instruction, literals become constants, patterns
are compiled, and what is constant is evaluated. A block then costs a flat list of instructions, each of
which runs a kernel over all rows; Python's share is about a microsecond an instruction.

Arguments that a row does not need (docs/EXPRESSIONS.md) are evaluated with the others where they cannot
fail. Where they can, or are slow, a *mask* says which rows ask for them: a failure elsewhere is not
counted, a slow function does not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cython_ext.column import Column
from cython_ext.exprs_result import Failures
from job.evaluation_kernels import FUNCTIONS, SLOW_FUNCTIONS, is_slow
from job.evaluation_program import Compiler, Registers
from job.plan import Expr
from job.types import Kind

__all__ = ["FUNCTIONS", "SLOW_FUNCTIONS", "Evaluator", "is_slow"]


class Evaluator:
    """Evaluates `expressions` over blocks. Not thread-safe.

    `guards[i]`, where given, is the index of a BOOLEAN expression: expression i is asked for only where
    that one is true, as the input of an aggregate is by its FILTER. Raises JobError for functions or
    patterns that cannot be evaluated.
    """

    def __init__(self, expressions: Sequence[Expr], guards: Sequence[int | None] = ()) -> None:
        self._failures = Failures()
        program = Compiler(self._failures)
        roots = [program.node_of(expression) for expression in expressions]
        asked = list(guards) + [None] * (len(roots) - len(guards))
        for root, guard in zip(roots, asked, strict=True):
            if guard is None:
                program.hoist(root)
        self._results = [
            program.emit(root, program.guard(roots[guard]) if guard is not None else None)
            for root, guard in zip(roots, asked, strict=True)
        ]
        self._steps = program.steps
        self._columns = [(ref.name, ref.type.kind, register) for ref, register in program.columns.items()]
        self._constants = list(program.constants.items())
        self._registers: Registers = [Column.from_list(Kind.NULL, [])] * program.size
        self._rows = -1

    @property
    def eval_errors(self) -> int:
        """Calls that failed, summed over the rows since construction. An expression written twice counts
        once."""
        return self._failures.count

    @property
    def instruction_count(self) -> int:
        """How many kernels run per block."""
        return len(self._steps)

    def run(self, columns: Mapping[str, Column], rows: int) -> list[Column]:
        """One column of `rows` rows per expression. `columns` must hold every field the expressions name.

        Raises KeyError for a missing field, TypeError for one of another kind, ValueError for one of
        another length.
        """
        registers = self._registers
        if rows != self._rows:
            for register, value in self._constants:
                registers[register] = value.repeat(rows)
            self._rows = rows
        for name, kind, register in self._columns:
            column = columns[name]
            if column.kind != kind:
                raise TypeError(f"field {name} is a column of kind {column.kind}, not {kind}")
            if column.length != rows:
                raise ValueError(f"field {name} has {column.length} rows, not {rows}")
            registers[register] = column
        for step in self._steps:
            step(registers)
        return [registers[register] for register in self._results]
