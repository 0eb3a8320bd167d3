"""Kernels that take short cuts, held against the plain reference: texts of DOUBLEs, regular expressions, selections and
comparisons with constants."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cython_ext import exprs_double, exprs_text, reference_text
from cython_ext.column import Column
from cython_ext.exprs_compare import EQ, GE, GT, LE, LT, NE, compare
from cython_ext.exprs_result import Failures
from cython_ext.reference_casts import double_text
from job.evaluation_kernels import kernel_for
from job.plan import Call, ColumnRef, Literal
from job.types import BIGINT, BOOLEAN, STRING, Kind

any_bits = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
subnormals = st.integers(1, 2**52 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
few_decimals = st.tuples(st.integers(-(10**16), 10**16), st.integers(0, 9)).map(lambda pair: pair[0] / 10 ** pair[1])
powers = st.tuples(st.integers(1, 99), st.integers(-326, 308)).map(lambda pair: float(f"{pair[0]}e{pair[1] - 1}"))
doubles = st.one_of(any_bits, subnormals, few_decimals, powers, st.floats(), st.integers(-(2**63), 2**63).map(float))


def doubles_of(values: list[float | None]) -> Column:
    return Column.from_list(Kind.DOUBLE, values)


@settings(max_examples=300)
@given(st.lists(doubles, max_size=40))
@example([0.0, -0.0, 1.0, 5e-324, 1e-323, 2e-323, 2.2250738585072014e-308, 1.7976931348623157e308, math.inf, -math.inf])
@example([1e-3, 9.999e-4, 0.001, 0.0015, 9999999.0, 1e7, 9999999.999, 12345678.9, 0.1, 0.3, 2.0**53, 1e15, 1e16, 123e-7])
@example([999999999999999.0, 99999999999999.9, 1e14 + 0.5, 0.1 + 0.2, 1 / 3, 2e-3, 9.5e-3, 1e22, 1e23, 4.35, 0.07])
def test_doubles_are_written_as_the_reference_writes_them(values: list[float]) -> None:
    assert exprs_double.to_string(doubles_of(list(values))).to_list() == [double_text(value) for value in values]


@given(st.lists(st.one_of(st.none(), doubles), max_size=20))
def test_the_text_of_a_double_reads_back(values: list[float | None]) -> None:
    texts = exprs_double.to_string(doubles_of(values)).to_list()
    for value, text in zip(values, texts, strict=True):
        if value is None:
            assert text is None
        else:
            assert float(text) == value or math.isnan(value)


PATTERNS = (
    "^/api/([^/]+)/",
    "/(\\d+)",
    "(a)|(b)|",
    "(?i)É.",
    "^$",
    "(x*)(y*)$",
    "([^/]*)/([^/]*)$",
    "\\bb\\b",
    "(é+)(😀)?",
    ".",
    "()",
    "(a{2,3}?)(a*)",
)
texts = st.one_of(
    st.none(),
    st.text(alphabet="abxy/é😀É0 \n", max_size=12),
    st.sampled_from(["/api/v2/orders/17", "/api//x", "/api/", ""]),
    st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=8),
)


def run(function: str, arguments: tuple[Any, ...], result: Any, column: Column, mask: list[bool] | None) -> list[Any]:
    kernel = kernel_for(Call(function, (ColumnRef("x", STRING), *arguments), result))
    failures = Failures()
    failures.mask = None if mask is None else Column.from_list(Kind.BOOLEAN, mask)
    answer = kernel.run([column], failures).to_list()
    assert failures.count == 0
    return answer


@given(st.data(), st.sampled_from(PATTERNS), st.lists(texts, max_size=20))
def test_regular_expressions_are_those_of_the_reference(data: Any, pattern: str, values: list[str | None]) -> None:
    pytest.importorskip("re2")
    mask = data.draw(st.one_of(st.none(), st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    asked = [True] * len(values) if mask is None else mask
    group = data.draw(st.integers(0, reference_text.regular_expression(pattern).groups))
    column = Column.from_list(Kind.STRING, values)
    literal = Literal(pattern, STRING)
    extracted = run("regexp_extract", (literal, Literal(group, BIGINT)), STRING, column, mask)
    found = run("rlike", (literal,), BOOLEAN, column, mask)
    for i, value in enumerate(values):
        if value is None or not asked[i]:
            assert extracted[i] is None
            assert found[i] is None
        else:
            assert extracted[i] == reference_text.regexp_extract(value, pattern, group)
            assert found[i] == reference_text.rlike(value, pattern)


def test_regular_expressions_without_the_inner_call_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("re2")
    column = Column.from_list(Kind.STRING, ["/api/v2/x", None, "/"])
    arguments = (Literal("^/api/([^/]+)/", STRING), Literal(1, BIGINT))
    expected = run("regexp_extract", arguments, STRING, column, None)
    monkeypatch.setattr(reference_text, "span_finder", lambda pattern, captures: None)
    assert run("regexp_extract", arguments, STRING, column, None) == expected == ["v2", None, ""]


@given(st.lists(st.sampled_from([True, False, None]), max_size=70), st.sampled_from([0.0, 0.5, 1.0]))
def test_selections_are_the_true_rows(flags: list[bool | None], share: float) -> None:
    flags = [flag if i % 10 >= share * 10 else False for i, flag in enumerate(flags)]
    column = Column.from_list(Kind.BOOLEAN, flags)
    assert column.selection().to_list() == [i for i, flag in enumerate(flags) if flag]
    plain = Column.from_list(Kind.BOOLEAN, [bool(flag) for flag in flags])
    assert plain.selection().to_list() == [i for i, flag in enumerate(flags) if flag]


def order_key(value: float) -> tuple[bool, float]:
    """Spark's order: NaN is the greatest, and equal to itself; -0.0 is 0.0."""
    return (True, 0.0) if math.isnan(value) else (False, value)


HOLDS = {
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
}
special = st.one_of(st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5]), st.floats())


@pytest.mark.parametrize("operator", HOLDS)
@given(st.lists(special, min_size=1, max_size=40), special, st.booleans())
def test_doubles_compare_with_a_constant(operator: int, values: list[float], constant: float, swapped: bool) -> None:
    column = doubles_of(list(values))
    fixed = Column.from_list(Kind.DOUBLE, [constant], constant=True, length=len(values))
    pair = (fixed, column) if swapped else (column, fixed)
    holds, keys = HOLDS[operator], [(order_key(value), order_key(constant)) for value in values]
    expected = [holds(b, a) if swapped else holds(a, b) for a, b in keys]
    assert compare(operator, *pair).to_list() == expected
    both = compare(operator, column, doubles_of(list(reversed(values)))).to_list()
    assert both == [holds(order_key(a), order_key(b)) for a, b in zip(values, reversed(values), strict=True)]


@pytest.mark.parametrize("operator", HOLDS)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=70), st.integers(-(2**63), 2**63 - 1), st.data())
def test_whole_numbers_compare_with_a_constant(operator: int, values: list[int], constant: int, data: Any) -> None:
    constant = data.draw(st.sampled_from([constant, *values, 2**63 - 1, -(2**63)]))
    column = Column.from_list(Kind.BIGINT, values)
    fixed = Column.from_list(Kind.BIGINT, [constant], constant=True, length=len(values))
    holds = HOLDS[operator]
    assert compare(operator, column, fixed).to_list() == [holds(value, constant) for value in values]
    assert compare(operator, fixed, column).to_list() == [holds(constant, value) for value in values]
    back = list(reversed(values))
    both = compare(operator, column, Column.from_list(Kind.BIGINT, back)).to_list()
    assert both == [holds(a, b) for a, b in zip(values, back, strict=True)]


@settings(max_examples=300)
@given(st.lists(st.text("ab", max_size=90), max_size=8), st.text("ab", max_size=9))
def test_texts_are_found_where_python_finds_them(values: list[str], part: str) -> None:
    column = Column.from_list(Kind.STRING, values)
    needle, other = (
        Column.from_list(Kind.STRING, [text], constant=True, length=len(values)) for text in (part, "<>")
    )
    assert exprs_text.contains(column, needle).to_list() == [part in value for value in values]
    replaced = exprs_text.replace(column, needle, other, Failures()).to_list()
    assert replaced == [value.replace(part, "<>") if part else value for value in values]
