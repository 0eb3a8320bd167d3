"""From expressions to a flat list of steps over numbered registers: what an `Evaluator` runs for each
block."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cython_ext import exprs_logic
from cython_ext.column import Column
from cython_ext.exprs_result import Failures
from job.errors import JobError
from job.evaluation_kernels import LAZY_FUNCTIONS, Kernel, kernel_for
from job.evaluation_values import constant
from job.literal_values import value_of
from job.plan import Call, ColumnRef, Expr, Literal
from job.types import Kind

Registers = list[Column]
Step = Callable[[Registers], None]


class Node(NamedTuple):
    """A distinct subtree."""

    expr: Expr
    kernel: Kernel | None
    """None for columns, literals and the lazy functions."""
    inputs: tuple[int, ...]
    careful: bool
    """Something in the subtree may fail or is slow: it matters which rows ask for it."""
    lazy: bool
    """The subtree holds a lazy function with a careful argument."""


class Compiler:
    """Collects distinct subtrees (`node_of`) and emits steps for them, under masks or without.

    A mask is the register of a BOOLEAN column that marks the rows that ask for a value; None means all
    rows. A value computed under a mask serves every mask below it.
    """

    def __init__(self, failures: Failures) -> None:
        self.failures = failures
        self.steps: list[Step] = []
        self.columns: dict[ColumnRef, int] = {}
        self.constants: dict[int, Column] = {}
        self.size = 0
        self._nodes: list[Node] = []
        self._node_ids: dict[tuple[object, ...], int] = {}
        self._emitted: dict[tuple[int, int | None], int] = {}
        self._parents: dict[int, int | None] = {}
        self._masks: dict[tuple[int | None, int, int], int] = {}

    # --- subtrees ---

    def node_of(self, expr: Expr) -> int:
        """The number of a subtree; equal subtrees have equal numbers. O(size)."""
        if isinstance(expr, Call):
            kernel = None if expr.function in LAZY_FUNCTIONS else kernel_for(expr)
            arguments = expr.arguments if kernel is None else kernel.inputs
            # Literals that the kernel has read already are no inputs, but part of what the call is.
            inputs = tuple(self.node_of(argument) for argument in arguments)
            literals = tuple(_key(a) if isinstance(a, Literal) else None for a in expr.arguments)
            key: tuple[object, ...] = (expr.function, inputs, literals, expr.type)
        elif expr.type.kind > Kind.TIMESTAMP:
            raise JobError(f"{expr.type} is put together from columns, not evaluated over rows")
        else:
            kernel, inputs, key = None, (), (_key(expr),)
        number = self._node_ids.get(key)
        if number is None:
            number = self._node_ids[key] = len(self._nodes)
            below = [self._nodes[i] for i in inputs]
            careful = any(node.careful for node in below)
            lazy = any(node.lazy for node in below) or (kernel is None and careful)
            if kernel is not None:
                careful = careful or kernel.fails or kernel.slow
            self._nodes.append(Node(expr, kernel, inputs, careful, lazy))
        return number

    # --- steps ---

    def hoist(self, number: int) -> None:
        """Emit what all rows ask for, so that lazy arguments elsewhere find it done and no failure counts
        twice."""
        node = self._nodes[number]
        if not node.careful:
            return
        if not node.lazy:
            self.emit(number, None)
            return
        # Of a lazy function, all rows ask for its first argument only.
        for below in node.inputs[:1] if node.kernel is None else node.inputs:
            self.hoist(below)

    def guard(self, number: int) -> int:
        """The mask of the rows where a BOOLEAN subtree is true."""
        return self._mask(None, self.emit(number, None), exprs_logic.TEST_TRUE)

    def emit(self, number: int, mask: int | None) -> int:
        """The register that holds a subtree's value in the rows of `mask`."""
        node = self._nodes[number]
        if not node.careful:
            mask = None
        done = self._done(number, mask)
        if done is None:
            done = self._emitted[number, mask] = self._emit(node, mask)
        return done

    def _done(self, number: int, mask: int | None) -> int | None:
        while (number, mask) not in self._emitted and mask is not None:
            mask = self._parents[mask]
        return self._emitted.get((number, mask))

    def _emit(self, node: Node, mask: int | None) -> int:
        if isinstance(node.expr, ColumnRef):
            return self.columns.setdefault(node.expr, self._new())
        if isinstance(node.expr, Literal):
            return self._constant(constant(value_of(node.expr), node.expr.type))
        if node.kernel is not None:
            return self._emit_kernel(node.kernel, [self.emit(i, mask) for i in node.inputs], mask)
        if node.expr.function in ("and", "or"):
            return self._emit_logic(node, mask)
        emit = self._emit_case if node.expr.function == "case" else self._emit_coalesce
        return emit(node, mask)

    def _new(self) -> int:
        self.size += 1
        return self.size - 1

    def _constant(self, column: Column) -> int:
        register = self._new()
        self.constants[register] = column
        return register

    def _emit_kernel(self, kernel: Kernel, inputs: list[int], mask: int | None) -> int:
        if inputs and all(register in self.constants for register in inputs):
            trial = Failures()
            column = kernel.run([self.constants[register] for register in inputs], trial)
            if trial.count == 0:
                return self._constant(column)
        out = self._new()
        self.steps.append(_kernel_step(kernel, inputs, out, mask, self.failures))
        return out

    def _apply(self, run: Callable[[list[Column]], Column], inputs: list[int]) -> int:
        """A register for what a kernel without failures makes of others."""
        return self._emit_kernel(Kernel(lambda columns, failures: run(list(columns)), ()), inputs, None)

    def _mask(self, parent: int | None, register: int, test: int) -> int:
        """The mask of the rows of `parent` that pass a test; equal ones are made once."""
        key = (parent, register, test)
        if key not in self._masks:
            out = self._masks[key] = self._new()
            self._parents[out] = parent
            self.steps.append(_mask_step(parent, register, test, out))
        return self._masks[key]

    def _any_careful(self, numbers: tuple[int, ...]) -> bool:
        return any(self._nodes[number].careful for number in numbers)

    def _emit_logic(self, node: Node, mask: int | None) -> int:
        assert isinstance(node.expr, Call)
        conjunction = node.expr.function == "and"
        connect = exprs_logic.logical_and if conjunction else exprs_logic.logical_or
        undecided = exprs_logic.TEST_NOT_FALSE if conjunction else exprs_logic.TEST_NOT_TRUE
        result = self.emit(node.inputs[0], mask)
        for number in node.inputs[1:]:
            asked = mask
            if self._nodes[number].careful:
                asked = self._mask(mask, result, undecided)
            result = self._apply(lambda c: connect(c[0], c[1]), [result, self.emit(number, asked)])
        return result

    def _emit_case(self, node: Node, mask: int | None) -> int:
        conditions: list[int] = []
        values: list[int] = []
        asked = mask
        arms = len(node.inputs) // 2
        for arm in range(arms):
            condition, value = node.inputs[2 * arm : 2 * arm + 2]
            conditions.append(self.emit(condition, asked))
            taken = asked
            if self._nodes[value].careful:
                taken = self._mask(asked, conditions[-1], exprs_logic.TEST_TRUE)
            values.append(self.emit(value, taken))
            if self._any_careful(node.inputs[2 * arm + 2 :]):
                asked = self._mask(asked, conditions[-1], exprs_logic.TEST_NOT_TRUE)
        if len(node.inputs) % 2:
            values.append(self.emit(node.inputs[-1], asked))
        return self._apply(lambda c: exprs_logic.choose(c[:arms], c[arms:]), conditions + values)

    def _emit_coalesce(self, node: Node, mask: int | None) -> int:
        values = [self.emit(node.inputs[0], mask)]
        asked = mask
        for at in range(1, len(node.inputs)):
            if self._any_careful(node.inputs[at:]):
                asked = self._mask(asked, values[-1], exprs_logic.TEST_NULL)
            values.append(self.emit(node.inputs[at], asked))
        return self._apply(exprs_logic.coalesce, values)


def _key(expr: Expr) -> object:
    """What tells literals apart: -0.0 from 0.0 too, and two NaNs not."""
    return ("literal", repr(expr.value), expr.type) if isinstance(expr, Literal) else expr


def _kernel_step(kernel: Kernel, inputs: list[int], out: int, mask: int | None, failures: Failures) -> Step:
    run = kernel.run
    if not kernel.fails and not kernel.slow:

        def step(registers: Registers) -> None:
            registers[out] = run([registers[i] for i in inputs], failures)
    else:

        def step(registers: Registers) -> None:
            failures.mask = None if mask is None else registers[mask]
            registers[out] = run([registers[i] for i in inputs], failures)

    return step


def _mask_step(parent: int | None, register: int, test: int, out: int) -> Step:
    def step(registers: Registers) -> None:
        above = None if parent is None else registers[parent]
        registers[out] = exprs_logic.rows_where(above, registers[register], test)

    return step
