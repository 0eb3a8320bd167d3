"""The evaluator: what it evaluates, for which rows, how often, and what it refuses."""

from __future__ import annotations

import sys

import pytest

from cython_ext import reference
from cython_ext.column import Column
from job.errors import JobError
from job.evaluate import FUNCTIONS, SLOW_FUNCTIONS, Evaluator, is_slow
from job.functions import FUNCTIONS as TYPED_FUNCTIONS
from job.functions import can_fail
from job.functions import is_slow as typed_is_slow
from job.plan import Call, ColumnRef, Expr, Literal
from job.row_evaluation import RowEvaluator
from job.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, WINDOW, Kind, Type, decimal
from tests.expression_cases import evaluate

A, B = ColumnRef("a", BIGINT), ColumnRef("b", BIGINT)
TEXT = ColumnRef("s", STRING)


def longs(*values: int | None) -> Column:
    return Column.from_list(Kind.BIGINT, values)


def texts(*values: str | None) -> Column:
    return Column.from_list(Kind.STRING, values)


def call(function: str, type_: Type, *arguments: Expr) -> Call:
    return Call(function, arguments, type_)


def number(value: int) -> Literal:
    return Literal(value, BIGINT)


QUOTIENT = call("int_div", BIGINT, A, B)
LARGE = call("gt", BOOLEAN, QUOTIENT, number(1))


def test_the_tables_agree() -> None:
    """The SQL front end types what this evaluates, and the reference knows all of it."""
    assert set(TYPED_FUNCTIONS) == FUNCTIONS | {"array"}
    assert set(reference.FUNCTIONS) == FUNCTIONS
    assert {name for name, function in TYPED_FUNCTIONS.items() if function.slow} == SLOW_FUNCTIONS


def test_what_fails_here_can_fail_there() -> None:
    """A call of which the front end knows that it cannot fail does not fail over any rows either."""
    zero = Column.from_list(Kind.BIGINT, [0, 2**63 - 1, -(2**63), None])
    for function in ("add", "sub", "mul", "int_div", "mod", "neg", "abs"):
        arguments = (A,) if function in ("neg", "abs") else (A, A)
        _, errors = evaluate([call(function, BIGINT, *arguments)], 4, a=zero)
        assert errors == 0 or can_fail(call(function, BIGINT, *arguments))


def test_equal_subtrees_run_once() -> None:
    again = call("int_div", BIGINT, ColumnRef("a", BIGINT), ColumnRef("b", BIGINT))
    evaluator = Evaluator([QUOTIENT, call("add", BIGINT, again, again)])
    assert evaluator.instruction_count == 2
    evaluator.run({"a": longs(1, 1), "b": longs(0, 1)}, 2)
    assert evaluator.eval_errors == 1


def test_literals_are_folded() -> None:
    hour = call("date_trunc", TIMESTAMP, Literal("HOUR", STRING), Literal(3_600_000_001, TIMESTAMP))
    evaluator = Evaluator([hour])
    assert evaluator.instruction_count == 0
    column = evaluator.run({}, 3)[0]
    assert (column.constant, column.to_list()) == (True, [3_600_000_000] * 3)


def test_a_constant_that_fails_fails_in_every_row() -> None:
    values, errors = evaluate([call("int_div", BIGINT, number(1), number(0))], 3)
    assert (values, errors) == ([[None] * 3], 3)


def test_literals_that_look_equal_are_not() -> None:
    plus, minus = (call("cast", STRING, Literal(value, DOUBLE)) for value in (0.0, -0.0))
    assert evaluate([plus, minus], 1)[0] == [["0.0"], ["-0.0"]]
    yes, one = call("cast", STRING, Literal(True, BOOLEAN)), call("cast", STRING, number(1))
    assert evaluate([yes, one], 1)[0] == [["true"], ["1"]]


def test_and_asks_the_second_only_where_the_first_is_not_false() -> None:
    guarded = call("and", BOOLEAN, call("ne", BOOLEAN, B, number(0)), LARGE)
    values, errors = evaluate([guarded], 4, a=longs(4, 4, 4, 1), b=longs(2, 0, None, 1))
    assert (values, errors) == ([[True, False, None, False]], 0)
    backwards = call("and", BOOLEAN, LARGE, call("ne", BOOLEAN, B, number(0)))
    assert evaluate([backwards], 2, a=longs(4, 4), b=longs(2, 0)) == ([[True, False]], 1)


def test_or_asks_the_second_only_where_the_first_is_not_true() -> None:
    guarded = call("or", BOOLEAN, call("eq", BOOLEAN, B, number(0)), LARGE)
    assert evaluate([guarded], 3, a=longs(4, 4, 1), b=longs(2, 0, 1)) == ([[True, True, False]], 0)


def test_case_and_coalesce_ask_what_they_need() -> None:
    zero = call("eq", BOOLEAN, B, number(0))
    case = call("case", BIGINT, zero, number(-1), QUOTIENT)
    assert evaluate([case], 2, a=longs(4, 4), b=longs(2, 0)) == ([[2, -1]], 0)
    coalesce = call("coalesce", BIGINT, A, QUOTIENT, number(7))
    assert evaluate([coalesce], 2, a=longs(4, None), b=longs(0, 0)) == ([[4, 7]], 0)
    nested = call("case", BIGINT, zero, call("coalesce", BIGINT, A, QUOTIENT), number(1))
    assert evaluate([nested], 2, a=longs(None, 3), b=longs(0, 0)) == ([[None, 3]], 0)


def test_what_all_rows_ask_for_is_counted_once() -> None:
    """The lazy use comes first in the list, but finds the value that all rows asked for."""
    lazy = call("case", BIGINT, call("eq", BOOLEAN, A, number(4)), QUOTIENT, number(0))
    assert evaluate([lazy, QUOTIENT], 2, a=longs(4, 5), b=longs(0, 0)) == ([[None, 0], [None, None]], 2)
    assert evaluate([lazy], 2, a=longs(4, 5), b=longs(0, 0)) == ([[None, 0]], 1)


def test_slow_functions_run_only_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = reference.FUNCTIONS["url_decode"]

    def spy(types: object, result: object, values: list[str]) -> object:
        seen.extend(values)
        return real(types, result, values)  # type: ignore[arg-type]

    monkeypatch.setitem(reference.FUNCTIONS, "url_decode", spy)
    decoded = call("eq", BOOLEAN, call("url_decode", STRING, TEXT), Literal("a b", STRING))
    where = call("and", BOOLEAN, call("gt", BOOLEAN, A, number(1)), decoded)
    columns = {"a": longs(2, 0, 2, 2), "s": texts("a+b", "%", "a+b", "x")}
    values, errors = evaluate([where], 4, **columns)
    assert (values, errors) == ([[True, False, True, False]], 0)
    assert sorted(seen) == ["a+b", "x"]


def test_guards_say_which_rows_ask() -> None:
    guard = call("ne", BOOLEAN, B, number(0))
    evaluator = Evaluator([guard, QUOTIENT], guards=[None, 0])
    out = evaluator.run({"a": longs(4, 4), "b": longs(2, 0)}, 2)
    assert (out[1].to_list()[0], evaluator.eval_errors) == (2, 0)
    assert Evaluator([guard, QUOTIENT]).run({"a": longs(4, 4), "b": longs(2, 0)}, 2)[1].to_list() == [2, None]


def test_blocks_of_changing_size() -> None:
    evaluator = Evaluator([call("add", BIGINT, A, number(1)), number(5), A])
    for rows in (3, 0, 1, 3):
        column = longs(*range(rows))
        expected = [[row + 1 for row in range(rows)], [5] * rows, list(range(rows))]
        assert [c.to_list() for c in evaluator.run({"a": column}, rows)] == expected


def test_fields_are_checked() -> None:
    evaluator = Evaluator([call("add", BIGINT, A, B)])
    with pytest.raises(KeyError, match="b"):
        evaluator.run({"a": longs(1)}, 1)
    with pytest.raises(TypeError, match="field b is a column of kind 5"):
        evaluator.run({"a": longs(1), "b": texts("x")}, 1)
    with pytest.raises(ValueError, match="field b has 2 rows, not 1"):
        evaluator.run({"a": longs(1), "b": longs(1, 2)}, 1)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (call("array", Type(Kind.ARRAY), A), "no function 'array'"),
        (ColumnRef("window", WINDOW), "put together from columns"),
        (call("like", BOOLEAN, TEXT, Literal("a\\b", STRING), Literal("\\", STRING)), "must stand before"),
        (call("like", BOOLEAN, TEXT, TEXT), "argument 2 of like must be a text literal"),
        (call("date_trunc", TIMESTAMP, Literal("hour", STRING), ColumnRef("t", TIMESTAMP)), "not 'hour'"),
        (call("round", BIGINT, A, B), "argument 2 of round"),
        (call("cast", TIMESTAMP, ColumnRef("x", BOOLEAN)), "BOOLEAN does not convert to TIMESTAMP"),
        (call("nonsense", BIGINT, A), "no function 'nonsense'"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_when_prepared(expression: Expr, message: str) -> None:
    with pytest.raises(JobError, match=message):
        Evaluator([expression])


def test_a_bad_regular_expression_is_refused() -> None:
    pytest.importorskip("re2", reason="google-re2 is not installed")
    with pytest.raises(JobError, match="regular expression"):
        Evaluator([call("rlike", BOOLEAN, TEXT, Literal("(", STRING))])


def test_without_re2_the_advice_is_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from cython_ext import reference_text

    reference_text.regular_expression.cache_clear()
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(JobError, match=r"pip install elfstream\[regex\]"):
        Evaluator([call("rlike", BOOLEAN, TEXT, Literal("unheard of", STRING))])


def test_slow_calls_are_known() -> None:
    amount = decimal(10, 2)
    assert is_slow(call("rlike", BOOLEAN, TEXT, Literal("x", STRING)))
    assert is_slow(call("cast", amount, ColumnRef("x", DOUBLE)))
    assert not is_slow(call("cast", STRING, ColumnRef("x", DOUBLE)))
    assert is_slow(call("round", DOUBLE, ColumnRef("x", DOUBLE), number(1)))
    assert not is_slow(call("round", amount, ColumnRef("x", amount), number(1)))
    assert not is_slow(call("cast", BIGINT, TEXT))


@pytest.mark.parametrize("target", [BOOLEAN, BIGINT, DOUBLE, STRING, TIMESTAMP, decimal(10, 2)], ids=str)
@pytest.mark.parametrize("source", [BOOLEAN, BIGINT, DOUBLE, STRING, TIMESTAMP, decimal(10, 2)], ids=str)
def test_what_explain_calls_slow_is_slow(source: Type, target: Type) -> None:
    cast = call("cast", target, ColumnRef("x", source))
    assert typed_is_slow(cast) == is_slow(cast)


def test_row_by_row_counts_the_same() -> None:
    lazy = call("and", BOOLEAN, call("ne", BOOLEAN, B, number(0)), LARGE)
    rows = RowEvaluator()
    assert rows.run([lazy, QUOTIENT], {"a": 4, "b": 0}) == [False, None]
    assert rows.eval_errors == 1
